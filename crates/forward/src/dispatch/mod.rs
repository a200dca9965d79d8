//! Finds the worker of each packet. Each forwarding thread has one worker, with its own PIT and content store
//! [So §2.4, §3.4].
//!
//! A name's *home* is one worker. The name's first N components decide on it. A shorter name counts whole. An implicit
//! digest component never counts, because Data does not carry it. Interests and Nacks go home, so that all packets about
//! one Interest meet in one place. The home is the worker that was first asked for a name with these components, as long
//! as it has entries for such names (`homes`). Or, if [`Dispatcher::claim_names`] was not called, a keyed digest of these
//! components selects it (`rule`).
//!
//! Data must reach every Interest that it answers. An Interest for its own name has the same home. An Interest with
//! CanBePrefix and at least N components has the same home, too. Only Interests with CanBePrefix and shorter names may
//! have other homes. Workers count these by name hash where all dispatchers can see the counts (`prefixes`). Data under
//! such a name also goes to that name's home, as a further copy. While none is pending, which one load shows, Data goes
//! to one worker only.
//!
//! Interests that leave carry a PIT token that says which worker sent them. Data and Nacks that return the token are
//! not hashed here, except Data while shorter names are pending. Tokens are trusted: if a peer sends a wrong one, its
//! Data is dropped as unsolicited, because a worker compares names. Tokens contain a few random bytes drawn at start.
//! These distinguish them from tokens of others on a shared link, and from those of an earlier run.
//!
//! Differs from one worker: Data is cached only where an Interest waited for it. So if a shorter Interest with
//! CanBePrefix has fetched Data, an Interest for its full name may go upstream again, and the other way round. A
//! downstream that waits for the same Data in two workers gets it twice. An Interest that arrives in the same burst as
//! the Data may not be pending yet when that Data is dispatched. Strategies measure per worker, and each worker has its
//! own dead nonce list.
//!
//! Interests for very popular names may go to other workers than their home: see [`crate::hot`].
//!
//! A worker that got clearly more packets lately than another claims no names. Then a keyed digest selects their homes,
//! so that what one thread receives alone is the work of all.
//!
//! The dispatchers keep the key that the router started with. A worker may get another key
//! (`NewTables` of the worker). Then a name that decides on a home is hashed once more, under the dispatchers' key.
//!
//! Packets by tags and locators meet no state, so they stay on the thread that received them.
//!
//! Differs from [So §2.4, §3.4] and [Yuan §3.4], where a thread of its own dispatches: here each thread has a
//! [`Dispatcher`], and hands a packet to its own worker or to another thread. A dispatching thread would cost a core and
//! two crossings for every packet. The names of a burst are hashed together, for their homes and for the tables of this
//! thread. Cost: another worker hashes the names that it is given once more. Handing all hashes over would cost 18 bytes
//! per component through the caches of both. Only Data whose name selects its home takes the hash of the whole name along.
//! If no entry there has this hash, nobody waits for the Data, and it is dropped at once.

mod homes;
mod loads;
mod prefixes;
mod rule;
mod spread;
mod token;

use std::sync::Arc;

use byname_lookup::memory::Refused;
use byname_wire::name::COMPONENTS_MAX;
use byname_wire::name_hash::{DepthSet, Digest};
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};

use crate::counters::Drops;
use crate::crossing::{Handed, Parcel};
use crate::hot::{SharedPit, SharedStore};
use crate::packet::{Copies, DataInfo, LOCALHOST, Parsed, name_in, parse_unaddressed};
use crate::port::Received;
use homes::Homes;
use loads::Loads;
use prefixes::PendingPrefixes;
use spread::{Spread, Way};
use token::{TokenMark, WorkerToken};

pub use homes::claims_bytes;
pub(crate) use homes::{Held, Home, Place, Residence};
pub(crate) use prefixes::ShortNames;
pub(crate) use rule::Rule;
pub(crate) use token::TokenMaker;

/// Maximum of workers of one dispatcher.
pub const WORKERS_MAX: usize = 64;

/// The part of worker `number` in something that `workers` workers share.
pub fn part_of(all: usize, number: usize, workers: usize) -> usize {
    all / workers + usize::from(number < all % workers)
}

/// The way of a parsed packet that a thread has received.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sorted {
    /// It is for the worker here.
    Here,
    /// Its name decides: see [`Dispatcher::sort_by_name`].
    ByName,
    /// It was given to another worker.
    Gone,
}

/// The worker of a packet, by its name.
pub(crate) struct Decided {
    pub worker: usize,
    /// For an Interest that any worker may answer: the digest of its name.
    pub spread: Option<Digest>,
    /// For an Interest whose name is to be claimed: its check. The worker is not known yet.
    pub claim: Option<u64>,
    /// See [`Handed::hash`].
    pub hash: Option<u64>,
}

impl Decided {
    /// This worker, and no more.
    fn at(worker: usize) -> Self {
        Decided { worker, spread: None, claim: None, hash: None }
    }
}

/// The things that one of several workers shares with the others; nothing for a worker that is alone. See
/// [`crate::Worker::join`].
pub struct Membership(pub(crate) Option<Joined>);

pub(crate) struct Joined {
    pub short_names: ShortNames,
    pub residence: Option<Residence>,
    pub tokens: TokenMaker,
    pub shared_store: Option<Arc<SharedStore>>,
    pub shared_pit: Option<Arc<SharedPit>>,
}

/// Finds the worker of each packet that one thread receives.
pub struct Dispatcher {
    /// The homes of names that no worker has claimed.
    rule: Rule,
    /// Number of this thread and of its worker.
    here: usize,
    /// The names that workers have claimed, if they do so.
    residence: Option<Residence>,
    loads: Loads,
    pending: Arc<PendingPrefixes>,
    mark: TokenMark,
    hashes: Box<PrefixHashes>,
    drops: Drops,
    /// Packets that stayed on this thread.
    stayed: u64,
    /// Spreads hot names, if that is enabled.
    spread: Option<Spread>,
}

impl Dispatcher {
    /// The dispatcher of the first of `workers` threads, by the first `components` components of names; 0 means all
    /// components. `mark` distinguishes its tokens from those of others.
    ///
    /// # Panics
    /// If there are no workers, or more than [`WORKERS_MAX`].
    pub fn new(key: NameHashKey, workers: usize, components: usize, mark: u32) -> Self {
        assert!((1..=WORKERS_MAX).contains(&workers), "1 to {WORKERS_MAX} workers");
        let components = if components == 0 { COMPONENTS_MAX } else { components };
        Dispatcher {
            rule: Rule::new(key, workers, components),
            here: 0,
            residence: None,
            loads: Loads::new(workers),
            pending: Arc::default(),
            mark: TokenMark::new(mark),
            hashes: Box::default(),
            drops: Drops::default(),
            stayed: 0,
            spread: None,
        }
    }

    /// The dispatcher of another thread, to the same workers.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn of_thread(&self, number: usize) -> Self {
        assert!(number < self.workers(), "thread {number} of {}", self.workers());
        Dispatcher {
            rule: self.rule,
            here: number,
            residence: self.residence.as_ref().map(|residence| residence.of_another(number)),
            loads: self.loads.of_another_thread(number),
            pending: Arc::clone(&self.pending),
            mark: self.mark,
            hashes: Box::default(),
            drops: Drops::default(),
            stayed: 0,
            spread: self.spread.as_ref().map(Spread::of_another_thread),
        }
    }

    /// From now on, a worker that is asked for a name becomes its home, if no other worker has entries for it. There is
    /// room for `entries` entries of all workers together. Must be called before workers join, and before
    /// [`Dispatcher::of_thread`]. Has no effect if there is only one worker.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn claim_names(&mut self, entries: usize) -> Result<(), Refused> {
        if self.workers() > 1 {
            self.residence = Some(Residence::new(Arc::new(Homes::new(entries)?), self.rule, self.here));
        }
        Ok(())
    }

    /// From now on, any worker may answer Interests for hot names ([`crate::hot`]). The latest `window` Interests of a
    /// thread decide which names are hot. Must be called before workers join, and before [`Dispatcher::of_thread`]. Has
    /// no effect if there is only one worker.
    pub fn spread_hot_names(&mut self, window: u32) {
        self.spread = (self.workers() > 1).then(|| Spread::new(self.workers(), window));
    }

    /// From now on, any worker may also join Interests for hot names to those that are pending. Must be called after
    /// [`Dispatcher::spread_hot_names`], without which it has no effect, and before workers join.
    pub fn share_pit_of_hot_names(&mut self) {
        if let Some(spread) = &mut self.spread {
            spread.share_pit();
        }
    }

    /// The first bytes of all tokens that workers make. The last byte is the number of the worker, of six in all.
    pub(crate) fn token_mark(&self) -> [u8; 4] {
        self.mark.bytes()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.rule.workers()
    }

    /// The rule that says at which depth names must be hashed.
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Number of this thread, and of its worker.
    pub(crate) fn here(&self) -> usize {
        self.here
    }

    /// The membership that a worker must join with.
    pub fn membership(&self, worker: usize) -> Membership {
        let several = self.workers() > 1;
        let components = self.rule.components();
        Membership(several.then(|| Joined {
            short_names: ShortNames::new(Arc::clone(&self.pending), components, *self.rule.key()),
            residence: self.residence.as_ref().map(|residence| residence.of_another(worker)),
            tokens: TokenMaker::new(self.mark, worker, components),
            shared_store: self.spread.as_ref().map(|spread| Arc::clone(spread.store())),
            shared_pit: self.spread.as_ref().and_then(|spread| spread.pit().cloned()),
        }))
    }

    /// Parses a packet and hands it to `send` with the number of its worker. Data may be handed over several times.
    pub fn dispatch(&mut self, mut received: Received, mut send: impl FnMut(usize, Parcel)) {
        let (mut hashes, mut parsed) = (std::mem::take(&mut self.hashes), None);
        match parse_unaddressed(&received, &mut hashes, |found| parsed = Some(found)) {
            Ok(_) => self.dispatch_parsed(&mut received, &mut hashes, parsed, &mut send),
            Err(reason) => self.drops.count(reason),
        }
        self.hashes = hashes;
    }

    fn dispatch_parsed(
        &mut self,
        received: &mut Received,
        hashes: &mut PrefixHashes,
        parsed: Option<Parsed>,
        send: &mut impl FnMut(usize, Parcel),
    ) {
        let Some(mut parsed) = parsed else {
            self.stays();
            return send(self.here, Parcel::addressed(received));
        };
        let mut decided = Decided::at(self.here);
        match self.sort(received, &mut parsed, &mut |worker, handed: Handed<'_>| send(worker, handed.into())) {
            Sorted::Here => {}
            Sorted::ByName => {
                let name = name_in(&received.packet, parsed.name());
                let (names, depth, key) =
                    (std::slice::from_ref(&name), self.rule.deciding_depth(name), *self.rule.key());
                let wanted = |_| DepthSet::of(depth);
                PrefixHashes::fill_noted_burst_where(wanted, &key, names, std::slice::from_mut(hashes));
                decided = self.sort_by_name(&NameView::from_filled(name, hashes), &key, &mut parsed);
                if let Some(check) = decided.claim {
                    decided.worker = self.home_of_interest(check);
                    self.gave(decided.worker);
                }
            }
            Sorted::Gone => return,
        }
        let Decided { worker, spread, hash, .. } = decided;
        send(worker, Handed { received, parsed: &parsed, is_spread: spread.is_some(), hash }.into());
    }

    /// Hands a parsed packet to `send` if something else than its name says that its home is another worker. `send` also
    /// gets further copies of Data, each with the number of the worker that it is for.
    pub(crate) fn sort(
        &mut self,
        received: &mut Received,
        parsed: &mut Parsed,
        send: &mut impl FnMut(usize, Handed<'_>),
    ) -> Sorted {
        let worker = match parsed {
            Parsed::Interest(_) => None,
            Parsed::Nack(_) => self.token(received).map(|token| token.worker),
            Parsed::Data(info) => self.worker_of_data(received, info, send),
        };
        let Some(worker) = worker else { return Sorted::ByName };
        self.gave(worker);
        if worker == self.here {
            return Sorted::Here;
        }
        send(worker, Handed::new(received, parsed));
        Sorted::Gone
    }

    /// Counts a packet that is addressed by tags or locator, and so stays here.
    pub(crate) fn stays(&mut self) {
        self.gave(self.here);
    }

    /// Prefetches what [`Dispatcher::sort_by_name`] reads of a name whose hash this is.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(hot) = &self.spread {
            hot.prefetch(hash);
        }
    }

    /// The worker of a packet whose name decides. The name is hashed under `key`, whole and at its
    /// [`Rule::deciding_depth`].
    pub(crate) fn sort_by_name(&mut self, name: &NameView<'_>, key: &NameHashKey, parsed: &mut Parsed) -> Decided {
        if let (Parsed::Interest(info), Some(hot)) = (&mut *parsed, &mut self.spread) {
            let digest = name.digest(name.len());
            let way = hot.way(digest, self.here, self.loads.nearest());
            info.is_hot = matches!(way, Way::HomeHot);
            if let Way::Any(worker) = way {
                self.gave(worker);
                return Decided { spread: Some(digest), ..Decided::at(worker) };
            }
        }
        let check = self.rule.check(name, key);
        if let (Some(residence), Parsed::Interest(_)) = (&self.residence, &*parsed) {
            residence.prefetch(check);
            return Decided { claim: Some(check), ..Decided::at(self.here) };
        }
        let worker = self.home_of(check);
        self.gave(worker);
        let is_data = matches!(parsed, Parsed::Data(_));
        // The home drops names below /localhost for another reason, and needs the name to see that.
        let tells = is_data && key == self.rule.key() && !name.name().value().starts_with(LOCALHOST);
        Decided { hash: tells.then(|| name.full_hash()), ..Decided::at(worker) }
    }

    /// Makes this thread's worker the home of the name with this check, unless another worker is, or this one has much
    /// work.
    pub(crate) fn claim(&mut self, check: u64) -> Held {
        let Some(residence) = &self.residence else { return Held::At(self.here) };
        let held = match self.loads.nearest() == self.here {
            true => residence.hold(check),
            false => residence.hold_claimed(check),
        };
        self.gave(if let Held::At(worker) = held { worker } else { self.here });
        held
    }

    /// The home of the name with this check.
    fn home_of(&self, check: u64) -> usize {
        let claimed = self.residence.as_ref().and_then(|residence| residence.find(check));
        claimed.unwrap_or_else(|| self.rule.worker_of(check))
    }

    /// The home of the name with this check. If it has none, that is this thread's worker, unless it has much work.
    fn home_of_interest(&self, check: u64) -> usize {
        let Some(residence) = &self.residence else { return self.rule.worker_of(check) };
        residence.find(check).unwrap_or_else(|| match self.loads.nearest() == self.here {
            true => self.here,
            false => self.rule.worker_of(check),
        })
    }

    /// The worker of Data, unless its name decides. Sends copies to other workers where Interests may wait for it.
    fn worker_of_data(
        &mut self,
        received: &Received,
        info: &mut DataInfo,
        send: &mut impl FnMut(usize, Handed<'_>),
    ) -> Option<usize> {
        let name = name_in(&received.packet, info.name);
        if self.pending.is_empty() {
            // The token of a shorter name does not tell where else Interests wait.
            return self.token(received).filter(|token| !token.is_short).map(|token| token.worker);
        }
        let (home, others) = self.homes(name);
        if others != 0 {
            let further = DataInfo { copies: Copies::Further, ..*info };
            info.copies = Copies::First;
            for worker in (0..self.workers()).filter(|worker| others & 1 << worker != 0) {
                let (face, fields, packet) = (received.face, received.fields.clone(), received.packet.clone());
                let (mut received, parsed) = (Received { face, fields, packet }, Parsed::Data(further));
                self.gave(worker);
                send(worker, Handed::new(&mut received, &parsed));
            }
        }
        Some(home)
    }

    /// The token of a packet, if one of the workers made it.
    fn token(&self, received: &Received) -> Option<WorkerToken> {
        self.mark.read(&received.fields.pit_token).filter(|token| token.worker < self.workers())
    }

    /// Hands a packet that this thread's worker could not handle to `send`, with the number of its home.
    pub fn dispatch_home(&mut self, mut stray: Parcel, send: impl FnOnce(usize, Parcel)) {
        let Some((packet, name)) = stray.stray() else { return };
        let check = self.rule.check_of(name_in(packet, name));
        let home = if stray.is_interest() { self.home_of_interest(check) } else { self.home_of(check) };
        self.gave(home);
        send(home, stray);
    }

    /// Counts a packet that a worker was given.
    fn gave(&mut self, worker: usize) {
        self.stayed += u64::from(worker == self.here);
        self.loads.gave(worker);
    }

    /// Packets that stayed on this thread.
    pub fn stayed(&self) -> u64 {
        self.stayed
    }

    /// Packets that the dispatcher dropped because it could not parse them.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The home of a name.
    pub(crate) fn home(&self, name: NameRef<'_>) -> usize {
        self.home_of(self.rule.check_of(name))
    }

    /// The home of Data, and the set of other workers where Interests may wait for it.
    fn homes(&mut self, name: NameRef<'_>) -> (usize, u64) {
        let (names, components) = (std::slice::from_ref(&name), self.rule.components());
        let hashes = std::slice::from_mut(&mut *self.hashes);
        PrefixHashes::fill_burst_to(components, self.rule.key(), names, hashes);
        let view = NameView::from_filled(name, &self.hashes);
        let deciding = self.rule.deciding_depth_of(&view);
        let home = self.home_of(view.check(deciding));
        // Prefixes of N components or more, and those that are the whole name, have the same home.
        let mut others = 0u64;
        for depth in (0..view.len().min(components)).filter(|&depth| self.pending.may_have(view.hash(depth))) {
            others |= 1 << self.home_of(view.check(depth.min(deciding)));
        }
        (home, others & !(1 << home))
    }
}
