//! Name tables: from a key to an [`EntryId`]; and trees, on which packets go by [`locator`]. No packets,
//! no threads, no clock.
//!
//! Each engine has a control half, which accepts changes ([`Control`]), and a query half, which
//! workers read without locks [Concise §3.2].
#![deny(unsafe_code)]

mod bucket;
mod count;
pub mod entry;
pub mod flat;
mod instructions;
pub mod locator;
pub mod memory;
pub mod oracle;
pub mod prefetch;
pub mod prefix;
mod sync;
pub mod tagset;
pub mod update;

pub use entry::EntryId;
pub use flat::FlatFib;
pub use instructions::Instructions;
pub use memory::Pages;
pub use prefix::{PrefixFib, PrefixMatch};
pub use tagset::TagsetFib;
pub use update::{BuildError, Change, Control, Update};
