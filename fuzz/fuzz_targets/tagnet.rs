//! Tag-addressed and locator-addressed packets: decodes a packet, builds it again from its fields, and decodes the
//! result. The fields must be the same.
#![no_main]

use byname_wire::tagnet::{LocatorPacket, LocatorPacketBuilder, TagPacket, TagPacketBuilder, TagSet, is_tagnet};
use libfuzzer_sys::fuzz_target;

fn tag_packet(bytes: &[u8]) {
    let Ok(packet) = TagPacket::decode(bytes) else { return };
    assert!(is_tagnet(bytes));
    assert_eq!(bytes[packet.hop_limit.offset], packet.hop_limit.value);
    let builder = match packet.tags {
        TagSet::Tags(tags) => {
            let descriptor = tags.descriptor();
            assert!(tags.iter().eq(descriptor.tags().iter().copied()));
            TagPacketBuilder::new(packet.tree, &descriptor)
        }
        TagSet::Filter(filter) => TagPacketBuilder::of_filter(packet.tree, filter),
    };
    let mut builder = builder.hop_limit(packet.hop_limit.value).payload(packet.payload);
    if let Some(fan_out) = packet.fan_out {
        assert_eq!(bytes[fan_out.offset..][..2], fan_out.limit.get().to_be_bytes());
        builder = builder.fan_out(fan_out.limit);
    }
    if let Some(source) = packet.source {
        assert_eq!(source.to_string().parse(), Ok(source));
        builder = builder.source(source);
    }
    let built = builder.encode();
    let again = TagPacket::decode(&built).expect("what is built decodes");
    assert_eq!((again.tree, again.tags, again.source), (packet.tree, packet.tags, packet.source));
    assert_eq!((again.payload, again.fan_out.map(|f| f.limit)), (packet.payload, packet.fan_out.map(|f| f.limit)));
}

fn locator_packet(bytes: &[u8]) {
    let Ok(packet) = LocatorPacket::decode(bytes) else { return };
    assert!(is_tagnet(bytes));
    assert_eq!(bytes[packet.hop_limit.offset], packet.hop_limit.value);
    let mut builder = LocatorPacketBuilder::new(packet.destination);
    builder = builder.hop_limit(packet.hop_limit.value).payload(packet.payload);
    if let Some(source) = packet.source {
        builder = builder.source(source);
    }
    let built = builder.encode();
    let again = LocatorPacket::decode(&built).expect("what is built decodes");
    assert_eq!((again.destination, again.source), (packet.destination, packet.source));
    assert_eq!((again.payload, again.hop_limit.value), (packet.payload, packet.hop_limit.value));
}

fuzz_target!(|bytes: &[u8]| {
    tag_packet(bytes);
    locator_packet(bytes);
});
