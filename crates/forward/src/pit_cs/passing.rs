//! Data that passes from the content store of one process to that of another.

use byname_wire::{NameView, PrefixHashes};

use super::{Kind, PitCs};
use crate::cached::{CachedData, CachedOrder};
use crate::packet::{NameRange, name_in};
use crate::ticks::Ticks;

impl PitCs {
    /// Up to `max` Data packets, most valuable first.
    pub fn cached_order(&self, max: usize) -> CachedOrder {
        CachedOrder(self.replacement.slots(&self.links).take(max).collect())
    }

    /// Copies of these Data, as far as they are still there.
    pub fn copy_cached(&self, order: &CachedOrder, now: Ticks) -> Vec<CachedData> {
        let copy = |&slot: &u32| {
            let s = self.slots.get(slot as usize)?;
            // Other Data may have taken the place meanwhile.
            let Kind::Cs(cs) = &s.kind else { return None };
            let name = NameRange { start: s.name_start, len: s.name_len };
            let uses = self.replacement.uses(slot);
            Some(CachedData::new(s.packet.clone(), name, cs.fresh_until.since(now), uses))
        };
        order.0.iter().filter_map(copy).collect()
    }

    /// Puts Data of another process into the store. The last are the most valuable ones.
    pub fn restore_cached(&mut self, cached: Vec<CachedData>, now: Ticks) {
        if !self.admits() {
            return;
        }
        let mut hashes = PrefixHashes::default();
        for data in cached {
            let (fresh_until, uses) = (now + data.fresh_for, data.uses);
            let (packet, range) = data.into_packet();
            let name = NameView::new(&self.key, name_in(&packet, range), &mut hashes);
            let stored = self.find_data_named(&name, name.len());
            let slot = self.admit(&hashes, packet, range, fresh_until, None, stored);
            if self.cs(slot).is_some() {
                (0..uses).for_each(|_| self.used(slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use byname_wire::data::DataBuilder;
    use byname_wire::{Name, NameHashKey};

    use super::*;
    use crate::settings::{CsPolicy, WorkerConfig};

    fn table(cs_policy: CsPolicy, packets: usize, key: u64) -> PitCs {
        let config = WorkerConfig { cs_policy, cs_packets_max: packets, ..Default::default() };
        PitCs::new(&config, NameHashKey::new([key, 1])).expect("a few megabytes")
    }

    fn data(n: usize, fresh_ms: u64) -> CachedData {
        let name: Name = format!("/data/{n}").parse().expect("a name");
        let packet = DataBuilder::new(name).encode();
        CachedData::of_bytes(&packet, Duration::from_millis(fresh_ms), 0).expect("Data")
    }

    /// The slot of Data that an Interest for its name finds.
    fn find(table: &PitCs, n: usize, must_be_fresh: bool, now: Ticks) -> Option<u32> {
        let (name, mut hashes): (Name, _) = (format!("/data/{n}").parse().expect("a name"), PrefixHashes::default());
        table.find(&NameView::new(&table.key, name.as_ref(), &mut hashes), false, must_be_fresh, now).data
    }

    /// Passes everything from one table to another, in parts.
    fn pass(from: &PitCs, to: &mut PitCs, sent: Ticks, received: Ticks) {
        let (mut order, mut all) = (from.cached_order(usize::MAX), Vec::new());
        while !order.is_empty() {
            all.extend(from.copy_cached(&order.split_first(3), sent));
        }
        all.reverse();
        to.restore_cached(all, received);
    }

    #[test]
    fn data_keeps_its_order_and_the_rest_of_its_freshness() {
        let (mut old, mut new) = (table(CsPolicy::Lru, 100, 1), table(CsPolicy::Lru, 4, 2));
        old.restore_cached((0..10).map(|n| data(n, 1_000 * n as u64)).collect(), Ticks::from_ms(0));
        let used = find(&old, 2, false, Ticks(0)).expect("there");
        old.used(used);
        // The clocks of the two processes differ.
        pass(&old, &mut new, Ticks::from_ms(7_500), Ticks::from_ms(100_000));
        let there: Vec<usize> = (0..10).filter(|n| find(&new, *n, false, Ticks(0)).is_some()).collect();
        assert_eq!(there, [2, 7, 8, 9], "the latest used ones");
        let fresh = |at_ms| {
            let now = Ticks::from_ms(at_ms);
            (0..10).filter(|n| find(&new, *n, true, now).is_some()).collect::<Vec<_>>()
        };
        assert_eq!((fresh(100_000), fresh(100_499), fresh(100_501)), (vec![8, 9], vec![8, 9], vec![9]));
        new.restore_cached(vec![data(11, 0)], Ticks(0));
        assert!(
            find(&new, 7, false, Ticks(0)).is_none() && find(&new, 2, false, Ticks(0)).is_some(),
            "2 is the newest"
        );
    }

    #[test]
    fn data_that_was_used_resists_a_scan_in_the_next_process_too() {
        let (mut old, mut new) = (table(CsPolicy::S3Fifo, 40, 1), table(CsPolicy::S3Fifo, 40, 2));
        old.restore_cached((0..20).map(|n| data(n, 0)).collect(), Ticks(0));
        for n in [3, 5] {
            let slot = find(&old, n, false, Ticks(0)).expect("there");
            old.used(slot);
        }
        pass(&old, &mut new, Ticks(0), Ticks(0));
        new.restore_cached((100..180).map(|n| data(n, 0)).collect(), Ticks(0));
        let there: Vec<usize> = (0..20).filter(|n| find(&new, *n, false, Ticks(0)).is_some()).collect();
        assert_eq!(there, [3, 5]);
    }

    #[test]
    fn a_place_whose_data_has_left_is_passed_over_and_a_store_that_admits_nothing_stays_empty() {
        let (mut old, mut new) = (table(CsPolicy::Lru, 100, 1), table(CsPolicy::Lru, 100, 2));
        old.restore_cached((0..3).map(|n| data(n, 0)).collect(), Ticks(0));
        let order = old.cached_order(usize::MAX);
        let gone = find(&old, 1, false, Ticks(0)).expect("there");
        old.remove(gone);
        let copies = old.copy_cached(&order, Ticks(0));
        assert_eq!(copies.len(), 2);
        new.cs_config(None, Some(false), None);
        new.restore_cached(copies, Ticks(0));
        assert_eq!(new.cs_info().packets, 0);
    }
}
