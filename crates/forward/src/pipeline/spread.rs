//! Interests for hot names, which any worker may answer: see [`crate::hot`].

use byname_wire::name_hash::Digest;

use crate::packet::{InterestInfo, name_in};
use crate::port::{Outgoing, Received};
use crate::shard::Shard;
use crate::ticks::Ticks;

impl Shard {
    /// Handles an Interest for a hot name, whose digest is `name` and whose home is most likely another worker. Returns
    /// false if the shared store does not answer it, and it cannot join a shared PIT entry. Then nothing has happened, and
    /// the Interest must go home.
    pub(crate) fn on_spread(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        if !self.popularity.is_on() {
            return self.answer_or_follow_spread(now, name, received, info, output);
        }
        let packet = received.packet.clone();
        let is_done = self.answer_or_follow_spread(now, name, received, info, output);
        // Otherwise its home counts it.
        if is_done {
            self.popularity.note(now, name_in(&packet, info.name), false, packet.len());
        }
        is_done
    }

    fn answer_or_follow_spread(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        if self.traces.is_on() {
            return self.follow_spread(now, name, received, info, output);
        }
        self.answer_spread(now, name, received, info, output)
    }

    pub(crate) fn answer_spread(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &mut Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let bytes = name_in(&received.packet, info.name).value();
        self.counts.spread += 1;
        let Some(packet) = self.table.shared_data(name, bytes, info.must_be_fresh, now) else {
            return self.join_shared(now, name, received, info, output);
        };
        self.counts.spread_hits += 1;
        if self.accept_interest(received, info).is_some() {
            self.send_stored(packet, received, output);
        }
        true
    }
}
