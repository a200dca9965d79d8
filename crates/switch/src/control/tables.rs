//! The tables of all switches for each engine: control halves and replicas.

use std::sync::Arc;

use crate::switch::check;
use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::message::{Feed, Refusal, Sender};
use byname_lookup::flat::othello::{self, Network, NetworkChange};
use byname_lookup::{BuildError, Change, Control, FlatFib, Pages, Update};
use byname_wire::{Digest, NameHashKey};
use serde::Deserialize;

/// Most bytes of the messages of a whole table, enough for tens of millions of hosts.
const TABLE_BYTES_MAX: usize = 1 << 28;

/// Structure of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// One Othello graph shared by all switches [Concise §5.1].
    #[default]
    Othello,
    /// Smaller tables, computed for each switch separately.
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
    /// `tables` empty tables for at most `names_max` names each.
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

    /// Applies changes to all tables. The query halves here have no readers; replicas are updated by [`Tables::feed`].
    ///
    /// The engine `line` updates one table after another. If one fails, for lack of memory, the tables before it keep
    /// the changes.
    pub(super) fn apply(&mut self, changes: &[NetworkChange]) -> Result<(), BuildError> {
        match self {
            Tables::Othello(network) => network.apply(changes).map(drop),
            Tables::Line(tables) => tables.iter_mut().enumerate().try_for_each(|(number, table)| {
                let of_table: Vec<_> = changes.iter().filter_map(|change| of_table(change, number)).collect();
                table.apply(&of_table).map(drop)
            }),
        }
    }

    /// Sends a replica the changes of its table, or the whole table.
    pub(super) fn feed(&mut self, table: usize, whole: bool, sender: &mut Sender, send: &mut dyn FnMut(&[u8])) {
        match self {
            Tables::Othello(network) if whole => network.feed_whole(table, sender, send),
            Tables::Othello(network) => network.feed(table, sender, send),
            Tables::Line(tables) if whole => tables[table].feed_whole(sender, send),
            Tables::Line(tables) => tables[table].feed(sender, send),
        };
    }
}

/// The part of a network change that concerns one table.
fn of_table(change: &NetworkChange, table: usize) -> Option<Change<Digest>> {
    match change {
        NetworkChange::Set(name, entries) => Some(Change::Set(*name, entries[table])),
        NetworkChange::Alter(name, of, entry) => (*of == table).then_some(Change::Set(*name, *entry)),
        NetworkChange::Remove(name) => Some(Change::Remove(*name)),
    }
}

/// A query half that is updated by messages.
pub(super) enum Replica {
    Othello(Box<othello::Replica>),
    Line(Box<line::Replica>),
}

impl Replica {
    pub(super) fn new(engine: Engine, key: NameHashKey) -> Self {
        match engine {
            Engine::Othello => Replica::Othello(Box::new(othello::Replica::new(key, TABLE_BYTES_MAX, Pages::Small))),
            Engine::Line => Replica::Line(Box::new(line::Replica::new(key, TABLE_BYTES_MAX, Pages::Small))),
        }
    }

    pub(super) fn is_stale(&self) -> bool {
        match self {
            Replica::Othello(replica) => replica.is_stale(),
            Replica::Line(replica) => replica.is_stale(),
        }
    }

    /// Handles a message. `Some(None)`: the query half was changed in place.
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
