//! The messages and the service of `proto/gribi.proto`.
//!
//! The code is generated from that file, and committed, so that a build needs no compiler for it. A test generates it again and
//! compares (`tests/proto.rs`).

// What is generated has the comments of the .proto, which are no Rust documentation.
#![allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]

include!("generated.rs");
