//! Reasons for refusing commands, and their counters.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

/// Why a command was refused. Its `Display` is the text of the 403 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
pub enum Refusal {
    /// The parameters digest in the name does not match the parameters.
    #[error("the parameters digest does not match the parameters")]
    ParametersDigest,
    /// The command has neither signed format.
    #[error("the command is not signed")]
    Unsigned,
    /// A signature element cannot be decoded.
    #[error("the signature is malformed")]
    Malformed,
    /// No rule has rights for this module and face scope.
    #[error("no authorization for this module from this face")]
    NoRule,
    /// The signature is wrong.
    #[error("the signature does not verify")]
    BadSignature,
    /// The signer's certificate is not valid at this time.
    #[error("the signer's certificate is not valid at this time")]
    CertificateExpired,
    /// The signer has no rights for this module.
    #[error("the signer is not authorized")]
    UntrustedSigner,
    /// No chain of certificates leads from the signer to a trust anchor.
    #[error("no chain of certificates leads from the signer to a trust anchor of this router")]
    UntrustedChain,
    /// The signer's certificate is on the list of revocations.
    #[error("the signer's certificate is revoked")]
    Revoked,
    /// The keys of too many signers are remembered.
    #[error("too many keys have signed commands lately; try again later")]
    TooManyKeys,
    /// The signature has no time or nonce that distinguishes it from a replay.
    #[error("the signature has no time")]
    NoTime,
    /// The command is older than the time window allows.
    #[error("the command is too old; compare the clocks")]
    TooOld,
    /// The command's time is too far in the future.
    #[error("the command's time lies too far ahead; compare the clocks")]
    TooFarAhead,
    /// The same command was received before.
    #[error("the command was seen before")]
    Replayed,
    /// The command may have been accepted before the router's last start.
    #[error("the command may have been accepted before this router's start; sign a new one, and compare the clocks")]
    BeforeStart,
    /// The mark of the command's key cannot be written to the state folder.
    #[error("the router cannot write to its state folder that it accepts the command; its log says why")]
    NotWritten,
    /// The signer has no rights for the name in the command.
    #[error("the signer may not command this name; see `prefixes` of [[authorization]]")]
    OutsidePrefixes,
    /// The name or face in the command is reserved for the router's management.
    #[error("names at or below /localhost/nfd and /localhop/nfd, and FaceIds below 256, belong to this router alone")]
    Management,
    /// A neighbour's command concerns a face other than its own.
    #[error("a neighbour may register its own face only; leave FaceId out")]
    OthersFace,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Refusal; 19] = [
        Refusal::ParametersDigest,
        Refusal::Unsigned,
        Refusal::Malformed,
        Refusal::NoRule,
        Refusal::BadSignature,
        Refusal::CertificateExpired,
        Refusal::UntrustedSigner,
        Refusal::UntrustedChain,
        Refusal::Revoked,
        Refusal::TooManyKeys,
        Refusal::NoTime,
        Refusal::TooOld,
        Refusal::TooFarAhead,
        Refusal::Replayed,
        Refusal::BeforeStart,
        Refusal::NotWritten,
        Refusal::OutsidePrefixes,
        Refusal::Management,
        Refusal::OthersFace,
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
            Refusal::UntrustedChain => "untrusted-chain",
            Refusal::Revoked => "revoked",
            Refusal::TooManyKeys => "too-many-keys",
            Refusal::NoTime => "no-time",
            Refusal::TooOld => "too-old",
            Refusal::TooFarAhead => "too-far-ahead",
            Refusal::Replayed => "replayed",
            Refusal::BeforeStart => "before-start",
            Refusal::NotWritten => "not-written",
            Refusal::OutsidePrefixes => "outside-prefixes",
            Refusal::Management => "management",
            Refusal::OthersFace => "others-face",
        }
    }
}

/// Number of refused commands by reason.
#[derive(Debug, Default)]
pub struct RefusalCounters {
    counts: [AtomicU64; Refusal::ALL.len()],
}

impl RefusalCounters {
    /// Counts a refusal.
    pub fn count(&self, refusal: Refusal) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of refusals for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    /// Number of all refusals.
    pub fn total(&self) -> u64 {
        Refusal::ALL.into_iter().map(|refusal| self.of(refusal)).sum()
    }
}
