//! What differs between versions of ndn-dv.
//!
//! [`Main`] is what ndnd's branch `main` speaks. [`Dv2`] has the names and messages of the branch `dv2`: other names for
//! the group of prefixes and for management, additions without a cost, and routes to the names of routers. ndnd's `dv2`
//! also expects forwarders with a table of egress routers and with BIER, which lead Interests to a router first. Those are
//! not part of this crate: a network of byname routers can use the messages of `dv2`, and a mixed one cannot yet.

use byname_wire::tlv::{self, Reader, types};
use byname_wire::{DecodeError, Name, NameRef};

pub(crate) const COST: u64 = 208;

/// A version of the protocol.
pub trait Version: std::fmt::Debug + Send {
    /// Keyword below `/<network>/32=DV` under which prefixes are published.
    fn prefix_group(&self) -> &'static [u8];
    /// Components below `/localhost` of the management that applications and the forwarder use.
    fn managements(&self) -> &'static [&'static [u8]];
    /// Whether the names of routers are routes, so that an Interest reaches a router by its name as a forwarding hint.
    fn routes_to_routers(&self) -> bool;
    /// Appends what a PrefixOpAdd has after its name.
    fn push_addition(&self, cost: u64, out: &mut Vec<u8>);
    /// Reads a PrefixOpAdd: the prefix and its cost.
    ///
    /// # Errors
    /// A [`DecodeError`].
    fn read_addition(&self, value: &[u8]) -> Result<(Name, u64), DecodeError>;
}

/// The branch `main` of ndnd.
#[derive(Debug, Clone, Copy, Default)]
pub struct Main;

impl Version for Main {
    fn prefix_group(&self) -> &'static [u8] {
        b"PFS"
    }
    fn managements(&self) -> &'static [&'static [u8]] {
        &[b"nlsr"]
    }
    fn routes_to_routers(&self) -> bool {
        false
    }
    fn push_addition(&self, cost: u64, out: &mut Vec<u8>) {
        tlv::push_nni(out, COST, cost);
    }
    fn read_addition(&self, value: &[u8]) -> Result<(Name, u64), DecodeError> {
        let cost = find(value, COST)?.ok_or(DecodeError::Missing(COST))?;
        Ok((single_name(value)?, tlv::decode_nni(COST, cost)?))
    }
}

/// The branch `dv2` of ndnd, as of its commit a841cc27: a prefix has no cost. Whether it is for multicast, and until when it is
/// valid, is not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dv2;

impl Version for Dv2 {
    fn prefix_group(&self) -> &'static [u8] {
        b"PSD"
    }
    fn managements(&self) -> &'static [&'static [u8]] {
        // byname's forwarder and tools use the first name with both versions.
        &[b"nlsr", b"dv"]
    }
    fn routes_to_routers(&self) -> bool {
        true
    }
    fn push_addition(&self, _: u64, _: &mut Vec<u8>) {}
    fn read_addition(&self, value: &[u8]) -> Result<(Name, u64), DecodeError> {
        Ok((single_name(value)?, 0))
    }
}

/// The value of the first element of a type after the name.
fn find(value: &[u8], typ: u64) -> Result<Option<&[u8]>, DecodeError> {
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ != types::NAME && tlv.typ == typ {
            return Ok(Some(tlv.value));
        }
    }
    Ok(None)
}

/// A name and nothing else, or a name before other elements.
pub(crate) fn single_name(value: &[u8]) -> Result<Name, DecodeError> {
    first_name(value).map(|name| name.to_name())
}

/// The same, borrowed.
pub(crate) fn first_name(value: &[u8]) -> Result<NameRef<'_>, DecodeError> {
    let first = Reader::new(value).next_tlv()?.filter(|tlv| tlv.typ == types::NAME);
    NameRef::new(first.ok_or(DecodeError::Missing(types::NAME))?.value)
}
