//! Learned indexes: the paper's table of IPv4 prefixes, and our extension to names.
//!
//! The paper names neither its addresses nor its processor's clock. So this experiment shows three kinds of addresses.
//! Each kind is looked up one at a time (an address is known only after the lookup before it) and many at once (the
//! processor overlaps lookups). The `poptrie` crate replaces the paper's LC-trie, of which there is no maintained
//! crate.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use byname_lookup::prefix::learned::ipv4::{Ipv4Prefix, LearnedIpv4};
use flate2::read::GzDecoder;
use poptrie::Poptrie;
use serde::Serialize;

use crate::experiments::{Context, Experiment, Needs};
use crate::machine::resident;
use crate::table::Table;
use crate::workload::{self, Random};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "learned-index",
    title: "learned indexes for IPv4 prefixes and for names",
    source: "[Hasegawa] Computation Time and Memory Size",
    needs: Needs {
        rules: &[1_000_000, 16_000_000],
        quick_rules: &[50_000],
        bytes_per_rule: 170,
        data: &[ROUTES],
        minutes: 5,
    },
    run,
};

const ROUTES: &str = "routes_ipv4_20080501.dat.gz";
/// The paper's rows: table, cycles per lookup, and MB. Its sum for the learned index counts one byte for the next hop
/// of each of 229,454 keys. With the 360,879 bytes that the paper gives for the next hops, the sum would be 1.304.
const PAPER: [(&str, &str, &str); 2] =
    [("LC-trie, the paper's", "112", "2.504"), ("learned, the paper's", "115", "1.173")];
/// Number of addresses that are looked up over and over.
const ADDRESSES: usize = 1 << 20;
/// Number of destinations of the trace-like addresses.
const DESTINATIONS: usize = 100_000;
/// Number of tables built to measure the memory of one: enough to outweigh other allocations.
const COPIES: u64 = 32;

type Route = (Ipv4Prefix, u16);

#[derive(Serialize)]
struct Measured {
    table: &'static str,
    addresses: &'static str,
    prefixes: usize,
    ns_per_lookup: f64,
    cycles_per_lookup: f64,
    ns_per_lookup_alone: f64,
    cycles_per_lookup_alone: f64,
    resident_bytes: u64,
    wrong: usize,
}

const HEADS: [&str; 9] =
    ["table", "addresses", "ns", "cycles", "ns alone", "cycles alone", "MB", "bytes a prefix", "wrong"];

impl Measured {
    /// The cells of a row under [`HEADS`].
    fn cells(&self) -> [String; HEADS.len()] {
        [
            self.table.to_owned(),
            self.addresses.to_owned(),
            format!("{:.1}", self.ns_per_lookup),
            format!("{:.0}", self.cycles_per_lookup),
            format!("{:.1}", self.ns_per_lookup_alone),
            format!("{:.0}", self.cycles_per_lookup_alone),
            format!("{:.3}", self.resident_bytes as f64 / 1e6),
            format!("{:.1}", self.resident_bytes as f64 / self.prefixes as f64),
            self.wrong.to_string(),
        ]
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    run_ipv4(context)?;
    for rules in context.rules() {
        println!("\nNames, {rules} rules:");
        let mut table = Table::new(&["engine", "M lookups/s", "ns a lookup", "lines", "bytes a rule"]);
        for record in context.compare(&context.prefix("learned", rules), &["learned", "longest_first", "compact"])? {
            table.row([
                record.engine,
                format!("{:.2}", record.lookups_per_s / 1e6),
                format!("{:.1}", record.ns_per_lookup),
                record.cache_lines_per_lookup.map_or(String::new(), |lines| format!("{lines:.1}")),
                format!("{:.1}", record.bytes_per_rule),
            ]);
        }
        print!("{table}");
    }
    Ok(())
}

fn run_ipv4(context: &mut Context<'_>) -> anyhow::Result<()> {
    let routes = read_routes(&context.data(ROUTES))?;
    let (learned, learned_bytes) = built(|| LearnedIpv4::new(routes.iter().copied()))?;
    let (poptrie, poptrie_bytes) = built(|| -> Poptrie<(Ipv4Addr, u8), u16> {
        routes.iter().map(|(prefix, next_hop)| ((prefix.address(), prefix.len()), *next_hop)).collect()
    })?;
    let by_learned = |address: u32| learned.longest_match(Ipv4Addr::from_bits(address)).map(|(_, next_hop)| next_hop);
    let by_poptrie = |address: u32| poptrie.lookup(Ipv4Addr::from_bits(address)).copied();
    let rivals: [(_, &dyn Lookup, _); 2] =
        [("learned", &by_learned, learned_bytes), ("poptrie", &by_poptrie, poptrie_bytes)];
    let oracle: HashMap<Ipv4Prefix, u16> = routes.iter().copied().collect();
    let (cycles_per_ns, duration) = (cycles_per_ns(), Duration::from_secs_f64(context.seconds() / 10.0));

    println!("{} prefixes; the model takes {} bytes", learned.len(), learned.model_bytes());
    let mut table = Table::new(&HEADS);
    for (kind, addresses) in address_kinds(&routes) {
        let right: Vec<_> = addresses.iter().map(|&address| longest_match(&oracle, address)).collect();
        for (name, lookup, resident_bytes) in rivals {
            let wrong = addresses.iter().zip(&right).filter(|&(&address, &right)| lookup.one(address) != right).count();
            let ns_per_lookup = median_ns(addresses.len(), duration, &|| lookup.all(&addresses));
            let ns_per_lookup_alone = median_ns(addresses.len(), duration, &|| lookup.chained(&addresses));
            let measured = Measured {
                table: name,
                addresses: kind,
                prefixes: oracle.len(),
                ns_per_lookup,
                cycles_per_lookup: ns_per_lookup * cycles_per_ns,
                ns_per_lookup_alone,
                cycles_per_lookup_alone: ns_per_lookup_alone * cycles_per_ns,
                resident_bytes,
                wrong,
            };
            context.record(&measured)?;
            table.row(measured.cells());
            ensure!(wrong == 0, "{name} answers {wrong} of {ADDRESSES} addresses ({kind}) wrongly");
        }
    }
    for (name, cycles, megabytes) in PAPER {
        table.row([name, "", "", cycles, "", "", megabytes, "", ""].map(str::to_owned));
    }
    print!("{table}");
    Ok(())
}

/// Reads the routes of the file. The origin of a route stands for its next hop.
fn read_routes(path: &Path) -> anyhow::Result<Vec<Route>> {
    let file = File::open(path).with_context(|| workload::cannot_read(path))?;
    let (mut routes, mut next_hops) = (Vec::new(), HashMap::new());
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line?;
        if line.starts_with(';') {
            continue;
        }
        let parse = || {
            let (prefix, origin) = line.split_once('\t')?;
            let (address, len) = prefix.split_once('/')?;
            Some((Ipv4Prefix::new(address.parse().ok()?, len.parse().ok()?)?, origin.to_owned()))
        };
        let (prefix, origin) = parse().with_context(|| format!("'{line}' is not a route"))?;
        let fresh = next_hops.len();
        let next_hop = *next_hops.entry(origin).or_insert(fresh);
        routes.push((prefix, u16::try_from(next_hop).context("too many origins for 16-bit next hops")?));
    }
    Ok(routes)
}

/// Builds a table. Returns it with the memory that one table of its kind adds to the process.
fn built<T>(build: impl Fn() -> T) -> anyhow::Result<(T, u64)> {
    let table = build();
    let before = resident::bytes()?;
    let copies: Vec<_> = (0..COPIES).map(|_| build()).collect();
    let bytes = resident::bytes()?.saturating_sub(before) / COPIES;
    drop(black_box(copies));
    Ok((table, bytes))
}

/// Addresses of three kinds: random ones; addresses of the routes, each route equally likely; and addresses of a few
/// destinations, whose popularity follows Zipf's law with exponent 1.
fn address_kinds(routes: &[Route]) -> [(&'static str, Vec<u32>); 3] {
    let mut random = Random::new(1);
    let any = (0..ADDRESSES).map(|_| random.bits() as u32).collect();
    let mut routed = || {
        let (prefix, _) = routes[random.below(routes.len() as u64) as usize];
        let host_bits = 32 - u32::from(prefix.len());
        prefix.address().to_bits() | random.below(1 << host_bits) as u32
    };
    let of_routes = (0..ADDRESSES).map(|_| routed()).collect();
    let destinations: Vec<_> = (0..DESTINATIONS).map(|_| routed()).collect();
    let trace_like =
        (0..ADDRESSES).map(|_| destinations[(DESTINATIONS as f64).powf(random.unit()) as usize - 1]).collect();
    [("any", any), ("of routes", of_routes), ("trace-like", trace_like)]
}

/// The oracle: tries every length, longest first.
fn longest_match(routes: &HashMap<Ipv4Prefix, u16>, address: u32) -> Option<u16> {
    (0..=32).rev().find_map(|len| routes.get(&Ipv4Prefix::new(Ipv4Addr::from_bits(address), len)?).copied())
}

/// Nanoseconds per lookup: the median over passes through all addresses.
fn median_ns(lookups: usize, duration: Duration, pass: &dyn Fn() -> u64) -> f64 {
    let (begin, mut passes) = (Instant::now(), Vec::new());
    while passes.len() < 3 || begin.elapsed() < duration {
        let start = Instant::now();
        black_box(pass());
        passes.push(start.elapsed().as_nanos() as f64 / lookups as f64);
    }
    passes.sort_by(f64::total_cmp);
    passes[passes.len() / 2]
}

/// Passes over addresses, compiled for each table so that the lookup is inlined into the loop.
trait Lookup {
    fn one(&self, address: u32) -> Option<u16>;
    /// Looks up addresses that are known in advance.
    fn all(&self, addresses: &[u32]) -> u64;
    /// Looks up addresses that each depend on the answer before.
    fn chained(&self, addresses: &[u32]) -> u64;
}

impl<F: Fn(u32) -> Option<u16>> Lookup for F {
    fn one(&self, address: u32) -> Option<u16> {
        self(address)
    }

    fn all(&self, addresses: &[u32]) -> u64 {
        addresses.iter().map(|&address| u64::from(self(address).unwrap_or(0))).sum()
    }

    fn chained(&self, addresses: &[u32]) -> u64 {
        // Always zero, but the compiler cannot know.
        let mask = black_box(0);
        let mut found = 0;
        for &address in addresses {
            found = u32::from(self(address ^ (found & mask)).unwrap_or(0));
        }
        u64::from(found)
    }
}

/// The clock rate that the kernel reports, in GHz; 0 if it reports none.
fn cycles_per_ns() -> f64 {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("cpu MHz")).unwrap_or_default();
    line.trim_start_matches([' ', '\t', ':']).parse::<f64>().map_or(0.0, |mhz| mhz / 1000.0)
}
