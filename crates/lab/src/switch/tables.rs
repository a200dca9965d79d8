//! The tables that a switch is given.
//!
//! All answer with the number of a port and a checksum of the name, as switches expect. Those that keep
//! no names store both, 32 bits. Those that keep names tell by them whether a name is known, and need
//! not store what they can compute: 8 bits. Their names have 64 bits, as in [Concise §6.4.1], those of the
//! address's keyed digest, because a switch asks its table by digests.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use byname_forward::switch::{ENTRY_BITS, check};
use byname_lookup::flat::line::{self, LineRetrieval};
use byname_lookup::flat::othello::{self, Othello};
use byname_lookup::{BuildError, Control, EntryId, FlatFib};
use byname_wire::{Digest, NameHashKey};
use smallvec::SmallVec;

use super::stations::Stations;
use crate::flat::baselines::{self, Baseline, FlatName, KINDS, Population};

/// A table that was built.
pub struct Table {
    pub fib: Arc<dyn FlatFib>,
    /// The share of answers that are wrong by the engine's own account.
    pub wrong_rate: f64,
}

/// Names of a table: stations and what they are hashed with.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub stations: &'a Stations,
    pub key: &'a NameHashKey,
}

impl Named<'_> {
    /// What tables store that keep no names.
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

/// Builds the table of this engine, with its query half alone.
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
        _ => bail!("a switch has no table '{engine}': line, othello, cuckoo, binary_search and orthogonal are there"),
    })
}

/// What a baseline tells known names by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Names,
    Checksums,
}

/// Stations by 64 bits of their digests, as a baseline is constructed from them.
struct OfDigests<'a> {
    names: Named<'a>,
    keeps: Keeps,
}

impl Population for OfDigests<'_> {
    fn len(&self) -> usize {
        self.names.stations.len() as usize
    }

    fn octets(&self) -> Option<usize> {
        Some(size_of::<u64>())
    }

    fn visit(&self, visitor: &mut dyn FnMut(FlatName<'_>, EntryId)) {
        self.names.stations.visit(self.names.key, |digest, port| {
            let entry = match self.keeps {
                Keeps::Names => port,
                Keeps::Checksums => check().stored(digest, port).expect("a port has eight bits"),
            };
            visitor(FlatName { octets: &digest.hash.to_le_bytes(), digest }, entry);
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

/// A baseline as a switch asks it.
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
            let octets: SmallVec<[_; baselines::BURST_MAX]> =
                names.iter().map(|name| name.hash.to_le_bytes()).collect();
            let asked: SmallVec<[_; baselines::BURST_MAX]> =
                octets.iter().zip(names).map(|(octets, digest)| FlatName { octets, digest: *digest }).collect();
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
