//! Addresses of applications.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Elements, types};
use crate::locator::{Label, Locator, TreeId};
use crate::tlv::{self, DecodeError};

/// The number of an application at its router. The router chooses it; others treat it as opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint(pub u64);

/// An application's locator [TagNet §2.1]: its router's locator and its number at that router.
///
/// The paper gives labels to hosts with one application each. Here all routers on the way use the
/// router's label, and only the last one reads the endpoint.
///
/// Written as `TREE:LABEL:ENDPOINT`, with the label's bytes in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The router.
    pub locator: Locator,
    /// The application.
    pub endpoint: Endpoint,
}

impl Address {
    /// Decodes the value of a Source or Destination element.
    ///
    /// # Errors
    /// If the value is not a TreeId, a Label and an Endpoint in this order.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut elements = Elements::new(value, value)?;
        let tree = decode_tree(elements.require(types::TREE)?.0)?;
        let label = Label::decode(types::LABEL, elements.require(types::LABEL)?.0)?;
        let endpoint = Endpoint(tlv::decode_nni(types::ENDPOINT, elements.require(types::ENDPOINT)?.0)?);
        elements.finish()?;
        Ok(Address { locator: Locator { tree, label }, endpoint })
    }

    /// Appends the element of type `typ` with this address.
    pub fn push(&self, out: &mut Vec<u8>, typ: u64) {
        tlv::push_nested(out, typ, |out| {
            tlv::push_nni(out, types::TREE, self.locator.tree.0.into());
            tlv::push_nested(out, types::LABEL, |out| self.locator.label.push(out));
            tlv::push_nni(out, types::ENDPOINT, self.endpoint.0);
        });
    }
}

pub(super) fn decode_tree(value: &[u8]) -> Result<TreeId, DecodeError> {
    let number = tlv::decode_nni(types::TREE, value)?;
    u32::try_from(number).map(TreeId).map_err(|_| DecodeError::BadValue(types::TREE))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.locator.tree.0, self.locator.label, self.endpoint.0)
    }
}

/// A text that is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an address is TREE:LABEL:ENDPOINT, the label in hexadecimal, as in 1:05:256")]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(AddressError);
        let tree = TreeId(next()?.parse().map_err(|_| AddressError)?);
        let label = next()?.parse().map_err(|_| AddressError)?;
        let endpoint = Endpoint(next()?.parse().map_err(|_| AddressError)?);
        if parts.next().is_some() {
            return Err(AddressError);
        }
        Ok(Address { locator: Locator { tree, label }, endpoint })
    }
}
