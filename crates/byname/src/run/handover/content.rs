//! Data of the content stores: copied to the new process while the old one still forwards.
//!
//! The Data that is most valuable goes first, and the rest stays behind when the time is over. Data that comes to the old
//! process afterwards stays behind, too. An Interest for it goes upstream once more.

use std::time::{Duration, Instant};

use byname_face::ForwarderHandle;
use byname_face::io_loop::CachedCount;
use byname_forward::cached::CachedData;
use serde::{Deserialize, Serialize};

/// Longest time that content stores may take to pass. No command is answered meanwhile.
const TIME_MAX: Duration = Duration::from_secs(1);

/// A Data packet of a content store.
#[derive(Debug, Serialize, Deserialize)]
pub struct CachedRecord {
    /// The packet.
    #[serde(with = "serde_bytes")]
    data: Vec<u8>,
    /// Time for which it still satisfies MustBeFresh.
    fresh_us: u64,
    /// Uses that the replacement policy has counted.
    uses: u8,
}

impl CachedRecord {
    fn of(cached: &CachedData) -> Self {
        let fresh_us = u64::try_from(cached.fresh_for.as_micros()).unwrap_or(u64::MAX);
        CachedRecord { data: cached.bytes().to_vec(), fresh_us, uses: cached.uses }
    }
}

/// Gives `tell` up to `max` Data of the content stores. Takes at most half of the time until `until`.
///
/// # Errors
/// An error of `tell`.
pub fn copy<E>(
    handle: &ForwarderHandle,
    max: usize,
    until: Instant,
    mut tell: impl FnMut(Vec<CachedRecord>) -> Result<(), E>,
) -> Result<CachedCount, E> {
    let now = Instant::now();
    let until = now + TIME_MAX.min(until.saturating_duration_since(now) / 2);
    handle.copy_cached(max, until, |part| tell(part.iter().map(CachedRecord::of).collect()))
}

/// Most Data that this process wants: as much as its content stores admit.
pub fn wanted(handle: &ForwarderHandle) -> usize {
    let store = handle.cs_info();
    if store.admit { usize::try_from(store.packets_max).unwrap_or(usize::MAX) } else { 0 }
}

/// Puts Data into the content stores. The first are the most valuable ones. Returns how many are there afterwards.
pub fn restore(handle: &ForwarderHandle, records: Vec<CachedRecord>) -> usize {
    let cached = records.into_iter().rev().filter_map(|CachedRecord { data, fresh_us, uses }| {
        CachedData::of_bytes(&data, Duration::from_micros(fresh_us), uses)
    });
    handle.restore_cached(cached.collect())
}
