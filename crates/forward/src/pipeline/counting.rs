//! Packets that are counted by prefix: see [`crate::popular`].

use crate::packet::{Copies, Parsed, name_in};
use crate::shard::{Burst, Shard, Staged};
use crate::ticks::Ticks;

impl Shard {
    /// Counts the parsed packets of a burst.
    #[cold]
    pub(crate) fn count_popular(&mut self, now: Ticks, burst: &Burst<'_>) {
        for Staged { at, parsed, .. } in &self.parsed {
            let packet = &burst.packet(*at).packet;
            let is_data = match parsed {
                Parsed::Interest(_) => false,
                // Further copies of Data are the same packet, in other threads.
                Parsed::Data(data) if matches!(data.copies, Copies::Lone | Copies::First) => true,
                Parsed::Data(_) | Parsed::Nack(_) => continue,
            };
            self.popularity.note(now, name_in(packet, parsed.name()), is_data, packet.len());
        }
    }
}
