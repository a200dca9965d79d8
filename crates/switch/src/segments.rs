//! VLANs and VXLAN networks that ports carry.

use std::net::IpAddr;

use byname_wire::MacAddress;

/// The numbers of segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbers {
    /// All of them.
    All,
    /// These, in ascending order.
    Only(Vec<u32>),
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers::Only(Vec::new())
    }
}

impl Numbers {
    /// Whether a segment is among them.
    pub fn contains(&self, segment: u32) -> bool {
        match self {
            Numbers::All => true,
            Numbers::Only(numbers) => numbers.binary_search(&segment).is_ok(),
        }
    }
}

/// The segments of a port. Only switches with the keys `vlan-mac` and `vxlan` need them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSegments {
    /// The segment of frames without a VLAN tag or a VXLAN header. `None`: the port takes no such frames.
    pub plain: Option<u32>,
    /// The segments of frames with a tag or a header.
    pub tagged: Numbers,
    /// Addresses of VXLAN packets at this port. `None`: frames come and go without a VXLAN header.
    pub outer: Option<Outer>,
}

impl PortSegments {
    /// Whether the port carries a segment.
    pub fn carry(&self, segment: u32) -> bool {
        self.plain == Some(segment) || self.tagged.contains(segment)
    }
}

/// Addresses of the VXLAN packets that leave by a port. Both IP addresses are of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// The switch's IP address on this link.
    pub source: IpAddr,
    /// IP address of the other end.
    pub destination: IpAddr,
    /// The switch's MAC address on this link.
    pub source_station: MacAddress,
    /// MAC address of the other end.
    pub station: MacAddress,
}

impl Outer {
    /// Whether the addresses can be those of packets.
    pub fn is_valid(&self) -> bool {
        let is_station = |address: MacAddress| !address.is_group() && !address.is_zero();
        self.source.is_ipv4() == self.destination.is_ipv4()
            && is_station(self.source_station)
            && is_station(self.station)
    }
}
