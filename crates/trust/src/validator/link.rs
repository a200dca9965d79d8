//! One link of a chain: a signature, and the certificate of the key that made it.

use byname_wire::signature::{KeyLocator, Signature, SignatureType};
use byname_wire::{Data, Name, NameRef};

use super::{Rejection, has_key};
use crate::Certificate;

/// A signature to check.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The name by which the rules judge the packet.
    pub name: NameRef<'a>,
    /// Whether the rule `hierarchical` judges the name. If not, the caller limits what the signer may do: the names of
    /// commands are not below the identities of their signers.
    pub is_below_signer: bool,
    /// The type of the signature.
    pub typ: SignatureType,
    /// The key.
    pub key_locator: Option<KeyLocator<'a>>,
    /// The signed bytes, in pieces.
    pub signed: [&'a [u8]; 2],
    /// The signature.
    pub value: &'a [u8],
}

impl<'a> Signed<'a> {
    /// The signature of a Data packet.
    pub fn data(data: &Data<'a>) -> Self {
        let Signature { info, value, signed } = data.signature;
        Signed { name: data.name, is_below_signer: true, typ: info.typ, key_locator: info.key_locator, signed, value }
    }
}

/// A copy of a signature.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub name: Name,
    pub is_below_signer: bool,
    pub typ: SignatureType,
    /// Name of the key. Empty: the key is named by a digest.
    pub locator: Name,
    digest: Option<Vec<u8>>,
    signed: Vec<u8>,
    value: Vec<u8>,
}

impl Link {
    pub(super) fn copy(of: &Signed<'_>) -> Result<Self, Rejection> {
        if !has_key(of.typ) {
            return Err(Rejection::Keyless(of.typ.number()));
        }
        let (locator, digest) = match of.key_locator {
            Some(KeyLocator::Name(name)) if !name.is_empty() => (name.to_name(), None),
            Some(KeyLocator::Digest(digest)) => (Name::default(), Some(digest.to_vec())),
            _ => return Err(Rejection::NoLocator),
        };
        Ok(Link {
            name: of.name.to_name(),
            is_below_signer: of.is_below_signer,
            typ: of.typ,
            locator,
            digest,
            signed: of.signed.concat(),
            value: of.value.to_vec(),
        })
    }

    /// Whether the key's name is known, so that its certificate can be fetched.
    pub(super) fn is_named(&self) -> bool {
        self.digest.is_none()
    }

    /// Whether this anchor may have made the signature, by what the signature says.
    pub(super) fn names(&self, anchor: &Certificate) -> bool {
        match &self.digest {
            Some(digest) => anchor.is_located_by(KeyLocator::Digest(digest)),
            None => anchor.is_located_by(KeyLocator::Name(self.locator.as_ref())),
        }
    }

    pub(super) fn is_signed_by(&self, certificate: &Certificate) -> bool {
        certificate.key.verifies(self.typ, &[&self.signed], &self.value)
    }
}
