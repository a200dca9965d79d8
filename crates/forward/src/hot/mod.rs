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
//! - While the Data is there, the worker of the thread that receives an Interest for it answers with its own copy, and
//!   touches none of its own tables. Only if that worker got clearly more packets lately than another, which threads
//!   tell each other, the other one gets the Interest. So few Interests for hot names cross to another thread.
//! - If the Data has left meanwhile, or is not fresh enough, the worker's thread sends this *stray* home.
//!
//! So, by default, every pending Interest is in its home's PIT, and nowhere else. No Interest is lost: either the worker that got it
//! answers, or it goes home through a ring that counts its drops. No Interest is doubled: only one of these happens,
//! and an answered one is not pending anywhere. The answer is the one that the home would give, because the shared
//! store holds only Data that is in its home's content store. When the home replaces, evicts or erases the Data, the
//! Data also leaves the shared store. From time to time an Interest for a hot name goes home anyway, so the home knows
//! that the Data is in use.
//!
//! In the slides, an Interest that the shared store does not answer stays where it came, and PIT entries are shared under
//! locks of one word [Hasegawa, "Algorithms of NIC and PIT"]. Here that is a setting, which is off by default:
//!
//! - The first Interest for a hot name goes home with a mark. While it is pending, its home opens a shared entry (`pit`),
//!   which has a lock of one word (`lock`).
//! - A thread that receives a further Interest for the name joins it to that entry, if the home would send nothing for
//!   it. Otherwise, or if another thread has the lock, the Interest goes home.
//! - Data, Nacks and the end of the Interest's life are the home's work, whichever thread received the packet. The home
//!   first closes the entry, and takes over what has joined. Limits and fair shares are those of its PIT.
//! - If another thread has the lock at that moment, the home handles the packet in its next round.
//!
//! Differs from the slides, also with this setting: a home opens entries, and a thread only joins. So the FIB, strategies
//! and limits work as for any other Interest. Entries are shared only where the strategy says how long it stays quiet
//! (`Strategy::quiet_until`): today, that is best-route. Interests with CanBePrefix, an implicit digest, a forwarding
//! hint or a chosen nexthop always go home. Without this setting, names that nobody may cache stay with their home,
//! however popular. A looping Interest for a hot name may be answered where its home would refuse it: other threads know
//! the nonces of the pending Interest, and not those of the home's dead nonce list.
//!
//! Cost: for each Interest, one hash of its whole name and one cache line of the sketch. For an Interest that joins, one
//! compare-and-swap on a cache line that other threads write, too.

mod lock;
mod pit;
mod sketch;
mod store;

use crate::settings::TableMemory;

pub(crate) use pit::{
    Asking, Busy, DOWNSTREAMS_MAX, Downstream, JOINED_MAX, Joined, Opened, Pending, PlaceId, SharedPit, Verdict,
    Waiting,
};
pub(crate) use sketch::Sketch;
pub(crate) use store::{SharedReader, SharedStore};

/// Number of Interests after which older ones count half: this defines "lately" for a thread.
pub const WINDOW: u32 = 1 << 16;
/// Minimum of hot names for each worker. Balance would need fewer.
const NAMES_PER_WORKER: u32 = 128;
/// Minimum of hot names. An Interest for a hot name crosses to no other thread, so more of them are worth the room of
/// their copies. Many more would be too rare for the sketch to tell them from others.
const NAMES_MIN: u32 = 2048;
/// An Interest for a hot name goes home if none has done so while its thread got a certain number of Interests: one for
/// so many places of the home's content store. Before the home has filled these places with other Data, it must know that
/// the Data is in use.
const PLACES_PER_INTEREST: usize = 2;
/// At most one in this many Interests for a hot name goes home, however small content stores are.
pub(crate) const HOME_EVERY: u32 = 16;

/// Number of hot names that this many workers have room for. A name is hot above that part of a thread's Interests.
pub(crate) fn names_max(workers: usize) -> u32 {
    (NAMES_PER_WORKER * workers as u32).max(NAMES_MIN)
}

/// Memory of the Data of hot names, with the copies that threads keep, for this many workers.
pub fn memory(workers: usize) -> TableMemory {
    SharedStore::memory(names_max(workers) as usize, workers)
}
