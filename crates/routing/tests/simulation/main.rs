//! Networks of routers in virtual time.

mod changes;
mod checks;
mod large;
mod net;
mod trees;
