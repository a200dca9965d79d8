//! Counts of what a worker dropped, by reason.

/// Why a packet went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// It is no Interest or Data.
    Malformed,
    /// Its name has more components than byname takes.
    TooManyComponents,
    /// Its face has gone meanwhile.
    UnknownFace,
    /// `/localhost` on a face that is not local.
    Scope,
    /// An Interest whose HopLimit was used up.
    HopLimit,
    /// An Interest that was here before: it loops.
    Loop,
    /// Data that nobody waits for.
    UnsolicitedData,
    /// A Nack that answers nothing that was sent.
    UnsolicitedNack,
    /// A pending Interest, to make room in a full PIT.
    PitFull,
    /// An Interest from one face more than an entry records.
    TooManyDownstreams,
    /// An Interest whose NextHopFaceId names no face.
    NextHopFaceId,
}

/// Words for metric labels, in the order of [`Drop`].
const REASONS: [(Drop, &str); 11] = [
    (Drop::Malformed, "malformed"),
    (Drop::TooManyComponents, "too-many-components"),
    (Drop::UnknownFace, "unknown-face"),
    (Drop::Scope, "scope"),
    (Drop::HopLimit, "hop-limit"),
    (Drop::Loop, "loop"),
    (Drop::UnsolicitedData, "unsolicited-data"),
    (Drop::UnsolicitedNack, "unsolicited-nack"),
    (Drop::PitFull, "pit-full"),
    (Drop::TooManyDownstreams, "too-many-downstreams"),
    (Drop::NextHopFaceId, "next-hop-face-id"),
];

/// How often each happened.
#[derive(Debug, Clone, Default)]
pub struct Drops([u64; REASONS.len()]);

impl Drops {
    /// Counts one.
    pub fn count(&mut self, reason: Drop) {
        self.0[reason as usize] += 1;
    }

    /// The count of one reason.
    pub fn of(&self, reason: Drop) -> u64 {
        self.0[reason as usize]
    }

    /// All, with their words.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        REASONS.iter().map(|(reason, word)| (*word, self.of(*reason))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_numbers() {
        for (i, (reason, _)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
    }
}
