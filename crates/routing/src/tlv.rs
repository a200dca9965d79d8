//! Messages of ndn-dv [SPEC.md §3], of State Vector Sync v3, and hellos.
//!
//! Decoders keep nothing but what they return, and stop at the bound that their caller gives. Elements that are unknown
//! are skipped if they are not critical, as ndnd does it.

use byname_wire::tlv::{self, Reader, Tlv, types};
use byname_wire::{DecodeError, Name, NameRef};

use crate::version::{COST, Version, first_name, single_name};

const ADV_ENTRY: u64 = 202;
const DESTINATION: u64 = 204;
const NEXT_HOP: u64 = 206;
const OTHER_COST: u64 = 210;
const PREFIX_OP_RESET: u64 = 302;
const PREFIX_OP_ADD: u64 = 304;
const PREFIX_OP_REMOVE: u64 = 306;
const STATE_VECTOR: u64 = 201;
const STATE_VECTOR_ENTRY: u64 = 202;
const SEQ_NO_ENTRY: u64 = 210;
const BOOTSTRAP_TIME: u64 = 212;
const SEQ_NO: u64 = 214;

fn unknown(tlv: &Tlv<'_>) -> Result<(), DecodeError> {
    if tlv::is_critical(tlv.typ) { Err(DecodeError::UnexpectedCritical(tlv.typ)) } else { Ok(()) }
}

fn push_name(out: &mut Vec<u8>, typ: u64, name: NameRef<'_>) {
    tlv::push_nested(out, typ, |out| tlv::push_tlv(out, types::NAME, name.value()));
}

/// A router that a neighbour reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvEntry<'a> {
    /// The router.
    pub destination: NameRef<'a>,
    /// The neighbour's nexthop to it.
    pub next_hop: NameRef<'a>,
    /// The cost through that nexthop.
    pub cost: u64,
    /// The cost through the second-best nexthop.
    pub other_cost: u64,
}

/// Encodes the content of an advertisement.
pub fn encode_advertisement<'a>(entries: impl IntoIterator<Item = (NameRef<'a>, NameRef<'a>, u64, u64)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (destination, next_hop, cost, other_cost) in entries {
        tlv::push_nested(&mut out, ADV_ENTRY, |out| {
            push_name(out, DESTINATION, destination);
            push_name(out, NEXT_HOP, next_hop);
            tlv::push_nni(out, COST, cost);
            tlv::push_nni(out, OTHER_COST, other_cost);
        });
    }
    out
}

/// Decodes the content of an advertisement of at most `max` entries.
///
/// # Errors
/// A [`DecodeError`]; [`DecodeError::TooLarge`] for more entries.
pub fn decode_advertisement(content: &[u8], max: usize) -> Result<Vec<AdvEntry<'_>>, DecodeError> {
    let mut reader = Reader::new(content);
    let mut entries = Vec::new();
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ != ADV_ENTRY {
            unknown(&tlv)?;
            continue;
        }
        if entries.len() == max {
            return Err(DecodeError::TooLarge);
        }
        entries.push(AdvEntry::decode(tlv.value)?);
    }
    Ok(entries)
}

impl<'a> AdvEntry<'a> {
    fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let (mut destination, mut next_hop, mut cost, mut other) = (None, None, None, None);
        let mut reader = Reader::new(value);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                DESTINATION => destination = Some(first_name(tlv.value)?),
                NEXT_HOP => next_hop = Some(first_name(tlv.value)?),
                COST => cost = Some(tlv::decode_nni(COST, tlv.value)?),
                OTHER_COST => other = Some(tlv::decode_nni(OTHER_COST, tlv.value)?),
                _ => unknown(&tlv)?,
            }
        }
        Ok(AdvEntry {
            destination: destination.ok_or(DecodeError::Missing(DESTINATION))?,
            next_hop: next_hop.ok_or(DecodeError::Missing(NEXT_HOP))?,
            cost: cost.ok_or(DecodeError::Missing(COST))?,
            other_cost: other.ok_or(DecodeError::Missing(OTHER_COST))?,
        })
    }
}

/// A change of a router's prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrefixOp {
    /// The router announces nothing.
    Reset,
    /// The router announces this prefix, at this cost.
    Add(Name, u64),
    /// The router announces this prefix no more.
    Remove(Name),
}

/// Encodes the content of a publication or snapshot: PrefixOpReset, additions and removals, which must be for different
/// prefixes.
pub fn encode_prefix_ops<'a>(
    version: &dyn Version,
    router: NameRef<'_>,
    reset: bool,
    additions: impl IntoIterator<Item = (NameRef<'a>, u64)>,
    removals: impl IntoIterator<Item = NameRef<'a>>,
) -> Vec<u8> {
    let mut out = Vec::new();
    push_name(&mut out, DESTINATION, router);
    if reset {
        tlv::push_tlv(&mut out, PREFIX_OP_RESET, &[]);
    }
    for (prefix, cost) in additions {
        tlv::push_nested(&mut out, PREFIX_OP_ADD, |out| {
            tlv::push_tlv(out, types::NAME, prefix.value());
            version.push_addition(cost, out);
        });
    }
    for prefix in removals {
        push_name(&mut out, PREFIX_OP_REMOVE, prefix);
    }
    out
}

/// Decodes the content of a publication or snapshot: the router that it is about, and calls `take` with each change, in
/// order. It also calls `take` with the changes before an error: collect them, and use them if there is none.
///
/// # Errors
/// A [`DecodeError`].
pub fn decode_prefix_ops(
    version: &dyn Version,
    content: &[u8],
    mut take: impl FnMut(PrefixOp),
) -> Result<Name, DecodeError> {
    let mut reader = Reader::new(content);
    let mut router = None;
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            DESTINATION if router.is_none() => router = Some(single_name(tlv.value)?),
            _ if router.is_none() => break,
            PREFIX_OP_RESET => take(PrefixOp::Reset),
            PREFIX_OP_ADD => {
                let (prefix, cost) = version.read_addition(tlv.value)?;
                take(PrefixOp::Add(prefix, cost));
            }
            PREFIX_OP_REMOVE => take(PrefixOp::Remove(single_name(tlv.value)?)),
            // ndnd skips unknown elements here, even critical ones.
            _ => {}
        }
    }
    router.ok_or(DecodeError::Missing(DESTINATION))
}

/// One start of a router in a state vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqNoEntry {
    /// When the router started, in seconds since the Unix epoch.
    pub boot: u64,
    /// Its last sequence number.
    pub seq: u64,
}

/// Encodes the content of sync Data: a state vector of entries that [`push_state_entry`] has written.
pub fn encode_state_vector(entries: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() + 4);
    tlv::push_tlv(&mut out, STATE_VECTOR, entries);
    out
}

/// Appends an entry of a state vector.
pub fn push_state_entry(out: &mut Vec<u8>, name: NameRef<'_>, starts: impl IntoIterator<Item = SeqNoEntry>) {
    tlv::push_nested(out, STATE_VECTOR_ENTRY, |out| {
        tlv::push_tlv(out, types::NAME, name.value());
        for SeqNoEntry { boot, seq } in starts {
            tlv::push_nested(out, SEQ_NO_ENTRY, |out| {
                tlv::push_nni(out, BOOTSTRAP_TIME, boot);
                tlv::push_nni(out, SEQ_NO, seq);
            });
        }
    });
}

/// Decodes the content of sync Data: each start of each router. The content's size bounds the result: it fits into a
/// packet. A router without starts says nothing, and is left out.
///
/// # Errors
/// A [`DecodeError`].
pub fn decode_state_vector(content: &[u8]) -> Result<Vec<(NameRef<'_>, SeqNoEntry)>, DecodeError> {
    let mut reader = Reader::new(content);
    let mut vector = None;
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            STATE_VECTOR if vector.is_none() => vector = Some(tlv.value),
            _ => unknown(&tlv)?,
        }
    }
    let mut reader = Reader::new(vector.ok_or(DecodeError::Missing(STATE_VECTOR))?);
    let mut entries = Vec::new();
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            STATE_VECTOR_ENTRY => read_state_entry(tlv.value, &mut entries)?,
            _ => unknown(&tlv)?,
        }
    }
    Ok(entries)
}

fn read_state_entry<'a>(value: &'a [u8], out: &mut Vec<(NameRef<'a>, SeqNoEntry)>) -> Result<(), DecodeError> {
    let name = first_name(value)?;
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            types::NAME => {}
            SEQ_NO_ENTRY => {
                let boot = nni(tlv.value, BOOTSTRAP_TIME)?.ok_or(DecodeError::Missing(BOOTSTRAP_TIME))?;
                let seq = nni(tlv.value, SEQ_NO)?.ok_or(DecodeError::Missing(SEQ_NO))?;
                out.push((name, SeqNoEntry { boot, seq }));
            }
            _ => unknown(&tlv)?,
        }
    }
    Ok(())
}

/// The number in the first element of a type.
fn nni(value: &[u8], typ: u64) -> Result<Option<u64>, DecodeError> {
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.typ == typ {
            return tlv::decode_nni(typ, tlv.value).map(Some);
        }
    }
    Ok(None)
}

/// Content of metadata (RDR): which version of an object is the last.
pub fn encode_metadata(versioned: NameRef<'_>, last_segment: u64) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_tlv(&mut out, types::NAME, versioned.value());
    tlv::push_nested(&mut out, types::FINAL_BLOCK_ID, |out| {
        tlv::push_nni(out, u64::from(byname_wire::name::component_type::SEGMENT), last_segment);
    });
    out
}

/// Decodes metadata: the name of the last version.
///
/// # Errors
/// A [`DecodeError`].
pub fn decode_metadata(content: &[u8]) -> Result<Name, DecodeError> {
    single_name(content)
}

/// Encodes the status dataset that `ndnd dv status` asks for.
pub fn encode_status(
    version: &str,
    network: NameRef<'_>,
    router: NameRef<'_>,
    [rib_entries, neighbours, fib_entries]: [u64; 3],
) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::push_tlv(&mut out, 401, version.as_bytes());
    push_name(&mut out, 403, network);
    push_name(&mut out, 405, router);
    tlv::push_nni(&mut out, 407, rib_entries);
    tlv::push_nni(&mut out, 409, neighbours);
    tlv::push_nni(&mut out, 411, fib_entries);
    out
}

#[cfg(test)]
mod tests;
