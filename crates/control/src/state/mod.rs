//! State that survives the process.

pub mod records;
