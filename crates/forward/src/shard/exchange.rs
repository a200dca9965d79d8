//! Exchanges the tables of a shard while packets flow.
//!
//! The new tables are made on another thread, because that takes time. The shard begins to use them between two rounds.
//! In each round from then on, a few entries move there ([`SLICE`]). If a packet is about an entry that has not moved
//! yet, the entry moves first. So the pipelines find all that they look for in the new table, and never learn of the
//! earlier one. A pending Interest keeps its timer. An Interest with CanBePrefix may miss Data that has not moved yet.
//!
//! The names may be hashed with another key in the new tables. Then the FIB is another one, too, and the caller has
//! published it as another replica ([`Tables::replace_replica`](crate::tables::Tables::replace_replica)). The
//! measurements of strategies are lost in this case, because they are found by hash.
//!
//! Nonces cannot move, because their list has only hashes of them. The earlier list is asked for each Interest until
//! the caller takes it, after the lifetime of a dead nonce.
//!
//! Freeing memory takes time as well, so the caller takes what the shard has left.

use byname_lookup::memory::Refused;
use byname_wire::name_hash::{digest_name, hash_name};
use byname_wire::{NameHashKey, NameRef, NameView, PrefixHashes};
use smallvec::SmallVec;

use crate::counters::{CsInfo, DropReason};
use crate::dead_nonces::{self, DeadNonces};
use crate::packet::{Parsed, name_in};
use crate::pit_cs::{Age, Met, Moved, MovedEntry, PitCs, PitEntry, SlotId};
use crate::port::Received;
use crate::settings::WorkerConfig;
use crate::shard::{Burst, NoMemory, Shard, Staged, Table};
use crate::ticks::Ticks;
use crate::timers::TimerWheel;

/// Entries that move in one round besides those that packets are about.
pub const SLICE: usize = 32;

/// Most lists of nonces that are remembered besides the current one. With more, the earliest is forgotten.
const NONCE_LISTS_MAX: usize = 4;

/// How long the nonces of earlier tables must be remembered.
pub const NONCES_KEPT_FOR: std::time::Duration = dead_nonces::LIFETIME;

/// Tables for a worker, in place of those that it has.
pub struct NewTables {
    key: NameHashKey,
    table: PitCs,
    wheel: TimerWheel,
    /// `None`: the worker keeps its list.
    dead_nonces: Option<DeadNonces>,
    /// `None`: the worker goes on with its replica of the FIB.
    replica: Option<usize>,
}

impl NewTables {
    /// Tables of the sizes in `config`, for names hashed with `key`, in place of tables that have about `entries` entries.
    /// Its other settings are those of the worker.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn try_new(config: &WorkerConfig, key: NameHashKey, entries: usize) -> Result<Self, NoMemory> {
        let no_memory = |Refused { bytes }| NoMemory { table: Table::PitCs, bytes };
        let mut table = PitCs::new(config, key).map_err(no_memory)?;
        let mut wheel = TimerWheel::new(Ticks(0));
        let entries = entries.min(config.pit_entries_max.saturating_add(config.cs_packets_max));
        table.make_room(entries);
        wheel.make_room(entries);
        Ok(NewTables { key, table, wheel, dead_nonces: None, replica: None })
    }

    /// Gives them a list for this many nonces, too. Needed if the key is another one.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn with_dead_nonces(mut self, nonces_max: usize) -> Result<Self, NoMemory> {
        let list = DeadNonces::new(nonces_max);
        self.dead_nonces = Some(list.map_err(|Refused { bytes }| NoMemory { table: Table::DeadNonces, bytes })?);
        Ok(self)
    }

    /// The FIB for them is in this replica.
    pub fn with_replica(self, replica: usize) -> Self {
        NewTables { replica: Some(replica), ..self }
    }

    /// The key of their names.
    pub fn key(&self) -> &NameHashKey {
        &self.key
    }
}

/// Tables that a worker has left. They are empty, and large.
pub struct OldTables(#[allow(dead_code, reason = "only to be dropped")] Left);

#[allow(dead_code, reason = "only to be dropped")]
enum Left {
    Tables(Box<Earlier>),
    Nonces(Box<EarlierNonces>),
}

/// How far an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The worker does not use the new tables yet.
    Waiting,
    /// It uses them, and entries move.
    Moving,
    /// All entries have moved. The worker still remembers earlier nonces.
    Remembering,
    /// The exchange is over, or there is none.
    Done,
}

/// An exchange in progress.
#[derive(Default)]
pub(crate) struct Exchange {
    /// Tables that the worker does not use yet.
    waiting: Option<Box<NewTables>>,
    earlier: Option<Box<Earlier>>,
    /// The latest list last.
    nonces: Vec<EarlierNonces>,
    left: Vec<OldTables>,
}

/// The tables before the exchange.
struct Earlier {
    key: NameHashKey,
    table: PitCs,
    wheel: TimerWheel,
    /// Whether the strategies of its entries must be chosen anew.
    rechoose: bool,
    /// Scratch: hashes of one name.
    hashes: Box<PrefixHashes>,
    /// Scratch: entries that one Data packet meets.
    met: Met,
}

struct EarlierNonces {
    key: NameHashKey,
    list: DeadNonces,
}

impl Exchange {
    fn progress(&self) -> Progress {
        match self {
            Exchange { waiting: Some(_), .. } => Progress::Waiting,
            Exchange { earlier: Some(_), .. } => Progress::Moving,
            Exchange { nonces, .. } if !nonces.is_empty() => Progress::Remembering,
            _ => Progress::Done,
        }
    }

    /// Forgets the earliest lists of nonces, so that so many remain.
    fn forget_nonces(&mut self, remain: usize) {
        let forgotten = self.nonces.len().saturating_sub(remain);
        self.left.extend(self.nonces.drain(..forgotten).map(|nonces| OldTables(Left::Nonces(Box::new(nonces)))));
    }
}

impl Shard {
    /// Begins to use other tables soon; see [`crate::Worker::exchange_tables`].
    pub fn exchange_tables(&mut self, new: Box<NewTables>) -> Option<Box<NewTables>> {
        debug_assert!(new.key == self.key || new.dead_nonces.is_some() && new.replica.is_some());
        let earlier = self.exchange.get_or_insert_default().waiting.replace(new);
        self.settle_soon();
        earlier
    }

    /// How far the exchange is.
    pub fn exchange_progress(&self) -> Progress {
        self.exchange.as_ref().map_or(Progress::Done, |exchange| exchange.progress())
    }

    /// Whether there is work to do in the next round.
    pub fn is_exchanging(&self) -> bool {
        self.exchange_progress() < Progress::Remembering
    }

    /// Tables that this shard does not need any more; see [`crate::Worker::take_old_tables`].
    pub fn take_old_tables(&mut self, forget_nonces: bool) -> Vec<OldTables> {
        let Some(exchange) = &mut self.exchange else { return Vec::new() };
        if forget_nonces {
            exchange.forget_nonces(0);
        }
        let left = std::mem::take(&mut exchange.left);
        if exchange.progress() == Progress::Done {
            self.exchange = None;
        }
        left
    }

    /// Number of pending Interests that have not moved yet, and the contents of the content store that have not.
    pub fn not_moved(&self) -> (usize, CsInfo) {
        let earlier = self.exchange.as_ref().and_then(|exchange| exchange.earlier.as_ref());
        earlier.map_or((0, CsInfo::default()), |earlier| (earlier.table.pit_len(), earlier.table.cs_info()))
    }

    /// The strategies of entries that have not moved yet are chosen when these move.
    pub fn rechoose_when_moved(&mut self) {
        if let Some(earlier) = self.exchange.as_mut().and_then(|exchange| exchange.earlier.as_mut()) {
            earlier.rechoose = true;
        }
    }

    /// Erases up to `count_max` Data packets below a prefix. Returns how many it erased and whether more are left.
    pub fn erase(&mut self, prefix: NameRef<'_>, count_max: usize) -> (usize, bool) {
        let (erased, more) = self.table.erase(prefix, count_max);
        match self.exchange.as_mut().and_then(|exchange| exchange.earlier.as_mut()) {
            None => (erased, more),
            Some(earlier) => {
                self.table.pass_claims(&mut earlier.table);
                let (others, others_left) = earlier.table.erase(prefix, count_max - erased);
                earlier.table.pass_claims(&mut self.table);
                (erased + others, more || others_left)
            }
        }
    }

    /// Begins a round: moves some entries.
    #[inline]
    pub fn move_entries(&mut self, now: Ticks) {
        if self.exchange.is_some() {
            self.go_on_moving(now);
        }
    }

    /// Moves the entries that the packets of a burst are about.
    #[inline]
    pub fn fetch_entries(&mut self, now: Ticks, burst: &Burst<'_>) {
        if self.exchange.is_some() {
            self.fetch_burst(now, burst);
        }
    }

    #[cold]
    fn go_on_moving(&mut self, now: Ticks) {
        let Some(mut exchange) = self.exchange.take() else { return };
        if exchange.earlier.is_none() && exchange.waiting.is_some() {
            if self.shares_no_entries() {
                self.begin_exchange(&mut exchange);
            } else {
                self.settle_soon();
            }
        }
        if let Some(mut earlier) = exchange.earlier.take() {
            // These are due in this round, as they would have been in the earlier table.
            while let Some(slot) = earlier.wheel.pop_due(now) {
                self.move_entry(now, &mut earlier, slot, (Age::Newest, Some(now)));
            }
            let mut moved = 0;
            while let Some(slot) = earlier.table.next_to_move().filter(|_| moved < SLICE) {
                self.move_entry(now, &mut earlier, slot, (Age::Oldest, None));
                moved += 1;
            }
            if moved < SLICE {
                self.table.is_filled();
                exchange.left.push(OldTables(Left::Tables(earlier)));
            } else {
                exchange.earlier = Some(earlier);
            }
        }
        self.exchange = Some(exchange);
    }

    /// Whether nothing refers to entries by the hashes of their names, outside of the tables.
    fn shares_no_entries(&self) -> bool {
        self.sharing.as_ref().is_none_or(|sharing| {
            sharing.open.is_empty()
                && sharing.noted.is_empty()
                && sharing.unheard.is_empty()
                && sharing.postponed.is_empty()
        })
    }

    fn begin_exchange(&mut self, exchange: &mut Exchange) {
        let Some(new) = exchange.waiting.take() else { return };
        let NewTables { key, mut table, wheel, dead_nonces, replica } = *new;
        table.succeed(&mut self.table);
        let earlier_key = std::mem::replace(&mut self.key, key);
        if let Some(list) = dead_nonces {
            let list = std::mem::replace(&mut self.dead_nonces, list);
            exchange.nonces.push(EarlierNonces { key: earlier_key, list });
            exchange.forget_nonces(NONCE_LISTS_MAX);
        }
        if earlier_key != self.key {
            self.strategies.rekey(&self.key);
        }
        if let Some(replica) = replica {
            self.tables.use_replica(replica);
        }
        exchange.earlier = Some(Box::new(Earlier {
            key: earlier_key,
            table: std::mem::replace(&mut self.table, table),
            wheel: std::mem::replace(&mut self.wheel, wheel),
            rechoose: false,
            hashes: Box::default(),
            met: Met::default(),
        }));
    }

    #[cold]
    fn fetch_burst(&mut self, now: Ticks, burst: &Burst<'_>) {
        let Some(mut exchange) = self.exchange.take() else { return };
        let parsed = std::mem::take(&mut self.parsed);
        for Staged { at, place, parsed } in &parsed {
            let received = burst.packet(*at);
            let name = name_in(&received.packet, parsed.name());
            if let Some(earlier) = &mut exchange.earlier {
                for slot in self.wanted_of(now, earlier, (name, *place), parsed, received) {
                    self.move_entry(now, earlier, slot, (Age::Newest, None));
                }
            }
            if let Some(nonce) = parsed.interest().and_then(|info| info.nonce) {
                let hash = NameView::from_filled(name, &self.hashes[*place]).full_hash();
                let is_dead = |EarlierNonces { key, list }: &EarlierNonces| {
                    list.contains(now, if *key == self.key { hash } else { hash_name(key, name) }, nonce)
                };
                if exchange.nonces.iter().any(is_dead) {
                    self.dead_nonces.insert(now, hash, nonce);
                }
            }
        }
        self.parsed = parsed;
        self.exchange = Some(exchange);
    }

    /// The entries of the earlier table that a packet is about. Its name has its hashes at `place`.
    fn wanted_of(
        &self,
        now: Ticks,
        earlier: &mut Earlier,
        (name, place): (NameRef<'_>, usize),
        parsed: &Parsed,
        received: &Received,
    ) -> SmallVec<[SlotId; 4]> {
        let Earlier { key, table, hashes, met, .. } = earlier;
        let hashes = if *key == self.key {
            &self.hashes[place]
        } else {
            hashes.fill(key, name);
            hashes
        };
        let name = NameView::from_filled(name, hashes);
        let mut wanted = SmallVec::new();
        match parsed {
            Parsed::Data(_) => {
                table.find_satisfied(&name, &received.packet, met);
                wanted.extend(met.pending.drain(..).chain(met.stored.take()));
            }
            Parsed::Interest(info) => {
                table.entries_named(&name, |slot| wanted.push(slot));
                let found = table.find(&name, info.can_be_prefix, info.must_be_fresh, now);
                wanted.extend(found.data.filter(|data| !wanted.contains(data)));
            }
            Parsed::Nack(_) => table.entries_named(&name, |slot| wanted.push(slot)),
        }
        wanted
    }

    /// Moves an entry, with its timer, or a timer that is `due`.
    fn move_entry(&mut self, now: Ticks, earlier: &mut Earlier, slot: SlotId, (age, due): (Age, Option<Ticks>)) {
        let deadline = due.or_else(|| earlier.wheel.deadline(slot));
        earlier.wheel.clear(slot);
        let Some(Moved { hash, packet, range, home, entry }) = earlier.table.take(slot) else { return };
        let name = name_in(&packet, range);
        let hash = if earlier.key == self.key { hash } else { hash_name(&self.key, name) };
        match entry {
            MovedEntry::Pending(mut entry) => {
                if earlier.rechoose {
                    let name = NameView::new(&self.key, name, &mut earlier.hashes);
                    (entry.strategy, entry.strategy_word) = (self.strategies.choose(&name) as u16, 0);
                }
                self.make_room_for(now, &entry);
                let new = self.table.adopt_pending(hash, packet, (range, home), entry, age);
                self.wheel.start(new, deadline.unwrap_or(now));
            }
            MovedEntry::Data { fresh_until, in_main, was_shared } => {
                let digest = was_shared.then(|| digest_name(&self.key, name));
                let new = self.table.adopt_data(hash, packet, (range, home), (fresh_until, in_main), age);
                if let (Some(new), Some(digest)) = (new, digest) {
                    self.table.share(new, digest);
                }
            }
        }
    }

    /// Evicts pending Interests from a smaller table until this one finds room.
    fn make_room_for(&mut self, now: Ticks, entry: &PitEntry) {
        while let Some(victim) = self.table.victim() {
            self.drops.count(DropReason::PitFull);
            self.drop_pending(now, victim);
        }
        let further = entry.in_records.len() - 1;
        while !self.table.has_room_for_downstreams(further)
            && let Some(victim) = self.table.oldest_of_largest()
        {
            self.drops.count(DropReason::PitFull);
            self.drop_pending(now, victim);
        }
    }
}
