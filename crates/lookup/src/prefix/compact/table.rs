//! The writer's side of the table: the owner of each entry, room and growth.

use std::io;
use std::sync::Arc;

use byname_wire::NameRef;

use super::NodeId;
use super::exact::ExactWriter;
use super::levels::LevelsWriter;
use super::part::{Part, Place};
use super::query::{Query, Shared};
use super::word::Word;
use crate::entry::EntryId;
use crate::memory::Pages;
use crate::prefetch;

/// Number of parts of a table that changes. Each grows by itself, so that no growth takes long.
const PARTS: usize = if cfg!(loom) { 1 } else { 64 };
const BUCKETS_MIN: u32 = 8;
/// A part above this share of its slots, in percent, grows at once.
const FULL: usize = 94;
/// When a part grows, parts within this distance of being full, in percent, grow with it.
const SOON: usize = 2;
/// Number of entries to move in one batch, which takes tens of milliseconds. Other parts wait for
/// the next batch.
const MOVED_MAX: usize = 200_000;
/// Small parts fill less evenly. Those with fewer slots than this grow at [`FULL_SMALL`].
const SMALL: usize = 600;
const FULL_SMALL: usize = 75;
/// A part in a file takes no more entries above this share of its slots, in percent.
const FULL_OF_FILE: usize = 97;
/// The owner of an entry that was found in a file.
const NOBODY: NodeId = NodeId(u32::MAX);
const FILE_FULL: &str = "a file cannot grow";

/// How the query half finds a node's entry. While a node's handle changes, the node has two
/// entries, which differ in the distance from handle to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// Depth of the handle.
    pub(super) handle: usize,
    /// The handle's hash.
    pub(super) hash: u64,
    /// The handle's tag.
    pub(super) tag: u16,
    /// Number of components from the handle to the node.
    pub(super) extent: usize,
}

/// The writer's data about a part.
struct Side {
    /// Indexed by place. Meaningless for empty slots.
    owners: Box<[NodeId]>,
    used: usize,
    /// Number of entries that left their other bucket while the filters still contain them.
    stale: usize,
}

/// The query half, and the writer's side of its parts.
pub(super) struct Table {
    query: Arc<Query>,
    sides: Vec<Side>,
    levels: LevelsWriter,
    pages: Pages,
    /// In exact mode, the names that readers compare.
    exact: Option<ExactWriter>,
    /// Every part has room for at least this many entries.
    room: usize,
    /// The only part is that of a file, so it cannot grow.
    of_file: bool,
    /// A part must grow, or have its filters rebuilt, when the batch is applied.
    is_due: bool,
    /// Readers need `query` instead of the half that they have.
    replaced: bool,
}

impl Table {
    pub(super) fn new(shared: Arc<Shared>, pages: Pages, exact: bool) -> io::Result<Self> {
        let exact = if exact { Some(ExactWriter::new(pages)?) } else { None };
        let made = (0..PARTS).map(|_| empty_part(BUCKETS_MIN, pages)).collect::<io::Result<Vec<_>>>()?;
        let (parts, sides): (Vec<_>, _) = made.into_iter().unzip();
        let parts = parts.into_iter().map(Arc::new).collect();
        let query = Query { shared, parts, exact: exact.as_ref().map(|exact| exact.names().clone()) };
        Ok(Table {
            query: Arc::new(query),
            sides,
            levels: LevelsWriter::new(),
            pages,
            exact,
            room: 0,
            of_file: false,
            is_due: false,
            replaced: false,
        })
    }

    /// A table that came from a file, in one part. Nobody owns its entries yet.
    pub(super) fn of_file(query: Query) -> Self {
        let owners = vec![NOBODY; query.parts[0].slots()].into();
        Table {
            query: Arc::new(query),
            sides: vec![Side { owners, used: 0, stale: 0 }],
            levels: LevelsWriter::new(),
            pages: Pages::Small,
            exact: None,
            room: 0,
            of_file: true,
            is_due: false,
            replaced: false,
        }
    }

    /// Gives an entry of the file to a node. Returns whether there is exactly this entry, which is nobody's.
    pub(super) fn own(&mut self, key: Key, word: Word, owner: NodeId) -> bool {
        let (part, side) = (&self.query.parts[0], &mut self.sides[0]);
        let place = part.places(key.hash, key.tag).find(|place| part.word(*place).placed(false) == word);
        let free = place.filter(|place| side.owners[place.index()] == NOBODY);
        let Some(place) = free else { return false };
        side.owners[place.index()] = owner;
        side.used += 1;
        self.levels.add(&self.query.shared.levels, key.handle, key.hash);
        true
    }

    /// Whether each entry of the file has an owner.
    pub(super) fn is_all_owned(&self) -> bool {
        self.query.parts[0].entries().count() == self.sides[0].used
    }

    /// Makes the filters of parts anew that pass too much. [`Table::finish`] does so, too.
    pub(super) fn refresh_filters(&mut self) {
        for (part, side) in self.query.parts.iter().zip(&mut self.sides) {
            if side.stale > part.slots() / 8 {
                part.refresh_filters();
                side.stale = 0;
            }
        }
    }

    pub(super) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let sides = self.sides.iter().map(|side| size_of_val(&*side.owners) + size_of::<Side>());
        sides.sum::<usize>() + self.levels.memory_bytes()
    }

    /// Makes room for `entries` more entries before any is written.
    ///
    /// A batch either writes only where its readers look, or rebuilds everything. If it wrote to a
    /// new part and to parts that readers of the old query half share, these readers would see one
    /// of two changes.
    ///
    /// The ids of their nodes are below `ids`.
    pub(super) fn reserve(&mut self, entries: usize, ids: usize, hash_of: impl Fn(NodeId) -> u64) -> io::Result<()> {
        // Twice the fair share. Keyed hashes spread evenly, but small numbers less so.
        let share = entries.div_ceil(PARTS) * 2 + 8;
        if share > self.room {
            let parts = self.query.parts.iter().zip(&self.sides);
            let room = parts.map(|(part, side)| (part.slots() * 97 / 100).saturating_sub(side.used));
            self.room = room.min().expect("there are parts");
        }
        let cramped = self.exact.as_ref().is_some_and(|exact| !exact.has_room(entries, ids));
        if entries > 0 && (cramped || share > self.room) {
            if let Some(exact) = &mut self.exact {
                exact.rebuild(entries, ids)?;
            }
            self.rebuild(share, hash_of)?;
        }
        Ok(())
    }

    /// Rebuilds all parts, each with room for `spare` more entries.
    fn rebuild(&mut self, spare: usize, hash_of: impl Fn(NodeId) -> u64) -> io::Result<()> {
        let made = (0..PARTS)
            .map(|i| self.refilled(i, buckets_for(self.sides[i].used + spare), &hash_of))
            .collect::<io::Result<Vec<_>>>()?;
        let (parts, sides): (Vec<_>, _) = made.into_iter().unzip();
        self.sides = sides;
        self.publish(parts.into_iter().map(Arc::new).collect());
        Ok(())
    }

    fn publish(&mut self, parts: Box<[Arc<Part>]>) {
        let exact = self.exact.as_ref().map(|exact| exact.names().clone());
        self.query = Arc::new(Query { shared: self.query.shared.clone(), parts, exact });
        self.replaced = true;
    }

    /// Grows the parts that are nearly full. Returns whether readers need a new query half. Called
    /// when a batch is applied.
    pub(super) fn finish(&mut self, hash_of: impl Fn(NodeId) -> u64) -> io::Result<bool> {
        if !std::mem::take(&mut self.is_due) {
            return Ok(std::mem::take(&mut self.replaced));
        }
        self.refresh_filters();
        if !self.query.parts.iter().zip(&self.sides).any(|(part, side)| side.lacks(part, SOON)) {
            return Ok(std::mem::take(&mut self.replaced));
        }
        // Parts fill alike. Those that are nearly as full grow too, because otherwise each would
        // need a new query half soon.
        let (mut parts, mut moved) = (self.query.parts.clone(), 0);
        for i in 0..PARTS {
            let (side, used) = (&self.sides[i], self.sides[i].used);
            if side.lacks(&parts[i], 0) || (side.lacks(&parts[i], 3 * SOON) && moved < MOVED_MAX) {
                let (part, side) = self.refilled(i, buckets_for(used + used / 4), &hash_of)?;
                (parts[i], self.sides[i]) = (Arc::new(part), side);
                moved += used;
            }
        }
        self.publish(parts);
        Ok(std::mem::take(&mut self.replaced))
    }

    /// Puts the entries of a part into `buckets` buckets, or into more if these do not hold them.
    fn refilled(&self, i: usize, mut buckets: u32, hash_of: impl Fn(NodeId) -> u64) -> io::Result<(Part, Side)> {
        let (old, old_side) = (&self.query.parts[i], &self.sides[i]);
        'larger: loop {
            let (part, mut side) = empty_part(buckets, self.pages)?;
            for (place, tag, word) in old.entries() {
                let owner = old_side.owners[place.index()];
                if side.insert(&part, hash_of(owner), tag, word, owner).is_none() {
                    buckets += buckets / 8 + 1;
                    continue 'larger;
                }
            }
            return Ok((part, side));
        }
    }

    /// In exact mode, gives readers the name of a new node. `hash` is the name's hash.
    pub(super) fn add_name(
        &mut self,
        node: NodeId,
        hash: u64,
        name: NameRef<'_>,
        rule: Option<EntryId>,
        hash_of: impl Fn(NodeId) -> u64,
    ) -> io::Result<()> {
        while let Some(exact) = &mut self.exact
            && exact.add(node, hash, name, rule).is_err()
        {
            // Rare. Everything is rebuilt, as in `put`.
            exact.rebuild(node.0 as usize, node.0 as usize + 1)?;
            self.rebuild(8, &hash_of)?;
        }
        Ok(())
    }

    /// Sets or removes the rule of such a name.
    pub(super) fn set_name_rule(&self, node: NodeId, rule: Option<EntryId>) {
        if let Some(exact) = &self.exact {
            exact.set_rule(node, rule);
        }
    }

    /// Removes such a name.
    pub(super) fn remove_name(&mut self, node: NodeId) {
        if let Some(exact) = &mut self.exact {
            exact.remove(node);
        }
    }

    /// Adds an entry.
    pub(super) fn put(
        &mut self,
        key: Key,
        word: Word,
        owner: NodeId,
        hash_of: impl Fn(NodeId) -> u64,
    ) -> io::Result<()> {
        self.query.shared.note_depths(key.handle, key.handle + word.extent());
        self.levels.add(&self.query.shared.levels, key.handle, key.hash);
        let i = self.query.part_of(key.hash);
        let full = self.query.parts[i].slots() * FULL_OF_FILE / 100;
        if self.of_file && self.sides[i].used >= full {
            return Err(io::Error::new(io::ErrorKind::StorageFull, FILE_FULL));
        }
        while self.sides[i].insert(&self.query.parts[i], key.hash, key.tag, word, owner).is_none() {
            if self.of_file {
                return Err(io::Error::new(io::ErrorKind::StorageFull, FILE_FULL));
            }
            // Rare, because room was made ahead. Everything is rebuilt, for the reason given there.
            self.rebuild(self.sides[i].used / 4 + 8, &hash_of)?;
        }
        self.room = self.room.saturating_sub(1);
        self.is_due |= self.sides[i].lacks(&self.query.parts[i], SOON);
        Ok(())
    }

    /// Changes the word of a node's entry in one step.
    pub(super) fn rewrite(&mut self, key: Key, owner: NodeId, change: impl FnOnce(Word) -> Word) {
        let (part, place) = self.place(key, owner);
        let word = part.word(place);
        part.set_word(place, change(word).placed(word.is_alternate()));
    }

    /// Gives the entry of one node to another node with the same key, in one step.
    pub(super) fn hand_over(&mut self, key: Key, from: NodeId, to: NodeId, word: Word) {
        self.query.shared.note_depths(key.handle, key.handle + word.extent());
        let i = self.query.part_of(key.hash);
        let (part, place) = self.place(key, from);
        part.set_word(place, word.placed(part.word(place).is_alternate()));
        self.sides[i].owners[place.index()] = to;
    }

    /// Removes a node's entry.
    pub(super) fn remove(&mut self, key: Key, owner: NodeId) {
        let i = self.query.part_of(key.hash);
        let (part, place) = self.place(key, owner);
        let stale = part.word(place).is_alternate();
        part.clear(place);
        let slots = part.slots();
        let side = &mut self.sides[i];
        side.used -= 1;
        side.stale += usize::from(stale);
        self.is_due |= side.stale > slots / 8;
        self.levels.remove(&self.query.shared.levels, key.handle, key.hash);
    }

    /// A node's word.
    pub(super) fn word(&self, key: Key, owner: NodeId) -> Word {
        let (part, place) = self.place(key, owner);
        part.word(place)
    }

    /// The other nodes whose entries stand where those of this key may, with its tag.
    pub(super) fn look_alikes(&self, key: Key, owner: NodeId) -> impl Iterator<Item = (NodeId, Word)> {
        let i = self.query.part_of(key.hash);
        let (part, side) = (&self.query.parts[i], &self.sides[i]);
        part.places(key.hash, key.tag)
            .map(|place| (side.owners[place.index()], part.word(place)))
            .filter(move |&(other, _)| other != owner)
    }

    fn place(&self, key: Key, owner: NodeId) -> (&Part, Place) {
        let i = self.query.part_of(key.hash);
        let (part, side) = (&self.query.parts[i], &self.sides[i]);
        let place = part
            .places(key.hash, key.tag)
            .find(|&place| side.owners[place.index()] == owner && part.word(place).extent() == key.extent);
        (part, place.expect("every node but the root has its entry"))
    }

    /// Prefetches the bucket of a handle ahead of its change.
    pub(super) fn prefetch(&self, hash: u64) {
        let i = self.query.part_of(hash);
        let bucket = self.query.parts[i].primary(hash);
        self.query.parts[i].prefetch(bucket);
        prefetch::read(&self.sides[i].owners[Place { bucket, slot: 0 }.index()]);
    }
}

impl Side {
    /// Whether the part is full except for at most `percent`.
    fn lacks(&self, part: &Part, percent: usize) -> bool {
        let full = if part.slots() < SMALL { FULL_SMALL } else { FULL };
        self.used * 100 > part.slots() * (full - percent)
    }

    fn insert(&mut self, part: &Part, hash: u64, tag: u16, word: Word, owner: NodeId) -> Option<Place> {
        let owners = &mut self.owners;
        let mut moved = |from: Place, to: Place| owners[to.index()] = owners[from.index()];
        let place = part.insert(hash, tag, word, &mut moved)?;
        self.owners[place.index()] = owner;
        self.used += 1;
        Some(place)
    }
}

fn empty_part(buckets: u32, pages: Pages) -> io::Result<(Part, Side)> {
    let part = Part::new(buckets, pages)?;
    let owners = vec![NodeId(0); part.slots()].into();
    Ok((part, Side { owners, used: 0, stale: 0 }))
}

/// Number of buckets that hold this many entries, with some room left.
fn buckets_for(entries: usize) -> u32 {
    let slots = entries * 100 / if entries < SMALL { FULL_SMALL } else { FULL };
    (slots.div_ceil(super::part::SLOTS) as u32).max(BUCKETS_MIN)
}
