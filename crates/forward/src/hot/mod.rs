//! Heavy hitters: names that so many ask for that their workers would have more to do than others.
//!
//! A name has one home (`dispatch`), so that what is pending meets in one place; a few names that
//! everybody asks for make theirs the busiest. [Hasegawa, "Design Rational of Equal Load Balancing"]
//! lets any worker take Interests for highly popular objects: most find their Data in the content
//! store, which all share for these objects under optimistic locks, and never come to the PIT. That a
//! small store in front of a partitioned one balances it, whatever is asked for, is
//! [Hasegawa, reference 12]: some n log n entries for n parts. Here:
//!
//! - The dispatcher estimates how often each name was asked for lately ([`Sketch`]). Who has a certain
//!   part of all Interests is *hot*.
//! - An Interest for a hot name goes home with a mark. If the home's content store answers it, the
//!   home copies that Data to where all workers see it ([`SharedStore`]).
//! - As long as it is there, the dispatcher gives Interests for it to whichever worker it gave least
//!   to lately. That worker answers with a copy, and touches no table of its own.
//! - What it cannot answer after all (Data has left meanwhile, or is not fresh enough) it hands back,
//!   and the dispatcher sends it home: a *stray*.
//!
//! So every pending Interest is in its home's PIT, and nowhere else. None is lost: an Interest is
//! answered by the worker that it was given to, or arrives at its home, by rings that count what they
//! drop. None is doubled: only one of both happens, and what is answered is nowhere pending. What is
//! answered is what the home would have said: the shared store holds only Data that is in its home's
//! content store. Where that is replaced, evicted or erased there, it leaves here, and as one of so
//! many Interests for a hot name goes home all the same, the home knows that it is in use.
//!
//! Differs from [Hasegawa, "Algorithms of NIC and PIT"]: the slides share PIT entries under locks of
//! one word, as an Interest that the shared store does not answer stays where it came; here it goes on
//! to its home, PIT entries are one worker's as all others are, and the only word that two workers
//! contend for is the version of a place in the shared store. That costs a stray two more rings. Only
//! what is cached is spread: names that nobody may cache stay with their home, however popular. A
//! looping Interest for a hot name may be answered where its home would refuse it.
//!
//! An Interest costs the dispatcher a hash of its whole name and a cache line of the sketch more.

mod sketch;
mod store;

pub use sketch::Sketch;
pub use store::SharedStore;

/// Interests after which old ones count half: of so many the dispatcher speaks as "lately".
pub const WINDOW: u32 = 1 << 16;
/// Of what a worker would have if all had the same, the part that makes a name hot.
pub(crate) const PARTS: u32 = 32;
/// Of the Interests for a hot name, one in so many goes home, which keeps the Data in use there.
pub(crate) const HOME_EVERY: u32 = 16;
