//! Pending Interests that their strategy reconsiders: after a Nack, or when it asked to be woken.

use byname_lookup::{EntryId, PrefixFib};
use byname_wire::{FaceId, Interest, NameView};

use crate::pit_cs::{PitEntry, SlotId};
use crate::port::Outgoing;
use crate::shard::Shard;
use crate::strategy::{Decision, Situation, Strategy};
use crate::ticks::Ticks;
use crate::trace::Subject;

/// The ingress and the FIB entry for a pending Interest: its latest downstream, and the entry of its route.
pub(super) struct Way {
    ingress: FaceId,
    entry: Option<EntryId>,
}

impl Shard {
    /// The timer of a pending Interest is due: its strategy acts, or its lifetime is over.
    pub(crate) fn on_timer(&mut self, now: Ticks, slot: SlotId, output: &mut Vec<Outgoing>) {
        match self.table.slot(slot).pit() {
            Some(pit) if pit.expiry > now => self.wake_strategy(now, slot, output),
            _ => {
                if self.traces.is_on() {
                    self.tell_end(now, slot, Subject::Expiry);
                }
                self.expire(now, slot);
            }
        }
    }

    /// Lets the strategy of a pending Interest act at this time, if the Interest is still pending then.
    #[cold]
    pub(super) fn wake_strategy_at(&mut self, slot: SlotId, at: Ticks) {
        if let Some(pit) = self.table.slot(slot).pit() {
            self.wheel.set(slot, at.min(pit.expiry));
        }
    }

    #[cold]
    fn wake_strategy(&mut self, now: Ticks, slot: SlotId, output: &mut Vec<Outgoing>) {
        let Some(pit) = self.table.slot(slot).pit() else { return };
        let expiry = pit.expiry;
        self.wheel.set(slot, expiry);
        self.hashes[0].fill(&self.key, self.table.slot(slot).name());
        let way = self.way_of(slot, |fib| {
            let name = NameView::from_filled(self.table.slot(slot).name(), &self.hashes[0]);
            fib.longest_match(&name).map(|m| m.entry)
        });
        self.reconsider(now, slot, way, expiry, output, |strategy, situation, pit, decision| {
            strategy.after_wait(situation, pit, decision);
        });
    }

    /// The route that a pending Interest took before: by its hint or by its name. There is none if the consumer chose
    /// the face.
    pub(super) fn way_of(&self, slot: SlotId, by_name: impl FnOnce(&dyn PrefixFib) -> Option<EntryId>) -> Way {
        let pit = self.table.slot(slot).pit().expect("the caller found it pending");
        let ingress = pit.in_records.iter().max_by_key(|r| r.arrived).map_or(pit.owner(), |r| r.face);
        let sent = Interest::decode(&self.table.slot(slot).packet).ok();
        let entry = match sent.filter(|i| !i.forwarding_hint_value.is_empty()) {
            _ if pit.directed => None,
            Some(hinted) => self.match_forwarding_hint(&hinted).map(|(entry, _)| entry),
            None => by_name(self.tables.fib()),
        };
        Way { ingress, entry }
    }

    /// Lets the strategy of a pending Interest decide, and carries the decision out.
    pub(super) fn reconsider(
        &mut self,
        now: Ticks,
        slot: SlotId,
        Way { ingress, entry }: Way,
        expiry: Ticks,
        output: &mut Vec<Outgoing>,
        ask: impl FnOnce(&mut dyn Strategy, &mut Situation<'_>, &mut PitEntry, &mut Decision),
    ) {
        self.ask_strategy(now, slot, ingress, entry, ask);
        for i in 0..self.decision.forward.len() {
            self.send_pending(now, slot, self.decision.forward[i], expiry, output);
            if let Some(sent) = output.last_mut() {
                sent.fields.incoming_face_id = Some(ingress);
            }
        }
        if let Some(wake_at) = self.decision.wake_at {
            self.wake_strategy_at(slot, wake_at);
        }
        if let Some(reason) = self.decision.refuse {
            self.refuse(now, slot, reason, output);
        }
    }

    /// The lifetime of a pending Interest is over.
    pub(crate) fn expire(&mut self, now: Ticks, slot: SlotId) {
        let hash = self.table.slot(slot).hash;
        let Some(pit) = self.table.slot(slot).pit() else { return };
        for record in &pit.out_records {
            self.dead_nonces.insert(now, hash, record.nonce);
        }
        let strategy = self.strategies.strategy(usize::from(pit.strategy));
        if strategy.measures() {
            let name = self.table.slot(slot).name();
            let mut situation = Situation::at_end(now, name, pit.prefix_hash, &mut self.measurements);
            strategy.on_expiry(&mut situation, pit);
        }
        self.counts.unsatisfied += 1;
        self.table.remove(slot);
    }

    /// Removes a pending Interest early and without an answer.
    pub(crate) fn drop_pending(&mut self, now: Ticks, slot: SlotId) {
        self.wheel.clear(slot);
        self.expire(now, slot);
    }
}
