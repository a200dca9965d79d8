//! Interests for hot names, which any worker may answer: see [`crate::hot`].

use byname_wire::name_hash::Digest;

use crate::pipeline::{InterestInfo, name_in};
use crate::port::{Outgoing, Received};
use crate::ticks::Ticks;
use crate::worker::Worker;

impl Worker {
    /// An Interest arrived whose name has this digest and most likely another home. False if what the
    /// workers share does not answer it: then nothing has happened, and it is to go home.
    pub(crate) fn on_spread(
        &mut self,
        now: Ticks,
        name: Digest,
        received: &Received,
        info: &InterestInfo,
        output: &mut Vec<Outgoing>,
    ) -> bool {
        let octets = name_in(&received.packet, info.name).value();
        self.counts.spread += 1;
        let Some(packet) = self.table.shared_data(name, octets, info.must_be_fresh, now) else { return false };
        self.counts.spread_hits += 1;
        if self.accept_interest(received, info).is_some() {
            self.send_stored(packet, received, output);
        }
        true
    }
}
