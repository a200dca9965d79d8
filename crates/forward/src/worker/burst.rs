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

use byname_lookup::prefix::{BURST_MAX, PrefixMatch};
use byname_wire::{NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::counters::Drop;
use crate::dispatch::Parcel;
use crate::pipeline::{Miss, Parsed, name_in};
use crate::port::{Outgoing, Received};
use crate::tables::GroupStep;
use crate::ticks::Ticks;
use crate::worker::Worker;

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
}

impl Worker {
    /// Parses packets and hashes their names.
    pub(super) fn parse_burst(&mut self, received: impl Iterator<Item = Received>) {
        for received in received {
            match Parcel::new(received) {
                Ok(parcel) => self.stage(parcel),
                Err(reason) => self.drops.count(reason),
            }
        }
        self.hash_burst();
    }

    /// Takes packets that were parsed elsewhere, and hashes their names.
    pub(super) fn stage_burst(&mut self, parcels: impl Iterator<Item = Parcel>) {
        parcels.for_each(|parcel| self.stage(parcel));
        self.hash_burst();
    }

    fn stage(&mut self, parcel: Parcel) {
        match parcel.parsed {
            Some(parsed) => self.burst.push((parcel.received, parsed)),
            None => {
                if self.addressed.stage(parcel.received).is_err() {
                    self.drops.count(Drop::Malformed);
                }
            }
        }
    }

    fn hash_burst(&mut self) {
        let names: SmallVec<[NameRef<'_>; BURST_MAX]> =
            self.burst.iter().map(|(received, parsed)| name_in(&received.packet, parsed.name())).collect();
        let hashes = &mut self.hashes[..names.len()];
        PrefixHashes::fill_burst(&self.key, &names, hashes);
        let wanted = names.iter().zip(&*hashes).zip(&self.burst).map(|((name, hashes), (_, parsed))| Wanted {
            hash: NameView::from_filled(*name, hashes).full_hash(),
            nonce: parsed.interest().and_then(|info| info.nonce),
        });
        self.wanted.clear();
        self.wanted.extend(wanted);
    }

    /// Takes the parsed packets through their pipelines, then those that missed through the FIB.
    pub(super) fn handle_burst(&mut self, now: Ticks, output: &mut Vec<Outgoing>) {
        self.table.drop_unused(now);
        let mut burst = std::mem::take(&mut self.burst);
        match self.prefetch {
            Prefetch::None => {}
            Prefetch::Cascade => (0..STEPS.len()).for_each(|turn| self.ask_in_turn(turn)),
            Prefetch::AllAtOnce => {
                for step in STEPS {
                    self.wanted.iter().for_each(|wanted| self.ask_for(step, wanted));
                }
            }
        }
        for (i, (received, parsed)) in burst.drain(..).enumerate() {
            if self.prefetch == Prefetch::Cascade {
                self.ask_in_turn(i + STEPS.len());
            }
            if !self.faces.contains_key(&received.face) {
                self.drops.count(Drop::UnknownFace);
                continue;
            }
            match parsed {
                Parsed::Interest(info) => self.on_interest(now, i, received, info, output),
                Parsed::Data(info) => self.on_data(now, i, received, info, output),
                Parsed::Nack(info) => self.on_nack(now, i, received, info, output),
            }
        }
        self.burst = burst;
        self.route_misses(now, output);
        if !self.addressed.is_empty() {
            self.forward_addressed(output);
        }
    }

    /// Asks for the first step of one packet, for the second of the one before it, and so on.
    fn ask_in_turn(&self, turn: usize) {
        for (late, step) in STEPS.into_iter().enumerate() {
            if let Some(wanted) = turn.checked_sub(late).and_then(|i| self.wanted.get(i)) {
                self.ask_for(step, wanted);
            }
        }
    }

    fn ask_for(&self, step: Step, wanted: &Wanted) {
        match step {
            Step::Buckets => {
                self.table.prefetch_bucket(wanted.hash);
                if let Some(nonce) = wanted.nonce {
                    self.dead_nonces.prefetch(wanted.hash, nonce);
                }
            }
            Step::Slots => self.table.each_candidate(wanted.hash, |slot| {
                self.table.prefetch_slot(slot);
                self.wheel.prefetch(slot);
            }),
            Step::Packets => self.table.each_candidate(wanted.hash, |slot| {
                self.table.prefetch_packet(slot);
                self.wheel.prefetch_neighbors(slot);
            }),
        }
    }

    /// The longest FIB match of each miss that has no route yet, in one burst.
    pub(crate) fn match_misses(&self, misses: &mut [Miss]) {
        let mut names = SmallVec::<[NameView<'_>; BURST_MAX]>::new();
        let mut found = [None::<PrefixMatch>; BURST_MAX];
        for miss in misses.iter().filter(|m| m.wants_fib()) {
            names.push(NameView::from_filled(self.table.slot(miss.slot).name(), &self.hashes[miss.hashes]));
        }
        let (fib, found) = (self.tables.fib(), &mut found[..names.len()]);
        match self.prefetch {
            Prefetch::None => names.iter().zip(&mut *found).for_each(|(name, found)| *found = fib.longest_match(name)),
            Prefetch::Cascade | Prefetch::AllAtOnce => fib.longest_match_burst(&names, found),
        }
        let mut found = found.iter().zip(&names);
        for miss in misses.iter_mut().filter(|m| m.wants_fib()) {
            let (found, name) = found.next().expect("one answer for each name asked");
            miss.set_route(found.map(|m| (m.entry, name.hash(m.depth))));
        }
        if self.prefetch != Prefetch::None {
            for step in GroupStep::ALL {
                misses.iter().filter_map(Miss::entry).for_each(|entry| self.tables.prefetch_group(step, entry));
            }
        }
    }
}
