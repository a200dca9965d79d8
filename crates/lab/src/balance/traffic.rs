//! Packets with popular names, and the workers that handle them.

use std::sync::Arc;

use byname_forward::dispatch::Dispatcher;
use byname_forward::tables::{Nexthop, NexthopGroup, Tables};
use byname_forward::worker::{Worker, WorkerConfig};
use byname_forward::{FaceId, Packet};
use byname_lookup::prefix::compact::{self, Compact};
use byname_lookup::{Change, Control, EntryId};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Data, Interest, Name, NameHashKey};

use crate::workload::Random;

/// Bytes of content in each Data.
const CONTENT: usize = 1000;
/// Lifetime of an Interest: longer than any run here.
const LIFETIME_MS: u64 = 3_600_000;
/// Capacity of a worker's dead nonce list. It is small, because nothing loops here.
const DEAD_NONCES: usize = 1024;
/// Bytes of the first component, which is the number of the name's route.
const ROUTE: usize = 2;
/// Bytes of the last component, which is the number of the name.
const NUMBER: usize = 8;

/// Builds the packets of all names. They differ only in a few bytes.
pub struct Packets {
    interest: Vec<u8>,
    data: Vec<u8>,
    /// Offsets of the number in the Interest and in the Data.
    number_at: (usize, usize),
    nonce_at: usize,
    routes: u64,
}

impl Packets {
    /// Packets of names that have this many routes, in turn.
    pub fn new(routes: usize) -> Self {
        let name = prefix(0).join(Component::generic(&[0; NUMBER]));
        let nonce = [0xa5; 4];
        let interest = InterestBuilder::new(name.clone(), u32::from_be_bytes(nonce)).lifetime_ms(LIFETIME_MS).encode();
        let data = DataBuilder::new(name).content(vec![b'x'; CONTENT]).encode();
        let end = |offset: usize, value: &[u8]| offset + value.len() - NUMBER;
        let (i, d) = (Interest::decode(&interest).expect("built above"), Data::decode(&data).expect("built above"));
        let number_at = (end(i.name_offset, i.name.value()), end(d.name_offset, d.name.value()));
        let nonce_at = interest.windows(4).position(|bytes| bytes == nonce).expect("it has a nonce");
        Packets { interest, data, number_at, nonce_at, routes: routes as u64 }
    }

    pub fn interest(&self, name: u64, nonce: u32) -> Packet {
        Packet::build(self.interest.len(), |bytes| {
            bytes.copy_from_slice(&self.interest);
            self.write_name(bytes, self.number_at.0, name);
            bytes[self.nonce_at..][..4].copy_from_slice(&nonce.to_be_bytes());
        })
    }

    pub fn data(&self, name: u64) -> Packet {
        Packet::build(self.data.len(), |bytes| {
            bytes.copy_from_slice(&self.data);
            self.write_name(bytes, self.number_at.1, name);
        })
    }

    /// The number of the name in an Interest that was sent on.
    pub fn name_of(&self, interest: &[u8]) -> u64 {
        number(interest, self.number_at.0)
    }

    /// The number of the name in Data.
    pub fn name_of_data(&self, data: &[u8]) -> u64 {
        number(data, self.number_at.1)
    }

    /// Writes the route and the number. Type and length of the last component are between them.
    fn write_name(&self, packet: &mut [u8], number_at: usize, name: u64) {
        let route = (name % self.routes) as u16;
        packet[number_at - 2 - ROUTE..][..ROUTE].copy_from_slice(&route.to_be_bytes());
        packet[number_at..][..NUMBER].copy_from_slice(&name.to_be_bytes());
    }
}

fn number(packet: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(packet[at..][..NUMBER].try_into().expect("so many bytes"))
}

/// The prefix of a route.
fn prefix(route: usize) -> Name {
    Name::default().join(Component::generic(&(route as u16).to_be_bytes()))
}

/// How workers are made.
pub struct Shards {
    pub count: usize,
    /// Capacity of all content stores together, in Data packets.
    pub cs: u64,
    /// Window of the sketches; `None`: hot names are not spread.
    pub window: Option<u32>,
    pub seed: u64,
}

/// Makes workers that know no face yet, and the dispatcher of the first thread. The routes lead to `producers`, in turn.
pub fn workers(shards: &Shards, producers: &[FaceId]) -> anyhow::Result<(Dispatcher, Vec<Worker>)> {
    let mut random = Random::new(shards.seed);
    let key = NameHashKey::new([random.bits(), random.bits()]);
    let mut fib = Compact::new(key, &compact::Options::default())?;
    let rules: Vec<_> = (0..producers.len()).map(|i| Change::Set(prefix(i), EntryId(i as u32))).collect();
    fib.apply(&rules)?;
    let tables = Arc::new(Tables::new(fib.query()));
    for (i, face) in producers.iter().enumerate() {
        let nexthops = [Nexthop { face: *face, cost: 0 }].into();
        tables.set_group(EntryId(i as u32), Some(NexthopGroup { nexthops }));
    }
    let mut dispatcher = Dispatcher::new(key, shards.count, 0, random.bits() as u32);
    if let Some(window) = shards.window {
        dispatcher.spread_hot_names(window);
    }
    let config = WorkerConfig {
        cs_packets_max: (shards.cs as usize).div_ceil(shards.count),
        cs_bytes_max: usize::MAX,
        dead_nonces_max: DEAD_NONCES,
        ..WorkerConfig::default()
    };
    let join = |number| {
        let mut worker = Worker::new(config.clone(), key, tables.clone(), number as u64);
        worker.join(dispatcher.membership(number));
        worker
    };
    let workers = (0..shards.count).map(join).collect();
    Ok((dispatcher, workers))
}
