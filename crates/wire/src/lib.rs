//! Packet formats, parsed in place: no I/O, no clock, and no unsafe code but for calls of what
//! only some processors have (`name_hash::processor`).
//!
//! Views ([`Interest`], [`Data`], [`LpPacket`], [`NameRef`]) borrow from the
//! packet buffer; nothing is copied to parse. Formats are those of the NDN
//! Packet Specification v0.3 and of NDNLPv2; labels of trees are those of [TagNet §3.3], and packets
//! that carry them, or tags, are in [`tagnet`].
#![deny(unsafe_code)]

pub mod data;
pub mod digest;
pub mod ids;
pub mod interest;
pub mod locator;
pub mod lp;
pub mod mac_address;
pub mod name;
pub mod name_hash;
pub mod signature;
pub mod tagnet;
pub mod tagset;
pub mod tlv;
pub mod uri;
pub mod url;

pub use data::Data;
pub use ids::FaceId;
pub use interest::Interest;
pub use locator::{Label, Locator, TreeId};
pub use lp::{LpPacket, NackReason, PitToken};
pub use mac_address::MacAddress;
pub use name::{Component, Name, NameRef};
pub use name_hash::{Digest, HashFunction, NameHashKey, NameView, PrefixHashes};
pub use tagset::{Descriptor, Filter, TagDigest};
pub use tlv::DecodeError;

/// The largest network-layer packet that byname forwards, in octets, as in ndn-cxx.
pub const PACKET_BYTES_MAX: usize = 8800;
