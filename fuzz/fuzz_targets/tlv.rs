//! TLV elements: writing a read element must give the same bytes, and streams must be cut at the same places.
#![no_main]

use byname_wire::tlv::{self, Reader};
use libfuzzer_sys::fuzz_target;

/// Reads `bytes` as elements, and their values as elements, down to `depth`.
fn walk(bytes: &[u8], depth: usize) {
    let mut reader = Reader::new(bytes);
    let mut written = Vec::new();
    loop {
        let rest = reader.rest();
        match reader.next_tlv() {
            Ok(Some(tlv)) => {
                assert_eq!(tlv::element_len(rest, usize::MAX), Ok(Some(tlv.wire.len())));
                assert_eq!(tlv::element_size(tlv.typ, tlv.value.len()), tlv.wire.len());
                assert_eq!(tlv::decode_only(tlv.wire, tlv.typ), Ok(tlv.value));
                tlv::push_tlv(&mut written, tlv.typ, tlv.value);
                if let Ok(n) = tlv::decode_nni(tlv.typ, tlv.value) {
                    let mut shortest = Vec::new();
                    tlv::push_nni(&mut shortest, tlv.typ, n);
                    assert!(shortest.len() <= tlv.wire.len());
                }
                if depth > 0 {
                    walk(tlv.value, depth - 1);
                }
            }
            Ok(None) => break,
            Err(_) => {
                // The element is truncated or malformed: a stream either waits for more bytes or fails.
                assert!(!matches!(tlv::element_len(rest, usize::MAX), Ok(Some(_))));
                break;
            }
        }
    }
    assert!(bytes.starts_with(&written));
}

fuzz_target!(|bytes: &[u8]| walk(bytes, 4));
