//! Interest packets.

use crate::name::{Name, NameRef};
use crate::signature::{Signature, SignatureInfo};
use crate::tlv::DecodeError;

/// InterestLifetime when the packet has none, in ms.
pub const DEFAULT_LIFETIME_MS: u64 = 4000;

/// A parsed Interest; all borrows are from the packet.
#[derive(Debug, Clone, Copy)]
pub struct Interest<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// Its name.
    pub name: NameRef<'a>,
    /// Where the name's TLV-VALUE begins in `wire`.
    pub name_offset: usize,
    /// Data whose name extends `name` may answer.
    pub can_be_prefix: bool,
    /// Only Data within its FreshnessPeriod may answer.
    pub must_be_fresh: bool,
    /// TLV-VALUE of the ForwardingHint, known to be a list of names; see [`Interest::forwarding_hint`].
    pub forwarding_hint_value: &'a [u8],
    /// Nonce, in packet order (big endian).
    pub nonce: Option<u32>,
    /// InterestLifetime as sent.
    pub lifetime_ms: Option<u64>,
    /// HopLimit and where its octet stands in `wire`.
    pub hop_limit: Option<HopLimit>,
    /// ApplicationParameters.
    pub application_parameters: Option<&'a [u8]>,
    /// The signature of the v0.3 signed Interest format, if any.
    pub signature: Option<Signature<'a>>,
}

/// HopLimit, to be lowered in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopLimit {
    /// Hops left.
    pub value: u8,
    /// Offset of the octet in the packet.
    pub offset: usize,
}

impl<'a> Interest<'a> {
    /// Parses one Interest element that fills `wire`.
    ///
    /// An Interest with a ParametersSha256DigestComponent but no ApplicationParameters, or the
    /// other way round, or with an empty name, is [`DecodeError::BadValue`]. The digest itself is
    /// checked by [`Interest::parameters_digest_matches`].
    pub fn decode(_wire: &'a [u8]) -> Result<Self, DecodeError> {
        todo!()
    }
    /// Lifetime to use: as sent, or the default.
    pub fn lifetime_or_default_ms(&self) -> u64 {
        self.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS)
    }
    /// The delegations, most preferred first.
    pub fn forwarding_hint(&self) -> impl Iterator<Item = NameRef<'a>> + use<'a> {
        std::iter::empty()
    }
    /// Whether the name's ParametersSha256DigestComponent is the digest of the parameters.
    /// True when there are no parameters.
    pub fn parameters_digest_matches(&self) -> bool {
        todo!()
    }
}

/// Copies an Interest, with `nonce` in the place that the format gives it.
pub fn with_nonce(_interest: &Interest<'_>, _nonce: u32) -> Vec<u8> {
    todo!()
}

/// Builds Interests.
#[derive(Debug, Clone)]
pub struct InterestBuilder {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Vec<Name>,
    nonce: u32,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    application_parameters: Option<Vec<u8>>,
}

impl InterestBuilder {
    /// An Interest for `name` with this nonce.
    pub fn new(name: Name, nonce: u32) -> Self {
        InterestBuilder {
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Vec::new(),
            nonce,
            lifetime_ms: None,
            hop_limit: None,
            application_parameters: None,
        }
    }
    /// Sets CanBePrefix.
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }
    /// Sets MustBeFresh.
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }
    /// Sets InterestLifetime.
    pub fn lifetime_ms(mut self, ms: u64) -> Self {
        self.lifetime_ms = Some(ms);
        self
    }
    /// Sets HopLimit.
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = Some(hops);
        self
    }
    /// Sets the delegations.
    pub fn forwarding_hint(mut self, delegations: Vec<Name>) -> Self {
        self.forwarding_hint = delegations;
        self
    }
    /// Sets ApplicationParameters; the digest component is appended to the name.
    pub fn application_parameters(mut self, parameters: Vec<u8>) -> Self {
        self.application_parameters = Some(parameters);
        self
    }
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
    /// The packet in the v0.3 signed Interest format. `sign` gets the signed octets (two
    /// stretches, to be taken as one) and returns the signature value. ApplicationParameters are
    /// empty if none were set.
    pub fn encode_signed(&self, _info: &SignatureInfo<'_>, _sign: impl FnOnce(&[&[u8]]) -> Vec<u8>) -> Vec<u8> {
        todo!()
    }
}
