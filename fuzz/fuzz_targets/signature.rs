//! SignatureInfo: decodes, encodes and decodes it. The result must be the same.
#![no_main]

use byname_wire::signature::SignatureInfo;
use byname_wire::tlv::{self, types};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(info) = SignatureInfo::decode(bytes) else { return };
    for typ in [types::SIGNATURE_INFO, types::INTEREST_SIGNATURE_INFO] {
        let mut out = Vec::new();
        info.push(&mut out, typ);
        let value = tlv::decode_only(&out, typ).expect("what is written is one element");
        assert_eq!(SignatureInfo::decode(value), Ok(info));
    }
});
