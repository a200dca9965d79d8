//! Signatures and rate limits of neighbours' updates.

use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest};

use crate::security::{Signer, SignerError, TrustedSigner};

/// Most updates per second from one neighbour, and most updates in a burst.
const UPDATES_PER_SECOND: u64 = 1000;
const UPDATES_BURST: u64 = 2000;

/// Keys between a neighbour and this router: one shared secret, or a key pair for each.
pub struct NeighborKeys {
    /// Signer of this router's messages.
    pub signer: Signer,
    /// Signer that the neighbour's messages must have.
    pub trusted: TrustedSigner,
}

impl NeighborKeys {
    pub(super) fn has_signed(&self, update: &Interest<'_>, unix_ms: u64) -> bool {
        self.trusted.has_signed_interest(update, unix_ms)
    }

    pub(super) fn has_signed_answer(&self, answer: &Data<'_>, unix_ms: u64) -> bool {
        self.trusted.has_signed_data(answer, unix_ms)
    }

    pub(super) fn sign(&self, update: &InterestBuilder, unix_ms: u64) -> Result<Vec<u8>, SignerError> {
        self.signer.sign_command(update, unix_ms)
    }

    pub(crate) fn sign_answer(&self, answer: &DataBuilder) -> Result<Vec<u8>, SignerError> {
        self.signer.sign_data(answer)
    }
}

/// A token bucket for the updates of a neighbour.
pub(super) struct Allowance {
    left: u64,
    at_ms: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance { left: UPDATES_BURST, at_ms: 0 }
    }
}

impl Allowance {
    /// Takes a token for one update. Returns false if there is none.
    pub(super) fn take(&mut self, now_ms: u64) -> bool {
        let more = now_ms.saturating_sub(self.at_ms).saturating_mul(UPDATES_PER_SECOND) / 1000;
        if more > 0 {
            (self.left, self.at_ms) = (self.left.saturating_add(more).min(UPDATES_BURST), now_ms);
        }
        let allowed = self.left > 0;
        self.left -= u64::from(allowed);
        allowed
    }
}
