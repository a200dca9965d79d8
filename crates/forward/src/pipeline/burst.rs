//! A burst of packets: parsed and hashed together, with its memory prefetched.
//!
//! [Hasegawa] lists what a packet waits for: buckets of hash tables, and the entries that they point to. The address of
//! an entry is unknown until its bucket has arrived. Here a packet reads memory in three such steps before its
//! pipeline. The first step reads the index's bucket for its name (and the bucket of the dead nonce list). The second
//! reads the slots that the bucket names. The third reads the packets of these slots, whose names are compared.
//! [`Prefetch`] says how the steps of one packet overlap with those of others. The FIB overlaps its own steps in
//! `longest_match_burst`.
//!
//! Packets are handled in order of arrival. Each packet meets the tables as the previous one left them, so prefetching
//! changes no result.

use byname_lookup::prefix::BURST_MAX;
use byname_wire::name_hash::{DepthSet, Digest, digest_name};
use byname_wire::{NameRef, NameView, PrefixHashes};

use crate::counters::DropReason;
use crate::crossing::{Handed, Parcel};
use crate::dispatch::{Decided, Dispatcher, Held, Home, Rule, Sorted};
use crate::packet::{InterestInfo, Parsed, name_in, parse_unaddressed};
use crate::port::{Outgoing, Received};
use crate::settings::Prefetch;
use crate::shard::{Burst, Shard, Staged, Wanted};
use crate::stages::Stage;
use crate::ticks::Ticks;

/// Memory that must arrive before the address of the next step is known.
#[derive(Clone, Copy)]
enum Step {
    Buckets,
    Slots,
    Packets,
}

const STEPS: [Step; 3] = [Step::Buckets, Step::Slots, Step::Packets];

impl Shard {
    /// Begins a round: handles the timers that are due.
    pub(crate) fn begin(&mut self, now: Ticks, output: &mut Vec<Outgoing>) {
        self.stopwatch.start();
        self.move_entries(now);
        self.tables.begin_burst();
        let mut due = 0;
        // Expire entries before processing input: then late Data is unsolicited, however long the thread slept.
        while let Some(slot) = self.wheel.pop_due(now) {
            self.on_timer(now, slot, output);
            due += 1;
        }
        self.stopwatch.lap(Stage::Timers, due);
    }

    /// Ends a round, in which no table of the control side is read any more.
    pub(crate) fn end(&mut self) {
        // The thread may sleep now, and the control side must not wait for it.
        self.tables.end_burst();
        if let Some(residence) = self.table.residence_mut() {
            residence.settle();
        }
        self.stopwatch.stop(false);
    }

    /// Parses packets and hashes their names.
    pub(crate) fn parse_burst(&mut self, burst: &mut [Received]) {
        for (at, received) in burst.iter_mut().enumerate() {
            let place = self.parsed.len();
            let hashes = &mut self.hashes[place];
            match parse_unaddressed(received, hashes, |parsed| self.parsed.push(Staged { at, place, parsed })) {
                Ok(true) => {}
                Ok(false) => self.stage_addressed(received.take()),
                Err(reason) => self.drop_unparsed(received, reason),
            }
        }
        self.hash_burst(&Burst::new(burst, &mut []), None);
    }

    /// Parses packets of this thread and hashes their names. Gives the packets of other workers to `send`.
    pub(crate) fn sort_burst(
        &mut self,
        now: Ticks,
        burst: &mut [Received],
        dispatcher: &mut Dispatcher,
        send: &mut impl FnMut(usize, Handed<'_>),
        output: &mut Vec<Outgoing>,
    ) {
        // Places of the packets whose names decide, one bit each.
        let mut by_name = 0u64;
        for (at, received) in burst.iter_mut().enumerate() {
            let place = self.parsed.len();
            let hashes = &mut self.hashes[place];
            match parse_unaddressed(received, hashes, |parsed| self.parsed.push(Staged { at, place, parsed })) {
                Ok(true) => {}
                Ok(false) => {
                    dispatcher.stays();
                    self.stage_addressed(received.take());
                }
                Err(reason) => self.drop_unparsed(received, reason),
            }
            let Some(Staged { parsed, .. }) = self.parsed.get_mut(place) else { continue };
            match dispatcher.sort(received, parsed, send) {
                Sorted::Here => {}
                Sorted::ByName => by_name |= 1 << place,
                Sorted::Gone => self.parsed.truncate(place),
            }
        }
        self.stopwatch.lap(Stage::Dispatch, burst.len());
        self.hash_burst(&Burst::new(burst, &mut []), Some(dispatcher.rule()));
        self.stopwatch.lap(Stage::Parse, burst.len());
        let is_by_name = |place: usize| by_name >> place & 1 == 1;
        for (_, wanted) in self.wanted.iter().enumerate().filter(|(place, _)| is_by_name(*place)) {
            dispatcher.prefetch(wanted.hash);
        }
        // The names to claim, one bit for each place, and their checks.
        let (mut to_claim, mut claims) = (0u64, [0; BURST_MAX]);
        let mut all = std::mem::take(&mut self.parsed);
        all.retain_mut(|Staged { at, place, parsed }| {
            if !is_by_name(*place) {
                return true;
            }
            let received = &mut burst[*at];
            let name = NameView::from_filled(name_in(&received.packet, parsed.name()), &self.hashes[*place]);
            match (dispatcher.sort_by_name(&name, &self.key, parsed), &*parsed) {
                (Decided { claim: Some(check), .. }, _) => {
                    claims[*place] = check;
                    to_claim |= 1 << *place;
                    true
                }
                (Decided { worker, spread, hash, .. }, _) if worker != dispatcher.here() => {
                    send(worker, Handed { received, parsed, is_spread: spread.is_some(), hash });
                    false
                }
                (Decided { spread: Some(name), .. }, Parsed::Interest(info)) => {
                    self.answer_or_set_aside(now, name, received, info, output);
                    false
                }
                _ => true,
            }
        });
        if to_claim != 0 {
            all.retain_mut(|Staged { at, place, parsed }| {
                if to_claim >> *place & 1 == 0 {
                    return true;
                }
                let held = dispatcher.claim(claims[*place]);
                match held {
                    Held::Here(home) | Held::New(home) => {
                        self.homes[*place] = Home { check: claims[*place], place: home };
                        if let (Held::New(_), Some(residence)) = (held, self.table.residence_mut()) {
                            residence.leave(home);
                        }
                        true
                    }
                    Held::At(worker) => {
                        send(worker, Handed::new(&mut burst[*at], parsed));
                        false
                    }
                }
            });
        }
        for (i, Staged { place, .. }) in all.iter().enumerate() {
            self.wanted.swap(i, *place);
        }
        self.wanted.truncate(all.len());
        self.parsed = all;
        self.stopwatch.lap(Stage::Dispatch, 0);
    }

    /// Adds packets that other threads have parsed to a burst of `own` packets of this thread, as far as there is room,
    /// and hashes their names. Interests for hot names are answered at once or set aside as strays.
    pub(crate) fn stage_given(
        &mut self,
        now: Ticks,
        own: &mut [Received],
        parcels: &mut impl ExactSizeIterator<Item = Parcel>,
        output: &mut Vec<Outgoing>,
    ) {
        let (first, mut given) = (self.parsed.len(), std::mem::take(&mut self.given));
        let mut place = BURST_MAX;
        for mut parcel in parcels.take(BURST_MAX - first) {
            if self.drop_unmet(&parcel) {
                continue;
            }
            let (at, received) = (own.len() + given.len(), Received::append(&mut given));
            parcel.unpack(received);
            if let Some(info) = parcel.spread() {
                let name = digest_name(&self.key, name_in(&received.packet, info.name));
                self.answer_or_set_aside(now, name, received, &info, output);
            } else if parcel.tell(|parsed| self.parsed.push(Staged { at, place, parsed })) {
                self.hashes[place].note_ends(name_in(&received.packet, parcel.name()));
                place += 1;
            } else {
                self.stage_addressed(received.take());
            }
        }
        if self.parsed.len() > first {
            let mut burst = Burst::new(own, &mut given);
            let rule = self.table.residence().map(|residence| *residence.rule());
            self.hash_names(&burst, first, BURST_MAX, rule.as_ref());
            self.claim_given(&mut burst, first);
        }
        self.given = given;
    }

    /// Prefetches what is read first of a packet that another thread has parsed.
    #[inline]
    pub(crate) fn prefetch_given(&self, parcel: &Parcel) {
        parcel.prefetch();
        if let Some(hash) = parcel.hash() {
            self.table.prefetch_bucket(hash);
        }
    }

    /// Makes this worker the home of the names of the Interests that it was given, from `first` on. An Interest whose name
    /// has another home, which its dispatcher did not know yet, becomes a stray.
    fn claim_given(&mut self, burst: &mut Burst<'_>, first: usize) {
        let Some(residence) = self.table.residence_mut() else { return };
        let mut checks = [0; BURST_MAX];
        for (check, Staged { at, place, parsed }) in checks.iter_mut().zip(&self.parsed[first..]) {
            let Parsed::Interest(info) = parsed else { continue };
            let name = name_in(&burst.packet(*at).packet, info.name);
            *check = residence.rule().check(&NameView::from_filled(name, &self.hashes[*place]), &self.key);
            residence.prefetch(*check);
        }
        // Places in the burst of the Interests to give away, one bit each.
        let mut gone = 0u64;
        for (i, Staged { at, place, parsed }) in self.parsed.iter().enumerate().skip(first) {
            let (Parsed::Interest(_), check) = (parsed, checks[i - first]) else { continue };
            match residence.hold(check) {
                Held::Here(home) => self.homes[*place] = Home { check, place: home },
                Held::New(home) => {
                    self.homes[*place] = Home { check, place: home };
                    residence.leave(home);
                }
                Held::At(_) => {
                    let received = burst.packet_mut(*at);
                    self.strays.push(Handed::new(received, parsed).into());
                    gone |= 1 << i;
                }
            }
        }
        if gone != 0 {
            let stays = || (0..BURST_MAX).map(|i| gone >> i & 1 == 0);
            let (mut packets, mut wanted) = (stays(), stays());
            self.parsed.retain(|_| packets.next() == Some(true));
            self.wanted.retain(|_| wanted.next() == Some(true));
        }
    }

    /// Answers an Interest for a hot name from the shared store, or takes it as a stray.
    fn answer_or_set_aside(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) {
        if !self.on_spread(now, name, received, info, output) {
            let parsed = &Parsed::Interest(*info);
            self.strays.push(Handed { is_spread: true, ..Handed::new(received, parsed) }.into());
        }
    }

    fn stage_addressed(&mut self, received: Received) {
        if self.addressed.stage(received).is_err() {
            self.drops.count(DropReason::Malformed);
        }
    }

    /// Hashes the names of the parsed packets, whose ends are noted, at all depths that a lookup or `rule` will use. They
    /// are all packets of the burst so far, at places from 0 up.
    fn hash_burst(&mut self, burst: &Burst<'_>, rule: Option<&Rule>) {
        self.begin_burst();
        self.hash_names(burst, 0, 0, rule);
    }

    /// Begins a burst of names, at the depths that the tables have now.
    pub(crate) fn begin_burst(&mut self) {
        // Strangers send names that are much longer than any rule, and rules have few depths. So only the depths of
        // rules are hashed.
        self.hashed_depth = self.tables.fib().depth_max().max(self.strategies.depths().deepest());
        self.hashed = self.tables.fib().depths().union(self.strategies.depths());
        self.wanted.clear();
    }

    /// Hashes the names of the parsed packets from `first` on, which have places from `place` up.
    fn hash_names(&mut self, burst: &Burst<'_>, first: usize, place: usize, rule: Option<&Rule>) {
        let parsed = &self.parsed[first..];
        let hashes = &mut self.hashes[place..place + parsed.len()];
        let by_prefix = |staged: &Staged| staged.parsed.interest().is_some_and(|info| info.can_be_prefix);
        // Data is looked up by its whole name only, unless an Interest waits for Data below a prefix, or one before it
        // in the burst will.
        let all_wanted = self.table.wants_prefixes_of_data() || self.parsed.iter().any(by_prefix);
        let (mut names, mut prefixes) = ([NameRef::ROOT; BURST_MAX], [DepthSet::EMPTY; BURST_MAX]);
        for (i, Staged { at, parsed, .. }) in parsed.iter().enumerate() {
            names[i] = name_in(&burst.packet(*at).packet, parsed.name());
            prefixes[i] = match parsed {
                _ if all_wanted => DepthSet::ALL,
                Parsed::Data(_) => DepthSet::EMPTY,
                // An Interest by implicit digest also looks up the Data's name, which is a prefix of its own.
                _ if NameView::from_filled(names[i], &hashes[i]).ends_in_implicit_digest() => DepthSet::ALL,
                // A Nack is looked up in the FIB by itself, and rules of new depths may have been added by then.
                Parsed::Nack(_) => DepthSet::up_to(self.hashed_depth),
                Parsed::Interest(_) => self.hashed,
            };
            if let Some(rule) = rule {
                prefixes[i].insert(rule.deciding_depth_of(&NameView::from_filled(names[i], &hashes[i])));
            }
        }
        let names = &names[..parsed.len()];
        PrefixHashes::fill_noted_burst_where(|i| prefixes[i], &self.key, names, hashes);
        self.wanted.extend(names.iter().zip(&*hashes).zip(parsed).map(|((name, hashes), staged)| Wanted {
            hash: NameView::from_filled(*name, hashes).full_hash(),
            nonce: staged.parsed.interest().and_then(|info| info.nonce),
            slot: None,
        }));
    }

    /// Takes the parsed packets through their pipelines, then looks up the misses in the FIB.
    pub(crate) fn handle_burst(&mut self, now: Ticks, burst: &mut Burst<'_>, output: &mut Vec<Outgoing>) {
        self.table.drop_unused(now);
        self.fetch_entries(now, burst);
        match self.prefetch {
            #[cfg(feature = "lab")]
            Prefetch::None => {}
            #[cfg(feature = "lab")]
            Prefetch::Cascade => (0..STEPS.len()).for_each(|turn| self.ask_in_turn(turn)),
            Prefetch::AllAtOnce => {
                for step in STEPS {
                    (0..self.wanted.len()).for_each(|i| self.ask_for(step, i));
                }
            }
        }
        self.match_ahead(burst);
        if self.popularity.is_on() {
            self.count_popular(now, burst);
        }
        if self.traces.is_on() {
            self.follow_burst(now, burst, output);
        }
        let mut all = std::mem::take(&mut self.parsed);
        #[cfg(feature = "lab")]
        let mut turns = STEPS.len()..;
        for Staged { at, place, parsed } in all.drain(..) {
            #[cfg(feature = "lab")]
            if self.prefetch == Prefetch::Cascade {
                turns.next().into_iter().for_each(|turn| self.ask_in_turn(turn));
            }
            let received = burst.packet_mut(at);
            match parsed {
                Parsed::Interest(info) => self.on_interest(now, place, received, info, output),
                Parsed::Data(info) => self.on_data(now, place, received, info, output),
                Parsed::Nack(info) => self.on_nack(now, place, received, info, output),
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

    /// Prefetches the first step of one packet, the second step of the packet before it, and so on.
    #[cfg(feature = "lab")]
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
}
