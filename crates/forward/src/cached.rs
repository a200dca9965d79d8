//! Data of a content store on its way to that of another process.

use std::time::Duration;

use byname_wire::{Data, NameRef};

use crate::packet::{NameRange, name_in, name_range};
use crate::packet_pool::Packet;

/// A Data packet, and what the content store knew of it.
#[derive(Debug)]
pub struct CachedData {
    packet: Packet,
    name: NameRange,
    /// Time for which it still satisfies MustBeFresh.
    pub fresh_for: Duration,
    /// How often it has answered an Interest, as far as the replacement policy counts that.
    pub uses: u8,
}

impl CachedData {
    /// The content store of another process had these bytes. `None` if they are no Data.
    pub fn of_bytes(bytes: &[u8], fresh_for: Duration, uses: u8) -> Option<Self> {
        let data = Data::decode(bytes).ok()?;
        let name = name_range(data.name_offset, data.name);
        Some(CachedData { packet: Packet::copy_from(bytes), name, fresh_for, uses })
    }

    pub(crate) fn new(packet: Packet, name: NameRange, fresh_for: Duration, uses: u8) -> Self {
        CachedData { packet, name, fresh_for, uses }
    }

    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        &self.packet
    }

    /// Its name.
    pub fn name(&self) -> NameRef<'_> {
        name_in(&self.packet, self.name)
    }

    pub(crate) fn into_packet(self) -> (Packet, NameRange) {
        (self.packet, self.name)
    }
}

/// The Data of one content store, most valuable first, as it was at one moment.
#[derive(Debug, Default)]
pub struct CachedOrder(pub(crate) Vec<u32>);

impl CachedOrder {
    /// Number of Data packets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out the first `max` of them.
    pub fn split_first(&mut self, max: usize) -> CachedOrder {
        let rest = self.0.split_off(max.min(self.0.len()));
        CachedOrder(std::mem::replace(&mut self.0, rest))
    }
}

#[cfg(test)]
mod tests {
    use byname_wire::data::DataBuilder;

    use super::*;

    #[test]
    fn only_data_comes_from_another_process() {
        let data = DataBuilder::new("/a/b".parse().expect("a name")).content(vec![7; 10]).encode();
        let cached = CachedData::of_bytes(&data, Duration::ZERO, 0).expect("Data");
        assert_eq!((cached.bytes(), cached.name().to_string().as_str()), (&data[..], "/a/b"));
        assert!(CachedData::of_bytes(&data[..data.len() - 1], Duration::ZERO, 0).is_none());
        assert!(CachedData::of_bytes(&[], Duration::ZERO, 0).is_none());
        let long = DataBuilder::new("/a".parse().expect("a name")).content(vec![7; 8_800]).encode();
        assert!(CachedData::of_bytes(&long, Duration::ZERO, 0).is_none());
    }
}
