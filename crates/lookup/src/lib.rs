// Links that lead to source files in README.md lead to documentation on this page.
//! [`table`]: table
//! [`update`]: update
//! [`prefix`]: prefix
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bucket;
mod count;
mod entry;
pub mod file;
pub mod flat;
pub mod handle;
mod instructions;
pub mod locator;
pub mod memory;
pub mod oracle;
pub mod prefetch;
pub mod prefix;
pub mod publish;
mod sync;
pub mod table;
pub mod tagset;
#[cfg(all(test, not(loom)))]
mod temporary;
pub mod update;

pub use entry::EntryId;
pub use flat::FlatFib;
pub use handle::{Reader, Writer};
#[cfg(feature = "lab")]
pub use instructions::Instructions;
pub use memory::Pages;
pub use prefix::{PrefixFib, PrefixMatch};
pub use tagset::TagsetFib;
pub use update::{BuildError, Change, Control, Update};

/// The examples of the guide's page about tables, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/tables.md")]
mod guide {}
