//! State that survives the process: faces, routes, strategy choices and settings of the content store.
//!
//! - [`records`]: what is kept, in a form that other processes and later versions understand.
//! - [`change`]: changes of the records.
//! - [`store`]: the files: an SQLite database, and a log in front of it (`log`, `merge`).
//! - [`writer`]: the thread that writes them, in groups.
//! - [`keeper`]: the control thread's side: changes and answers that wait.
//!
//! `mgmt::durable` decides which changes are kept, and takes the records over at the start.

pub mod change;
pub mod keeper;
mod log;
mod merge;
pub mod records;
pub mod store;
pub mod writer;

pub use change::Change;
pub use keeper::{Keeper, StoreStatus};
pub use store::{Opened, Store, StoreError};
