//! A burst of packets: parsed and hashed together, with its memory asked for ahead.
//!
//! [Hasegawa] names what a packet waits for: buckets of hash tables, and the entries that they lead
//! to, which have no address before the bucket has come. Here a packet has three such steps before its
//! pipeline: the index's bucket of its name (and the dead nonce list's), the slots that the bucket
//! names, and the packets of these slots, whose names are compared. [`Prefetch`] says how the steps of
//! one packet overlap with those of others. The FIB overlaps its own, in `longest_match_burst`.
//!
//! Packets are handled in the order in which they came, each against tables as the one before left
//! them: what was asked for ahead changes no result.

use byname_lookup::PrefixFib;
use byname_lookup::prefix::{BURST_MAX, PrefixMatch};
use byname_wire::name_hash::DepthSet;
use byname_wire::{NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::counters::Drop;
use crate::dispatch::Parcel;
use crate::pipeline::{Miss, Parsed, name_in, parse_unaddressed};
use crate::pit_cs::SlotId;
use crate::port::{Outgoing, Received};
use crate::stages::{Stage, Stopwatch};
use crate::ticks::Ticks;
use crate::worker::{FibLines, Worker};

/// How a worker asks the memory for what a burst will read. It changes no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// Not at all, nor does the FIB see more than one name at once: for comparison.
    None,
    /// Each step of a packet is asked for while the packet before it takes the next step [So §2.2].
    Cascade,
    /// One step of all packets is asked for, then the next of all, before the first is handled.
    AllAtOnce,
}

/// What must have come before the address of the next is known.
#[derive(Clone, Copy)]
enum Step {
    Buckets,
    Slots,
    Packets,
}

const STEPS: [Step; 3] = [Step::Buckets, Step::Slots, Step::Packets];

/// What decides which memory a packet needs.
pub(super) struct Wanted {
    /// Hash of its name.
    hash: u64,
    /// An Interest's.
    nonce: Option<u32>,
    /// The slot that it will find, most likely: known from the second step on.
    slot: Option<SlotId>,
}

impl Worker {
    /// Parses packets and hashes their names.
    pub(super) fn parse_burst(&mut self, burst: &mut [Received]) {
        for (at, received) in burst.iter_mut().enumerate() {
            let hashes = &mut self.hashes[self.parsed.len()];
            match parse_unaddressed(received, hashes, |parsed| self.parsed.push((at, parsed))) {
                Ok(true) => {}
                Ok(false) => self.stage_addressed(received.take()),
                Err(reason) => self.drops.count(reason),
            }
        }
        self.hash_burst(burst);
    }

    /// Takes packets that were parsed elsewhere, and hashes their names. Interests for hot names are
    /// answered at once, or set aside as strays.
    pub(super) fn stage_burst(
        &mut self,
        now: Ticks,
        parcels: impl Iterator<Item = Parcel>,
        burst: &mut Vec<Received>,
        output: &mut Vec<Outgoing>,
    ) {
        for parcel in parcels {
            if let (Some(name), Some(Parsed::Interest(info))) = (parcel.spread, &parcel.parsed) {
                if !self.on_spread(now, name, &parcel.received, info, output) {
                    self.strays.push(parcel);
                }
                continue;
            }
            let Parcel { received, parsed, .. } = parcel;
            match parsed {
                Some(parsed) => {
                    self.hashes[self.parsed.len()].note_ends(name_in(&received.packet, parsed.name()));
                    self.parsed.push((burst.len(), parsed));
                    burst.push(received);
                }
                None => self.stage_addressed(received),
            }
        }
        self.hash_burst(burst);
    }

    fn stage_addressed(&mut self, received: Received) {
        if self.addressed.stage(received).is_err() {
            self.drops.count(Drop::Malformed);
        }
    }

    /// Hashes the names of what was parsed, whose ends are noted: all prefixes that anything will be
    /// looked up by.
    fn hash_burst(&mut self, burst: &[Received]) {
        let parsed = &self.parsed;
        let hashes = &mut self.hashes[..parsed.len()];
        let by_prefix = |(_, parsed): &(usize, Parsed)| parsed.interest().is_some_and(|info| info.can_be_prefix);
        // Data is looked up by its whole name, unless somebody waits for what is below a prefix.
        let all_wanted = self.table.wants_prefixes_of_data() || parsed.iter().any(by_prefix);
        // Names may be much longer than rules are: a stranger's are. And of few depths are there rules.
        self.hashed_depth = self.tables.fib().depth_max().max(self.strategies.depths().deepest());
        self.hashed = self.tables.fib().depths().union(self.strategies.depths());
        let (mut names, mut prefixes) = ([NameRef::ROOT; BURST_MAX], [DepthSet::EMPTY; BURST_MAX]);
        for (i, (at, parsed)) in parsed.iter().enumerate() {
            names[i] = name_in(&burst[*at].packet, parsed.name());
            prefixes[i] = match parsed {
                _ if all_wanted => DepthSet::ALL,
                Parsed::Data(_) => DepthSet::EMPTY,
                // Of Data by its digest, the name is all but that.
                _ if NameView::from_filled(names[i], &hashes[i]).ends_in_implicit_digest() => DepthSet::ALL,
                // It meets the FIB by itself, after depths may have come.
                Parsed::Nack(_) => DepthSet::up_to(self.hashed_depth),
                Parsed::Interest(_) => self.hashed,
            };
        }
        let names = &names[..parsed.len()];
        PrefixHashes::fill_noted_burst_where(|i| prefixes[i], &self.key, names, hashes);
        self.wanted.clear();
        self.wanted.extend(names.iter().zip(&*hashes).zip(parsed).map(|((name, hashes), (_, parsed))| Wanted {
            hash: NameView::from_filled(*name, hashes).full_hash(),
            nonce: parsed.interest().and_then(|info| info.nonce),
            slot: None,
        }));
    }

    /// Takes the parsed packets through their pipelines, then those that missed through the FIB.
    pub(super) fn handle_burst(&mut self, now: Ticks, burst: &mut [Received], output: &mut Vec<Outgoing>) {
        self.table.drop_unused(now);
        match self.prefetch {
            Prefetch::None => {}
            Prefetch::Cascade => (0..STEPS.len()).for_each(|turn| self.ask_in_turn(turn)),
            Prefetch::AllAtOnce => {
                for step in STEPS {
                    (0..self.wanted.len()).for_each(|i| self.ask_for(step, i));
                }
            }
        }
        self.match_ahead(burst);
        let mut all = std::mem::take(&mut self.parsed);
        for (i, (at, parsed)) in all.drain(..).enumerate() {
            if self.prefetch == Prefetch::Cascade {
                self.ask_in_turn(i + STEPS.len());
            }
            let received = &mut burst[at];
            match parsed {
                Parsed::Interest(info) => self.on_interest(now, i, received, info, output),
                Parsed::Data(info) => self.on_data(now, i, received, info, output),
                Parsed::Nack(info) => self.on_nack(now, i, received, info, output),
            }
        }
        self.parsed = all;
        self.stopwatch.lap(Stage::PitCs, self.wanted.len());
        self.route_misses(now, output);
        if !self.addressed.is_empty() {
            let packets = self.addressed.len();
            self.forward_addressed(output);
            self.stopwatch.lap(Stage::Addressed, packets);
        }
    }

    /// Asks for the first step of one packet, for the second of the one before it, and so on.
    fn ask_in_turn(&mut self, turn: usize) {
        for (late, step) in STEPS.into_iter().enumerate() {
            if let Some(i) = turn.checked_sub(late).filter(|i| *i < self.wanted.len()) {
                self.ask_for(step, i);
            }
        }
    }

    fn ask_for(&mut self, step: Step, i: usize) {
        let wanted = &mut self.wanted[i];
        match (step, wanted.slot) {
            (Step::Buckets, _) => {
                self.table.prefetch_bucket(wanted.hash);
                if let Some(nonce) = wanted.nonce {
                    self.dead_nonces.prefetch(wanted.hash, nonce);
                }
            }
            (Step::Slots, _) => {
                wanted.slot = self.table.first_candidate(wanted.hash);
                if let Some(slot) = wanted.slot {
                    self.table.prefetch_slot(slot);
                    self.wheel.prefetch(slot);
                }
            }
            (Step::Packets, Some(slot)) => {
                self.table.prefetch_packet(slot);
                self.wheel.prefetch_neighbors(slot);
            }
            (Step::Packets, None) => {}
        }
    }

    /// Asks the memory for what it takes to drop the pending Interest that will have to leave after this
    /// one: in a flood of Interests each drives out another.
    pub(crate) fn ask_for_victim_after(&self, victim: SlotId) {
        let Some(next) = self.table.victim_after(victim).filter(|_| self.prefetch != Prefetch::None) else { return };
        // Its timer was asked for when it was the second.
        self.wheel.prefetch_neighbors(next);
        if let Some(second) = self.table.victim_after(next) {
            self.wheel.prefetch(second);
        }
        let slot = self.table.slot(next);
        for record in slot.pit().iter().flat_map(|pit| &pit.out_records) {
            self.dead_nonces.prefetch(slot.hash, record.nonce);
        }
    }

    /// Asks the FIB for all Interests of the burst, where they will have to be routed before its end and
    /// would meet the FIB alone: in a full PIT each before the next, which may find room or drives out
    /// another; and before Data that their strategy learns from.
    fn match_ahead(&mut self, burst: &[Received]) {
        self.routes_ahead.clear();
        let routes_early = self.table.may_fill_up(self.parsed.len()) || self.strategies.measures();
        if self.prefetch == Prefetch::None || !routes_early {
            return;
        }
        let (mut names, mut found) = (SmallVec::<[_; BURST_MAX]>::new(), [None; BURST_MAX]);
        for ((at, parsed), hashes) in self.parsed.iter().zip(&self.hashes) {
            let name = NameView::from_filled(name_in(&burst[*at].packet, parsed.name()), hashes);
            names.push(match parsed {
                Parsed::Interest(_) => name.up_to(self.hashed_depth),
                // In its place, and nowhere else in the FIB.
                Parsed::Data(_) | Parsed::Nack(_) => name.up_to(0),
            });
        }
        // What was asked for before is for the PIT and the content store.
        self.stopwatch.lap(Stage::PitCs, 0);
        let found = &mut found[..names.len()];
        look_up(self.tables.fib(), &names, found, self.prefetch, &mut self.stopwatch, &mut self.counts.fib_lines);
        if self.lacks_depths() {
            drop(names);
            self.hashed = DepthSet::ALL;
            for ((at, parsed), hashes) in self.parsed.iter().zip(&mut self.hashes) {
                hashes.fill(&self.key, name_in(&burst[*at].packet, parsed.name()));
            }
            return self.match_ahead(burst);
        }
        let routes = found.iter().zip(&names).map(|(found, name)| found.map(|m| (m.entry, name.hash(m.depth))));
        self.routes_ahead.extend(routes);
        self.routes_ahead.iter().flatten().for_each(|(entry, _)| self.tables.prefetch_nexthops(*entry));
    }

    /// Whether depths have come to the FIB since the names of the burst were hashed: what it was asked meanwhile, it
    /// is to be asked again.
    fn lacks_depths(&self) -> bool {
        !self.hashed.contains_all(self.tables.fib().depths())
    }

    /// The longest FIB match of each miss that has no route yet, in one burst.
    pub(crate) fn match_misses(&mut self, misses: &mut [Miss]) {
        if !self.routes_ahead.is_empty() {
            for miss in misses.iter_mut().filter(|m| m.wants_fib()) {
                miss.set_route(self.routes_ahead[miss.hashes]);
            }
            return;
        }
        if !self.match_names(misses, false) {
            for miss in misses.iter().filter(|m| m.wants_fib()) {
                self.hashes[miss.hashes].fill(&self.key, self.table.slot(miss.slot).name());
            }
            self.match_names(misses, true);
        }
        if self.prefetch != Prefetch::None {
            misses.iter().filter_map(Miss::entry).for_each(|entry| self.tables.prefetch_nexthops(entry));
        }
    }

    /// As [`Worker::match_misses`], by what is hashed of their names: all prefixes, or false if others than were
    /// wanted may have been looked at.
    fn match_names(&mut self, misses: &mut [Miss], all_hashed: bool) -> bool {
        let (mut names, mut found) = (SmallVec::<[_; BURST_MAX]>::new(), [None; BURST_MAX]);
        for miss in misses.iter().filter(|m| m.wants_fib()) {
            let name = NameView::from_filled(self.table.slot(miss.slot).name(), &self.hashes[miss.hashes]);
            // A deeper rule that has come since is for the next burst.
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
}

/// The deepest rule of each name; what it reads is counted in bursts that are timed.
fn look_up(
    fib: &dyn PrefixFib,
    names: &[NameView<'_>],
    found: &mut [Option<PrefixMatch>],
    prefetch: Prefetch,
    stopwatch: &mut Stopwatch,
    read: &mut FibLines,
) {
    match prefetch {
        Prefetch::None => names.iter().zip(found).for_each(|(name, found)| *found = fib.longest_match(name)),
        Prefetch::Cascade | Prefetch::AllAtOnce => fib.longest_match_burst(names, found),
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
