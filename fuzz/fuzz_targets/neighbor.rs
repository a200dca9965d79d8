//! Address requests on a link (ARP, NDP). The answer must be a frame for the asking station, and must not be a request
//! itself.
#![no_main]

use byname_face::frames::neighbor::Question;
use byname_face::mac_address::MacAddress;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(question) = Question::parse(bytes) else { return };
    assert_eq!(question.asker.is_ipv4(), question.wanted.is_ipv4());
    let answer = question.answer(MacAddress([2, 0, 0, 0, 0, 1]));
    assert!(answer.starts_with(&question.station.0));
    assert_eq!(Question::parse(&answer), None);
});
