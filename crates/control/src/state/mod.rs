//! State that survives the process: faces, routes, strategy choices and settings of the content store.
//!
//! - [`records`]: what is kept, in a form that other processes and later versions understand.
//! - [`store`]: the file, an SQLite database.
//! - [`writer`]: the thread that writes it, in grouped commits.
//! - [`keeper`]: the control thread's side: changes and answers that wait.
//!
//! `mgmt::durable` decides which changes are kept, and takes the records over at the start.

pub mod keeper;
pub mod records;
pub mod store;
pub mod writer;

pub use keeper::{Keeper, StoreStatus};
pub use store::{Opened, Store, StoreError};
