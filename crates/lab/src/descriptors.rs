//! Routing of descriptors in one router of a large network [TagNet §2.1, §4.1]: the memory of what it knows, and the time
//! that an update takes.
//!
//! A router stands on a tree, with some neighbours. Each user behind them has advertised a descriptor. The router is
//! byname's own (`byname_control::tags`). Its neighbours are simulated: they send signed updates, take those that the
//! router sends them, and answer. Only the router's part is timed: it decodes an update, checks the signature, notes
//! the changes, changes the FIB, signs updates for its other neighbours, and takes their answers.
//!
//! All descriptors flood along the tree. So every router of the network knows all of them, and has as much to do as this
//! one. First all users' descriptors arrive, as many in an update as fit. Then single descriptors come and go, each in an
//! update of its own.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use byname_control::fib_writer::{FibWriter, TagFibEngine};
use byname_control::security::{Signer, TrustedSigner, VerifyingKey};
use byname_control::tags::message::{DescriptorList, Update, encode_session};
use byname_control::tags::{NeighborKeys, OwnNeighbor, OwnTree, TagLimits, TagRouting};
use byname_forward::FaceId;
use byname_forward::tables::Tables;
use byname_lookup::oracle::{Oracle, TagsetOracle};
use byname_lookup::tagset::rare_tag::{self, RareTag};
use byname_lookup::{BuildError, Change, Control, TagsetFib};
use byname_trust::Moment;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Descriptor, Interest, Label, Name, TreeId};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::harness::{Measurement, growth};
use crate::machine;
use crate::progress::Progress;
use crate::size;
use crate::table::{Table, word};
use crate::workload::{Random, TagKind, TagSets, mix};

const TREE: TreeId = TreeId(1);
/// The face to the first neighbour.
const FACES: u64 = 300;
/// Least memory of a descriptor, in bytes.
const BYTES_MIN: u64 = 100;
/// A time of the clock, in milliseconds.
const UNIX_MS: u64 = 1_700_000_000_000;

/// What the router does with descriptors beside noting them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fib {
    /// Nothing: what remains is the RIB.
    None,
    /// The router's default engine forwards by them.
    RareTag,
}

/// Measures a router that knows the descriptors of many users.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Options {
    /// Number of descriptors. Some are equal.
    #[arg(long, default_value = "1M", value_parser = size::count)]
    pub descriptors: u64,
    /// Number of users with the same descriptor. Each is behind a random neighbour.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub users_each: u64,
    /// Number of neighbours on the tree.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=64))]
    pub neighbors: u64,
    /// Kind of the descriptors.
    #[arg(long, value_enum, default_value_t = TagKind::Tagnet)]
    pub workload: TagKind,
    /// Folder with the real data, for ccn and cldr.
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// Whether the router aggregates: it does not tell of descriptors that another one covers.
    #[arg(long)]
    pub aggregate: bool,
    /// Also count what the first neighbour knows. That takes memory.
    #[arg(long)]
    pub known: bool,
    /// Engine of the FIB.
    #[arg(long, value_enum, default_value_t = Fib::RareTag)]
    pub fib: Fib,
    /// Number of single updates that are timed.
    #[arg(long, default_value = "100K", value_parser = size::count)]
    pub updates: u64,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print only records, each as a line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// A router that knows many descriptors.
#[derive(Serialize, Clone, Debug)]
pub struct Record {
    /// Number of different descriptors that it knows.
    pub descriptors: usize,
    /// Number of users.
    pub users: u64,
    /// Mean number of neighbours behind which there are users of a descriptor.
    pub nexthops_per_descriptor: f64,
    /// Mean number of tags of a descriptor.
    pub tags_per_descriptor: f64,
    /// Growth of the resident memory, in bytes, when all descriptors arrived.
    pub memory_bytes: u64,
    /// The same for each different descriptor.
    pub bytes_per_descriptor: f64,
    /// Time for each user's descriptor when all arrived, in microseconds.
    pub load_us_per_user: f64,
    /// Number of descriptors that neighbours were told of when all arrived.
    pub told: u64,
    /// Number of descriptors that the first neighbour knows from the router then, with `--known`.
    pub known_to_neighbor: Option<usize>,
    /// Bytes of the updates to it, with their names and signatures.
    pub bytes_to_neighbor: u64,
    /// Number of updates with a single descriptor.
    pub updates: u64,
    /// Mean time of such an update, in microseconds.
    pub update_us: f64,
    /// Its median.
    pub update_us_p50: f64,
    /// Its 99th percentile.
    pub update_us_p99: f64,
    /// The longest.
    pub update_us_max: f64,
}

impl Measurement for Options {
    const NAME: &'static str = "descriptors";
    type Record = Record;

    fn json(&self) -> bool {
        self.json
    }

    fn measure(&self, progress: Progress) -> anyhow::Result<Vec<Record>> {
        Ok(vec![measure(self, progress)?])
    }

    fn print(&self, records: &[Record]) {
        let mut table = Table::new(&["descriptors", "FIB", "users", "bytes a descriptor", "µs an update", "p99"]);
        for record in records {
            table.row([
                record.descriptors.to_string(),
                word(self.fib),
                record.users.to_string(),
                format!("{:.1}", record.bytes_per_descriptor),
                format!("{:.2}", record.update_us),
                format!("{:.2}", record.update_us_p99),
            ]);
        }
        print!("{table}");
    }
}

/// Measures a router.
///
/// # Errors
/// If there is no memory for it, or if the router refuses or loses an update.
pub fn measure(options: &Options, progress: Progress) -> anyhow::Result<Record> {
    machine::ensure_fits(options.descriptors, BYTES_MIN, "descriptors (--descriptors)")?;
    let sets = TagSets::open(options.workload, &options.data, options.seed)?;
    let mut network = Network::new(options)?;
    let bar = progress.bar("descriptors arrive", options.descriptors);
    let (loaded, memory_bytes) = growth(|| network.load(&sets, |done| bar.set_position(done)))?;
    bar.finish_and_clear();
    let (descriptors, told, bytes_to_neighbor) = (network.routing.len(), network.told, network.bytes_to_first);
    let known_to_neighbor = options.known.then_some(network.known_to_first.len());
    let changing = progress.spinner("single descriptors come and go");
    let times = network.change(&sets)?;
    changing.finish_and_clear();
    ensure!(network.routing.len() == descriptors, "the router forgot a descriptor");
    let users = options.descriptors * options.users_each;
    Ok(Record {
        descriptors,
        users,
        nexthops_per_descriptor: loaded.nexthops as f64 / options.descriptors as f64,
        tags_per_descriptor: loaded.tags as f64 / options.descriptors as f64,
        memory_bytes,
        bytes_per_descriptor: memory_bytes as f64 / descriptors as f64,
        load_us_per_user: loaded.time.as_secs_f64() * 1e6 / users as f64,
        told,
        known_to_neighbor,
        bytes_to_neighbor,
        updates: times.len(),
        update_us: times.mean() / 1e3,
        update_us_p50: times.value_at_quantile(0.5) as f64 / 1e3,
        update_us_p99: times.value_at_quantile(0.99) as f64 / 1e3,
        update_us_max: times.max() as f64 / 1e3,
    })
}

/// Sums over all descriptors.
#[derive(Default)]
struct Loaded {
    nexthops: u64,
    tags: u64,
    time: Duration,
}

/// A neighbour's side of the protocol.
struct Neighbor {
    face: FaceId,
    sequence: u64,
    /// The router's session.
    echo: u64,
    /// Descriptors for the next update.
    waiting: DescriptorList,
}

/// The router and its neighbours.
struct Network<'a> {
    options: &'a Options,
    routing: TagRouting,
    keys: Arc<NeighborKeys>,
    command: Name,
    neighbors: Vec<Neighbor>,
    now_ms: u64,
    told: u64,
    /// What the first neighbour knows from the router, by hash.
    known_to_first: HashSet<u64>,
    bytes_to_first: u64,
}

impl<'a> Network<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Self> {
        let tables = Arc::new(Tables::new(Oracle::new().query()));
        let engine: TagFibEngine = match options.fib {
            Fib::None => Box::new(NoFib),
            Fib::RareTag => Box::new(RareTag::new(mix(options.seed), &rare_tag::Options::default())?),
        };
        let max = usize::MAX;
        let limits = TagLimits {
            descriptors_max: max,
            descriptors_per_face_max: max,
            descriptors_per_neighbor_max: max,
            aggregate: options.aggregate,
        };
        let mut routing = TagRouting::new(FibWriter::new(engine, tables), limits, UNIX_MS);
        let secret = b"a secret of both";
        let name: Name = "/net".parse()?;
        let trusted = TrustedSigner::Hmac { key_name: name.clone(), key: VerifyingKey::from_hmac_secret(secret) };
        let keys = Arc::new(NeighborKeys { signer: Signer::hmac(name, secret), trusted });
        let faces = (0..options.neighbors).map(|number| FaceId(FACES + number));
        let own = |face| OwnNeighbor { face, keys: Some(Arc::clone(&keys)) };
        let neighbors = faces.clone().map(own).collect();
        routing.replace_trees(vec![OwnTree { id: TREE, label: Some(Label::new(0)), neighbors, generation: None }]);
        let neighbor = |face| Neighbor { face, sequence: 0, echo: 0, waiting: DescriptorList::default() };
        let neighbors = faces.map(neighbor).collect();
        let command = "/localhop/nfd/tags/update".parse()?;
        let mut network = Network {
            options,
            routing,
            keys,
            command,
            neighbors,
            now_ms: 1000,
            told: 0,
            known_to_first: HashSet::new(),
            bytes_to_first: 0,
        };
        network.exchange()?;
        // The first update only asks for the router's session.
        (0..network.neighbors.len())
            .try_for_each(|number| network.send(number, &DescriptorList::default()).map(drop))?;
        Ok(network)
    }

    fn moment(&self) -> Moment {
        Moment { ms: self.now_ms, unix_ms: UNIX_MS + self.now_ms }
    }

    /// Descriptors of all users arrive.
    fn load(&mut self, sets: &TagSets, mut progress: impl FnMut(u64)) -> anyhow::Result<Loaded> {
        let mut loaded = Loaded::default();
        for i in 0..self.options.descriptors {
            let descriptor = sets.descriptor(i);
            let behind = self.behind(i);
            loaded.nexthops += u64::from(behind.count_ones());
            loaded.tags += descriptor.tags().len() as u64;
            for number in (0..self.neighbors.len()).filter(|number| behind >> number & 1 == 1) {
                if !self.neighbors[number].waiting.push(&descriptor) {
                    loaded.time += self.send_waiting(number)?;
                    self.neighbors[number].waiting.push(&descriptor);
                }
            }
            if i % 4096 == 0 {
                progress(i);
            }
        }
        for number in 0..self.neighbors.len() {
            loaded.time += self.send_waiting(number)?;
        }
        Ok(loaded)
    }

    /// The neighbours behind which there are users of descriptor `i`, a bit for each.
    fn behind(&self, i: u64) -> u64 {
        let mut random = Random::of(mix(self.options.seed), i);
        (0..self.options.users_each).fold(0, |behind, _| behind | 1 << random.below(self.options.neighbors))
    }

    /// Single descriptors come, and go again later. Returns the nanoseconds of each update.
    fn change(&mut self, sets: &TagSets) -> anyhow::Result<Histogram<u64>> {
        let mut times = Histogram::new(3)?;
        let mut random = Random::new(self.options.seed);
        let known = self.routing.len();
        let mut i = self.options.descriptors;
        let i_max = i + 100 * (1000 + self.options.updates);
        while times.len() < self.options.updates {
            // So many are there at the same time.
            let mut came = Vec::new();
            while came.len() < 100 {
                let (descriptor, number) = (sets.descriptor(i), random.below(self.options.neighbors) as usize);
                i += 1;
                ensure!(i < i_max, "all descriptors of this list are known; measure with --updates 0");
                let before = self.routing.len();
                let took = self.send(number, &list_of(&descriptor))?;
                if self.routing.len() > before {
                    times.record(took.as_nanos() as u64)?;
                    came.push((descriptor, number));
                } else if came.iter().any(|(other, of)| *other == descriptor && *of != number) {
                    // Another neighbour had it just now.
                    self.withdraw(number, &list_of(&descriptor))?;
                }
                // Otherwise somebody has had it from the beginning, and perhaps the same neighbour. It stays with that one.
            }
            for (descriptor, number) in came {
                times.record(self.withdraw(number, &list_of(&descriptor))?.as_nanos() as u64)?;
            }
            ensure!(self.routing.len() == known, "descriptors that were withdrawn are still there");
        }
        Ok(times)
    }

    fn send_waiting(&mut self, number: usize) -> anyhow::Result<Duration> {
        let waiting = std::mem::take(&mut self.neighbors[number].waiting);
        self.send(number, &waiting)
    }

    fn send(&mut self, number: usize, advertised: &DescriptorList) -> anyhow::Result<Duration> {
        self.update(number, advertised, &DescriptorList::default())
    }

    fn withdraw(&mut self, number: usize, withdrawn: &DescriptorList) -> anyhow::Result<Duration> {
        self.update(number, &DescriptorList::default(), withdrawn)
    }

    /// A neighbour sends an update. Returns the time that the router needed for all that follows.
    fn update(
        &mut self,
        number: usize,
        advertised: &DescriptorList,
        withdrawn: &DescriptorList,
    ) -> anyhow::Result<Duration> {
        self.now_ms += 1;
        let now = self.moment();
        let Neighbor { face, sequence, echo, .. } = &mut self.neighbors[number];
        *sequence += 1;
        let parameters = Update::encode(TREE, 1, *sequence, *echo, advertised, withdrawn);
        let interest = InterestBuilder::new(self.command.clone(), *sequence as u32).application_parameters(parameters);
        let wire = self.keys.signer.sign_command(&interest, now.unix_ms)?;
        let start = Instant::now();
        let interest = Interest::decode(&wire)?;
        let update = Update::decode(interest.application_parameters.context("an update has parameters")?)?;
        let heeded = self.routing.hear(*face, (&interest, update), now)?;
        self.routing.commit();
        let took = start.elapsed();
        let is_first = std::mem::replace(echo, heeded.session) == 0;
        ensure!(heeded.is_taken || is_first, "the router does not take an update");
        Ok(took + self.exchange()?)
    }

    /// The router sends what it has to say, and is answered. Returns the time that it needed.
    fn exchange(&mut self) -> anyhow::Result<Duration> {
        let now = self.moment();
        let body = encode_session(1);
        let mut time = Duration::ZERO;
        loop {
            let start = Instant::now();
            let interests = self.routing.poll(now);
            time += start.elapsed();
            if interests.is_empty() {
                return Ok(time);
            }
            for (face, wire) in interests {
                let interest = Interest::decode(&wire)?;
                let update = Update::decode(interest.application_parameters.context("an update has parameters")?)?;
                self.told += update.advertised.len() as u64;
                if face == FaceId(FACES) {
                    self.bytes_to_first += wire.len() as u64;
                }
                if face == FaceId(FACES) && self.options.known {
                    for descriptor in &update.withdrawn {
                        self.known_to_first.remove(&hash_of(descriptor));
                    }
                    self.known_to_first.extend(update.advertised.iter().map(hash_of));
                }
                let answer = self.keys.signer.sign_data(&DataBuilder::new(interest.name.to_name()))?;
                let start = Instant::now();
                let is_ours = self.routing.answered(&Data::decode(&answer)?, (200, &body), now);
                time += start.elapsed();
                ensure!(is_ours, "the router does not know the update that it sent");
            }
        }
    }
}

/// Few of the neighbour's descriptors have the same.
fn hash_of(descriptor: &Descriptor) -> u64 {
    descriptor.tags().iter().fold(0, |hash, tag| mix(hash ^ u64::from(tag.0)))
}

fn list_of(descriptor: &Descriptor) -> DescriptorList {
    let mut list = DescriptorList::default();
    list.push(descriptor);
    list
}

/// A FIB that takes all and keeps nothing.
struct NoFib;

impl Control<Descriptor> for NoFib {
    type Query = dyn TagsetFib;

    fn query(&self) -> Arc<dyn TagsetFib> {
        TagsetOracle::new().query()
    }

    fn apply(&mut self, _: &[Change<Descriptor>]) -> Result<byname_lookup::Update<dyn TagsetFib>, BuildError> {
        Ok(byname_lookup::Update::Patched)
    }

    fn reclaim(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::options;

    #[test]
    fn with_aggregation_a_neighbour_knows_those_that_no_other_covers() {
        let options = Options { aggregate: true, known: true, fib: Fib::None, workload: TagKind::Zipf, ..tiny() };
        let record = measure(&options, Progress::HIDDEN).expect("a small network");
        let sets = TagSets::open(options.workload, &options.data, options.seed).expect("no list");
        let network = Network::new(&options).expect("a small network");
        // All that users behind other neighbours than the first have.
        let others = (0..options.descriptors).filter(|i| network.behind(*i) & !1 != 0);
        let wanted: HashSet<Descriptor> = others.map(|i| sets.descriptor(i)).collect();
        let is_covered = |one: &Descriptor| wanted.iter().any(|other| other != one && other.is_subset(one));
        let least = wanted.iter().filter(|one| !is_covered(one)).count();
        assert_eq!(record.known_to_neighbor, Some(least));
        assert!(least < wanted.len(), "some cover others");
    }

    fn tiny() -> Options {
        Options { descriptors: 3000, updates: 300, users_each: 2, ..options::defaults() }
    }

    #[test]
    fn all_neighbours_hear_of_all_descriptors_of_the_others() {
        for fib in [Fib::None, Fib::RareTag] {
            let options = Options { fib, ..tiny() };
            let record = measure(&options, Progress::HIDDEN).expect("a small network");
            let sets = TagSets::open(options.workload, &options.data, options.seed).expect("no list");
            let network = Network::new(&options).expect("a small network");
            let mut behind = HashMap::<Descriptor, u64>::new();
            (0..options.descriptors).for_each(|i| *behind.entry(sets.descriptor(i)).or_default() |= network.behind(i));
            assert_eq!(record.descriptors, behind.len());
            // Whoever is the only one to have a descriptor does not hear of it.
            let told =
                behind.values().map(|behind| options.neighbors - u64::from(behind.count_ones() == 1)).sum::<u64>();
            assert_eq!(record.told, told);
            assert!((1.0..=2.0).contains(&record.nexthops_per_descriptor), "{record:?}");
            assert!(record.updates >= 300 && record.update_us > 0.0 && record.update_us_p99 <= record.update_us_max);
        }
    }
}
