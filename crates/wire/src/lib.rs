// Links that lead to source files in README.md lead to documentation on this page.
//! [`name`]: name
//! [`interest`]: interest
//! [`data`]: data
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod data;
pub mod digest;
mod ids;
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

/// The largest network-layer packet that byname forwards, in bytes, as in ndn-cxx.
pub const PACKET_BYTES_MAX: usize = 8800;
