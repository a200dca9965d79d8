//! Stations on an Ethernet, computed from a number: data plus a seed.

use std::path::Path;

use anyhow::ensure;
use byname_lookup::EntryId;
use byname_wire::{Digest, MacAddress, NameHashKey};

use crate::workload::{Permutation, Random, requests};

/// Two of an address's 48 bits are the same for all: each address belongs to a single station, and is locally
/// administered.
const FREE_BITS: u32 = 46;

/// Stations behind the ports of a switch, equally many behind each port. Frames come in at port 0.
pub struct Stations {
    len: u64,
    ports: u64,
    order: Permutation,
}

/// Destination and source of a frame, and the port by which it must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub destination: MacAddress,
    pub source: MacAddress,
    pub port: u8,
}

impl Stations {
    /// Makes `len` stations behind `ports` ports.
    pub fn new(len: u64, ports: u8, seed: u64) -> anyhow::Result<Self> {
        ensure!(len > u64::from(ports), "there must be more stations (--names) than the {ports} ports");
        ensure!(len >> FREE_BITS == 0, "there are not enough addresses");
        Ok(Stations { len, ports: ports.into(), order: Permutation::new(1 << FREE_BITS, seed) })
    }

    /// Number of stations.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Visits the digest under `key` and the port of every station.
    pub fn visit(&self, key: &NameHashKey, mut visit: impl FnMut(Digest, EntryId)) {
        for i in 0..self.len {
            visit(key.digest_bytes(&self.address(i).0), EntryId(self.port(i).into()));
        }
    }

    /// Draws addresses of frames. The source is a random station behind port 0. Each destination behind another port
    /// comes once before any repeats, or as often as in a trace.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn draw(&self, trace: Option<&Path>, draws: u64, seed: u64) -> anyhow::Result<Vec<Addresses>> {
        let sources = self.len.div_ceil(self.ports);
        let destinations = self.len - sources;
        let requests = trace.map(requests).transpose()?;
        let order = Permutation::new(destinations, seed);
        let mut random = Random::new(seed);
        let draws = requests.as_ref().map_or(draws, |requests| draws.min(requests.len() as u64));
        let addresses = (0..draws).map(|i| {
            let number = match &requests {
                Some(requests) => u64::from(requests[i as usize]) % destinations,
                None => order.at(i % destinations),
            };
            // Skips the stations behind port 0.
            let others = self.ports - 1;
            let destination = number / others * self.ports + 1 + number % others;
            let source = random.below(sources) * self.ports;
            Addresses {
                destination: self.address(destination),
                source: self.address(source),
                port: self.port(destination),
            }
        });
        Ok(addresses.collect())
    }

    fn port(&self, i: u64) -> u8 {
        (i % self.ports) as u8
    }

    fn address(&self, i: u64) -> MacAddress {
        let [_, _, first, rest @ ..] = self.order.at(i).to_be_bytes();
        let mut bytes = [first << 2 | 2; 6];
        bytes[1..].copy_from_slice(&rest);
        MacAddress(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn ports_of(stations: &Stations) -> HashMap<MacAddress, u8> {
        (0..stations.len()).map(|i| (stations.address(i), stations.port(i))).collect()
    }

    #[test]
    fn every_station_has_an_address_of_its_own() {
        let stations = Stations::new(5000, 255, 3).expect("few stations");
        let ports = ports_of(&stations);
        assert_eq!(ports.len(), 5000);
        assert!(ports.keys().all(|address| address.0[0] & 3 == 2 && !address.is_zero()));
        assert!(ports.values().all(|port| *port < 255));
    }

    #[test]
    fn frames_go_from_port_0_to_all_stations_elsewhere() {
        for (len, ports) in [(256, 255), (1000, 7), (1001, 7), (1007, 7), (11, 2)] {
            let stations = Stations::new(len, ports, 3).expect("few stations");
            let ports = ports_of(&stations);
            let destinations = ports.values().filter(|port| **port != 0).count();
            let drawn = stations.draw(None, destinations as u64, 1).expect("no file is read");
            let mut seen = HashMap::new();
            for Addresses { destination, source, port } in drawn {
                assert_eq!((ports[&source], ports[&destination]), (0, port));
                assert!(port != 0 && seen.insert(destination, port).is_none(), "{destination}");
            }
            assert_eq!(seen.len(), destinations);
        }
    }

    #[test]
    fn too_few_stations_are_refused() {
        assert!(Stations::new(255, 255, 1).is_err() && Stations::new(1 << 46, 2, 1).is_err());
    }
}
