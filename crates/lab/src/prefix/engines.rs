//! All engines, and how each is made from the options of the command line.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use byname_lookup::flat::line::{self, BulkLoad};
use byname_lookup::flat::validity::Check;
use byname_lookup::prefix::binary_search::{self, BinarySearch, Expected};
use byname_lookup::prefix::compact::{self, BulkLoader, Compact, Translation};
use byname_lookup::prefix::learned::Learned;
use byname_lookup::prefix::level_pulling::{self, LevelPulling};
use byname_lookup::prefix::namespaces::changes::Changes;
use byname_lookup::prefix::namespaces::{Namespace, Namespaces};
use byname_lookup::prefix::two_stage::{self, StartDepth};
use byname_lookup::prefix::{LongestFirst, TwoStage, longest_first};
use byname_lookup::{Control, EntryId, PrefixFib};
use byname_wire::{Name, NameRef};

use super::engine::{Engine, Setup};
use super::options::{Prefetch, Strategy};
use crate::baselines::{ComponentTrie, Locked, LongestFirstMap, Patricia};
use crate::workload::objects;

/// A bulk load reports its progress after this many rules.
const BULK_STEP: u64 = 1 << 16;

/// Name of the flat table.
const FLAT: &str = "flat";

/// Every engine.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "compact",
        about: "binary search over the compacted trie's fattest depths; byname's own",
        bytes_per_rule: 24,
        takes: &["exact", "fill"],
        chooses_pages: true,
        empty: |setup| Ok(Box::new(Compact::new(setup.key, &compact_options(setup))?)),
        bulk: Some(|setup, progress| {
            if setup.tuning.exact {
                bail!("--exact compares names, but a bulk load keeps none: use --load changes");
            }
            let workload = setup.workload;
            let nodes = usize::try_from(workload.bulk_nodes().unwrap_or_default())?;
            let mut loader = BulkLoader::new(setup.key, nodes, &compact_options(setup))?;
            let mut name = Vec::new();
            for i in 0..workload.rules() {
                workload.write_rule(i, &mut name);
                loader.push(NameRef::new_checked_before(&name), workload.entry(i))?;
                if i % BULK_STEP == BULK_STEP - 1 {
                    progress(BULK_STEP);
                }
            }
            Ok(loader.finish()?)
        }),
    },
    Engine {
        name: FLAT,
        about: "content hashes in a flat table in front of compact, in bulk; byname's own [Concise]",
        bytes_per_rule: 32,
        takes: &[],
        chooses_pages: true,
        empty: |_| bail!("a flat table keeps no names, and takes no changes: --load bulk"),
        bulk: Some(flat_names),
    },
    Engine {
        name: "longest_first",
        about: "from the longest prefix down, compact-array table [So §2.2, §2.3]",
        bytes_per_rule: 96,
        takes: &["prefetch", "load-factor", "probe-empty-depths"],
        chooses_pages: true,
        empty: |setup| Ok(Box::new(LongestFirst::with_options(setup.key, so_options(setup)?)?)),
        bulk: None,
    },
    Engine {
        name: "two_stage",
        about: "in two stages, starting at a depth M that most rules do not exceed [So §2.3]",
        bytes_per_rule: 192,
        takes: &["prefetch", "load-factor", "probe-empty-depths", "start-depth"],
        chooses_pages: true,
        empty: |setup| {
            let start_depth = setup.tuning.start_depth.map_or(StartDepth::default(), StartDepth::Fixed);
            let options = two_stage::Options { table: so_options(setup)?, start_depth };
            Ok(Box::new(TwoStage::with_options(setup.key, options)?))
        },
        bulk: None,
    },
    Engine {
        name: "binary_search",
        about: "binary search over prefix lengths, with markers [Yuan §3]",
        bytes_per_rule: 256,
        takes: &["strategy", "prefetch"],
        chooses_pages: true,
        empty: |setup| Ok(Box::new(BinarySearch::new(setup.key, yuan_options(setup)?)?)),
        bulk: None,
    },
    Engine {
        name: "level_pulling",
        about: "binary search that starts deeper below popular prefixes [Yuan §4]",
        bytes_per_rule: 256,
        takes: &["strategy", "prefetch", "threshold"],
        chooses_pages: true,
        empty: |setup| {
            let default = level_pulling::Options::default();
            let children = setup.tuning.threshold.unwrap_or(default.children);
            let options = level_pulling::Options { children, tables: yuan_options(setup)?, ..default };
            Ok(Box::new(LevelPulling::new(setup.key, options)?))
        },
        bulk: None,
    },
    Engine {
        name: "learned",
        about: "a learned index over sorted keyed hashes, from the longest prefix down [Hasegawa]",
        bytes_per_rule: 96,
        takes: &[],
        chooses_pages: false,
        empty: |setup| Ok(Box::new(Learned::new(setup.key, setup.rules_max))),
        bulk: None,
    },
    Engine {
        name: "hashmap",
        about: "baseline: a HashMap of names, from the longest prefix down",
        bytes_per_rule: 256,
        takes: &[],
        chooses_pages: false,
        empty: |_| Ok(Box::new(Locked::<LongestFirstMap>::default())),
        bulk: None,
    },
    Engine {
        name: "component_trie",
        about: "baseline: a trie of components",
        bytes_per_rule: 1600,
        takes: &[],
        chooses_pages: false,
        empty: |_| Ok(Box::new(Locked::<ComponentTrie>::default())),
        bulk: None,
    },
    Engine {
        name: "patricia",
        about: "baseline: a Patricia trie of bytes",
        bytes_per_rule: 256,
        takes: &[],
        chooses_pages: false,
        empty: |_| Ok(Box::new(Locked::<Patricia>::default())),
        bulk: None,
    },
];

/// Bits of the checksum of a flat name.
const CHECK_BITS: u32 = 4;
/// Flat names that a bulk load holds at a time: 3 GB.
const FLAT_AT_ONCE: usize = 1 << 27;

/// The rules of [`objects`] in a flat table, as the router has it for `[[flat]]`.
fn flat_names(setup: &Setup<'_>, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Arc<dyn PrefixFib>> {
    let (workload, prefix) = (setup.workload, objects::PREFIX.parse::<Name>()?);
    let check = Check::new(objects::WAYS.ilog2(), CHECK_BITS);
    let options = line::Options { entry_bits: check.bits(), pages: setup.pages, ..line::Options::default() };
    let stored = |i: u64, name: &mut Vec<u8>| {
        workload.write_rule(i, name);
        let rule = NameRef::new_checked_before(name);
        let flat = rule.components().last().filter(|_| prefix.as_ref().is_prefix_of(&rule)).map(|last| last.value);
        let digest = setup.key.digest_bytes(flat.context("a flat table has content hashes only: --workload objects")?);
        Ok((digest, check.stored(digest, workload.entry(i))?))
    };
    // Whether the rules are of this kind shows in the first one.
    (workload.rules() > 0).then(|| stored(0, &mut Vec::new())).transpose().map_err(|error: anyhow::Error| error)?;
    let source = || {
        let mut name = Vec::new();
        (0..workload.rules()).map(move |i| stored(i, &mut name).expect("the first rule was of this kind"))
    };
    let mut reported = 0;
    let mut report = |names: usize| {
        progress(names as u64 - reported);
        reported = names as u64;
    };
    let table = line::bulk_load(&options, source, BulkLoad { names_at_once: FLAT_AT_ONCE, progress: &mut report })?;
    let namespace = Namespace {
        prefix,
        key: setup.key,
        table: check.query(table),
        translation: Translation::new(&(0..objects::WAYS).map(|way| Some(EntryId(way))).collect::<Vec<_>>()),
        labels: Arc::new([]),
        changes: Arc::new(Changes::new(0)),
    };
    let rest = Box::new(Compact::new(setup.key, &compact::Options { rules_max: 1, ..compact_options(setup) })?);
    Ok(Namespaces::new(rest, vec![namespace])?.query())
}

/// The engines for rules of any kind: all but the flat table.
pub fn engines_of_all_rules() -> impl Iterator<Item = &'static Engine> {
    ENGINES.iter().filter(|engine| engine.name != FLAT)
}

fn compact_options(setup: &Setup<'_>) -> compact::Options {
    let default = compact::Options::default();
    compact::Options {
        rules_max: setup.rules_max,
        pages: setup.pages,
        exact: setup.tuning.exact,
        fill_percent: setup.tuning.fill.unwrap_or(default.fill_percent),
        ..default
    }
}

fn so_options(setup: &Setup<'_>) -> anyhow::Result<longest_first::Options> {
    let default = longest_first::Options::default();
    let prefetch = match setup.tuning.prefetch {
        None => default.prefetch,
        Some(Prefetch::None) => longest_first::Prefetch::None,
        Some(Prefetch::All) => longest_first::Prefetch::AllAtOnce,
        Some(Prefetch::Burst) => longest_first::Prefetch::AcrossBurst,
        Some(Prefetch::Cascade) => longest_first::Prefetch::Cascade,
        Some(Prefetch::First) => bail!("this engine does not offer --prefetch first"),
    };
    Ok(longest_first::Options {
        rules_max: setup.rules_max,
        load_factor: setup.tuning.load_factor.unwrap_or(default.load_factor),
        preallocate: setup.tuning.load_factor.is_some(),
        prefetch,
        pages: setup.pages,
        probe_empty_depths: setup.tuning.probe_empty_depths,
    })
}

fn yuan_options(setup: &Setup<'_>) -> anyhow::Result<binary_search::Options> {
    let default = binary_search::Options::default();
    let prefetch = match setup.tuning.prefetch {
        None => default.prefetch,
        Some(Prefetch::None) => binary_search::Prefetch::None,
        Some(Prefetch::First) => binary_search::Prefetch::First,
        Some(Prefetch::All) => binary_search::Prefetch::All,
        Some(Prefetch::Burst) => binary_search::Prefetch::Burst,
        Some(Prefetch::Cascade) => bail!("this engine does not offer --prefetch cascade"),
    };
    let by_depth = setup.workload.rules_by_depth();
    // Updates may add rules of any depth. A table that had to grow would distort the measurement.
    let spare = setup.rules_max.saturating_sub(usize::try_from(setup.workload.rules())?);
    let expected = by_depth.iter().enumerate().filter(|(_, rules)| **rules > 0);
    Ok(binary_search::Options {
        strategy: match setup.tuning.strategy {
            None => default.strategy,
            Some(Strategy::Always) => binary_search::Strategy::Always,
            Some(Strategy::AtEnd) => binary_search::Strategy::AtEnd,
        },
        prefetch,
        pages: setup.pages,
        rules_max: setup.rules_max,
        expected: expected.map(|(components, &rules)| Expected { components, rules: rules as usize + spare }).collect(),
        ..default
    })
}
