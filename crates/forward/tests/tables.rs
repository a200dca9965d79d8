//! Reader threads, while the control side adds, moves and removes routes and reuses freed slots and ids.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byname_forward::FaceId;
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_lookup::prefix::LongestFirst;
use byname_lookup::{Change, Control, EntryId, Update};
use byname_wire::{Name, NameHashKey, NameView, PrefixHashes};

const KEY: NameHashKey = NameHashKey::new([5, 6]);
const NAMES: u64 = 3000;

fn name(i: u64) -> Name {
    Name::default().join_number(8, i % 7).join_number(8, i)
}

/// The route of name `i`, whatever its entry id. Its face identifies the name; its cost is arbitrary.
fn group(i: u64, cost: u64) -> NexthopGroup {
    NexthopGroup { nexthops: [Nexthop { face: FaceId(1000 + i), cost }].into() }
}

/// Looks up all names until `stop`. Each name must lead to its own face or to none.
fn look(tables: &Arc<Tables>, stop: &AtomicBool, bursts: &AtomicU64, sleeps: bool) {
    let mut reader = tables.reader();
    let names: Vec<Name> = (0..NAMES).map(name).collect();
    let mut prefixes = vec![PrefixHashes::default(); 32];
    let mut found = vec![None; 32];
    let mut nexthops = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for (at, names) in names.chunks(32).enumerate() {
            let views: Vec<_> =
                names.iter().zip(&mut prefixes).map(|(name, p)| NameView::new(&KEY, name.as_ref(), p)).collect();
            reader.begin_burst();
            reader.fib().longest_match_burst(&views, &mut found[..views.len()]);
            // Let the writer run between the lookups of FIB and group.
            std::thread::yield_now();
            for (i, found) in (at as u64 * 32..).zip(&found[..views.len()]) {
                let Some(found) = found else { continue };
                assert_eq!(found.depth, 2);
                reader.nexthops(found.entry, &mut nexthops);
                let [nexthop] = nexthops[..] else { panic!("a group is there before its rule and after") };
                assert_eq!(nexthop.face, FaceId(1000 + i), "the route of another name");
            }
            if sleeps {
                reader.end_burst();
            }
            bursts.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn places_and_ids_are_used_again_and_no_reader_is_misled() {
    let mut control = LongestFirst::new(KEY, 2 * NAMES as usize);
    let tables = Arc::new(Tables::new(control.query()));
    let (stop, bursts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers = [false, true].map(|sleeps| {
            let (tables, stop, bursts) = (&tables, &stop, &bursts);
            scope.spawn(move || look(tables, stop, bursts, sleeps))
        });
        // A failed reader ends the test, and the scope passes its panic on.
        let alive = || readers.iter().all(|reader| !reader.is_finished());
        let mut random = 9u64;
        let mut ids: Vec<Option<EntryId>> = vec![None; NAMES as usize];
        let mut free: Vec<EntryId> = (0..2 * NAMES as u32).map(EntryId).collect();
        let mut round = 0;
        while alive() && (round < 150 || bursts.load(Ordering::Relaxed) < 2000) {
            round += 1;
            let (mut changes, mut retired) = (Vec::new(), Vec::new());
            for _ in 0..50 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let i = (random >> 33) % NAMES;
                let id = &mut ids[i as usize];
                retired.extend(id.take());
                if random >> 20 & 3 == 0 {
                    changes.push(Change::Remove(name(i)));
                } else {
                    let new = free.pop().expect("twice as many ids as names");
                    tables.set_group(new, Some(group(i, round)));
                    changes.push(Change::Set(name(i), new));
                    *id = Some(new);
                }
            }
            if let Update::Replace(fib) = control.apply(&changes).expect("room for all names") {
                tables.replace_fib(fib);
            }
            tables.grace().wait();
            control.reclaim();
            for id in retired {
                tables.set_group(id, None);
                free.push(id);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
