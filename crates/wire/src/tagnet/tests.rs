use std::num::NonZeroU16;

use super::*;
use crate::locator::{Label, Locator, TreeId};
use crate::tagset::{Descriptor, Filter, TagDigest};

fn address() -> Address {
    let label = Label::new(0).light_child(5, 2).expect("a short list");
    Address { locator: Locator { tree: TreeId(1), label }, endpoint: Endpoint(256) }
}

#[test]
fn what_changes_on_the_way_is_where_the_view_says() {
    let descriptor = Descriptor::of(["classical", "concert"]).expect("two tags");
    let limit = NonZeroU16::new(515).expect("not 0");
    let wire = TagPacketBuilder::new(TreeId(1), &descriptor).fan_out(limit).hop_limit(9).payload(b"x").encode();
    let packet = TagPacket::decode(&wire).expect("it was just built");
    assert_eq!(wire[packet.hop_limit.offset], 9);
    let offset = packet.fan_out.expect("set").offset;
    assert_eq!(wire[offset..offset + 2], [2, 3]);
    let wire = LocatorPacketBuilder::new(address()).hop_limit(7).encode();
    assert_eq!(wire[LocatorPacket::decode(&wire).expect("it was just built").hop_limit.offset], 7);
}

#[test]
fn addresses_survive_their_text() {
    let text = address().to_string();
    assert_eq!((text.as_str(), text.parse()), ("1:0c05:256", Ok(address())));
    for text in
        ["", "1", "1:0c05", "1:0c05:", "1:0c05:256:", "4294967296:0c05:256", "1:0:256", "1:0007:256", "a:0c05:256"]
    {
        assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
    }
}

#[test]
fn a_packet_has_tags_or_a_filter_and_not_both() {
    let tags = TagPacketBuilder::new(TreeId(1), &Descriptor::default()).encode();
    let filter = TagPacketBuilder::of_filter(TreeId(1), Filter::of(&[TagDigest(1)])).encode();
    let both = [&[0xc1, 0], &tags[2..], &filter[8..]].concat();
    let both = [&[0xc1, both.len() as u8 - 2], &both[2..]].concat();
    assert_eq!(TagPacket::decode(&both), Err(DecodeError::UnexpectedCritical(types::FILTER)));
    let neither = [&[0xc1, 6], &tags[2..8]].concat();
    assert_eq!(TagPacket::decode(&neither), Err(DecodeError::Missing(types::FILTER)));
}

#[test]
fn the_first_byte_tells_these_packets_from_all_others() {
    assert!(is_tagnet(&LocatorPacketBuilder::new(address()).encode()));
    assert!(is_tagnet(&TagPacketBuilder::new(TreeId(0), &Descriptor::default()).encode()));
    let others = (0..=u8::MAX).filter(|byte| !is_tagnet(&[*byte, 0])).count();
    assert_eq!((others, is_tagnet(&[])), (254, false));
}
