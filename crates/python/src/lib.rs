#![doc = include_str!("../README.md")]
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
    use super::client::groups::{Group, Message, Messages, Peers, Update};
    #[pymodule_export]
    use super::client::packets::{Data, Request};
    #[pymodule_export]
    use super::client::streams::{Parts, Producer, Publication};
    #[pymodule_export]
    use super::table::{FlatReader, FlatTable, PrefixTable, TagTable};
}
