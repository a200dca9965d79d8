//! Every tag-set engine answers as the oracle does, whatever the changes.
//!
//! An engine joins all of these tests by its line in `engines.rs`.
#![cfg(not(loom))]

mod concurrent;
mod engines;
mod limits;
mod names;
mod property;
#[path = "../suite/mod.rs"]
mod suite;
mod vocabulary;
