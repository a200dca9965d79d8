//! Issues certificates [NDN Certificate Format v2].

use std::time::Duration;

use byname_wire::data::content_type;
use byname_wire::name::component_type;
use byname_wire::signature::KeyLocator;
use byname_wire::tlv::{push_nested, push_nni, push_tlv, types};
use byname_wire::{Component, Name};

use super::certificate::{NOT_AFTER, NOT_BEFORE, format_iso};
use super::{Signer, SignerError, rights};

/// FreshnessPeriod of certificates in ms, as in ndn-cxx.
const FRESHNESS_MS: u64 = 3_600_000;

/// What a certificate says beside the key.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The issuer's id, the last component but one of the certificate's name.
    pub issuer: Component<'a>,
    /// The version, in ms since the Unix epoch.
    pub version: u64,
    /// The first and the last moment of its validity, since the Unix epoch.
    pub valid: (Duration, Duration),
}

/// Issues a certificate for the key with this name and SubjectPublicKeyInfo. Returns the Data packet.
///
/// The KeyLocator is the name of `signer`.
///
/// # Errors
/// [`SignerError::Sign`].
pub fn issue(key_name: &Name, spki: &[u8], signer: &Signer, terms: Terms<'_>) -> Result<Vec<u8>, SignerError> {
    issue_bound(key_name, spki, signer, terms, None)
}

/// Issues a certificate as [`issue`] does. If there are prefixes, it binds them ([`rights`](crate::rights)): its owner may
/// announce these, and what is below them. An empty list permits nothing. A certificate that binds more than
/// [`PREFIXES_MAX`](crate::rights::PREFIXES_MAX) prefixes is not accepted by anybody.
///
/// # Errors
/// [`SignerError::Sign`].
pub fn issue_bound(
    key_name: &Name,
    spki: &[u8],
    signer: &Signer,
    terms: Terms<'_>,
    announces: Option<&[Name]>,
) -> Result<Vec<u8>, SignerError> {
    let name = key_name.join(terms.issuer).join_number(component_type::VERSION, terms.version);
    let mut signed = Vec::new();
    push_tlv(&mut signed, types::NAME, name.value());
    push_nested(&mut signed, types::META_INFO, |out| {
        push_nni(out, types::CONTENT_TYPE, content_type::KEY);
        push_nni(out, types::FRESHNESS_PERIOD, FRESHNESS_MS);
    });
    push_tlv(&mut signed, types::CONTENT, spki);
    let info = signer.info(None, None);
    push_nested(&mut signed, types::SIGNATURE_INFO, |out| {
        push_nni(out, types::SIGNATURE_TYPE, info.typ.number());
        if let Some(KeyLocator::Name(name)) = info.key_locator {
            push_nested(out, types::KEY_LOCATOR, |out| push_tlv(out, types::NAME, name.value()));
        }
        push_nested(out, types::VALIDITY_PERIOD, |out| {
            push_tlv(out, NOT_BEFORE, format_iso(terms.valid.0).as_bytes());
            push_tlv(out, NOT_AFTER, format_iso(terms.valid.1).as_bytes());
        });
        if let Some(prefixes) = announces {
            rights::encode(out, prefixes);
        }
    });
    let mut failure = None;
    let value = signer.sign(&[&signed], &mut failure);
    push_tlv(&mut signed, types::SIGNATURE_VALUE, &value);
    let mut packet = Vec::new();
    push_tlv(&mut packet, types::DATA, &signed);
    failure.map_or(Ok(packet), Err)
}
