//! FIB lookups of Interests: those of a burst together, or ahead of their pipelines.

use byname_lookup::prefix::{BURST_MAX, PrefixMatch};
use byname_lookup::{EntryId, PrefixFib};
use byname_wire::name_hash::DepthSet;
use byname_wire::{FaceId, Interest, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::counters::FibLines;
use crate::packet::{Parsed, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::SlotId;
use crate::settings::Prefetch;
use crate::shard::{Burst, Miss, PLACES, Shard, Staged};
use crate::stages::{Stage, Stopwatch};

/// What a node's own rules say about an Interest whose name belongs to another node.
pub(in crate::pipeline) struct OwnRules {
    /// Whether it came from a node, and crosses no second time. Otherwise the other node has refused it.
    pub has_crossed: bool,
    /// The entry.
    pub entry: Option<EntryId>,
}

impl Shard {
    /// Looks up all Interests of the burst in the FIB, if they may have to be routed one by one before its end. That
    /// happens in a full PIT: each Interest is routed before the next, which may find room or evict another. It also
    /// happens when strategies learn from Data: Interests are routed before such Data.
    pub(in crate::pipeline) fn match_ahead(&mut self, burst: &Burst<'_>) {
        self.routes_ahead.clear();
        let routes_early = self.table.may_fill_up(self.parsed.len()) || self.strategies.measures();
        if !self.prefetch.is_on() || !routes_early {
            return;
        }
        let (mut names, mut found) = (SmallVec::<[_; BURST_MAX]>::new(), [None; BURST_MAX]);
        let interests = || self.parsed.iter().filter(|staged| matches!(staged.parsed, Parsed::Interest(_)));
        let name_of = |staged: &Staged| name_in(&burst.packet(staged.at).packet, staged.parsed.name());
        for staged in interests() {
            let name = NameView::from_filled(name_of(staged), &self.hashes[staged.place]);
            names.push(name.up_to(self.hashed_depth));
        }
        // The time so far went into prefetches for the PIT and the content store.
        self.stopwatch.lap(Stage::PitCs, 0);
        let found = &mut found[..names.len()];
        look_up(self.tables.fib(), &names, found, self.prefetch, &mut self.stopwatch, &mut self.counts.fib_lines);
        if self.lacks_depths() {
            drop(names);
            self.hashed = DepthSet::ALL;
            for staged in &self.parsed {
                self.hashes[staged.place].fill(&self.key, name_of(staged));
            }
            return self.match_ahead(burst);
        }
        self.routes_ahead.resize(PLACES, None);
        for ((found, name), staged) in found.iter().zip(&names).zip(interests()) {
            self.routes_ahead[staged.place] = found.map(|m| (m.entry, name.hash(m.depth)));
        }
        self.routes_ahead.iter().flatten().for_each(|(entry, _)| self.tables.prefetch_nexthops(*entry));
    }

    /// Whether the FIB has got rules of new depths since the names of the burst were hashed. If so, lookups since then
    /// must be repeated.
    fn lacks_depths(&self) -> bool {
        !self.hashed.contains_all(self.tables.fib().depths())
    }

    /// Finds the longest FIB match of each miss that has no route yet, in one burst.
    pub(crate) fn match_misses(&mut self, misses: &mut [Miss]) {
        if !self.routes_ahead.is_empty() {
            for miss in misses.iter_mut().filter(|m| m.wants_fib()) {
                miss.set_route(self.routes_ahead[miss.place]);
            }
            return;
        }
        if !self.match_names(misses, false) {
            for miss in misses.iter().filter(|m| m.wants_fib()) {
                self.hashes[miss.place].fill(&self.key, self.table.slot(miss.slot).name());
            }
            self.match_names(misses, true);
        }
        if self.prefetch.is_on() {
            misses.iter().filter_map(Miss::entry).for_each(|entry| self.tables.prefetch_nexthops(entry));
        }
    }

    /// As [`Shard::match_misses`], with the hashes that the names have so far. Returns false if the lookup may have
    /// needed other depths; never if `all_hashed`.
    fn match_names(&mut self, misses: &mut [Miss], all_hashed: bool) -> bool {
        let (mut names, mut found) = (SmallVec::<[_; BURST_MAX]>::new(), [None; BURST_MAX]);
        for miss in misses.iter().filter(|m| m.wants_fib()) {
            let name = NameView::from_filled(self.table.slot(miss.slot).name(), &self.hashes[miss.place]);
            // A deeper rule that was added since counts from the next burst on.
            names.push(name.up_to(self.hashed_depth));
        }
        let found = &mut found[..names.len()];
        look_up(self.tables.fib(), &names, found, self.prefetch, &mut self.stopwatch, &mut self.counts.fib_lines);
        if !all_hashed && self.lacks_depths() {
            return false;
        }
        let mut found = found.iter().zip(&names);
        for miss in misses.iter_mut().filter(|m| m.wants_fib()) {
            let (found, name) = found.next().expect("one answer for each name asked");
            miss.set_route(found.map(|m| (m.entry, name.hash(m.depth))));
        }
        true
    }

    /// The FIB entry of the first delegation that matches deeper than `/`; otherwise the entry of `/`.
    pub(in crate::pipeline) fn match_forwarding_hint(&self, interest: &Interest<'_>) -> Option<(EntryId, u64)> {
        self.match_delegations(interest, self.tables.fib())
    }

    fn match_delegations(&self, interest: &Interest<'_>, fib: &dyn PrefixFib) -> Option<(EntryId, u64)> {
        let mut hashes = PrefixHashes::default();
        let mut of_root = None;
        for delegation in interest.forwarding_hint() {
            let name = NameView::new(&self.key, delegation, &mut hashes);
            match fib.longest_match(&name) {
                Some(found) if found.depth > 0 => return Some((found.entry, name.hash(found.depth))),
                found => of_root = found.map(|f| (f.entry, name.hash(0))),
            }
        }
        of_root
    }

    /// If `entry` is the way to another node of a partition ([`byname_lookup::prefix::partition`]): whether the Interest has
    /// come from a node, and the entry that this node's own rules give it.
    pub(in crate::pipeline) fn own_rules(&mut self, slot: SlotId, ingress: FaceId, entry: EntryId) -> Option<OwnRules> {
        let here = self.tables.fib().here()?;
        if !here.ways.entries().any(|way| way == entry) {
            return None;
        }
        let has_crossed = here.ways.entries().any(|way| {
            self.tables.nexthops(way, &mut self.way_nexthops);
            self.way_nexthops.iter().any(|nexthop| nexthop.face == ingress)
        });
        let is_refused =
            || self.table.slot(slot).pit().is_some_and(|pit| pit.out_records.iter().any(|r| r.nacked.is_some()));
        if !has_crossed && !is_refused() {
            return None;
        }
        let slot = self.table.slot(slot);
        let entry = match Interest::decode(&slot.packet).ok().filter(|i| !i.forwarding_hint_value.is_empty()) {
            Some(hinted) => self.match_delegations(&hinted, here.engine).map(|(entry, _)| entry),
            None => {
                let mut hashes = PrefixHashes::default();
                here.engine.longest_match(&NameView::new(&self.key, slot.name(), &mut hashes)).map(|found| found.entry)
            }
        };
        Some(OwnRules { has_crossed, entry })
    }

    pub(super) fn in_producer_region(&self, packet: &Packet) -> bool {
        let interest = Interest::decode(packet).expect("it was parsed when it came");
        let mut delegations = interest.forwarding_hint();
        delegations.any(|d| self.producer_regions.iter().any(|region| d.is_prefix_of(&region.as_ref())))
    }
}

/// Finds the deepest rule of each name. In bursts that are timed, it counts the cache lines read.
fn look_up(
    fib: &dyn PrefixFib,
    names: &[NameView<'_>],
    found: &mut [Option<PrefixMatch>],
    prefetch: Prefetch,
    stopwatch: &mut Stopwatch,
    read: &mut FibLines,
) {
    match prefetch {
        #[cfg(feature = "lab")]
        Prefetch::None => names.iter().zip(found).for_each(|(name, found)| *found = fib.longest_match(name)),
        _ => fib.longest_match_burst(names, found),
    }
    if stopwatch.is_running() {
        stopwatch.lap(Stage::Fib, names.len());
        for lines in names.iter().filter_map(|name| fib.lines_read(name)) {
            read.lookups += 1;
            read.lines += lines as u64;
        }
        stopwatch.skip();
    }
}
