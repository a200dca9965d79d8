//! Every flat engine answers as the oracle does for all names that it knows, whatever the changes.
//!
//! An engine joins all of these tests by its line in `engines.rs`.
#![cfg(not(loom))]

mod concurrent;
mod engines;
mod memory;
mod names;
mod network;
mod property;
mod replica;
mod skewed;
#[path = "../suite/mod.rs"]
mod suite;
