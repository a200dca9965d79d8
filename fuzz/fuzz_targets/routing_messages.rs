//! Messages of routing. What decodes must encode to what decodes to the same value, and rules of policy must be written
//! as they are read.
#![no_main]

use byname_routing::Hello;
use byname_routing::policy::PolicyRule;
use byname_routing::tlv::{self, PrefixOp};
use byname_routing::trees::Message;
use byname_routing::version::{Dv2, Main, Version};
use libfuzzer_sys::fuzz_target;

/// Most entries of an advertisement.
const MAX: usize = 20;

fn prefix_ops(version: &dyn Version, data: &[u8]) {
    let mut ops = Vec::new();
    let Ok(router) = tlv::decode_prefix_ops(version, data, |op| ops.push(op)) else { return };
    // An encoder writes at most one reset, then additions, then removals.
    let additions: Vec<_> = ops
        .iter()
        .filter_map(|op| match op {
            PrefixOp::Add(prefix, cost) => Some((prefix.as_ref(), *cost)),
            _ => None,
        })
        .collect();
    let removals: Vec<_> = ops
        .iter()
        .filter_map(|op| match op {
            PrefixOp::Remove(prefix) => Some(prefix.as_ref()),
            _ => None,
        })
        .collect();
    let has_reset = ops.contains(&PrefixOp::Reset);
    let content = tlv::encode_prefix_ops(
        version,
        router.as_ref(),
        has_reset,
        additions.iter().copied(),
        removals.iter().copied(),
    );
    let mut again = Vec::new();
    assert_eq!(tlv::decode_prefix_ops(version, &content, |op| again.push(op)), Ok(router));
    assert_eq!(again.len(), additions.len() + removals.len() + usize::from(has_reset));
    assert!(again.iter().all(|op| ops.contains(op)));
}

fuzz_target!(|data: &[u8]| {
    if let Ok(entries) = tlv::decode_advertisement(data, MAX) {
        assert!(entries.len() <= MAX);
        let content =
            tlv::encode_advertisement(entries.iter().map(|e| (e.destination, e.next_hop, e.cost, e.other_cost)));
        assert_eq!(tlv::decode_advertisement(&content, MAX), Ok(entries));
    }
    prefix_ops(&Main, data);
    prefix_ops(&Dv2, data);
    if let Ok(vector) = tlv::decode_state_vector(data) {
        let mut entries = Vec::new();
        vector.iter().for_each(|(name, start)| tlv::push_state_entry(&mut entries, *name, [*start]));
        assert_eq!(tlv::decode_state_vector(&tlv::encode_state_vector(&entries)), Ok(vector));
    }
    if let Ok(hello) = Hello::decode(data) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(message) = Message::decode(data) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    if let Ok(name) = tlv::decode_metadata(data) {
        assert_eq!(tlv::decode_metadata(&tlv::encode_metadata(name.as_ref(), 7)), Ok(name));
    }
    if let Ok(rule) = str::from_utf8(data).unwrap_or_default().parse::<PolicyRule>() {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
});
