//! The longest prefix of an IPv4 address. byname has no table for bits: here each bit is a component of a path.

use std::net::Ipv4Addr;

use anyhow::{Context as _, bail};
use byname_lookup::table::{Found, PrefixOptions, PrefixReader, PrefixTable};
use ip_network::Ipv4Network;
use ip_network_table::IpNetworkTable;
use poptrie::Poptrie;

use super::keys::Prefix;
use super::{Answer, Asker, Subject, value};

pub const LIBRARIES: [&str; 4] = ["byname-bulk", "byname", "ip_network_table", "poptrie"];

pub fn build<'k>(library: &str, routes: &'k [Prefix]) -> anyhow::Result<Box<dyn Subject<u32> + 'k>> {
    let rules = || routes.iter().enumerate().map(|(i, prefix)| (bits(*prefix), value(i)));
    Ok(match library {
        "byname-bulk" => {
            let rules = rules().map(|(bits, value)| (bits.as_slice().to_vec(), value));
            Box::new(Byname { routes, table: PrefixTable::from_rules(&PrefixOptions::default(), rules)? })
        }
        "byname" => {
            let mut table = PrefixTable::new()?;
            table.extend(rules().map(|(bits, value)| (bits.as_slice().to_vec(), value)))?;
            Box::new(Byname { routes, table })
        }
        "ip_network_table" => {
            let mut table = IpNetworkTable::new();
            for (i, prefix) in routes.iter().enumerate() {
                table.insert(network(*prefix)?, value(i));
            }
            Box::new(NetworkTable { routes, table })
        }
        "poptrie" => {
            let pairs = routes.iter().enumerate();
            let table = pairs.map(|(i, (address, len))| ((Ipv4Addr::from_bits(*address), *len), value(i))).collect();
            Box::new(Static(table))
        }
        _ => bail!("no library is called '{library}'"),
    })
}

fn network((address, len): Prefix) -> anyhow::Result<Ipv4Network> {
    Ipv4Network::new(Ipv4Addr::from_bits(address), len).ok().context("a prefix has no bits behind its length")
}

/// The bits of a prefix as components.
struct Bits {
    bits: [&'static [u8]; 32],
    len: usize,
}

impl Bits {
    fn as_slice(&self) -> &[&'static [u8]] {
        &self.bits[..self.len]
    }
}

fn bits((address, len): Prefix) -> Bits {
    let bit = |i: usize| -> &'static [u8] { if address << i >> 31 == 0 { b"0" } else { b"1" } };
    Bits { bits: std::array::from_fn(bit), len: usize::from(len) }
}

struct Byname<'k> {
    routes: &'k [Prefix],
    table: PrefixTable<u32>,
}

impl Subject<u32> for Byname<'_> {
    fn asker(&self) -> Box<dyn Asker<u32> + '_> {
        Box::new(Reading { reader: self.table.reader(), found: Vec::new() })
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        let key = |i: usize| bits(self.routes[i]).as_slice().to_vec();
        self.table.apply(keys.iter().map(|&i| (key(i), (!remove).then(|| value(i)))))?;
        Ok(true)
    }
}

struct Reading {
    reader: PrefixReader<u32>,
    found: Vec<Option<Found<u32>>>,
}

impl Asker<u32> for Reading {
    fn ask(&mut self, questions: &[u32], answers: &mut Vec<Answer>) {
        let one = |address: &u32| self.reader.get(bits((*address, 32)).bits).ok().flatten().map(|found| found.value);
        answers.extend(questions.iter().map(one));
    }

    fn ask_together(&mut self, questions: &[u32], answers: &mut Vec<Answer>) -> bool {
        let keys: Vec<_> = questions.iter().map(|address| bits((*address, 32)).bits).collect();
        let asked = self.reader.get_all(&keys, &mut self.found);
        answers.extend(self.found.iter().map(|found| found.as_ref().map(|found| found.value)));
        asked.is_ok()
    }
}

struct NetworkTable<'k> {
    routes: &'k [Prefix],
    table: IpNetworkTable<u32>,
}

impl Asker<u32> for &NetworkTable<'_> {
    fn ask(&mut self, questions: &[u32], answers: &mut Vec<Answer>) {
        let find = |address: &u32| self.table.longest_match_ipv4(Ipv4Addr::from_bits(*address));
        answers.extend(questions.iter().map(|address| find(address).map(|(_, value)| *value)));
    }
}

impl Subject<u32> for NetworkTable<'_> {
    fn asker(&self) -> Box<dyn Asker<u32> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        for &i in keys {
            let network = network(self.routes[i])?;
            if remove {
                self.table.remove(network)
            } else {
                self.table.insert(network, value(i))
            };
        }
        Ok(true)
    }
}

/// Measured without changes.
struct Static(Poptrie<(Ipv4Addr, u8), u32>);

impl Asker<u32> for &Static {
    fn ask(&mut self, questions: &[u32], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|address| self.0.lookup(Ipv4Addr::from_bits(*address)).copied()));
    }
}

impl Subject<u32> for Static {
    fn asker(&self) -> Box<dyn Asker<u32> + '_> {
        Box::new(self)
    }
}
