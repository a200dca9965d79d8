//! Packets as they lie in a port's memory: encoded once, told apart by a number.

use std::ops::Range;

use anyhow::ensure;
use byname_forward::Packet;
use byname_lookup::prefetch;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::{self, types};
use byname_wire::{Component, Data, Interest, Name, NameRef};

use crate::workload::NameSet;

/// Octets of the component that holds a packet's number: the last of each name.
const NUMBER: usize = 8;
/// Octets from the end of the name to the nonce: its TLV-TYPE and TLV-LENGTH.
const BEFORE_NONCE: usize = 2;

/// Packets whose octets are asked for ahead: network cards and other cores write packets to a cache.
const AHEAD: u64 = 32;

/// An encoded Interest.
struct Template {
    start: usize,
    /// Octets of the packet.
    len: u16,
    /// Its Name element, in the packet.
    name_start: u16,
    name_end: u16,
}

impl Template {
    fn packet(&self) -> Range<usize> {
        self.start..self.start + usize::from(self.len)
    }

    fn name(&self) -> Range<usize> {
        self.name_start.into()..self.name_end.into()
    }
}

/// The Interests of many names, and the Data that answers them.
pub struct Packets {
    octets: Vec<u8>,
    templates: Vec<Template>,
    /// Of Data, all that follows its name.
    tail: Vec<u8>,
}

impl Packets {
    /// Encodes an Interest for each name, that lives for `lifetime_ms`; Data has `content` octets.
    ///
    /// # Errors
    /// If such Data is larger than a packet may be.
    pub fn encode(names: &NameSet, lifetime_ms: u64, content: usize) -> anyhow::Result<Self> {
        let data = DataBuilder::new(Name::default()).content(vec![b'x'; content]).encode();
        let decoded = Data::decode(&data)?;
        let tail = data[decoded.name_offset + decoded.name.value().len()..].to_vec();
        let mut packets = Packets { octets: Vec::new(), templates: Vec::new(), tail };
        for i in 0..names.len() {
            let name = names.parse(i)?.to_name().join(Component::generic(&[0; NUMBER]));
            let interest = InterestBuilder::new(name, 0).lifetime_ms(lifetime_ms).encode();
            let decoded = Interest::decode(&interest)?;
            let value = decoded.name.value().len();
            let name_end = decoded.name_offset + value;
            let start = packets.octets.len();
            packets.templates.push(Template {
                start,
                len: u16::try_from(interest.len())?,
                name_start: u16::try_from(name_end - tlv::element_size(types::NAME, value))?,
                name_end: u16::try_from(name_end)?,
            });
            packets.octets.extend_from_slice(&interest);
        }
        ensure!(packets.len() > 0, "there must be a name (--draws)");
        let largest = packets.templates.iter().map(|t| t.name().len()).max().unwrap_or_default() + packets.tail.len();
        ensure!(tlv::element_size(types::DATA, largest) <= 8800, "Data of more than 8,800 octets (--content)");
        Ok(packets)
    }

    /// How many names.
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    /// Octets of an Interest, and of Data, on average.
    pub fn mean_bytes(&self) -> (f64, f64) {
        let data: usize =
            self.templates.iter().map(|t| tlv::element_size(types::DATA, t.name().len() + self.tail.len())).sum();
        let count = self.len() as f64;
        (self.octets.len() as f64 / count, data as f64 / count)
    }

    /// The `number`-th Interest that there is: names come again and again, each time with its number.
    #[inline]
    pub fn interest(&self, number: u64) -> Packet {
        self.interest_with_nonce(number, number as u32)
    }

    /// The same with this nonce, for one that is asked for again.
    #[inline]
    pub fn interest_with_nonce(&self, number: u64, nonce: u32) -> Packet {
        let (template, octets) = self.template(number);
        Packet::build(octets.len(), |packet| {
            packet.copy_from_slice(octets);
            let end = template.name().end;
            packet[end - NUMBER..end].copy_from_slice(&number.to_be_bytes());
            packet[end + BEFORE_NONCE..][..4].copy_from_slice(&nonce.to_be_bytes());
        })
    }

    /// The Data that answers it.
    #[inline]
    pub fn data(&self, number: u64) -> Packet {
        let (template, octets) = self.template(number);
        let name = &octets[template.name()];
        let value = name.len() + self.tail.len();
        let header = tlv::element_size(types::DATA, value) - value;
        Packet::build(header + value, |packet| {
            let (head, rest) = packet.split_at_mut(header);
            let (to_name, tail) = rest.split_at_mut(name.len());
            write_data_header(head, value);
            to_name.copy_from_slice(name);
            to_name[name.len() - NUMBER..].copy_from_slice(&number.to_be_bytes());
            tail.copy_from_slice(&self.tail);
        })
    }

    /// Its name, put together in `scratch`.
    pub fn name<'s>(&self, number: u64, scratch: &'s mut Vec<u8>) -> NameRef<'s> {
        let (template, octets) = self.template(number);
        scratch.clear();
        scratch.extend_from_slice(&octets[template.name()]);
        let end = scratch.len();
        scratch[end - NUMBER..].copy_from_slice(&number.to_be_bytes());
        let element = tlv::Reader::new(scratch).next_tlv().ok().flatten().expect("it was encoded as an element");
        NameRef::new_checked_before(element.value)
    }

    fn template(&self, number: u64) -> (&Template, &[u8]) {
        let templates = self.templates.len() as u64;
        prefetch::read_all(&self.octets[self.templates[((number + AHEAD) % templates) as usize].packet()]);
        let template = &self.templates[(number % templates) as usize];
        (template, &self.octets[template.packet()])
    }
}

/// Writes TLV-TYPE and TLV-LENGTH of Data with so many octets of value, octet by octet: octets that
/// are put together elsewhere and copied from there make a processor wait.
fn write_data_header(head: &mut [u8], value: usize) {
    let [high, low] = (value as u16).to_be_bytes();
    head[0] = types::DATA as u8;
    if let [_, long, to_high, to_low] = head {
        (*long, *to_high, *to_low) = (253, high, low);
    } else {
        head[1] = low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Drawing, Kind, NameChoice, open};

    #[test]
    fn packets_differ_in_their_number_and_data_answers_its_interest() {
        let workload = open(&Kind::Nested, 100, 5, 1).expect("a made-up workload");
        let drawing = Drawing { choice: &NameChoice::Hit, suffix: 0, draws: 100, seed: 1 };
        let names = NameSet::draw(&*workload, &drawing, |_| ()).expect("names of a made-up workload");
        // Lengths of names and contents that take one octet, and three.
        for content in [0, 100, 1000] {
            let packets = Packets::encode(&names, 4000, content).expect("small packets");
            let mut seen = std::collections::HashSet::new();
            for number in 0..250 {
                let (interest, data) = (packets.interest(number), packets.data(number));
                let interest = Interest::decode(&interest).expect("an Interest");
                let data = Data::decode(&data).expect("Data");
                assert_eq!((interest.nonce, interest.name.to_name()), (Some(number as u32), data.name.to_name()));
                assert_eq!(data.content.len(), content);
                assert_eq!(packets.name(number, &mut Vec::new()).to_name(), data.name.to_name());
                assert!(seen.insert(data.name.to_name()));
                let rule = workload.covering(data.name).expect("a hit");
                assert_eq!(workload.covering(names.parse(number as usize % names.len()).unwrap()), Some(rule));
            }
        }
        assert!(Packets::encode(&names, 4000, 9000).is_err());
    }
}
