//! Packets that are watched, handled one by one.

use std::time::Duration;

use byname_wire::{FaceId, Name, NameView, name_hash::Digest};
use smallvec::SmallVec;

use crate::counters::{DropReason, Drops};
use crate::packet::{Copies, InterestInfo, Parsed, name_in};
use crate::packet_pool::Packet;
use crate::pit_cs::SlotId;
use crate::port::{Outgoing, Received};
use crate::shard::{Burst, Route, Shard, Staged};
use crate::ticks::Ticks;
use crate::trace::{Event, PitOutcome, Sent, StoreOutcome, Subject, Times, Way};

/// The state before a packet.
struct Before {
    drops: Drops,
    cs_hits: u64,
    satisfied: u64,
    sent: usize,
}

impl Shard {
    /// Handles the packets of a burst, if any of them is watched. Otherwise leaves them all.
    #[cold]
    pub(crate) fn follow_burst(&mut self, now: Ticks, burst: &mut Burst<'_>, output: &mut Vec<Outgoing>) {
        let name_of = |staged: &Staged| name_in(&burst.packet(staged.at).packet, staged.parsed.name());
        if !self.parsed.iter().any(|staged| self.traces.want(name_of(staged))) {
            return;
        }
        let mut all = std::mem::take(&mut self.parsed);
        for Staged { at, place, parsed } in all.drain(..) {
            let received = burst.packet_mut(at);
            if self.traces.want(name_in(&received.packet, parsed.name())) {
                self.follow(now, place, received, parsed, output);
            } else {
                self.handle(now, place, received, parsed, output);
            }
        }
        self.parsed = all;
    }

    fn handle(
        &mut self,
        now: Ticks,
        place: usize,
        received: &mut Received,
        parsed: Parsed,
        output: &mut Vec<Outgoing>,
    ) {
        match parsed {
            Parsed::Interest(info) => self.on_interest(now, place, received, info, output),
            Parsed::Data(info) => self.on_data(now, place, received, info, output),
            Parsed::Nack(info) => self.on_nack(now, place, received, info, output),
        }
    }

    fn follow(
        &mut self,
        now: Ticks,
        place: usize,
        received: &mut Received,
        parsed: Parsed,
        output: &mut Vec<Outgoing>,
    ) {
        // What other packets of the burst still have to send is not this packet's.
        self.route_misses(now, output);
        let mut event = self.event_of(now, received, &parsed);
        let known = self.pending_before(place, received, &parsed);
        let (before, begin) = (self.before(output), self.stopwatch.read());
        self.handle(now, place, received, parsed, output);
        let handled = self.stopwatch.read();
        match parsed {
            Parsed::Interest(_) => self.tell_interest(now, known, &before, &mut event, output),
            Parsed::Data(info) => self.tell_data(received, info.copies, &before, &mut event),
            Parsed::Nack(_) => self.tell_nack(known, &before, &mut event),
        }
        if let (Some(begin), Some(handled)) = (begin, handled) {
            let times = event.times.get_or_insert_default();
            (times.waited, times.pit_cs) = (begin.since(now), handled.since(begin));
        }
        event.sent = sent(&output[before.sent..]);
        self.traces.note(&event);
    }

    fn event_of(&self, now: Ticks, received: &Received, parsed: &Parsed) -> Event {
        let info = parsed.interest();
        Event {
            subject: match parsed {
                Parsed::Interest(_) => Subject::Interest,
                Parsed::Data(_) => Subject::Data,
                Parsed::Nack(_) => Subject::Nack(received.fields.nack.unwrap_or(byname_wire::NackReason::None)),
            },
            nonce: info.and_then(|info| info.nonce),
            can_be_prefix: info.is_some_and(|info| info.can_be_prefix),
            must_be_fresh: info.is_some_and(|info| info.must_be_fresh),
            ..self.bare_event(now, name_in(&received.packet, parsed.name()).to_name(), received.face, &received.packet)
        }
    }

    fn bare_event(&self, at: Ticks, name: Name, face: FaceId, packet: &Packet) -> Event {
        Event {
            at,
            subject: Subject::Malformed,
            name,
            face,
            bytes: packet.len(),
            nonce: None,
            can_be_prefix: false,
            must_be_fresh: false,
            pit: None,
            store: None,
            way: None,
            strategy: None,
            sent: SmallVec::new(),
            dropped: None,
            times: None,
            packet: self.traces.keep_packets().then(|| packet.clone()),
        }
    }

    fn before(&self, output: &[Outgoing]) -> Before {
        Before {
            drops: self.drops.clone(),
            cs_hits: self.counts.cs_hits,
            satisfied: self.counts.satisfied,
            sent: output.len(),
        }
    }

    /// The pending Interest that an Interest or a Nack meets: what its PIT entry will do, and its strategy.
    fn pending_before(&self, place: usize, received: &Received, parsed: &Parsed) -> (PitOutcome, Option<u16>) {
        let none = (PitOutcome::NoMatch, None);
        let Some(info) = parsed.interest() else { return none };
        let name = NameView::from_filled(name_in(&received.packet, info.name), &self.hashes[place]);
        let slot = self.table.find_pit(&name, info.can_be_prefix, info.must_be_fresh);
        let Some(pit) = slot.and_then(|slot| self.table.slot(slot).pit()) else {
            return if matches!(parsed, Parsed::Interest(_)) { (PitOutcome::New, None) } else { none };
        };
        let outcome = match parsed {
            Parsed::Nack(_) => PitOutcome::Matched,
            _ if pit.in_record(received.face).is_some() => PitOutcome::Again,
            _ => PitOutcome::Joined,
        };
        (outcome, Some(pit.strategy))
    }

    /// The reason for which a drop was counted since `before`. Other packets may have been evicted meanwhile.
    fn dropped_since(&self, before: &Before) -> Option<&'static str> {
        let mut more = self.drops.all().into_iter().zip(before.drops.all());
        let evicted = DropReason::PitFull.label();
        more.find(|((reason, now), (_, before))| now > before && *reason != evicted).map(|((reason, _), _)| reason)
    }

    /// What happened to an Interest. Routes it, if it is a miss.
    fn tell_interest(
        &mut self,
        now: Ticks,
        (pit, _): (PitOutcome, Option<u16>),
        before: &Before,
        event: &mut Event,
        output: &mut Vec<Outgoing>,
    ) {
        if self.counts.cs_hits > before.cs_hits {
            return event.store = Some(StoreOutcome::Hit);
        }
        let Some(miss) = self.misses.last() else {
            event.dropped = self.dropped_since(before);
            let loops = event.dropped == Some(DropReason::Loop.label());
            return event.pit = loops.then_some(PitOutcome::Loop);
        };
        let slot = miss.slot;
        (event.pit, event.store) = (Some(pit), Some(StoreOutcome::Miss));
        let strategy = self.table.slot(slot).pit().map(|pit| usize::from(pit.strategy));
        let (way, times) = self.route_followed(now, slot, output);
        (event.way, event.times) = (Some(way), times);
        if way != Way::Chosen {
            event.strategy = strategy.map(|number| (self.strategies.name(number).clone(), self.decision.why));
        }
        if self.table.slot(slot).pit().is_none() {
            event.dropped = Some(self.dropped_since(before).unwrap_or("refused"));
        }
    }

    /// Routes the only miss. Returns how, and the times of FIB and strategy.
    fn route_followed(&mut self, now: Ticks, slot: SlotId, output: &mut Vec<Outgoing>) -> (Way, Option<Times>) {
        let mut misses = std::mem::take(&mut self.misses);
        let begin = self.stopwatch.read();
        let way = match misses[0].route {
            Route::Face(_) => Way::Chosen,
            Route::Entry(_) => Way::Hint,
            Route::Fib => Way::NoRule,
        };
        self.match_misses(&mut misses);
        let matched = self.stopwatch.read();
        let way = match way {
            Way::NoRule if misses[0].entry().is_some() => Way::Rule(self.rule_depth(slot, misses[0].place)),
            way => way,
        };
        let decide = self.stopwatch.read();
        for miss in &misses {
            self.table.set_unrouted(miss.slot, false);
            self.route(now, miss, output);
        }
        let end = self.stopwatch.read();
        misses.clear();
        self.misses = misses;
        let since = |later: Option<Ticks>, earlier: Option<Ticks>| Some(later?.since(earlier?));
        let times = since(matched, begin).zip(since(end, decide));
        (way, times.map(|(fib, strategy)| Times { fib, strategy, ..Times::default() }))
    }

    fn rule_depth(&self, slot: SlotId, place: usize) -> usize {
        let name = NameView::from_filled(self.table.slot(slot).name(), &self.hashes[place]);
        self.tables.fib().longest_match(&name.up_to(self.hashed_depth)).map_or(0, |rule| rule.depth)
    }

    fn tell_data(&self, received: &Received, copies: Copies, before: &Before, event: &mut Event) {
        let satisfied = self.counts.satisfied - before.satisfied;
        if satisfied == 0 {
            event.dropped = self.dropped_since(before);
            // Another worker has the Interest that waits for this copy.
            event.pit = matches!(copies, Copies::Lone | Copies::Passed).then_some(PitOutcome::NoMatch);
            return;
        }
        event.pit = Some(PitOutcome::Satisfied(satisfied));
        // The store has taken the packet out of its place.
        let is_stored = received.packet.is_empty();
        event.store = Some(if is_stored { StoreOutcome::Admitted } else { StoreOutcome::NotAdmitted });
    }

    fn tell_nack(&self, (pit, strategy): (PitOutcome, Option<u16>), before: &Before, event: &mut Event) {
        (event.pit, event.dropped) = (Some(pit), self.dropped_since(before));
        if event.dropped.is_none() {
            let strategy = strategy.map(|number| self.strategies.name(usize::from(number)).clone());
            event.strategy = strategy.map(|name| (name, self.decision.why));
        }
    }

    /// As `answer_spread`, for a worker with watches.
    #[cold]
    pub(crate) fn follow_spread(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let is_watched = self.traces.want(name_in(&received.packet, info.name));
        let event = is_watched.then(|| self.event_of(now, received, &Parsed::Interest(*info)));
        let (before, begin) = (self.before(output), self.stopwatch.read());
        let is_done = self.answer_spread(now, name, received, info, output);
        if let Some(mut event) = event.filter(|_| is_done) {
            event.dropped = self.dropped_since(&before);
            if self.counts.cs_hits > before.cs_hits {
                event.store = Some(StoreOutcome::SharedHit);
            } else if event.dropped.is_none() {
                (event.pit, event.store) = (Some(PitOutcome::Joined), Some(StoreOutcome::Miss));
            }
            let times = begin.zip(self.stopwatch.read());
            event.times = times.map(|(begin, end)| Times {
                waited: begin.since(now),
                pit_cs: end.since(begin),
                fib: Duration::ZERO,
                strategy: Duration::ZERO,
            });
            event.sent = sent(&output[before.sent..]);
            self.traces.note(&event);
        }
        is_done
    }

    /// Counts a packet that is dropped because it cannot be parsed.
    #[cold]
    pub(crate) fn drop_unparsed(&mut self, received: &Received, reason: DropReason) {
        self.drops.count(reason);
        if self.traces.want(Name::default().as_ref()) {
            let at = self.stopwatch.read().unwrap_or_default();
            let event = self.bare_event(at, Name::default(), received.face, &received.packet);
            self.traces.note(&Event { dropped: Some(reason.label()), ..event });
        }
    }

    /// Notes that a pending Interest ends without an answer. Must be called before its end.
    #[cold]
    pub(crate) fn tell_end(&mut self, now: Ticks, slot: SlotId, subject: Subject) {
        let slot = self.table.slot(slot);
        let Some(pit) = slot.pit().filter(|_| self.traces.want(slot.name())) else { return };
        let dropped = match subject {
            Subject::Eviction => DropReason::PitFull.label(),
            _ => "unanswered",
        };
        let event = Event {
            subject,
            nonce: Some(pit.nonce),
            can_be_prefix: pit.can_be_prefix,
            must_be_fresh: pit.must_be_fresh,
            strategy: Some((self.strategies.name(usize::from(pit.strategy)).clone(), Default::default())),
            dropped: Some(dropped),
            ..self.bare_event(now, slot.name().to_name(), pit.owner(), &slot.packet)
        };
        self.traces.note(&event);
    }
}

fn sent(output: &[Outgoing]) -> SmallVec<[Sent; 4]> {
    let subject = |outgoing: &Outgoing| match (outgoing.fields.nack, outgoing.packet.first()) {
        (Some(reason), _) => Subject::Nack(reason),
        (None, Some(5)) => Subject::Interest,
        (None, _) => Subject::Data,
    };
    output.iter().map(|outgoing| Sent { face: outgoing.face, subject: subject(outgoing) }).collect()
}
