//! The Rust half of the Python package `byname`: tables of `byname-lookup`, and the client of `byname-client`.
//!
//! The Python half (`python/byname`) has the exceptions and the classes that applications use with asyncio. The crate's
//! README is the front page of both.
//!
//! - [`keys`] and [`numbers`] copy arguments out of Python's objects while the interpreter is held. So a call that
//!   works on them without it shares no memory with programs that change an array meanwhile.
//! - `table` looks up without the interpreter. A lookup borrows a reader of the table, so any number of threads look
//!   up while one writes ([`readers`]).
//! - `client` runs the tasks of clients on one thread, and hands their results to asyncio ([`client::bridge`]).
#![forbid(unsafe_code)]

mod client;
mod errors;
mod keys;
mod numbers;
mod readers;
mod table;

use pyo3::prelude::*;

/// The module `byname._byname`.
#[pymodule]
mod _byname {
    #[pymodule_export]
    use super::client::Connection;
    #[pymodule_export]
    use super::client::bridge::shut_down;
    #[pymodule_export]
    use super::client::packets::{Data, Request};
    #[pymodule_export]
    use super::client::streams::{Parts, Producer, Publication};
    #[pymodule_export]
    use super::table::{FlatReader, FlatTable, PrefixTable, TagTable};
}
