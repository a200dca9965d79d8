//! Packets in a port's memory: encoded once, and distinguished by a number.
//!
//! Before a turn is timed, its packets are written to memory as a network card would write them ([`Frames`]). The
//! measured time begins when the forwarder first reads them.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::ensure;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::{self, types};
use byname_wire::{Component, Data, Interest, Name, NameRef};

use crate::workload::NameSet;

/// Bytes of the component with the packet's number: the last component of each name.
const NUMBER: usize = 8;
/// Bytes between the end of the name and the nonce: the nonce's TLV-TYPE and TLV-LENGTH.
const BEFORE_NONCE: usize = 2;

/// Names that are counted to find a prefix.
const COUNTED_MAX: usize = 200_000;

/// An encoded Interest.
struct Template {
    start: usize,
    /// Bytes of the packet.
    len: u16,
    /// Start and end of the Name element in the packet.
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
    bytes: Vec<u8>,
    templates: Vec<Template>,
    /// The part of a Data packet after its name.
    tail: Vec<u8>,
    /// Bytes of an Interest after its name.
    interest_tail: usize,
}

impl Packets {
    /// Encodes an Interest with `lifetime_ms` for each name. Data has `content` bytes.
    ///
    /// # Errors
    /// If such Data exceeds the maximum packet size.
    pub fn encode(names: &NameSet, lifetime_ms: u64, content: usize) -> anyhow::Result<Self> {
        let data = DataBuilder::new(Name::default()).content(vec![b'x'; content]).encode();
        let decoded = Data::decode(&data)?;
        let tail = data[decoded.name_offset + decoded.name.value().len()..].to_vec();
        let mut packets = Packets { bytes: Vec::new(), templates: Vec::new(), tail, interest_tail: 0 };
        for i in 0..names.len() {
            let name = names.parse(i)?.to_name().join(Component::generic(&[0; NUMBER]));
            let interest = InterestBuilder::new(name, 0).lifetime_ms(lifetime_ms).encode();
            let decoded = Interest::decode(&interest)?;
            let value = decoded.name.value().len();
            let name_end = decoded.name_offset + value;
            packets.interest_tail = interest.len() - name_end;
            let start = packets.bytes.len();
            packets.templates.push(Template {
                start,
                len: u16::try_from(interest.len())?,
                name_start: u16::try_from(name_end - tlv::element_size(types::NAME, value))?,
                name_end: u16::try_from(name_end)?,
            });
            packets.bytes.extend_from_slice(&interest);
        }
        ensure!(packets.len() > 0, "there must be at least one name (--draws)");
        let largest = packets.templates.iter().map(|t| t.name().len()).max().unwrap_or_default() + packets.tail.len();
        ensure!(tlv::element_size(types::DATA, largest) <= 8800, "Data of more than 8,800 bytes (--content)");
        Ok(packets)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    /// The prefix that covers the number of names nearest to this share, and the share that it covers.
    pub fn prefix_of_share(&self, share: f64) -> (Name, f64) {
        let mut counts: HashMap<&[u8], u32> = HashMap::new();
        for template in self.templates.iter().take(COUNTED_MAX) {
            let element = tlv::decode_only(&self.bytes[template.packet()][template.name()], types::NAME);
            let name = NameRef::new_checked_before(element.expect("it was encoded here"));
            for depth in 1..name.len() {
                *counts.entry(name.prefix(depth).value()).or_default() += 1;
            }
        }
        let all = self.len().min(COUNTED_MAX) as f64;
        let off = |count: u32| (f64::from(count) / all - share).abs();
        let nearest = counts.into_iter().min_by(|(a, m), (b, n)| off(*m).total_cmp(&off(*n)).then_with(|| a.cmp(b)));
        nearest.map_or((Name::default(), 1.0), |(prefix, count)| {
            (NameRef::new_checked_before(prefix).to_name(), f64::from(count) / all)
        })
    }

    /// Mean size of an Interest and of a Data packet, in bytes.
    pub fn mean_bytes(&self) -> (f64, f64) {
        let data: usize =
            self.templates.iter().map(|t| tlv::element_size(types::DATA, t.name().len() + self.tail.len())).sum();
        let count = self.len() as f64;
        (self.bytes.len() as f64 / count, data as f64 / count)
    }

    /// Writes Interest `number`. Names repeat, but each time with another number.
    #[inline]
    pub fn write_interest(&self, number: u64, frames: &mut Frames) {
        self.write_interest_with_nonce(number, number as u32, frames);
    }

    /// Writes Interest `number` with a given nonce, so that the same name can be sent again.
    #[inline]
    pub fn write_interest_with_nonce(&self, number: u64, nonce: u32, frames: &mut Frames) {
        let (template, bytes) = self.template(number);
        frames.write(|out| {
            let end = out.len() + template.name().end;
            out.extend_from_slice(bytes);
            out[end - NUMBER..end].copy_from_slice(&number.to_be_bytes());
            out[end + BEFORE_NONCE..][..4].copy_from_slice(&nonce.to_be_bytes());
        });
    }

    /// Writes the Data that answers Interest `number`.
    #[inline]
    pub fn write_data(&self, number: u64, frames: &mut Frames) {
        let (template, bytes) = self.template(number);
        let name = &bytes[template.name()];
        frames.write(|out| {
            tlv::push_number(out, types::DATA);
            tlv::push_number(out, (name.len() + self.tail.len()) as u64);
            out.extend_from_slice(name);
            let end = out.len();
            out[end - NUMBER..].copy_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&self.tail);
        });
    }

    /// The number of an Interest that was sent on.
    #[inline]
    pub fn number_of_interest(&self, interest: &[u8]) -> u64 {
        number_before(interest, self.interest_tail)
    }

    /// The number of a Data packet.
    #[inline]
    pub fn number_of_data(&self, data: &[u8]) -> u64 {
        number_before(data, self.tail.len())
    }

    /// The name of packet `number`, assembled in `scratch`.
    pub fn name<'s>(&self, number: u64, scratch: &'s mut Vec<u8>) -> NameRef<'s> {
        let (template, bytes) = self.template(number);
        scratch.clear();
        scratch.extend_from_slice(&bytes[template.name()]);
        let end = scratch.len();
        scratch[end - NUMBER..].copy_from_slice(&number.to_be_bytes());
        let element = tlv::Reader::new(scratch).next_tlv().ok().flatten().expect("it was encoded as an element");
        NameRef::new_checked_before(element.value)
    }

    fn template(&self, number: u64) -> (&Template, &[u8]) {
        let template = &self.templates[(number % self.templates.len() as u64) as usize];
        (template, &self.bytes[template.packet()])
    }
}

/// The number at the end of a name that `tail` bytes follow.
#[inline]
fn number_before(packet: &[u8], tail: usize) -> u64 {
    let name = &packet[..packet.len() - tail];
    u64::from_be_bytes(*name.last_chunk().expect("each name ends with a number"))
}

/// Frames in a port's memory, in the order of arrival.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// End of each frame.
    ends: Vec<usize>,
    received: usize,
}

impl Frames {
    /// Removes all frames and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.received = 0;
    }

    /// Adds a frame behind the others: `write` appends it.
    #[inline]
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns the next frame.
    ///
    /// # Panics
    /// If all frames were received.
    #[inline]
    pub fn receive(&mut self) -> &[u8] {
        let start = self.received.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.received += 1;
        &self.bytes[start..self.ends[self.received - 1]]
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
        // Name and content lengths that are encoded in one byte and in three.
        for content in [0, 100, 1000] {
            let packets = Packets::encode(&names, 4000, content).expect("small packets");
            let (mut seen, mut frames) = (std::collections::HashSet::new(), Frames::default());
            for number in 0..250 {
                packets.write_interest(number, &mut frames);
                packets.write_data(number, &mut frames);
            }
            for number in 0..250 {
                let (interest_bytes, data_bytes) = (frames.receive().to_vec(), frames.receive().to_vec());
                let interest = Interest::decode(&interest_bytes).expect("an Interest");
                let data = Data::decode(&data_bytes).expect("Data");
                assert_eq!((interest.nonce, interest.name.to_name()), (Some(number as u32), data.name.to_name()));
                assert_eq!(data.content.len(), content);
                assert_eq!(packets.number_of_data(&data_bytes), number);
                assert_eq!(packets.number_of_interest(&interest_bytes), number);
                assert_eq!(packets.name(number, &mut Vec::new()).to_name(), data.name.to_name());
                assert!(seen.insert(data.name.to_name()));
                let rule = workload.covering(data.name).expect("a hit");
                assert_eq!(workload.covering(names.parse(number as usize % names.len()).unwrap()), Some(rule));
            }
        }
        assert!(Packets::encode(&names, 4000, 9000).is_err());
    }
}
