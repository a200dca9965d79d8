//! Questions for addresses on a link: whoever asks gets a frame of its own, which is no question again.
#![no_main]

use byname_face::ethernet::neighbor::Question;
use byname_face::mac_address::MacAddress;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Some(question) = Question::parse(octets) else { return };
    assert_eq!(question.asker.is_ipv4(), question.wanted.is_ipv4());
    let answer = question.answer(MacAddress([2, 0, 0, 0, 0, 1]));
    assert!(answer.starts_with(&question.station.0));
    assert_eq!(Question::parse(&answer), None);
});
