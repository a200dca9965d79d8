//! What a builder has to build, without I/O and without a clock.
//!
//! It takes the keys of tables and of their files, as etcd has them. A table is due when its file is of another state, and nothing
//! has changed for a short time: many changes then make one file. A table that changes all the time is built after a longer time.

use std::collections::BTreeMap;

use crate::key::{Key, Space};
use crate::label::Label;
use crate::value::{BuiltHead, TableHead, TableKind, Value};

/// A table that changes all the time is built after so many pauses.
const PAUSES_MAX: u64 = 10;
/// Pauses after a table that could not be built, in ms: the first, and the longest.
const RETRY_MS: (u64, u64) = (500, 10_000);

/// A table to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The table.
    pub table: Label,
    /// Its head.
    pub head: TableHead,
    /// Revision of etcd in which its head was created: a table that was dropped and loaded again has another one.
    pub created: i64,
    /// Deltas after its manifest, by number.
    pub deltas: BTreeMap<u64, Vec<u8>>,
    /// The file that was built before.
    pub before: Option<BuiltHead>,
}

#[derive(Debug, Default)]
struct Table {
    head: Option<(TableHead, i64)>,
    deltas: BTreeMap<u64, Vec<u8>>,
    built: Option<BuiltHead>,
    /// When the last and the first change came that the file does not have.
    changed: Option<(u64, u64)>,
    /// Its blocks are lost.
    is_lost: bool,
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    pause: u64,
    again_at: u64,
    why: String,
}

/// All tables.
#[derive(Debug)]
pub struct Plan {
    space: Space,
    pause: u64,
    tables: BTreeMap<Label, Table>,
}

impl Plan {
    /// No tables yet. A table is built so many ms after its last change.
    pub fn new(space: Space, pause: u64) -> Self {
        Plan { space, pause, tables: BTreeMap::new() }
    }

    /// A key was written, and created in this revision of etcd. Keys of other things are left aside. Returns why a value cannot be used.
    ///
    /// # Errors
    /// The value is damaged. What was there before stays.
    pub fn put(&mut self, now: u64, key: &[u8], value: &[u8], created: i64) -> Result<(), String> {
        let bad = |error: crate::value::BadValue| format!("{}: {error}", key.escape_ascii());
        match self.space.decode(key) {
            Ok(Key::Table(table)) => {
                let head = TableHead::decode(value).map_err(bad)?;
                self.change(table, now).head = Some((head, created));
            }
            // What it says is read when the table is built.
            Ok(Key::Delta { table, sequence }) => drop(self.change(table, now).deltas.insert(sequence, value.to_vec())),
            Ok(Key::Built(table)) => {
                let head = BuiltHead::decode(value).map_err(bad)?;
                let table = self.tables.entry(table).or_default();
                table.built = Some(head);
                if table.is_current() {
                    (table.changed, table.failed) = (None, None);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A key was deleted.
    pub fn delete(&mut self, now: u64, key: &[u8]) {
        match self.space.decode(key) {
            Ok(Key::Table(table)) => self.change(table, now).head = None,
            Ok(Key::Delta { table, sequence }) => drop(self.change(table, now).deltas.remove(&sequence)),
            Ok(Key::Built(table)) => self.change(table, now).built = None,
            _ => return,
        }
        self.tables.retain(|_, table| table.head.is_some() || table.built.is_some() || !table.deltas.is_empty());
    }

    fn change(&mut self, table: Label, now: u64) -> &mut Table {
        let table = self.tables.entry(table).or_default();
        let first = table.changed.map_or(now, |(_, first)| first);
        table.changed = Some((now, first));
        // Perhaps that was what was wrong.
        table.failed = None;
        table
    }

    /// What is known was read just now, and changed long ago.
    pub fn all_is_old(&mut self) {
        self.tables.values_mut().for_each(|table| table.changed = None);
    }

    /// Files of the state that is wanted: a new leader sees whether their blocks are there.
    pub fn current(&self) -> impl Iterator<Item = (&Label, &BuiltHead)> {
        let current = self.tables.iter().filter(|(_, table)| table.is_current());
        current.filter_map(|(label, table)| Some((label, table.built.as_ref()?)))
    }

    /// Nobody has the blocks of this table's file.
    pub fn lost(&mut self, table: &Label) {
        if let Some(table) = self.tables.get_mut(table) {
            table.is_lost = true;
        }
    }

    /// The table to build now.
    pub fn next(&self, now: u64) -> Option<Job> {
        let (label, table) =
            self.tables.iter().find(|(_, table)| table.due_at(self.pause).is_some_and(|at| at <= now))?;
        let (head, created) = table.head.clone()?;
        let (deltas, before) = (table.deltas.clone(), table.built.clone());
        Some(Job { table: label.clone(), head, created, deltas, before })
    }

    /// When [`Plan::next`] has something, without news from anybody.
    pub fn wake(&self) -> Option<u64> {
        self.tables.values().filter_map(|table| table.due_at(self.pause)).min()
    }

    /// A table was built, and etcd has the head of its file; or this is why not.
    pub fn done(&mut self, now: u64, label: &Label, result: Result<BuiltHead, String>) {
        let Some(table) = self.tables.get_mut(label) else { return };
        match result {
            Ok(head) => {
                table.built = Some(head);
                (table.is_lost, table.failed) = (false, None);
                if table.is_current() {
                    table.changed = None;
                }
            }
            Err(why) => {
                let pause = table.failed.as_ref().map_or(RETRY_MS.0, |failed| (failed.pause * 2).min(RETRY_MS.1));
                table.failed = Some(Failed { pause, again_at: now + pause, why });
            }
        }
    }

    /// Why the first of the tables that could not be built was not.
    pub fn failure(&self) -> Option<String> {
        let failed = |(label, table): (&Label, &Table)| Some(format!("table {label}: {}", table.failed.as_ref()?.why));
        self.tables.iter().find_map(failed)
    }

    /// Heads of all tables that builders build, and of files.
    pub fn heads(&self) -> impl Iterator<Item = (&Label, Option<&TableHead>, Option<&BuiltHead>)> {
        self.tables.iter().map(|(label, table)| {
            let head = table.head.as_ref().map(|(head, _)| head).filter(|head| head.kind != TableKind::Routes);
            (label, head, table.built.as_ref())
        })
    }
}

impl Table {
    /// Whether the file is of the state that is wanted.
    fn is_current(&self) -> bool {
        let wanted = self.head.as_ref().filter(|(head, _)| head.kind != TableKind::Routes);
        let same = |(head, built): (&(TableHead, i64), &BuiltHead)| {
            head.0.state() == built.state() && head.0.kind == built.kind && head.0.flat == built.flat
        };
        wanted.zip(self.built.as_ref()).is_some_and(same) && !self.is_lost
    }

    fn due_at(&self, pause: u64) -> Option<u64> {
        let (head, _) = self.head.as_ref()?;
        if head.kind == TableKind::Routes || self.is_current() {
            return None;
        }
        let quiet = self.changed.map_or(0, |(last, first): (u64, u64)| {
            last.saturating_add(pause).min(first.saturating_add(pause.saturating_mul(PAUSES_MAX)))
        });
        Some(quiet.max(self.failed.as_ref().map_or(0, |failed| failed.again_at)))
    }
}

#[cfg(test)]
mod tests {
    use byname_lookup::file::secret::{SECRET_BYTES, Secret};

    use super::*;
    use crate::table::Digest;

    fn head(state: &str) -> TableHead {
        let state = Digest::of(state.as_bytes());
        let (kind, manifest) = (TableKind::Built, Digest::of(b"manifest"));
        TableHead { kind, flat: None, epoch: 1, manifest, base: 0, base_state: state, last: 0, state }
    }

    fn built(of: &TableHead) -> BuiltHead {
        BuiltHead {
            kind: of.kind,
            flat: None,
            epoch: of.epoch,
            sequence: of.last,
            state: of.state,
            blocks: Digest::of(&of.state.0),
            patch: None,
            bytes: 1,
            rows: 1,
            secret: Secret::new([0; SECRET_BYTES]),
        }
    }

    fn space() -> Space {
        Space::new(&"main".parse().unwrap())
    }

    fn put(plan: &mut Plan, now: u64, head: &TableHead) {
        plan.put(now, &space().key(&Key::Table(table())), &head.encode(), 5).unwrap();
    }

    fn table() -> Label {
        "world".parse().unwrap()
    }

    #[test]
    fn a_table_is_built_after_a_pause_and_in_the_end_in_any_case() {
        let mut plan = Plan::new(space(), 500);
        put(&mut plan, 1_000, &head("one"));
        assert_eq!((plan.next(1_499), plan.wake()), (None, Some(1_500)));
        let job = plan.next(1_500).unwrap();
        assert_eq!((job.table.clone(), job.created, job.head == head("one"), job.before), (table(), 5, true, None));
        plan.done(2_000, &table(), Ok(built(&head("one"))));
        assert_eq!((plan.next(9_000), plan.wake()), (None, None));
        // It changes each 400 ms, and is built 5 s after the first change.
        let mut at = 10_000;
        while plan.next(at).is_none() {
            put(&mut plan, at, &head(&at.to_string()));
            at += 400;
        }
        assert_eq!(at, 15_200);
        // It has changed while it was built.
        let job = plan.next(at).unwrap();
        put(&mut plan, at, &head("later"));
        plan.done(at + 100, &table(), Ok(built(&job.head)));
        assert_eq!(
            plan.next(at + 100).map(|job| job.head.state),
            Some(head("later").state),
            "it has waited long enough"
        );
        assert_eq!(plan.tables[&table()].built.as_ref().map(BuiltHead::state), Some(job.head.state()));
    }

    #[test]
    fn what_another_builder_has_built_is_taken_over() {
        let mut plan = Plan::new(space(), 500);
        put(&mut plan, 0, &head("one"));
        plan.put(0, &space().key(&Key::Built(table())), &built(&head("one")).encode(), 6).unwrap();
        plan.all_is_old();
        assert_eq!((plan.next(9_000), plan.current().count()), (None, 1));
        // Nobody has its blocks: it is built again.
        plan.lost(&table());
        assert_eq!(
            (plan.next(9_000).and_then(|job| job.before), plan.current().count()),
            (Some(built(&head("one"))), 0)
        );
        plan.done(9_000, &table(), Ok(built(&head("one"))));
        assert_eq!(plan.next(9_000), None);
        // The state is another one: it is due at once, since it changed long ago.
        put(&mut plan, 9_000, &head("two"));
        plan.all_is_old();
        assert!(plan.next(9_000).is_some());
        // Other kinds are none of a builder's.
        put(&mut plan, 9_000, &TableHead { kind: TableKind::Routes, ..head("two") });
        assert_eq!((plan.next(90_000), plan.wake()), (None, None));
    }

    #[test]
    fn failures_are_tried_again_later_and_at_once_after_a_change() {
        let mut plan = Plan::new(space(), 500);
        put(&mut plan, 0, &head("one"));
        let (mut now, mut pauses) = (500, Vec::new());
        for _ in 0..7 {
            assert!(plan.next(now).is_some());
            plan.done(now, &table(), Err("disk full".to_owned()));
            let wake = plan.wake().unwrap();
            assert_eq!(plan.next(wake - 1), None);
            pauses.push(wake - now);
            now = wake;
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(plan.failure().as_deref(), Some("table world: disk full"));
        put(&mut plan, now, &head("two"));
        assert_eq!((plan.failure(), plan.wake()), (None, Some(5_000.min(now + 500))));
    }

    #[test]
    fn damaged_keys_are_told_and_what_is_gone_is_not_built() {
        let mut plan = Plan::new(space(), 500);
        put(&mut plan, 0, &head("one"));
        let key = space().key(&Key::Table(table()));
        assert!(plan.put(1, &key, b"x", 5).unwrap_err().contains("tables/world/head"));
        assert!(plan.put(1, &space().key(&Key::Built(table())), b"x", 5).is_err());
        assert_eq!(plan.put(1, &space().key(&Key::Head), b"x", 5), Ok(()));
        assert!(plan.next(9_000).is_some_and(|job| job.head == head("one")));
        let delta = |sequence| space().key(&Key::Delta { table: table(), sequence });
        plan.put(10, &delta(1), b"delta", 7).unwrap();
        assert_eq!(plan.next(9_000).unwrap().deltas, BTreeMap::from([(1, b"delta".to_vec())]));
        plan.delete(20, &delta(1));
        plan.delete(20, &key);
        assert_eq!((plan.next(9_000), plan.heads().count()), (None, 0));
        plan.done(9_000, &table(), Err("gone".to_owned()));
        assert_eq!(plan.failure(), None);
    }
}
