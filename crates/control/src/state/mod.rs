//! State that survives the process.

pub mod records;
pub mod store;
pub mod writer;
