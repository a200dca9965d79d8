//! Changed copies of Interests.

use byname_wire::Interest;
use byname_wire::tlv::{Reader, push_nested, types};

use crate::packet::{InterestInfo, interest_info};
use crate::packet_pool::Packet;

/// Replaces an Interest by a changed copy with the same name.
pub(super) fn rewrite(packet: &mut Packet, info: &mut InterestInfo, change: impl FnOnce(&Interest<'_>) -> Vec<u8>) {
    let interest = Interest::decode(packet).expect("it was parsed when it came");
    let changed = Packet::copy_from(&change(&interest));
    let interest = Interest::decode(&changed).expect("one element was added or left out");
    *info = InterestInfo { is_hot: info.is_hot, ..interest_info(&interest) };
    *packet = changed;
}

/// Copies an Interest without its ForwardingHint.
pub(super) fn without_forwarding_hint(interest: &Interest<'_>) -> Vec<u8> {
    let whole = Reader::new(interest.wire).next_tlv().ok().flatten().expect("it was parsed when it came");
    let mut copy = Vec::with_capacity(interest.wire.len());
    push_nested(&mut copy, types::INTEREST, |copy| {
        let mut elements = Reader::new(whole.value);
        while let Ok(Some(element)) = elements.next_tlv() {
            if element.typ != types::FORWARDING_HINT {
                copy.extend_from_slice(element.wire);
            }
        }
    });
    copy
}
