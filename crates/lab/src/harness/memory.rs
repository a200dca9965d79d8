//! Memory of an engine, measured while it is built and while it is dropped.

use anyhow::Context as _;

use crate::machine::{self, PageSize, Reads, Reservation, resident};
use crate::options::Measuring;

/// Share of the measuring time that is spent on the machine's own rate.
const MACHINE_SHARE: f64 = 0.2;

/// Memory of one engine, and the machine's rate of random reads from a table of that size.
pub struct Memory {
    /// Resident memory of the query half, in bytes. A small half is counted.
    pub query_bytes: u64,
    /// Resident memory of both halves, in bytes.
    pub both_bytes: u64,
    /// Memory of the query half as the engine counts it, in bytes.
    pub counted_bytes: usize,
    /// The machine's limit.
    pub machine: Reads,
}

impl Memory {
    /// Drops an engine half by half. Together, the halves held `both_bytes`.
    pub fn of_halves<S, Q>(
        both_bytes: u64,
        counted_bytes: usize,
        (subject, query): (S, Q),
        pages: Option<PageSize>,
        burst: usize,
        measuring: &Measuring,
    ) -> anyhow::Result<Self> {
        let query_bytes = resident::of_query_half(both_bytes, counted_bytes, || drop(subject), || drop(query))?;
        Memory::known(both_bytes, query_bytes, counted_bytes, pages, burst, measuring)
    }

    /// Describes an engine that was dropped, and whose query half held `query_bytes`.
    pub fn known(
        both_bytes: u64,
        query_bytes: u64,
        counted_bytes: usize,
        pages: Option<PageSize>,
        burst: usize,
        measuring: &Measuring,
    ) -> anyhow::Result<Self> {
        let duration = measuring.share(MACHINE_SHARE);
        let machine = machine::random_reads(counted_bytes, pages, burst, measuring.threads, duration)?;
        // A small query half is counted. The measured growth may be less, where the allocator had room already.
        Ok(Memory { query_bytes, both_bytes: both_bytes.max(query_bytes), counted_bytes, machine })
    }

    /// Resident memory of the control half, in bytes.
    pub fn control_bytes(&self) -> u64 {
        self.both_bytes - self.query_bytes
    }
}

/// Builds something. Returns it with the growth of this process's resident memory, in bytes.
pub fn growth<T>(build: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, u64)> {
    let before = resident::bytes()?;
    let built = build()?;
    Ok((built, resident::bytes()?.saturating_sub(before)))
}

/// Builds engines on reserved pages. `bytes` is the number asked for, or an estimate.
///
/// The reservation is trimmed to what the largest engine takes. Keep it until the machine's own rate was measured: that
/// table needs as many pages.
pub fn reserved<B>(
    pages: PageSize,
    (bytes, is_estimate): (u64, bool),
    build: impl FnOnce() -> anyhow::Result<Vec<B>>,
    memory_bytes: impl Fn(&B) -> usize,
) -> anyhow::Result<(Vec<B>, Option<Reservation>)> {
    let reservation = Reservation::take(pages, bytes, is_estimate)?;
    let built = build()?;
    if let Some(reservation) = &reservation {
        let largest = built.iter().map(memory_bytes).max().unwrap_or(0);
        reservation.trim(largest as u64).context("cannot give back pages")?;
    }
    Ok((built, reservation))
}
