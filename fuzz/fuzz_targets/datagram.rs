//! Datagrams in Ethernet frames. A parsed payload must lie within the frame. A datagram written for the way back must
//! parse to the same values.
#![no_main]

use byname_face::frames::datagram::{Datagram, Path};
use byname_face::mac_address::MacAddress;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(read) = Datagram::parse(bytes) else { return };
    let start = bytes.as_ptr_range();
    let payload = read.payload.as_ptr_range();
    assert!(start.start <= payload.start && payload.end <= start.end);
    assert_eq!(read.source.is_ipv4(), read.destination.is_ipv4());
    let back = Path { here: read.destination, there: read.source };
    let (first, second) = read.payload.split_at(read.payload.len() / 3);
    let station = MacAddress([2, 0, 0, 0, 0, 1]);
    let header = back.header(read.station, station, (first, second));
    let written = [&header[..], first, second].concat();
    let again = Datagram::parse(&written).expect("what is written can be read");
    assert_eq!((again.source, again.destination, again.payload), (back.here, back.there, read.payload));
    assert_eq!(again.station, station);
});
