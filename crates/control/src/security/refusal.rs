//! Why a command is refused, and how often that happened.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// Why a command is refused. Displayed, it is the text of the 403 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
pub enum Refusal {
    /// The name's parameters digest is not that of the parameters.
    #[error("the parameters digest does not match the parameters")]
    ParametersDigest,
    /// Neither signed format.
    #[error("the command is not signed")]
    Unsigned,
    /// A signature element cannot be decoded.
    #[error("the signature is malformed")]
    Malformed,
    /// Nobody may command this module from there.
    #[error("no authorization for this module from this face")]
    NoRule,
    /// The signature is wrong.
    #[error("the signature does not verify")]
    BadSignature,
    /// The signer's certificate is not valid now.
    #[error("the signer's certificate is not valid at this time")]
    CertificateExpired,
    /// The signer has no right to this.
    #[error("the signer is not authorized")]
    UntrustedSigner,
    /// Nothing in the signature tells old commands from new ones.
    #[error("the signature has no time")]
    NoTime,
    /// Older than the window allows.
    #[error("the command is too old; compare the clocks")]
    TooOld,
    /// From a time that has not come.
    #[error("the command's time lies too far ahead; compare the clocks")]
    TooFarAhead,
    /// The same command came before.
    #[error("the command was seen before")]
    Replayed,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Refusal; 11] = [
        Refusal::ParametersDigest,
        Refusal::Unsigned,
        Refusal::Malformed,
        Refusal::NoRule,
        Refusal::BadSignature,
        Refusal::CertificateExpired,
        Refusal::UntrustedSigner,
        Refusal::NoTime,
        Refusal::TooOld,
        Refusal::TooFarAhead,
        Refusal::Replayed,
    ];

    /// The reason as a metric label.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::ParametersDigest => "parameters-digest",
            Refusal::Unsigned => "unsigned",
            Refusal::Malformed => "malformed",
            Refusal::NoRule => "no-rule",
            Refusal::BadSignature => "bad-signature",
            Refusal::CertificateExpired => "certificate-expired",
            Refusal::UntrustedSigner => "untrusted-signer",
            Refusal::NoTime => "no-time",
            Refusal::TooOld => "too-old",
            Refusal::TooFarAhead => "too-far-ahead",
            Refusal::Replayed => "replayed",
        }
    }
}

/// How many commands were refused, by reason.
#[derive(Debug, Default)]
pub struct RefusalCounters {
    counts: [AtomicU64; Refusal::ALL.len()],
}

impl RefusalCounters {
    /// Counts one.
    pub fn count(&self, refusal: Refusal) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Refusals for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    /// All refusals.
    pub fn total(&self) -> u64 {
        Refusal::ALL.into_iter().map(|refusal| self.of(refusal)).sum()
    }
}
