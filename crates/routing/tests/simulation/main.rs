//! Networks of routers in virtual time.

mod changes;
mod checks;
mod flooding;
mod large;
mod net;
mod trees;
mod trust;
