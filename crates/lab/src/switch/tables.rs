//! The tables of a switch.
//!
//! All tables answer with a port number and a checksum of the name, as switches expect. Tables without names store
//! both, in 32 bits. Tables with names recognize known names by comparing them, so they store only the 8 bits of the
//! port and compute the checksum. Their names have 64 bits, as in [Concise §6.4.1]. These are bits of the address's
//! keyed digest, because a switch queries its table by digests.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::{BuildError, Control, EntryId, FlatFib};
use byname_switch::switch::{ENTRY_BITS, check};
use byname_wire::{Digest, NameHashKey};
use smallvec::SmallVec;

use super::stations::Stations;
use crate::flat::baselines::{self, Baseline, FlatName, KINDS, Population};

/// A built table.
pub struct Table {
    pub fib: Arc<dyn FlatFib>,
    /// Expected share of wrong answers, by the engine's own formula.
    pub wrong_rate: f64,
}

/// Names of a table: the stations, and the key with which they are hashed.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub stations: &'a Stations,
    pub key: &'a NameHashKey,
}

impl Named<'_> {
    /// The entries of tables without names.
    fn stored(self) -> Result<Vec<(Digest, EntryId)>, BuildError> {
        let mut stored = Vec::with_capacity(self.stations.len() as usize);
        let mut result = Ok(());
        self.stations.visit(self.key, |name, port| match check().stored(name, port) {
            Ok(entry) => stored.push((name, entry)),
            Err(error) => result = Err(error),
        });
        result.map(|()| stored)
    }
}

/// Builds the query half of this engine's table.
pub fn build(engine: &str, names: Named<'_>) -> anyhow::Result<Table> {
    let exact = |fib| Table { fib, wrong_rate: 0.0 };
    Ok(match engine {
        "line" => {
            let options = line::Options { entry_bits: check().bits(), ..line::Options::default() };
            exact(LineRetrieval::load(&options, &names.stored()?)?.query())
        }
        "othello" => {
            let options = othello::Options { entry_bits: check().bits(), ..othello::Options::default() };
            let (names, entries): (Vec<_>, Vec<_>) = names.stored()?.into_iter().unzip();
            exact(Othello::construct(options, &names, &entries)?.query())
        }
        "cuckoo" | "binary_search" => of_baseline(engine, names, Keeps::Names)?,
        "orthogonal" => of_baseline(engine, names, Keeps::Checksums)?,
        _ => bail!("there is no table '{engine}': use line, othello, cuckoo, binary_search or orthogonal"),
    })
}

/// How a baseline recognizes known names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Names,
    Checksums,
}

/// Stations, identified by 64 bits of their digests, as input for constructing a baseline.
struct OfDigests<'a> {
    names: Named<'a>,
    keeps: Keeps,
}

impl Population for OfDigests<'_> {
    fn len(&self) -> usize {
        self.names.stations.len() as usize
    }

    fn bytes(&self) -> Option<usize> {
        Some(size_of::<u64>())
    }

    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
        self.names.stations.visit(self.names.key, |digest, port| {
            let entry = match self.keeps {
                Keeps::Names => port,
                Keeps::Checksums => check().stored(digest, port).expect("a port has eight bits"),
            };
            visitor(FlatName { bytes: &digest.hash.to_le_bytes(), digest }, entry);
        });
    }
}

fn of_baseline(engine: &str, names: Named<'_>, keeps: Keeps) -> anyhow::Result<Table> {
    let kind = KINDS.iter().find(|kind| kind.name == engine).context("no such baseline")?;
    let entry_bits = if keeps == Keeps::Names { ENTRY_BITS } else { check().bits() };
    let baseline = (kind.construct)(&OfDigests { names, keeps }, entry_bits)?;
    let wrong_rate = baseline.wrong_rate();
    Ok(Table { fib: Arc::new(OfBaseline { baseline, keeps }), wrong_rate })
}

/// A baseline with the interface of a switch's table.
struct OfBaseline {
    baseline: Box<dyn Baseline>,
    keeps: Keeps,
}

impl FlatFib for OfBaseline {
    fn entry(&self, name: Digest) -> Option<EntryId> {
        let mut found = [None];
        self.entry_burst(&[name], &mut found);
        found[0]
    }

    fn entry_burst(&self, names: &[Digest], out: &mut [Option<EntryId>]) {
        assert_eq!(names.len(), out.len());
        for (names, out) in names.chunks(baselines::BURST_MAX).zip(out.chunks_mut(baselines::BURST_MAX)) {
            let bytes: SmallVec<[_; baselines::BURST_MAX]> = names.iter().map(|name| name.hash.to_le_bytes()).collect();
            let asked: SmallVec<[_; baselines::BURST_MAX]> =
                bytes.iter().zip(names).map(|(bytes, digest)| FlatName { bytes, digest: *digest }).collect();
            self.baseline.query_burst(&asked, out);
            if self.keeps == Keeps::Names {
                for (name, found) in names.iter().zip(out) {
                    *found = found.and_then(|port| check().stored(*name, port).ok());
                }
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.baseline.memory_bytes()
    }
}
