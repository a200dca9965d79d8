//! Heavy hitters: names so popular that their home would have more work than other workers.
//!
//! A name has one home (`dispatch`), so that its pending Interests meet in one place. A few very popular names make
//! their homes the busiest workers. [Hasegawa, "Design Rational of Equal Load Balancing"] lets any worker take
//! Interests for highly popular objects. Most of them find their Data in the content store, which all workers share for
//! these objects under optimistic locks, and never reach the PIT. A small store in front of a partitioned one balances
//! it, whatever is requested [Hasegawa, reference 12]: some n log n entries are enough for n parts. Here:
//!
//! - Each thread estimates how often each name was requested from it lately (`sketch`). A name with a certain part of
//!   its Interests is *hot*.
//! - An Interest for a hot name goes home with a mark. If the home's content store answers it, the home copies that
//!   Data into a store that all workers see (`store`).
//! - While the Data is there, a thread gives Interests for it to the worker that got the fewest packets from it lately.
//!   That worker answers with a copy and touches none of its own tables.
//! - If the Data has left meanwhile, or is not fresh enough, the worker's thread sends this *stray* home.
//!
//! So every pending Interest is in its home's PIT, and nowhere else. No Interest is lost: either the worker that got it
//! answers, or it goes home through a ring that counts its drops. No Interest is doubled: only one of these happens,
//! and an answered one is not pending anywhere. The answer is the one that the home would give, because the shared
//! store holds only Data that is in its home's content store. When the home replaces, evicts or erases the Data, the
//! Data also leaves the shared store. One in `HOME_EVERY` Interests for a hot name goes home anyway, so the home
//! knows that the Data is in use.
//!
//! Differs from [Hasegawa, "Algorithms of NIC and PIT"]: in the slides, an Interest that the shared store does not
//! answer stays where it came, and PIT entries are shared under locks of one word. Here such an Interest goes to its
//! home, and each PIT entry belongs to one worker. Two workers contend only for the version of a place in the shared
//! store. Only cached Data is spread: names that nobody may cache stay with
//! their home, however popular. A looping Interest for a hot name may be answered where its home would refuse it.
//!
//! Cost: for each Interest, one hash of its whole name and one cache line of the sketch.

mod lock;
mod pit;
mod sketch;
mod store;

pub(crate) use pit::{
    Asking, Busy, DOWNSTREAMS_MAX, Downstream, JOINED_MAX, Joined, Opened, Pending, PlaceId, SharedPit, Verdict, Waiting,
};
pub(crate) use sketch::Sketch;
pub(crate) use store::SharedStore;

/// Number of Interests after which older ones count half: this defines "lately" for a thread.
pub const WINDOW: u32 = 1 << 16;
/// A name is hot above 1/PARTS of a worker's fair share of the load.
pub(crate) const PARTS: u32 = 32;
/// One in this many Interests for a hot name goes home, so that the home keeps its Data.
pub(crate) const HOME_EVERY: u32 = 16;
