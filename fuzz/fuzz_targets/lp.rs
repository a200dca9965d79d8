//! NDNLPv2 frames: decodes a frame, encodes it, and decodes the result. The frame must be the same, and its computed
//! length must be exact.
#![no_main]

use byname_wire::LpPacket;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = LpPacket::decode(bytes) else { return };
    let fragment_len = packet.fragment.map_or(0, <[u8]>::len);
    let mut out = Vec::new();
    packet.encode(&mut out);
    assert_eq!(out.len(), packet.header_len(fragment_len) + fragment_len);
    assert!(out.len() <= bytes.len());
    if packet.header_len(fragment_len) > 0 {
        assert_eq!(LpPacket::decode(&out).as_ref(), Ok(&packet));
    } else {
        // Without fields, the frame is the fragment itself, which may be any bytes.
        assert_eq!(out, packet.fragment.unwrap_or_default());
    }
});
