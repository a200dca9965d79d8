//! One run: builds the tables; then draws packets, measures and checks for each mix.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use byname_lookup::locator::{Next, Port, Trees};
use byname_lookup::tagset::{BURST_MAX, Effort, TagQuery};
use byname_lookup::{EntryId, TagsetFib};
use byname_wire::tagnet::{LocatorPacket, TagPacket, TagSet, types};
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{FaceId, TagDigest};
use smallvec::SmallVec;

use super::Mix;
use super::options::Options;
use super::packets::{Kind, Packets, TREE};
use super::record::Record;
use crate::harness::warm_in_turn;
use crate::locator::Forest;
use crate::progress::Progress;
use crate::tags::{self, Population};
use crate::timing::{Checked, Spread, rate_of_all};
use crate::workload::graph;

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Forwarded by tags to this many entries, or to the best one.
    Entries(u32),
    /// Forwarded by tags to this many entries before the search reached the engine's limit of steps.
    CutOff(u32),
    /// Forwarded by locator.
    Hop(Next),
    /// Not parsed.
    Malformed,
}

/// Maximum number of packets that are checked: one packet may take 10,000 steps in the trie.
const CHECKED_MAX: usize = 1 << 14;

/// The tables of one router.
struct Router {
    fib: Arc<dyn TagsetFib>,
    trees: Trees,
}

/// Builds the tables once, and measures each mix.
pub fn measure(options: &Options, mixes: &[Mix], progress: Progress) -> anyhow::Result<Vec<Record>> {
    options.measuring.ensure_possible()?;
    crate::options::ensure_descriptors_fit(options.descriptors)?;
    ensure!(options.draws > 0 && options.descriptors > 0, "there must be at least one packet and one descriptor");
    for mix in mixes {
        ensure!((0.0..=1.0).contains(&mix.pull), "--pull is a share, from 0 to 1");
    }
    let growing = progress.spinner("growing the tree");
    let graph = graph::power_law(options.nodes, options.edges, options.measuring.seed)?;
    let forest = Forest::grow(&graph, 1)?;
    growing.finish_and_clear();
    let of_tags = tags::Options {
        engine: options.engine.clone(),
        descriptors: options.descriptors,
        workload: options.workload,
        data: options.data.clone(),
        measuring: options.measuring.clone(),
        ..Default::default()
    };
    let bar = progress.bar("making descriptors", options.descriptors);
    let population = Population::draw(&of_tags, |made| bar.set_position(made))?;
    bar.finish_and_clear();
    let building = progress.spinner(&format!("building {}", options.engine));
    let subject = tags::build(&of_tags, &population)?;
    building.finish_and_clear();
    let router = Router { fib: subject.query(), trees: hub(&forest) };
    mixes.iter().map(|mix| measure_one(options, *mix, &population, &forest, &router, progress)).collect()
}

/// The table of the node with the most edges, with a separate face for each port.
fn hub(forest: &Forest) -> Trees {
    let hub = forest.labellings[0].tree().root();
    let table = forest.labellings[0].table(hub).expect("the root is on its tree");
    let mut trees = Trees::new();
    let ports = forest.labellings[0].neighbors(hub).map(|(port, _)| (port, face_of(port)));
    trees.set(TREE, table, ports);
    trees
}

fn face_of(port: Port) -> FaceId {
    FaceId(FaceId::FIRST.0 + port.index() as u64)
}

fn measure_one(
    options: &Options,
    mix: Mix,
    population: &Population,
    forest: &Forest,
    router: &Router,
    progress: Progress,
) -> anyhow::Result<Record> {
    let drawing = progress.spinner("drawing packets");
    let packets = Packets::draw(mix, options.draws, population, forest, options.measuring.seed);
    drawing.set_message("forwarding");
    let start_of = |thread| packets.len() / options.measuring.threads * thread;
    let reader = |thread| Reader { packets: &packets, burst: options.burst, at: start_of(thread) };
    let mut readers: Vec<_> = (0..options.measuring.threads).map(reader).collect();
    let handle = |reader: &mut Reader<'_>| black_box(reader.handle(router)).len();
    let forward = |readers: &mut Vec<Reader<'_>>, duration| rate_of_all(readers, duration, handle);
    let rates = warm_in_turn(std::slice::from_mut(&mut readers), &options.measuring, forward).remove(0);
    drawing.set_message("checking");
    let Ways { pushed, matches, cut_off, checked, first_wrong } = check(&packets, forest, router, options.burst);
    drawing.finish_and_clear();
    if let Some(error) = first_wrong {
        return Err(error.context(format!("{} of {} packets went astray", checked.wrong, checked.checked)));
    }
    let rate = Spread::of(&rates);
    let packets_per_s = rate.median;
    let bytes_per_packet = packets.total_bytes() as f64 / packets.len() as f64;
    let by_locator = packets.kinds.iter().filter(|kind| matches!(kind, Kind::Node(_))).count();
    Ok(Record {
        engine: options.engine.clone(),
        descriptors: population.len(),
        workload: options.workload,
        nodes: forest.nodes.len(),
        edges: options.edges as usize,
        pull: mix.pull,
        follow_ups: mix.follow_ups,
        packets_prepared: packets.len(),
        seed: options.measuring.seed,
        threads: options.measuring.threads,
        burst: options.burst,
        repetitions: rates.len(),
        packets_per_s,
        packets_per_s_min: rate.min,
        packets_per_s_max: rate.max,
        bytes_per_packet,
        gbit_per_s: packets_per_s * bytes_per_packet * 8.0 / 1e9,
        by_locator: by_locator as f64 / packets.len() as f64,
        matches_per_push: matches as f64 / pushed.max(1) as f64,
        cut_off: cut_off as f64 / checked.checked as f64,
        checked: checked.checked,
        wrong: checked.wrong,
    })
}

/// Walks over the packets again and again, burst by burst.
struct Reader<'a> {
    packets: &'a Packets,
    burst: usize,
    at: usize,
}

/// Packets of a burst for one of the two algorithms.
#[derive(Default)]
struct Asked {
    /// Their places in the burst, and their tags.
    places: SmallVec<[usize; BURST_MAX]>,
    tags: SmallVec<[SmallVec<[TagDigest; TAGS_MAX]>; 4]>,
}

impl Reader<'_> {
    /// Parses a burst and finds the way of each packet.
    #[inline]
    fn handle(&mut self, router: &Router) -> SmallVec<[Way; BURST_MAX]> {
        if self.at >= self.packets.len() {
            self.at = 0;
        }
        let range = self.at..(self.at + self.burst).min(self.packets.len());
        self.at = range.end;
        router.handle(range.map(|packet| self.packets.packet(packet)))
    }
}

impl Router {
    /// Finds the ways of the packets of one burst.
    #[inline]
    fn handle<'a>(&self, packets: impl Iterator<Item = &'a [u8]>) -> SmallVec<[Way; BURST_MAX]> {
        let mut ways = SmallVec::new();
        let (mut all, mut largest) = (Asked::default(), Asked::default());
        for (place, packet) in packets.enumerate() {
            ways.push(match u64::from(packet[0]) {
                types::LOCATOR_PACKET => match LocatorPacket::decode(packet) {
                    Ok(packet) => Way::Hop(self.trees.forward(&packet.destination.locator, FaceId::NONE)),
                    Err(_) => Way::Malformed,
                },
                _ => match TagPacket::decode(packet) {
                    Ok(TagPacket { tags: TagSet::Tags(tags), fan_out, .. }) => {
                        let asked = if fan_out.is_some_and(|k| k.limit.get() == 1) { &mut largest } else { &mut all };
                        asked.places.push(place);
                        asked.tags.push(tags.iter().collect());
                        Way::Entries(0)
                    }
                    _ => Way::Malformed,
                },
            });
        }
        self.find_all(&all, &mut ways);
        self.find_largest(&largest, &mut ways);
        ways
    }

    fn find_all(&self, asked: &Asked, ways: &mut [Way]) {
        let mut matches = [0; BURST_MAX];
        let mut efforts = [Effort::default(); BURST_MAX];
        let mut visit = |packet: usize, _: EntryId| {
            matches[packet] += 1;
            ControlFlow::Continue(())
        };
        self.fib.all_subsets_burst(&asked.queries(), &mut visit, &mut efforts[..asked.places.len()]);
        for ((place, matches), walk) in asked.places.iter().zip(matches).zip(efforts) {
            ways[*place] = way(matches, walk);
        }
    }

    fn find_largest(&self, asked: &Asked, ways: &mut [Way]) {
        let mut out = [(None, Effort::default()); BURST_MAX];
        self.fib.largest_subset_burst(&asked.queries(), &mut |_, _| true, &mut out[..asked.places.len()]);
        for (place, (entry, walk)) in asked.places.iter().zip(out) {
            ways[*place] = way(entry.is_some().into(), walk);
        }
    }
}

fn way(matches: u32, walk: Effort) -> Way {
    if walk.cut_off { Way::CutOff(matches) } else { Way::Entries(matches) }
}

impl Asked {
    fn queries(&self) -> SmallVec<[TagQuery<'_>; BURST_MAX]> {
        self.tags.iter().map(|tags| TagQuery::of_tags(tags)).collect()
    }
}

/// Counts of the check.
#[derive(Default)]
struct Ways {
    pushed: u64,
    matches: u64,
    cut_off: u64,
    checked: Checked,
    /// Description of the first wrong packet.
    first_wrong: Option<anyhow::Error>,
}

/// Checks the ways of packets against the way they were made: all bursts, or an evenly spread sample.
fn check(packets: &Packets, forest: &Forest, router: &Router, burst: usize) -> Ways {
    let mut reader = Reader { packets, burst, at: 0 };
    let mut ways = Ways::default();
    for at in (0..packets.len()).step_by(burst * packets.len().div_ceil(CHECKED_MAX)) {
        reader.at = at;
        for (i, way) in (at..).zip(reader.handle(router)) {
            let (alone, kind) = (router.handle(std::iter::once(packets.packet(i)))[0], packets.kinds[i]);
            ways.checked.checked += 1;
            if let Err(error) = check_one(forest, kind, way, alone) {
                ways.checked.wrong += 1;
                ways.first_wrong.get_or_insert(error.context(format!("packet {i}")));
            }
            ways.cut_off += u64::from(matches!(way, Way::CutOff(_)));
            if let (Kind::Push, Way::Entries(matches) | Way::CutOff(matches)) = (kind, way) {
                ways.pushed += 1;
                ways.matches += u64::from(matches);
            }
        }
    }
    ways
}

/// Compares a packet's way in a burst with its way alone, and with the way it was made.
fn check_one(forest: &Forest, kind: Kind, way: Way, alone: Way) -> anyhow::Result<()> {
    let tree = forest.labellings[0].tree();
    ensure!(way == alone, "it went {way:?} in a burst and {alone:?} alone");
    match (kind, way) {
        (Kind::Push, Way::Entries(1..)) | (Kind::Pull, Way::Entries(1)) => {}
        (Kind::Push | Kind::Pull, Way::CutOff(_)) => {}
        (Kind::Node(node), Way::Hop(Next::Deliver)) if node as usize == tree.root() => {}
        (Kind::Node(node), Way::Hop(Next::Forward(face))) => {
            let path = tree.path(tree.root(), node as usize).context("every node is on the tree")?;
            let next = forest.labellings[0].neighbors(tree.root()).find(|(port, _)| face_of(*port) == face);
            let next = next.context("the face does not belong to a neighbour")?.1;
            ensure!(path.get(1) == Some(&next), "it is for node {node} and went to node {next}");
        }
        (kind, way) => bail!("a packet of kind {kind:?} went {way:?}"),
    }
    Ok(())
}
