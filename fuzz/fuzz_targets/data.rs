//! Data: decodes a packet, builds it again from its fields and signature, and decodes the result. The fields must be
//! the same.
#![no_main]

use byname_wire::data::DataBuilder;
use byname_wire::{Data, PACKET_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(data) = Data::decode(bytes) else { return };
    assert_eq!(&bytes[data.name_offset..][..data.name.value().len()], data.name.value());
    assert!(data.signature.signed[0].len() < bytes.len() && data.signature.signed[1].is_empty());
    let _ = data.implicit_digest();

    let mut builder = DataBuilder::new(data.name.to_name())
        .content_type(data.content_type)
        .freshness_ms(data.freshness_ms)
        .content(data.content.to_vec());
    if let Some(component) = data.final_block {
        builder = builder.final_block(component);
    }
    let mut signed = Vec::new();
    let built = builder.encode_signed(&data.signature.info, |bytes| {
        signed = bytes.to_vec();
        data.signature.value.to_vec()
    });
    if built.len() <= PACKET_BYTES_MAX {
        let again = Data::decode(&built).expect("what is built decodes");
        assert_eq!((again.name, again.final_block), (data.name, data.final_block));
        assert_eq!((again.content_type, again.freshness_ms), (data.content_type, data.freshness_ms));
        assert_eq!((again.content, again.signature.info), (data.content, data.signature.info));
        assert_eq!((again.signature.value, again.signature.signed[0]), (data.signature.value, &signed[..]));
    }
});
