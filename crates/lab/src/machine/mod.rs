//! The lab's machine: cores, pages, memory, and its own speed.

pub mod cores;
mod pages;
mod reads;
mod reservation;
pub mod resident;

pub use pages::PageSize;
pub use reads::{Reads, random_reads};
pub use reservation::{Reservation, ensure_fits, memory_free};
