//! The tables of all switches, by engine: both halves.

use std::sync::Arc;

use byname_forward::switch::check;
use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::message::{Feed, Refusal, Sender};
use byname_lookup::flat::othello::{self, Network, NetworkChange};
use byname_lookup::{BuildError, Change, Control, FlatFib, Pages, Update};
use byname_wire::{Digest, NameHashKey};
use serde::Deserialize;

/// Most octets of the messages that bring a whole table: tens of millions of hosts.
const TABLE_OCTETS_MAX: usize = 1 << 28;

/// What tables are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// One graph for all switches [Concise §5.1].
    #[default]
    Othello,
    /// Smaller tables, each computed by itself.
    Line,
}

impl Engine {
    pub(super) fn number(self) -> u8 {
        match self {
            Engine::Othello => 0,
            Engine::Line => 1,
        }
    }

    pub(super) fn numbered(number: u8) -> Option<Self> {
        [Engine::Othello, Engine::Line].into_iter().find(|engine| engine.number() == number)
    }
}

/// The control halves.
pub(super) enum Tables {
    Othello(Box<Network>),
    Line(Vec<LineRetrieval>),
}

impl Tables {
    /// So many empty tables, each for so many names.
    pub(super) fn new(engine: Engine, tables: usize, names_max: usize) -> Result<Self, BuildError> {
        let entry_bits = check().bits();
        Ok(match engine {
            Engine::Othello => {
                let options = othello::Options { entry_bits, names_max, ..othello::Options::default() };
                Tables::Othello(Box::new(Network::new(options, tables)?))
            }
            Engine::Line => {
                let options = line::Options { entry_bits, names_max, ..line::Options::default() };
                Tables::Line((0..tables).map(|_| LineRetrieval::new(&options)).collect())
            }
        })
    }

    /// Applies changes to all tables. Query halves here are nobody's: replicas are told by
    /// [`Tables::feed`].
    ///
    /// Where tables are computed one by one and one fails, which takes a system without memory, those
    /// before it have the changes.
    pub(super) fn apply(&mut self, changes: &[NetworkChange]) -> Result<(), BuildError> {
        match self {
            Tables::Othello(network) => network.apply(changes).map(drop),
            Tables::Line(tables) => tables.iter_mut().enumerate().try_for_each(|(number, table)| {
                let of_table: Vec<_> = changes.iter().filter_map(|change| of_table(change, number)).collect();
                table.apply(&of_table).map(drop)
            }),
        }
    }

    /// Tells a replica what has changed in a table, or all of it.
    pub(super) fn feed(&mut self, table: usize, whole: bool, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) {
        match self {
            Tables::Othello(network) if whole => network.feed_whole(table, sender, send),
            Tables::Othello(network) => network.feed(table, sender, send),
            Tables::Line(tables) if whole => tables[table].feed_whole(sender, send),
            Tables::Line(tables) => tables[table].feed(sender, send),
        };
    }
}

/// What a change of a network is to one of its tables.
fn of_table(change: &NetworkChange, table: usize) -> Option<Change<Digest>> {
    match change {
        NetworkChange::Set(name, entries) => Some(Change::Set(*name, entries[table])),
        NetworkChange::Alter(name, of, entry) => (*of == table).then_some(Change::Set(*name, *entry)),
        NetworkChange::Remove(name) => Some(Change::Remove(*name)),
    }
}

/// A query half, fed by messages.
pub(super) enum Replica {
    Othello(Box<othello::Replica>),
    Line(Box<line::Replica>),
}

impl Replica {
    pub(super) fn new(engine: Engine, key: NameHashKey) -> Self {
        match engine {
            Engine::Othello => Replica::Othello(Box::new(othello::Replica::new(key, TABLE_OCTETS_MAX, Pages::Small))),
            Engine::Line => Replica::Line(Box::new(line::Replica::new(key, TABLE_OCTETS_MAX, Pages::Small))),
        }
    }

    pub(super) fn is_stale(&self) -> bool {
        match self {
            Replica::Othello(replica) => replica.is_stale(),
            Replica::Line(replica) => replica.is_stale(),
        }
    }

    /// As `receive` of either; `Some(None)`: the query half that readers have has changed in place.
    pub(super) fn receive(&mut self, message: &[u8]) -> Result<Option<Option<Arc<dyn FlatFib>>>, Refusal> {
        let update = match self {
            Replica::Othello(replica) => replica.receive(message),
            Replica::Line(replica) => replica.receive(message),
        };
        Ok(update?.map(|update| match update {
            Update::Replace(fib) => Some(fib),
            Update::Patched => None,
        }))
    }
}
