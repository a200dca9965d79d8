//! Which worker a packet is for, where each has a PIT and a content store of its own [So §2.4, §3.4].
//!
//! A name's *home* is the worker that the keyed digest of its first N components names, of the whole
//! name where it has fewer, and only of those before an implicit digest, which Data does not carry.
//! Interests and Nacks go home, so that all about one Interest meets in one place.
//!
//! Data must reach every Interest that it answers. One of its own name has the same home, and so has
//! one with CanBePrefix of N components or more. What is left are Interests with CanBePrefix and
//! shorter names, which Data cannot tell from its own: workers count them where the dispatcher can
//! see it (`prefixes`), by hashes of their names. Data under such a name goes to that name's home,
//! too, as a further copy. As long as there are none pending, which one load tells, Data goes to one
//! worker.
//!
//! Interests that leave carry a PIT token that says which worker sent them. Data and Nacks that bring
//! it back are not hashed here at all, but for Data while shorter names are pending. Tokens are
//! believed: a peer that sends another has its Data dropped as unsolicited, for a worker compares
//! names. A few octets drawn at start tell them from those of others on a shared link, and from those
//! of an earlier run.
//!
//! Differs from one worker: Data is cached where it was waited for. An Interest for its full name may
//! go upstream once more where a shorter one with CanBePrefix fetched it, and the other way round. A
//! downstream that waits for the same Data in two workers gets it twice. An Interest that comes in
//! one burst with Data that it did not ask for is not yet pending when that Data is dispatched.
//! Strategies measure, and the dead nonce list remembers, per worker.
//!
//! Interests for names that very many ask for may go elsewhere than home: see [`crate::hot`].
//!
//! Packets by tags and locators have no state that they could meet: they go to all workers in turn.
//! Cost: a name is hashed here once, to N components, and all its prefixes by its worker, which has
//! time for it where there are several. To hand these over would cost more: 18 octets a component
//! through the caches of both.

mod prefixes;
mod spread;
mod token;

use std::sync::Arc;

use byname_wire::name::{COMPONENTS_MAX, component_type};
use byname_wire::name_hash::{Digest, digest_name};
use byname_wire::{FaceId, NameHashKey, NameRef, NameView, PrefixHashes};

use crate::counters::{Drop, Drops};
use crate::hot::SharedStore;
use crate::pipeline::{Copies, Parsed, name_in, parse_unaddressed};
use crate::port::Received;
use prefixes::PendingPrefixes;
use spread::{Spread, Way};
use token::TokenMark;

pub(crate) use prefixes::ShortNames;
pub(crate) use token::TokenMaker;

/// Most workers of one dispatcher.
pub const WORKERS_MAX: usize = 64;

/// What worker `number` gets of something that so many workers share.
pub fn part_of(all: usize, number: usize, workers: usize) -> usize {
    all / workers + usize::from(number < all % workers)
}

/// A packet on its way to a worker: parsed, unless it is addressed by tags or locator.
#[derive(Debug)]
pub struct Parcel {
    pub(crate) received: Received,
    pub(crate) parsed: Option<Parsed>,
    /// Digest of the name of an Interest that was given to any worker.
    pub(crate) spread: Option<Digest>,
}

impl Parcel {
    /// Parses what a port received; `hashes` are written over.
    fn new(received: Received, hashes: &mut PrefixHashes) -> Result<Self, Drop> {
        let mut parsed = None;
        parse_unaddressed(&received, hashes, |found| parsed = Some(found))?;
        Ok(Parcel { received, parsed, spread: None })
    }

    /// Where it came in.
    pub fn face(&self) -> FaceId {
        self.received.face
    }

    /// Whether the same packet went to its home, and this one may be lost.
    pub fn is_further_copy(&self) -> bool {
        matches!(&self.parsed, Some(Parsed::Data(info)) if info.copies == Copies::Further)
    }
}

/// What a worker of several knows of the others, and nothing for one alone; see
/// [`crate::Worker::join`].
pub struct Shard(pub(crate) Option<Joined>);

pub(crate) struct Joined {
    pub short_names: ShortNames,
    pub tokens: TokenMaker,
    pub shared_store: Option<Arc<SharedStore>>,
}

/// Finds the worker of each packet.
pub struct Dispatcher {
    key: NameHashKey,
    workers: usize,
    /// Components that decide.
    components: usize,
    pending: Arc<PendingPrefixes>,
    mark: TokenMark,
    hashes: Box<PrefixHashes>,
    drops: Drops,
    /// Whose turn it is.
    next: usize,
    /// Where hot names are spread.
    spread: Option<Spread>,
}

impl Dispatcher {
    /// A dispatcher to `workers` workers by the first `components` components of names; 0: by all.
    /// `mark` tells its tokens from others'.
    ///
    /// # Panics
    /// If there are no workers, or more than [`WORKERS_MAX`].
    pub fn new(key: NameHashKey, workers: usize, components: usize, mark: u32) -> Self {
        assert!((1..=WORKERS_MAX).contains(&workers), "1 to {WORKERS_MAX} workers");
        Dispatcher {
            key,
            workers,
            components: if components == 0 { COMPONENTS_MAX } else { components },
            pending: Arc::default(),
            mark: TokenMark::new(mark),
            hashes: Box::default(),
            drops: Drops::default(),
            next: 0,
            spread: None,
        }
    }

    /// From now on, Interests for hot names go to any worker ([`crate::hot`]); of which names, the
    /// latest `window` Interests decide. To be called before workers join, and without effect where there
    /// is one.
    pub fn spread_hot_names(&mut self, window: u32) {
        self.spread = (self.workers > 1).then(|| Spread::new(self.workers, window));
    }

    /// Workers that it dispatches to.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What this worker is to join with.
    pub fn shard(&self, worker: usize) -> Shard {
        let several = self.workers > 1;
        Shard(several.then(|| Joined {
            short_names: ShortNames::new(Arc::clone(&self.pending), self.components),
            tokens: TokenMaker::new(self.mark, worker, self.components),
            shared_store: self.spread.as_ref().map(|spread| Arc::clone(spread.store())),
        }))
    }

    /// Parses a packet and hands it to `send` with the number of its worker; Data perhaps several
    /// times, to its home first.
    pub fn dispatch(&mut self, received: Received, mut send: impl FnMut(usize, Parcel)) {
        let mut parcel = match Parcel::new(received, &mut self.hashes) {
            Ok(parcel) => parcel,
            Err(reason) => return self.drops.count(reason),
        };
        let Parcel { received, parsed, spread } = &mut parcel;
        let Some(parsed) = parsed else {
            self.next = (self.next + 1) % self.workers;
            return self.give(self.next, parcel, &mut send);
        };
        let token = self.mark.read(&received.fields.pit_token).filter(|token| token.worker < self.workers);
        let name = name_in(&received.packet, parsed.name());
        match parsed {
            Parsed::Interest(info) => {
                let worker = match &mut self.spread {
                    None => self.home(name, None),
                    Some(hot) => {
                        let digest = digest_name(&self.key, name);
                        let way = hot.way(digest);
                        info.is_hot = matches!(way, Way::HomeHot);
                        *spread = matches!(way, Way::Any(_)).then_some(digest);
                        match way {
                            Way::Any(worker) => worker,
                            Way::Home | Way::HomeHot => self.home(name, Some(digest)),
                        }
                    }
                };
                self.give(worker, parcel, &mut send);
            }
            Parsed::Nack(_) => {
                let worker = token.map_or_else(|| self.home(name, None), |token| token.worker);
                self.give(worker, parcel, &mut send);
            }
            Parsed::Data(info) if !self.pending.is_empty() => {
                let (home, others) = self.homes(name);
                if others == 0 {
                    return self.give(home, parcel, &mut send);
                }
                info.copies = Copies::First;
                let copy = (received.face, received.fields.clone(), received.packet.clone());
                let mut further = *info;
                further.copies = Copies::Further;
                self.give(home, parcel, &mut send);
                let (face, fields, packet) = copy;
                for worker in (0..self.workers).filter(|worker| others & 1 << worker != 0) {
                    let received = Received { face, fields: fields.clone(), packet: packet.clone() };
                    let parcel = Parcel { received, parsed: Some(Parsed::Data(further)), spread: None };
                    self.give(worker, parcel, &mut send);
                }
            }
            Parsed::Data(_) => {
                // A token of a shorter name says nothing about where others wait.
                let worker = token.filter(|token| !token.is_short).map(|token| token.worker);
                let worker = worker.unwrap_or_else(|| self.home(name, None));
                self.give(worker, parcel, &mut send);
            }
        }
    }

    /// Hands an Interest that a worker could not answer to `send` with the number of its home.
    pub fn dispatch_home(&mut self, mut stray: Parcel, mut send: impl FnMut(usize, Parcel)) {
        stray.spread = None;
        let Some(Parsed::Interest(info)) = &mut stray.parsed else { return };
        info.is_hot = true;
        let home = self.home(name_in(&stray.received.packet, info.name), None);
        self.give(home, stray, &mut send);
    }

    fn give(&mut self, worker: usize, parcel: Parcel, send: &mut impl FnMut(usize, Parcel)) {
        if let Some(spread) = &mut self.spread {
            spread.gave(worker);
        }
        send(worker, parcel);
    }

    /// What it dropped: packets that it could not parse.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Of the name, whose digest may be known.
    fn home(&self, name: NameRef<'_>, whole: Option<Digest>) -> usize {
        if self.workers == 1 {
            return 0;
        }
        let deciding = name.prefix(deciding_depth(name, self.components));
        let known = whole.filter(|_| deciding.value().len() == name.value().len());
        self.worker_of(known.unwrap_or_else(|| digest_name(&self.key, deciding)).check)
    }

    /// Data's home, and the set of the others that it may be waited for at.
    fn homes(&mut self, name: NameRef<'_>) -> (usize, u64) {
        let names = std::slice::from_ref(&name);
        PrefixHashes::fill_burst_to(self.components, &self.key, names, std::slice::from_mut(&mut *self.hashes));
        let view = NameView::from_filled(name, &self.hashes);
        let deciding = deciding_depth(name, self.components);
        let home = self.worker_of(view.check(deciding));
        // All prefixes of N components and more, and all that are the whole name, are at home.
        let mut others = 0u64;
        for depth in (0..view.len().min(self.components)).filter(|&depth| self.pending.may_have(view.hash(depth))) {
            others |= 1 << self.worker_of(view.check(depth.min(deciding)));
        }
        (home, others & !(1 << home))
    }

    /// The digest's second half: the tables of PIT and CS take places and tags from the first.
    fn worker_of(&self, check: u64) -> usize {
        (((check >> 32) * self.workers as u64) >> 32) as usize
    }
}

/// How many components of a name decide where its home is.
fn deciding_depth(name: NameRef<'_>, components: usize) -> usize {
    let named = name.components().take_while(|component| component.typ != component_type::IMPLICIT_SHA256_DIGEST);
    named.take(components).count()
}
