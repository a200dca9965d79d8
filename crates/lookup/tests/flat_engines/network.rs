//! One graph for the tables of many switches [Concise §5.1]: each table answers as a map of its own,
//! and as an [`Othello`] of its own does.

use std::collections::HashMap;
use std::sync::Arc;

use byname_lookup::flat::BURST_MAX;
use byname_lookup::flat::othello::{Network, NetworkChange, Options, Othello};
use byname_lookup::{BuildError, Change, Control, EntryId, FlatFib, Update};
use byname_wire::Digest;

use crate::names::digest;
use crate::suite::Random;

/// One switch: its expected entries, and its table.
struct Switch {
    right: HashMap<Digest, EntryId>,
    fib: Arc<dyn FlatFib>,
    alone: Othello,
}

struct Check {
    network: Network,
    options: Options,
    switches: Vec<Switch>,
    random: Random,
    names: usize,
    /// Number of additions in eight changes.
    sets_in_8: usize,
    checked: usize,
}

impl Check {
    /// This many switches, with entries for about half of the names.
    fn new(options: Options, names: usize, switches: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let known: Vec<_> = (0..names).filter(|_| random.one_in(2)).map(digest).collect();
        let mut entry = || EntryId(random.next() as u32 & (u32::MAX >> (32 - options.entry_bits)));
        let entries: Vec<Vec<_>> = (0..switches).map(|_| known.iter().map(|_| entry()).collect()).collect();
        let by_table: Vec<_> = entries.iter().map(Vec::as_slice).collect();
        let network = Network::construct(options.clone(), &known, &by_table).expect("room");
        let switch = |(table, entries): (usize, &Vec<EntryId>)| Switch {
            right: known.iter().copied().zip(entries.iter().copied()).collect(),
            fib: network.query(table),
            alone: Othello::construct(options.clone(), &known, entries).expect("room"),
        };
        let switches = entries.iter().enumerate().map(switch).collect();
        Check { network, options, switches, random, names, sets_in_8: 4, checked: 0 }
    }

    fn entry(&mut self) -> EntryId {
        EntryId(self.random.next() as u32 & (u32::MAX >> (32 - self.options.entry_bits)))
    }

    fn batch(&mut self, len_max: usize) -> Vec<NetworkChange> {
        let len = 1 + self.random.below(len_max);
        (0..len)
            .map(|_| {
                let (name, kind) = (digest(self.random.below(self.names)), self.random.below(12));
                match kind {
                    0..=3 => NetworkChange::Alter(name, self.random.below(self.switches.len()), self.entry()),
                    kind if kind - 4 < self.sets_in_8 => {
                        NetworkChange::Set(name, (0..self.switches.len()).map(|_| self.entry()).collect())
                    }
                    _ => NetworkChange::Remove(name),
                }
            })
            .collect()
    }

    /// Applies a batch to the network, to the maps, and to each switch's own table.
    fn change(&mut self, batch: &[NetworkChange]) {
        let updates = self.network.apply(batch).expect("a batch that it takes");
        assert_eq!(updates.len(), self.switches.len());
        for (table, (switch, update)) in self.switches.iter_mut().zip(updates).enumerate() {
            if let Update::Replace(fib) = update {
                switch.fib = fib;
            }
            let mut alone = Vec::new();
            for change in batch {
                match change {
                    NetworkChange::Set(name, entries) => {
                        switch.right.insert(*name, entries[table]);
                        alone.push(Change::Set(*name, entries[table]));
                    }
                    NetworkChange::Alter(name, of, entry) if *of == table && switch.right.contains_key(name) => {
                        switch.right.insert(*name, *entry);
                        alone.push(Change::Set(*name, *entry));
                    }
                    NetworkChange::Alter(..) => {}
                    NetworkChange::Remove(name) => {
                        switch.right.remove(name);
                        alone.push(Change::Remove(*name));
                    }
                }
            }
            switch.alone.apply(&alone).expect("a batch that it takes");
        }
    }

    /// A batch with one entry that is too large, at a random position. No part of the batch is applied.
    fn refuse(&mut self) {
        let mut batch = self.batch(10);
        let too_large = EntryId(1 << self.options.entry_bits);
        let (name, table) = (digest(self.random.below(self.names)), self.random.below(self.switches.len()));
        let mut entries = vec![EntryId(0); self.switches.len()];
        entries[table] = too_large;
        let bad = match self.random.one_in(2) {
            true => NetworkChange::Set(name, entries.into()),
            false => NetworkChange::Alter(name, table, too_large),
        };
        batch.insert(self.random.below(batch.len() + 1), bad);
        let refused = self.network.apply(&batch).expect_err("an entry is too large");
        assert_eq!(refused, BuildError::EntryOutOfRange { entry: too_large.0, entries_max: too_large.0 });
    }

    fn add_switch(&mut self) {
        let mut right = HashMap::new();
        let refused = self.network.add_table(|_| EntryId(1 << self.options.entry_bits));
        assert!(refused.is_err() || self.network.is_empty(), "the entries are too large");
        if refused.is_err() {
            let (random, bits) = (&mut self.random, self.options.entry_bits);
            let entry_of = |name| {
                let entry = EntryId(random.next() as u32 & (u32::MAX >> (32 - bits)));
                assert_eq!(right.insert(name, entry), None, "each name is asked for once");
                entry
            };
            assert_eq!(self.network.add_table(entry_of), Ok(self.switches.len()));
        }
        let (names, entries): (Vec<_>, Vec<_>) = right.iter().map(|(name, entry)| (*name, *entry)).unzip();
        let alone = Othello::construct(self.options.clone(), &names, &entries).expect("room");
        self.switches.push(Switch { right, fib: self.network.query(self.switches.len()), alone });
    }

    /// Checks every known name in every table, in bursts and through the control half.
    fn look(&mut self) {
        assert_eq!(self.network.tables(), self.switches.len());
        for (table, switch) in self.switches.iter().enumerate() {
            assert_eq!(self.network.len(), switch.right.len());
            assert_eq!(switch.alone.len(), switch.right.len());
            let alone = switch.alone.query();
            let numbers: Vec<_> = (0..self.names).collect();
            for numbers in numbers.chunks(BURST_MAX) {
                let names: Vec<_> = numbers.iter().copied().map(digest).collect();
                let mut found = vec![None; names.len()];
                switch.fib.entry_burst(&names, &mut found);
                for (name, found) in names.into_iter().zip(found) {
                    let right = switch.right.get(&name).copied();
                    assert_eq!(self.network.entry(table, name), right, "the control half, table {table}");
                    if right.is_some() {
                        assert_eq!(found, right, "table {table}");
                        assert_eq!(alone.entry(name), right, "table {table}, alone");
                        self.checked += 1;
                    }
                }
            }
        }
    }
}

fn run(entry_bits: u32, part_names: usize, names: usize, seed: u64) {
    let options = Options { entry_bits, part_names, ..Options::default() };
    let mut check = Check::new(options, names, 2, seed);
    check.look();
    for round in 0..40 {
        // Tables grow, churn and shrink by turns.
        check.sets_in_8 = [7, 4, 0, 7][round / 10];
        if round == 15 {
            check.add_switch();
            check.look();
        }
        if round % 4 == 0 {
            check.refuse();
        }
        let len_max = if round % 3 == 0 { names } else { 8 };
        let batch = check.batch(len_max);
        check.change(&batch);
        check.look();
    }
    assert!(check.checked > 10 * names, "only {} answers were checked", check.checked);
}

#[test]
fn tables_of_one_graph_answer_as_tables_of_their_own() {
    for (seed, entry_bits) in (1..).zip([1, 5, 8, 27]) {
        // From cycles and splits every few changes to none at all.
        for part_names in [1, 8, 60, 1 << 15] {
            run(entry_bits, part_names, 400, seed);
        }
    }
    run(8, 1000, 10_000, 9);
}

/// A name whose entry changes in one table keeps that of all others, which are not replaced.
#[test]
fn an_entry_that_changes_in_one_table_changes_in_no_other() {
    let names: Vec<_> = (0..300).map(digest).collect();
    let (first, second) = (vec![EntryId(3); 300], vec![EntryId(4); 300]);
    let mut network = Network::construct(Options::default(), &names, &[&first, &second]).expect("room");
    let fibs = [network.query(0), network.query(1)];
    let updates = network.apply(&[NetworkChange::Alter(names[7], 1, EntryId(9))]).expect("a known name");
    assert!(updates.iter().all(|update| matches!(update, Update::Patched)));
    for (at, name) in names.iter().enumerate() {
        assert_eq!(fibs[0].entry(*name), Some(EntryId(3)));
        assert_eq!(fibs[1].entry(*name), Some(EntryId(if at == 7 { 9 } else { 4 })));
    }
    let unknown = NetworkChange::Alter(digest(300), 0, EntryId(1));
    assert!(network.apply(&[unknown]).is_ok_and(|_| network.len() == 300 && network.entry(0, digest(300)).is_none()));
}

#[test]
fn of_names_given_twice_the_last_counts() {
    for part_names in [1, 50, 1 << 15] {
        let options = Options { part_names, ..Options::default() };
        let names: Vec<_> = (0..1000).map(|number| digest(number % 300)).collect();
        let entries: Vec<_> = (0..1000).map(|number| EntryId(number / 300 * 10 + number % 7)).collect();
        let others: Vec<_> = entries.iter().map(|entry| EntryId(entry.0 + 1)).collect();
        let network = Network::construct(options, &names, &[&entries, &others]).expect("room");
        assert_eq!(network.len(), 300);
        for number in 700..1000 {
            for (table, entries) in [&entries, &others].into_iter().enumerate() {
                assert_eq!(network.query(table).entry(names[number]), Some(entries[number]));
            }
        }
    }
}
