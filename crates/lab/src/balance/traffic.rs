//! Packets with popular names, and the workers that handle them.

use std::sync::Arc;

use byname_forward::dispatch::Dispatcher;
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, Packet};
use byname_lookup::oracle::Oracle;
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name, NameHashKey};

use super::Options;
use crate::workload::{Popularity, Random};

/// Bytes of content in each Data.
const CONTENT: usize = 1000;
/// Lifetime of an Interest: longer than any run here.
const LIFETIME_MS: u64 = 3_600_000;
/// Capacity of a worker's dead nonce list. It is small, because nothing loops here.
const DEAD_NONCES: usize = 1024;
/// Bytes of the last component, which is the number of the name.
const NUMBER: usize = 8;

/// Builds the packets of all names. They differ only in a few bytes.
pub struct Packets {
    interest: Vec<u8>,
    data: Vec<u8>,
    /// Offsets of the number in the Interest and in the Data.
    number_at: (usize, usize),
    nonce_at: usize,
}

impl Packets {
    pub fn new() -> Self {
        let name: Name = "/popular".parse().expect("a literal name");
        let name = name.join(Component::generic(&[0; NUMBER]));
        let nonce = [0xa5; 4];
        let interest = InterestBuilder::new(name.clone(), u32::from_be_bytes(nonce)).lifetime_ms(LIFETIME_MS).encode();
        let data = DataBuilder::new(name).content(vec![b'x'; CONTENT]).encode();
        let end = |offset: usize, value: &[u8]| offset + value.len() - NUMBER;
        let (i, d) = (Interest::decode(&interest).expect("built above"), Data::decode(&data).expect("built above"));
        let number_at = (end(i.name_offset, i.name.value()), end(d.name_offset, d.name.value()));
        let nonce_at = interest.windows(4).position(|bytes| bytes == nonce).expect("it has a nonce");
        Packets { interest, data, number_at, nonce_at }
    }

    pub fn interest(&self, name: u64, nonce: u32) -> Packet {
        Packet::build(self.interest.len(), |bytes| {
            bytes.copy_from_slice(&self.interest);
            bytes[self.number_at.0..][..NUMBER].copy_from_slice(&name.to_be_bytes());
            bytes[self.nonce_at..][..4].copy_from_slice(&nonce.to_be_bytes());
        })
    }

    pub fn data(&self, name: u64) -> Packet {
        Packet::build(self.data.len(), |bytes| {
            bytes.copy_from_slice(&self.data);
            bytes[self.number_at.1..][..NUMBER].copy_from_slice(&name.to_be_bytes());
        })
    }

    /// The number of the name in an Interest that was sent on.
    pub fn name_of(&self, interest: &[u8]) -> u64 {
        let number = &interest[self.number_at.0..][..NUMBER];
        u64::from_be_bytes(number.try_into().expect("so many bytes"))
    }
}

/// The popularity of names for one of several threads, each of which draws others.
pub fn popularity(options: &Options, exponent: f64, thread: usize) -> anyhow::Result<Popularity> {
    Popularity::new(options.names, exponent, options.seed.wrapping_add(thread as u64))
}

/// Makes `count` workers that know no face yet, and the dispatcher of the first thread. The only
/// route leads to `producer`.
pub fn workers(options: &Options, count: usize, heavy_hitters: bool, producer: FaceId) -> (Dispatcher, Vec<Worker>) {
    let mut random = Random::new(options.seed);
    let key = NameHashKey::new([random.bits(), random.bits()]);
    let mut fib = Oracle::default();
    fib.apply(&[Change::Set(Name::default(), EntryId(0))]).expect("the oracle takes all");
    let tables = Arc::new(Tables::new(fib.query()));
    let nexthops = [Nexthop { face: producer, cost: 0 }].into();
    tables.set_group(EntryId(0), Some(NexthopGroup { nexthops }));
    let mut dispatcher = Dispatcher::new(key, count, 0, random.bits() as u32);
    if heavy_hitters {
        dispatcher.spread_hot_names(options.window);
    }
    let config = WorkerConfig {
        cs_packets_max: (options.cs as usize).div_ceil(count),
        cs_bytes_max: usize::MAX,
        dead_nonces_max: DEAD_NONCES,
        ..WorkerConfig::default()
    };
    let join = |number| {
        let mut worker = Worker::new(config.clone(), key, tables.clone(), number as u64);
        worker.join(dispatcher.membership(number));
        worker
    };
    let workers = (0..count).map(join).collect();
    (dispatcher, workers)
}
