//! Counts of what a worker dropped, by reason.

/// Why a packet went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// It is none of the packets that are forwarded.
    Malformed,
    /// Its name has more components than byname takes.
    TooManyComponents,
    /// Its face has gone meanwhile.
    UnknownFace,
    /// `/localhost` on a face that is not local.
    Scope,
    /// A packet whose HopLimit was used up.
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
    /// A tag-addressed packet of which no subset was advertised elsewhere than where it came from.
    NoSubset,
    /// A tag-addressed packet, in part: the search for subsets came to its limit, and some may have
    /// been missed.
    SubsetsCutOff,
    /// A packet of a tree that this router is not on.
    NoSuchTree,
    /// A locator-addressed packet whose label leads nowhere.
    Label,
    /// A locator-addressed packet to an application that is not here.
    NoSuchEndpoint,
}

/// Words for metric labels, in the order of [`Drop`].
const REASONS: [(Drop, &str); 16] = [
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
    (Drop::NoSubset, "no-subset"),
    (Drop::SubsetsCutOff, "subsets-cut-off"),
    (Drop::NoSuchTree, "no-such-tree"),
    (Drop::Label, "label"),
    (Drop::NoSuchEndpoint, "no-such-endpoint"),
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
