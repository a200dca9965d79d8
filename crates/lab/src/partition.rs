//! One router of several machines [So §2.4]: rules cut into a part for each node, behind a partition of a few bits a name.
//!
//! Each of the nodes has its part of the rules, and the partition (`byname_lookup::prefix::partition`). They are compared with
//! one table of all rules, which each node would have otherwise. Every name of the workload is looked up at
//! one node, and then at the node that the answer leads to. Each answer is compared with the workload's own.
//!
//! A packet that arrives at a random node is handled by 2 - 1/N nodes on average, if its rule is at a random one. So N nodes
//! that each handle C packets/s have a capacity of N·C/(2 - 1/N). If a packet leaves by the node that has its rule,
//! it had to cross anyway, and nodes with all rules handle it as often.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use byname_lookup::file::{Opening, Place};
use byname_lookup::prefix::compact::{self, BulkLoader, NodeCounter};
use byname_lookup::prefix::partition::plan::{self, Cuts, Placement, Survey};
use byname_lookup::prefix::partition::{Partition, Partitioned};
use byname_lookup::prefix::{BURST_MAX, PrefixMatch};
use byname_lookup::{BuildError, Change, Control, EntryId, PrefixFib, Update};
use byname_wire::{Name, NameHashKey, NameRef, NameView, PrefixHashes};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::harness::Measurement;
use crate::machine;
use crate::progress::Progress;
use crate::size;
use crate::table::{Table, word};
use crate::timing::rate;
use crate::workload::{self, Drawing, Kind, NameChoice, NameSet, Workload};

/// Entries of the ways to other nodes, which no rule has.
const WAYS: u32 = workload::GROUPS;
/// Least memory of a rule, in bytes: in one table of all, in a part, and as a cut.
const BYTES_MIN: u64 = 40;
const SECRET: [u64; 2] = [0x62_79_6e, 0x61_6d_65];

/// Who decides at which node a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The hash of its cut.
    Owner,
    /// The node by which its packets leave.
    Egress,
}

/// Measures a router of several nodes, and checks its answers.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Number of rules. Lists of URLs may hold fewer.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub rules: u64,
    /// Number of components of the deepest generated rules.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=32))]
    pub components: u64,
    /// The rules.
    #[command(flatten)]
    pub workload: Kind,
    /// Number of nodes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=15))]
    pub nodes: u64,
    /// Who decides at which node a rule is.
    #[arg(long, value_enum, default_value_t = By::Owner)]
    pub by: By,
    /// Bits of the checksum of a cut.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub check: u32,
    /// Number of names that are looked up while time is taken, and number of unknown names.
    #[arg(long, default_value = "4M", value_parser = size::count)]
    pub draws: u64,
    /// Time for each figure, in seconds.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Number of times that each figure is taken; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub repetitions: u64,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as a line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// A router of several nodes.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// Number of rules.
    pub rules: u64,
    /// Number of cuts and of prefixes of cuts.
    pub cuts: u64,
    /// Memory of the partition, in bytes. Each node has it.
    pub partition_bytes: u64,
    /// The same for each cut.
    pub partition_bytes_per_cut: f64,
    /// Memory of one table of all rules, in bytes.
    pub all_bytes: u64,
    /// Memory of the largest part, in bytes.
    pub part_bytes_max: u64,
    /// Memory of all parts together, in bytes.
    pub parts_bytes: u64,
    /// Number of rules that all nodes have.
    pub everywhere: u64,
    /// Number of names whose answers were checked: each at one node, and at the next if it crosses.
    pub checked: u64,
    /// Share of them that crosses.
    pub crossing: f64,
    /// Mean number of nodes that handle a packet.
    pub handled: f64,
    /// Number of unknown names that were looked up.
    pub unknown: u64,
    /// Share of them that crosses in vain.
    pub crossing_in_vain: f64,
    /// Time of a lookup in one table of all rules, in nanoseconds.
    pub all_ns: f64,
    /// Time of a lookup in the partition, and in the part if the name is at home, in nanoseconds.
    pub ingress_ns: f64,
    /// Time of a lookup in the part of a name that has crossed, in nanoseconds.
    pub home_ns: f64,
    /// Time of both together for a mean packet, in nanoseconds.
    pub both_ns: f64,
}

impl Measurement for Options {
    const NAME: &'static str = "partition";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        Ok(vec![measure(self, progress)?])
    }

    fn print(&self, records: &[Record]) {
        let mut table = Table::new(&["rules", "nodes", "by", "bytes a cut", "part MB", "all MB", "ns", "ns of all"]);
        for record in records {
            table.row([
                record.rules.to_string(),
                self.nodes.to_string(),
                word(self.by),
                format!("{:.2}", record.partition_bytes_per_cut),
                format!("{:.1}", record.part_bytes_max as f64 / 1e6),
                format!("{:.1}", record.all_bytes as f64 / 1e6),
                format!("{:.0} + {:.0}", record.ingress_ns, record.home_ns),
                format!("{:.0}", record.all_ns),
            ]);
        }
        print!("{table}");
    }
}

/// The rules of a workload in canonical order.
struct Rules<'a> {
    workload: &'a dyn Workload,
    /// Their numbers, if their order is another one.
    order: Option<Vec<u64>>,
}

impl<'a> Rules<'a> {
    fn new(workload: &'a dyn Workload) -> Self {
        let order = workload.bulk_nodes().is_none().then(|| {
            let name = |i: &u64| {
                let mut value = Vec::new();
                workload.write_rule(*i, &mut value);
                NameRef::new_checked_before(&value).to_name()
            };
            let mut order: Vec<u64> = (0..workload.rules()).collect();
            order.sort_by_cached_key(name);
            order
        });
        Rules { workload, order }
    }

    fn each(&self, mut each: impl FnMut(NameRef<'_>, EntryId) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut value = Vec::new();
        for place in 0..self.workload.rules() {
            let rule = self.order.as_ref().map_or(place, |order| order[place as usize]);
            self.workload.write_rule(rule, &mut value);
            each(NameRef::new_checked_before(&value), self.workload.entry(rule))?;
        }
        Ok(())
    }
}

/// A table of rules that do not change.
struct Loaded(Arc<dyn PrefixFib>);

impl Control<Name> for Loaded {
    type Query = dyn PrefixFib;

    fn query(&self) -> Arc<Self::Query> {
        self.0.clone()
    }

    fn apply(&mut self, _: &[Change<Name>]) -> Result<Update<Self::Query>, BuildError> {
        unreachable!("nothing changes here")
    }

    fn reclaim(&mut self) {}
}

/// Loads each rule into those of `count` tables that `holders` says.
fn load(
    rules: &Rules<'_>,
    key: NameHashKey,
    count: usize,
    mut holders: impl FnMut(NameRef<'_>, EntryId) -> Range<usize>,
) -> anyhow::Result<Vec<Arc<dyn PrefixFib>>> {
    let mut counters: Vec<_> = (0..count).map(|_| NodeCounter::default()).collect();
    rules.each(|name, entry| {
        counters[holders(name, entry)].iter_mut().try_for_each(|counter| Ok(counter.push(name)?))
    })?;
    let options = compact::Options::default();
    let loaders = counters.iter().map(|counter| BulkLoader::new(key, counter.nodes().max(1), &options));
    let mut loaders = loaders.collect::<Result<Vec<_>, _>>()?;
    rules.each(|name, entry| {
        loaders[holders(name, entry)].iter_mut().try_for_each(|loader| Ok(loader.push(name, entry)?))
    })?;
    let tables = loaders.into_iter().map(|loader| Ok(loader.finish_table(&options)?.query()));
    tables.collect()
}

/// Builds a router, checks it, and takes times.
///
/// # Errors
/// If there is no memory, or an answer is wrong.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    machine::ensure_fits(options.rules, BYTES_MIN, "rules (--rules)")?;
    let workload = workload::open(&options.workload, options.rules, options.components as usize, options.seed)?;
    let rules = Rules::new(&*workload);
    let (nodes, key) = (options.nodes as usize, NameHashKey::new(SECRET));
    let egress = |entry: EntryId| (options.by == By::Egress).then_some(entry.0 as usize % nodes);
    let bar = progress.spinner("finding cuts");
    let mut survey = Survey::new(key, (workload.rules() / 1024).max(1));
    rules.each(|name, entry| Ok(survey.push(name, egress(entry))?))?;
    let mut plan = survey.finish((0..nodes).map(|node| format!("/r{node}").parse().expect("a name")).collect());
    let (mut cuts, mut everywhere) = (Cuts::default(), 0u64);
    rules.each(|name, entry| {
        everywhere += u64::from(plan.place_and_cut(name, egress(entry), &mut cuts) == Placement::Everywhere);
        Ok(())
    })?;
    bar.set_message("writing the partition");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("partition");
    plan::save(&path, &plan, &cuts, options.check, &mut |_| {}).context("the partition")?;
    drop(cuts);
    bar.set_message("loading all rules");
    let all = load(&rules, key, 1, |_, _| 0..1)?.remove(0);
    bar.set_message("loading parts");
    let parts = load(&rules, key, nodes, |name, entry| match plan.place(name, egress(entry)) {
        Placement::At { node, .. } => node..node + 1,
        Placement::Everywhere => 0..nodes,
    })?;
    bar.finish_and_clear();
    let opened = |place| Partition::open(&path, Opening { place, checked: false });
    let part_bytes = parts.iter().map(|part| part.memory_bytes() as u64);
    let (part_bytes_max, parts_bytes) = (part_bytes.clone().max().unwrap_or(0), part_bytes.sum());
    let routers = parts.iter().enumerate().map(|(node, part)| {
        let (engine, partition) = (Loaded(part.clone()), opened(Place::Mapped)?);
        let holds = [plan.nodes()[node].clone()];
        let (router, ways) = Partitioned::new(engine, partition, &holds)?;
        (0..nodes as u32).for_each(|other| ways.set(EntryId(other), Some(EntryId(WAYS + other))));
        Ok(router.query())
    });
    let router = Router { key, nodes: routers.collect::<anyhow::Result<Vec<_>>>()?, parts };
    let partition = opened(Place::Mapped)?;
    let (cuts, partition_bytes) = (partition.cuts(), partition.memory_bytes() as u64);
    let (checked, crossed) = router.check(&*workload, progress)?;
    let drawing = |choice| Drawing { choice, suffix: 0, draws: options.draws, seed: options.seed };
    let misses = NameSet::draw(&*workload, &drawing(&NameChoice::Miss), |_| ())?;
    let in_vain = router.crossing(&misses)?.iter().filter(|node| node.is_some()).count();
    let unknown = misses.len() as u64;
    drop(misses);
    let hits = NameSet::draw(&*workload, &drawing(&NameChoice::Hit), |_| ())?;
    let Times { all_ns, ingress_ns, home_ns } = router.time(&*all, &hits, options, progress)?;
    let crossing = crossed as f64 / checked as f64;
    Ok(Record {
        rules: workload.rules(),
        cuts,
        partition_bytes,
        partition_bytes_per_cut: partition_bytes as f64 / cuts as f64,
        all_bytes: all.memory_bytes() as u64,
        part_bytes_max,
        parts_bytes,
        everywhere,
        checked,
        crossing,
        handled: 1.0 + crossing,
        unknown,
        crossing_in_vain: in_vain as f64 / unknown as f64,
        all_ns,
        ingress_ns,
        home_ns,
        both_ns: ingress_ns + crossing * home_ns,
    })
}

/// The nodes of a router, as packets from outside meet them and as packets from other nodes do.
struct Router {
    key: NameHashKey,
    nodes: Vec<Arc<dyn PrefixFib>>,
    parts: Vec<Arc<dyn PrefixFib>>,
}

/// Mean times of a lookup, in nanoseconds.
struct Times {
    all_ns: f64,
    ingress_ns: f64,
    home_ns: f64,
}

/// Names of one burst, hashed.
fn hashed<'a>(key: &NameHashKey, names: &[NameRef<'a>], hashes: &'a mut [PrefixHashes]) -> Vec<NameView<'a>> {
    PrefixHashes::fill_burst(key, names, &mut hashes[..names.len()]);
    names.iter().zip(&*hashes).map(|(name, hashes)| NameView::from_filled(*name, hashes)).collect()
}

impl Router {
    /// Looks up each name of the workload at some node, and where that leads. Returns their number, and how many crossed.
    fn check(&self, workload: &dyn Workload, progress: Progress) -> anyhow::Result<(u64, u64)> {
        let targets = workload.targets();
        let bar = progress.bar("checking", targets);
        let mut hashes = vec![PrefixHashes::default(); BURST_MAX];
        let (mut crossed, mut first) = (0, 0);
        while first < targets {
            let count = (targets - first).min(BURST_MAX as u64);
            let values = (first..first + count).map(|target| {
                let mut value = Vec::new();
                workload.write_target(target, &mut value);
                value
            });
            let values: Vec<_> = values.collect();
            let names: Vec<_> = values.iter().map(|value| NameRef::new_checked_before(value)).collect();
            let views = hashed(&self.key, &names, &mut hashes);
            // Bursts meet the nodes in turn.
            let at = (first as usize / BURST_MAX) % self.nodes.len();
            let mut found = [None; BURST_MAX];
            self.nodes[at].longest_match_burst(&views, &mut found[..views.len()]);
            for (view, found) in views.iter().zip(found) {
                let node = elsewhere(found);
                ensure!(node != Some(at), "{} leads back to node {at}", view.name());
                crossed += u64::from(node.is_some());
                let found = node.map_or(found, |node| self.parts[node].longest_match(view));
                let expected = workload.covering(view.name()).map(|rule| workload.entry(rule));
                let answer = found.map(|found| found.entry);
                ensure!(answer == expected, "{} at node {at}: {answer:?}, not {expected:?}", view.name());
            }
            first += count;
            bar.inc(count);
        }
        bar.finish_and_clear();
        Ok((targets, crossed))
    }

    /// The node to which each name crosses, from nodes in turn.
    fn crossing(&self, names: &NameSet) -> anyhow::Result<Vec<Option<usize>>> {
        let mut hashes = vec![PrefixHashes::default(); BURST_MAX];
        let mut nodes = Vec::with_capacity(names.len());
        while nodes.len() < names.len() {
            let end = (nodes.len() + BURST_MAX).min(names.len());
            let burst = (nodes.len()..end).map(|i| names.parse(i)).collect::<Result<Vec<_>, _>>()?;
            let views = hashed(&self.key, &burst, &mut hashes);
            let mut found = [None; BURST_MAX];
            let at = (nodes.len() / BURST_MAX) % self.nodes.len();
            self.nodes[at].longest_match_burst(&views, &mut found[..views.len()]);
            nodes.extend(found[..views.len()].iter().map(|found| elsewhere(*found)));
        }
        Ok(nodes)
    }

    /// Takes times of lookups in bursts of 32, in turn. All hash what they look up.
    fn time(
        &self,
        all: &dyn PrefixFib,
        names: &NameSet,
        options: &Options,
        progress: Progress,
    ) -> anyhow::Result<Times> {
        let bar = progress.spinner("taking times");
        let every: Vec<u32> = (0..names.len() as u32).collect();
        let mut crossed = vec![Vec::new(); self.nodes.len()];
        for (i, node) in (0..).zip(self.crossing(names)?) {
            if let Some(node) = node {
                crossed[node].push(i);
            }
        }
        // As many of each node as of the one with the fewest, so that the nodes take turns.
        let shortest = crossed.iter().map(Vec::len).min().unwrap_or(0);
        let duration = Duration::from_secs_f64(options.seconds);
        let mut found = [const { Vec::new() }; 3];
        // The first round warms up.
        for round in 0..=options.repetitions {
            let times = [
                nanoseconds(&self.key, names, duration, &[(all, &every)]),
                nanoseconds(
                    &self.key,
                    names,
                    duration,
                    &self.nodes.iter().map(|n| (&**n, &every[..])).collect::<Vec<_>>(),
                ),
                match shortest {
                    0 => 0.0,
                    _ => {
                        let crossed = crossed.iter().map(|crossed| &crossed[..shortest]);
                        let parts: Vec<_> = self.parts.iter().map(|part| &**part).zip(crossed).collect();
                        nanoseconds(&self.key, names, duration, &parts)
                    }
                },
            ];
            if round > 0 {
                found.iter_mut().zip(times).for_each(|(found, ns)| found.push(ns));
            }
        }
        bar.finish_and_clear();
        let [all_ns, ingress_ns, home_ns] = found.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        Ok(Times { all_ns, ingress_ns, home_ns })
    }
}

/// The other node that an answer leads to.
fn elsewhere(found: Option<PrefixMatch>) -> Option<usize> {
    Some(found?.entry.0.checked_sub(WAYS)? as usize)
}

/// Mean time of a lookup, in tables that take turns with a burst each, of these of the names.
fn nanoseconds(key: &NameHashKey, names: &NameSet, duration: Duration, tables: &[(&dyn PrefixFib, &[u32])]) -> f64 {
    const BURST: usize = 32;
    let mut hashes = vec![PrefixHashes::default(); BURST];
    let (mut turn, mut places) = (0, vec![0; tables.len()]);
    let rate = rate(duration, || {
        let (table, wanted) = tables[turn % tables.len()];
        let place = &mut places[turn % tables.len()];
        let end = (*place + BURST).min(wanted.len());
        let mut burst = [NameRef::ROOT; BURST];
        for (name, i) in burst.iter_mut().zip(&wanted[*place..end]) {
            *name = names.parse(*i as usize).expect("well-formed");
        }
        let count = end - *place;
        let views = hashed(key, &burst[..count], &mut hashes);
        let mut found = [None; BURST];
        table.longest_match_burst(&views, &mut found[..count]);
        std::hint::black_box(&found);
        *place = if end == wanted.len() { 0 } else { end };
        turn += 1;
        count
    });
    1e9 / rate
}
