//! Compares the table with a list that is searched linearly.

use std::time::Duration;

use byname_wire::data::DataBuilder;
use byname_wire::{FaceId, Name, PitToken, PrefixHashes};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use smallvec::SmallVec;

use super::*;

const KEY: NameHashKey = NameHashKey::new([3, 5]);

/// Each face is its own source.
fn source(face: u64) -> SourceId {
    SourceId(face as u32)
}

fn entry(depth: usize, can_be_prefix: bool, must_be_fresh: bool, face: u64) -> PitEntry {
    let record = InRecord {
        face: FaceId(face),
        nonce: 0,
        arrived: Ticks(0),
        expiry: Ticks::from_ms(4000),
        pit_token: PitToken::NONE,
    };
    PitEntry {
        can_be_prefix,
        must_be_fresh,
        depth: depth as u8,
        has_implicit_digest: false,
        hops_left: u8::MAX,
        nonce: 0,
        strategy: 0,
        directed: false,
        unrouted: false,
        source: source(face),
        prefix_hash: 0,
        expiry: Ticks::from_ms(4000),
        strategy_word: 0,
        non_discovery: false,
        wants_announcement: false,
        in_records: smallvec::smallvec![record],
        out_records: SmallVec::new(),
    }
}

/// A packet that consists only of a name's bytes: the table reads no more.
fn bare(name: &Name) -> (Packet, NameRange) {
    (Packet::copy_from(name.value()), NameRange { start: 0, len: name.value().len() as u16 })
}

fn table(config: &WorkerConfig) -> PitCs {
    PitCs::new(config, KEY).expect("a few megabytes")
}

fn pend(table: &mut PitCs, name: &Name, can_be_prefix: bool, must_be_fresh: bool, face: u64) -> SlotId {
    let (packet, range) = bare(name);
    let entry = entry(name.as_ref().len(), can_be_prefix, must_be_fresh, face);
    table.insert_pit(hash_name(&KEY, name.as_ref()), packet, range, (source(face), Home::default()), || entry)
}

#[test]
fn a_pending_interest_becomes_the_cached_data_in_its_place() {
    let mut t = table(&WorkerConfig::default());
    let name: Name = "/a/b".parse().expect("a name");
    let slot = pend(&mut t, &name, false, false, 256);
    let packet = Packet::copy_from(&DataBuilder::new(name.clone()).encode());
    let buffer = packet.as_ptr();
    let start = byname_wire::Data::decode(&packet).expect("built above").name_offset as u16;
    let range = NameRange { start, len: name.value().len() as u16 };
    let mut hashes = PrefixHashes::default();
    hashes.fill(&KEY, name.as_ref());
    let view = NameView::from_filled(name.as_ref(), &hashes);
    t.admit(&hashes, packet, range, Ticks(1), Some(slot), None);
    assert_eq!(t.find(&view, false, false, Ticks(0)), Found { pending: None, data: Some(slot) });
    let kept: &[u8] = &t.slot(slot).packet;
    assert_eq!(kept.as_ptr(), buffer, "the buffer it was received into");
    assert_eq!(t.pit_len(), 0);
}

/// An entry of the list.
#[derive(Clone)]
struct Known {
    name: Name,
    slot: SlotId,
    /// CanBePrefix and MustBeFresh of a pending Interest; `None` for Data.
    selectors: Option<(bool, bool)>,
    fresh_until: Ticks,
}

#[test]
fn random_changes_agree_with_a_list() {
    for seed in 0..4 {
        agree_with_a_list(seed, if seed % 2 == 0 { CsPolicy::Lru } else { CsPolicy::S3Fifo });
    }
}

fn random_name(rng: &mut SmallRng) -> Name {
    let depth = rng.random_range(0..5);
    (0..depth).fold(Name::default(), |n, _| n.join(Component::generic(&[b'a' + rng.random_range(0..3u8)])))
}

fn agree_with_a_list(seed: u64, cs_policy: CsPolicy) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut t = table(&WorkerConfig { cs_policy, ..Default::default() });
    let mut list: Vec<Known> = Vec::new();
    let mut hashes = PrefixHashes::default();
    for _ in 0..20_000 {
        let name = random_name(&mut rng);
        hashes.fill(&KEY, name.as_ref());
        let view = NameView::from_filled(name.as_ref(), &hashes);
        let (can_be_prefix, must_be_fresh) = (rng.random(), rng.random());
        let now = Ticks(rng.random_range(0..100));
        if can_be_prefix {
            t.keep_prefix_index(now);
        } else if rng.random_ratio(1, 50) {
            t.drop_unused(now + Duration::from_secs(61));
        }
        // The results for an Interest must match the list.
        let found = t.find(&view, can_be_prefix, must_be_fresh, now);
        let pending = list.iter().find(|k| k.name == name && k.selectors == Some((can_be_prefix, must_be_fresh)));
        assert_eq!(found.pending, pending.map(|k| k.slot));
        let answers = |k: &&Known| {
            let named = k.name == name || can_be_prefix && name.as_ref().is_prefix_of(&k.name.as_ref());
            k.selectors.is_none() && named && (!must_be_fresh || now < k.fresh_until)
        };
        match found.data {
            Some(slot) => assert!(list.iter().filter(answers).any(|k| k.slot == slot)),
            // The walk over Data below a prefix is bounded, but here it is long enough to see all Data.
            None => assert_eq!(list.iter().filter(answers).count(), 0),
        }
        // The results for Data must match the list. `met` starts with old content, which must disappear.
        let mut met = Met { pending: vec![0], stored: Some(0) };
        t.find_satisfied(&view, &[], &mut met);
        met.pending.sort_unstable();
        let is_same = |k: &&Known| k.name == name && k.selectors.is_none();
        assert_eq!(met.stored, list.iter().find(is_same).map(|k| k.slot));
        let waits = |k: &&Known| match k.selectors {
            Some((can_be_prefix, _)) => k.name == name || can_be_prefix && k.name.as_ref().is_prefix_of(&name.as_ref()),
            None => false,
        };
        let mut expected: Vec<SlotId> = list.iter().filter(waits).map(|k| k.slot).collect();
        expected.sort_unstable();
        assert_eq!(met.pending, expected);
        // A random change.
        match rng.random_range(0..5) {
            0 | 1 if found.pending.is_none() => {
                let slot = pend(&mut t, &name, can_be_prefix, must_be_fresh, rng.random_range(256..260));
                list.push(Known { name, slot, selectors: Some((can_be_prefix, must_be_fresh)), fresh_until: now });
            }
            2 => {
                let own = list.iter().find(|k| k.name == name && k.selectors.is_some()).map(|k| k.slot);
                let (packet, range) = bare(&name);
                let fresh_until = Ticks(rng.random_range(0..100));
                t.admit(&hashes, packet, range, fresh_until, own, met.stored);
                list.retain(|k| !(k.name == name && k.selectors.is_none()) && Some(k.slot) != own);
                let slot = t.find(&view, false, false, Ticks(0)).data.expect("just admitted");
                assert!(own.is_none_or(|o| o == slot));
                list.push(Known { name, slot, selectors: None, fresh_until });
            }
            3 if !list.is_empty() => {
                let gone = list.swap_remove(rng.random_range(0..list.len()));
                t.remove(gone.slot);
            }
            _ => {}
        }
        assert_eq!(t.pit_len(), list.iter().filter(|k| k.selectors.is_some()).count());
    }
}

#[test]
fn names_that_share_no_parents_do_not_make_the_prefix_index_grow_without_end() {
    let mut t = table(&WorkerConfig { cs_packets_max: 1000, ..Default::default() });
    let mut hashes = PrefixHashes::default();
    let mut admit = |t: &mut PitCs, name: &Name| {
        let (packet, range) = bare(name);
        hashes.fill(&KEY, name.as_ref());
        let mut met = Met::default();
        t.find_satisfied(&NameView::from_filled(name.as_ref(), &hashes), &[], &mut met);
        t.admit(&hashes, packet, range, Ticks(0), None, met.stored);
    };
    let deep = |i: u32| (0..128).fold(Name::default(), |n, _| n.join(Component::generic(&i.to_be_bytes())));
    for round in 0..2 {
        for i in 0..3000 {
            admit(&mut t, &deep(i));
        }
        assert_eq!(t.cs_info().packets, 1000);
        t.keep_prefix_index(Ticks(0));
        assert!(t.prefix_index.len() <= NODES_PER_DATA * 1000, "round {round}: {} nodes", t.prefix_index.len());
    }
    for i in 0..1000 {
        admit(&mut t, &format!("/a/{i}").parse().expect("a name"));
    }
    let name: Name = "/a".parse().expect("a name");
    let view = NameView::new(&KEY, name.as_ref(), &mut hashes);
    assert!(t.find(&view, true, false, Ticks(0)).data.is_some(), "there is room again");
    assert!(t.prefix_index.len() <= 1002);
}
