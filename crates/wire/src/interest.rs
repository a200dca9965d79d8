//! Interest packets.

use crate::PACKET_BYTES_MAX;
use crate::digest::{self, Sha256Digest};
use crate::name::{Component, Name, NameRef, NameShape, component_type};
use crate::name_hash::PrefixHashes;
use crate::signature::{Signature, SignatureInfo};
use crate::tlv::{self, DecodeError, Reader, types};

/// InterestLifetime when the packet has none, in ms.
pub const DEFAULT_LIFETIME_MS: u64 = 4000;

/// A parsed Interest. All borrows are from the packet.
#[derive(Debug, Clone, Copy)]
pub struct Interest<'a> {
    /// The whole packet.
    pub wire: &'a [u8],
    /// Its name.
    pub name: NameRef<'a>,
    /// Offset of the name's TLV-VALUE in `wire`.
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
    /// HopLimit, and the offset of its byte in `wire`.
    pub hop_limit: Option<HopLimit>,
    /// ApplicationParameters.
    pub application_parameters: Option<&'a [u8]>,
    /// The signature of the v0.3 signed Interest format, if there is one. A signed Interest's name
    /// must end in the ParametersSha256DigestComponent; otherwise this is `None`.
    pub signature: Option<Signature<'a>>,
    /// ApplicationParameters and all elements after it: the part that the parameters digest covers.
    parameter_elements: &'a [u8],
}

/// HopLimit, which a forwarder lowers in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopLimit {
    /// Hops left.
    pub value: u8,
    /// Offset of the byte in the packet.
    pub offset: usize,
}

impl<'a> Interest<'a> {
    /// Parses one Interest element that fills `wire`.
    ///
    /// Returns [`DecodeError::BadValue`] if the name is empty, if it has a
    /// ParametersSha256DigestComponent without ApplicationParameters, or the other way round.
    /// [`Interest::parameters_digest_matches`] checks the digest itself. An Interest without a
    /// Nonce must leave room for the one that [`with_nonce`] adds, or it is
    /// [`DecodeError::TooLarge`].
    pub fn decode(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_and(wire, |_, _| ())
    }

    /// Parses like [`Interest::decode`], and notes in `hashes` where each name component ends, for
    /// [`PrefixHashes::fill_noted_burst_where`].
    // Inlined: callers use few of the fields, so the compiler leaves out the rest.
    #[inline(always)]
    pub fn decode_noting(wire: &'a [u8], hashes: &mut PrefixHashes) -> Result<Self, DecodeError> {
        hashes.note_end(0, 0);
        Self::decode_and(wire, |depth, end| hashes.note_end(depth, end))
    }

    #[inline(always)]
    fn decode_and(wire: &'a [u8], note: impl FnMut(usize, usize)) -> Result<Self, DecodeError> {
        if wire.len() > PACKET_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        let mut reader = Reader::new(tlv::decode_only(wire, types::INTEREST)?);
        let name_tlv = reader.next_tlv()?.filter(|tlv| tlv.typ == types::NAME);
        let name_value = name_tlv.ok_or(DecodeError::Missing(types::NAME))?.value;
        let shape = NameShape::check(name_value, note)?;
        let mut interest = Interest {
            wire,
            name: NameRef::from_checked(name_value),
            name_offset: wire.len() - reader.rest().len() - name_value.len(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint_value: &[],
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            application_parameters: None,
            signature: None,
            parameter_elements: &[],
        };
        interest.decode_fields(&mut reader)?;
        if interest.nonce.is_none() && wire.len() > PACKET_BYTES_MAX - NONCE_ELEMENT_LEN {
            return Err(DecodeError::TooLarge);
        }
        let digests = usize::from(interest.application_parameters.is_some());
        if shape.components == 0 || shape.parameter_digests != digests {
            return Err(DecodeError::BadValue(types::NAME));
        }
        Ok(interest)
    }

    /// Decodes the elements after the name. Like ndn-cxx, it treats a known element that is
    /// repeated or out of order as an unknown one: an error if critical, otherwise skipped.
    #[inline(always)]
    fn decode_fields(&mut self, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
        let wire = self.wire;
        let mut info = None;
        // Position in the order that the specification gives.
        let mut stage = 0;
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                types::CAN_BE_PREFIX if stage < 1 => {
                    self.can_be_prefix = decode_flag(tlv)?;
                    stage = 1;
                }
                types::MUST_BE_FRESH if stage < 2 => {
                    self.must_be_fresh = decode_flag(tlv)?;
                    stage = 2;
                }
                types::FORWARDING_HINT if stage < 3 => {
                    check_forwarding_hint(tlv.value)?;
                    self.forwarding_hint_value = tlv.value;
                    stage = 3;
                }
                types::NONCE if stage < 4 => {
                    let bytes = tlv.value.try_into().map_err(|_| DecodeError::BadValue(types::NONCE))?;
                    self.nonce = Some(u32::from_be_bytes(bytes));
                    stage = 4;
                }
                types::INTEREST_LIFETIME if stage < 5 => {
                    self.lifetime_ms = Some(tlv::decode_nni(tlv.typ, tlv.value)?);
                    stage = 5;
                }
                types::HOP_LIMIT if stage < 6 => {
                    let [value] = *tlv.value else { return Err(DecodeError::BadValue(types::HOP_LIMIT)) };
                    self.hop_limit = Some(HopLimit { value, offset: wire.len() - reader.rest().len() - 1 });
                    stage = 6;
                }
                types::APPLICATION_PARAMETERS if stage < 7 => {
                    self.application_parameters = Some(tlv.value);
                    self.parameter_elements = &wire[wire.len() - reader.rest().len() - tlv.wire.len()..];
                    stage = 7;
                }
                types::INTEREST_SIGNATURE_INFO if stage == 7 => {
                    info = Some(SignatureInfo::decode(tlv.value)?);
                    stage = 8;
                }
                types::INTEREST_SIGNATURE_VALUE if stage == 8 => {
                    let after = reader.rest().len() + tlv.wire.len();
                    self.signature = signature_of(self.name, self.parameter_elements, info, tlv.value, after);
                    stage = 9;
                }
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The lifetime as sent, or the default.
    pub fn lifetime_or_default_ms(&self) -> u64 {
        self.lifetime_ms.unwrap_or(DEFAULT_LIFETIME_MS)
    }
    /// The delegations, most preferred first.
    pub fn forwarding_hint(&self) -> impl Iterator<Item = NameRef<'a>> + use<'a> {
        let mut reader = Reader::new(self.forwarding_hint_value);
        std::iter::from_fn(move || reader.next_tlv().ok().flatten())
            .filter(|tlv| tlv.typ == types::NAME)
            .map(|tlv| NameRef::from_checked(tlv.value))
    }
    /// Whether the name's ParametersSha256DigestComponent is the digest of the parameters.
    /// True when there are no parameters.
    pub fn parameters_digest_matches(&self) -> bool {
        if self.application_parameters.is_none() {
            return true;
        }
        let expected = digest::sha256(&[self.parameter_elements]);
        let is_digest = |c: &Component<'_>| c.typ == component_type::PARAMETERS_SHA256_DIGEST;
        self.name.components().find(is_digest).is_some_and(|component| component.value == expected)
    }
}

/// Bytes of a Nonce element.
const NONCE_ELEMENT_LEN: usize = 6;

/// Bytes of an encoded ParametersSha256DigestComponent.
const DIGEST_COMPONENT_LEN: usize = 34;

/// `after` is the number of bytes from the InterestSignatureValue element to the end of the packet.
fn signature_of<'a>(
    name: NameRef<'a>,
    parameter_elements: &'a [u8],
    info: Option<SignatureInfo<'a>>,
    value: &'a [u8],
    after: usize,
) -> Option<Signature<'a>> {
    if name.component(-1)?.typ != component_type::PARAMETERS_SHA256_DIGEST {
        return None;
    }
    let signed_name = &name.value()[..name.value().len() - DIGEST_COMPONENT_LEN];
    let signed_parameters = &parameter_elements[..parameter_elements.len() - after];
    Some(Signature { info: info?, value, signed: [signed_name, signed_parameters] })
}

fn decode_flag(tlv: tlv::Tlv<'_>) -> Result<bool, DecodeError> {
    if tlv.value.is_empty() { Ok(true) } else { Err(DecodeError::BadValue(tlv.typ)) }
}

#[cold]
fn check_forwarding_hint(value: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ == types::NAME {
            NameRef::new(tlv.value)?;
        } else if tlv::is_critical(tlv.typ) {
            return Err(DecodeError::UnexpectedCritical(tlv.typ));
        }
    }
    Ok(())
}

/// The lifetime of an Interest, or the default, read without decoding the rest. `None` if this is not
/// an Interest. The result does not tell whether the packet decodes.
pub fn peek_lifetime_ms(wire: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(tlv::decode_only(wire, types::INTEREST).ok()?);
    while let Ok(Some(tlv)) = reader.next_tlv() {
        match tlv.typ {
            types::INTEREST_LIFETIME => return tlv::decode_nni(tlv.typ, tlv.value).ok(),
            types::HOP_LIMIT | types::APPLICATION_PARAMETERS => break,
            _ => {}
        }
    }
    Some(DEFAULT_LIFETIME_MS)
}

/// Copies an Interest, with `nonce` at the place that the format prescribes. The copy decodes.
pub fn with_nonce(interest: &Interest<'_>, nonce: u32) -> Vec<u8> {
    let name_end = interest.name_offset + interest.name.value().len();
    let after_name = &interest.wire[name_end..];
    let mut reader = Reader::new(after_name);
    let mut before = after_name;
    // The packet was decoded before, so the reader cannot fail. If it did, the rest would stay as
    // it is.
    while let Ok(Some(tlv)) = reader.next_tlv() {
        match tlv.typ {
            types::CAN_BE_PREFIX | types::MUST_BE_FRESH | types::FORWARDING_HINT => before = reader.rest(),
            types::NONCE => {
                let mut wire = interest.wire.to_vec();
                let end = wire.len() - reader.rest().len();
                wire[end - 4..end].copy_from_slice(&nonce.to_be_bytes());
                return wire;
            }
            types::INTEREST_LIFETIME | types::HOP_LIMIT | types::APPLICATION_PARAMETERS => break,
            _ => {}
        }
    }
    let mut value = Vec::with_capacity(interest.wire.len() + NONCE_ELEMENT_LEN);
    tlv::push_tlv(&mut value, types::NAME, interest.name.value());
    value.extend_from_slice(&after_name[..after_name.len() - before.len()]);
    tlv::push_tlv(&mut value, types::NONCE, &nonce.to_be_bytes());
    value.extend_from_slice(before);
    let mut wire = Vec::with_capacity(value.len() + 4);
    tlv::push_tlv(&mut wire, types::INTEREST, &value);
    wire
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
        let Some(parameters) = &self.application_parameters else {
            return self.encode_with(self.name.value(), &[]);
        };
        let mut elements = Vec::with_capacity(parameters.len() + 4);
        tlv::push_tlv(&mut elements, types::APPLICATION_PARAMETERS, parameters);
        self.encode_with_digest(self.name_without_digest(), &elements)
    }
    /// Encodes the packet in the v0.3 signed Interest format. `sign` gets the bytes to sign in two
    /// pieces, to be read as one, and returns the signature value. ApplicationParameters are empty
    /// if none were set.
    pub fn encode_signed(&self, info: &SignatureInfo<'_>, sign: impl FnOnce(&[&[u8]]) -> Vec<u8>) -> Vec<u8> {
        let name = self.name_without_digest();
        let mut elements = Vec::new();
        let parameters = self.application_parameters.as_deref().unwrap_or_default();
        tlv::push_tlv(&mut elements, types::APPLICATION_PARAMETERS, parameters);
        info.push(&mut elements, types::INTEREST_SIGNATURE_INFO);
        let signature = sign(&[&name, &elements]);
        tlv::push_tlv(&mut elements, types::INTEREST_SIGNATURE_VALUE, &signature);
        self.encode_with_digest(name, &elements)
    }

    /// A digest in the name was computed over other parameters, so it is left out.
    fn name_without_digest(&self) -> Vec<u8> {
        let components = self.name.as_ref().components();
        let kept = components.filter(|c| c.typ != component_type::PARAMETERS_SHA256_DIGEST);
        let mut value = Vec::with_capacity(self.name.value().len() + DIGEST_COMPONENT_LEN);
        kept.for_each(|component| component.push(&mut value));
        value
    }

    fn encode_with_digest(&self, mut name: Vec<u8>, parameter_elements: &[u8]) -> Vec<u8> {
        let digest: Sha256Digest = digest::sha256(&[parameter_elements]);
        Component { typ: component_type::PARAMETERS_SHA256_DIGEST, value: &digest }.push(&mut name);
        self.encode_with(&name, parameter_elements)
    }

    fn encode_with(&self, name: &[u8], parameter_elements: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(name.len() + parameter_elements.len() + 64);
        tlv::push_tlv(&mut value, types::NAME, name);
        if self.can_be_prefix {
            tlv::push_tlv(&mut value, types::CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            tlv::push_tlv(&mut value, types::MUST_BE_FRESH, &[]);
        }
        if !self.forwarding_hint.is_empty() {
            tlv::push_nested(&mut value, types::FORWARDING_HINT, |out| {
                self.forwarding_hint.iter().for_each(|name| tlv::push_tlv(out, types::NAME, name.value()));
            });
        }
        tlv::push_tlv(&mut value, types::NONCE, &self.nonce.to_be_bytes());
        if let Some(ms) = self.lifetime_ms {
            tlv::push_nni(&mut value, types::INTEREST_LIFETIME, ms);
        }
        if let Some(hops) = self.hop_limit {
            tlv::push_tlv(&mut value, types::HOP_LIMIT, &[hops]);
        }
        value.extend_from_slice(parameter_elements);
        let mut wire = Vec::with_capacity(value.len() + 4);
        tlv::push_tlv(&mut wire, types::INTEREST, &value);
        wire
    }
}

#[cfg(test)]
mod tests;
