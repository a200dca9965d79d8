//! The pipelines of NFD's developer guide and those of TagNet, over the tables of a shard.
//!
//! Each file adds methods to [`Shard`](crate::shard::Shard). A packet meets them in this order:
//!
//! ```text
//! burst      a burst: packets are parsed, hashed, prefetched, and go to the pipeline of their type
//! follow     packets that somebody watches, one by one
//! interest   an Interest: content store, PIT, FIB, strategy, nexthops
//! nexthops   the nexthops that a pending Interest may be sent to
//! data       Data: its pending Interests, the content store
//! nack       a Nack: the strategy decides anew
//! wake       timers: the strategy decides anew, or the Interest expires
//! learning   routes that Data teaches, for `self-learning`
//! spread     Interests for hot names, which any worker may answer
//! addressed  packets that are addressed by tags or locators, without state
//! ```

mod addressed;
mod burst;
mod data;
mod follow;
mod interest;
mod learning;
mod nack;
mod nexthops;
mod spread;
mod wake;
