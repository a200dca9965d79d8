//! NDNLPv2, the link protocol: header fields around a network packet or a fragment of one.

use smallvec::SmallVec;

use crate::ids::FaceId;
use crate::tlv::DecodeError;

/// Reason of a Nack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// No reason given (0), or one this forwarder does not know.
    None,
    /// 50.
    Congestion,
    /// 100.
    Duplicate,
    /// 150.
    NoRoute,
}

impl NackReason {
    /// From the number in the packet.
    pub fn from_number(_n: u64) -> Self {
        todo!()
    }
    /// The number in the packet.
    pub fn number(self) -> u64 {
        todo!()
    }
}

/// Opaque octets (1 to 32) that the peer wants back with the answer. Empty: none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PitToken {
    len: u8,
    octets: [u8; 32],
}

impl PitToken {
    /// No token.
    pub const NONE: PitToken = PitToken { len: 0, octets: [0; 32] };
    /// A token; `None` if longer than 32 octets.
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut token = PitToken { len: u8::try_from(octets.len()).ok()?, octets: [0; 32] };
        token.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(token)
    }
    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A parsed LpPacket. A bare Interest or Data parses as an LpPacket without header fields.
#[derive(Debug, Clone, Default)]
pub struct LpPacket<'a> {
    /// The network packet, or a fragment of it; absent in an IDLE packet.
    pub fragment: Option<&'a [u8]>,
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex, 0 when absent.
    pub frag_index: u64,
    /// FragCount, 1 when absent.
    pub frag_count: u64,
    /// PIT token.
    pub pit_token: PitToken,
    /// The fragment is an Interest that the peer refuses.
    pub nack: Option<NackReason>,
    /// Consumer-controlled forwarding.
    pub next_hop_face_id: Option<FaceId>,
    /// Where the peer got it.
    pub incoming_face_id: Option<FaceId>,
    /// CachePolicyType (1: NoCache).
    pub cache_policy: Option<u64>,
    /// CongestionMark, 0 when absent.
    pub congestion_mark: u64,
    /// Sequences that the peer has received.
    pub acks: SmallVec<[u64; 4]>,
    /// TxSequence: the peer wants this frame acknowledged.
    pub tx_sequence: Option<u64>,
    /// NonDiscovery (self-learning).
    pub non_discovery: bool,
    /// PrefixAnnouncement: a whole Data packet (self-learning).
    pub prefix_announcement: Option<&'a [u8]>,
}

impl<'a> LpPacket<'a> {
    /// Parses a frame: an LpPacket, a bare Interest, or a bare Data.
    ///
    /// Unknown header fields are skipped where NDNLPv2 says so (types 800 to 959 whose two lowest
    /// bits are 00), else they are an error.
    pub fn decode(_frame: &'a [u8]) -> Result<Self, DecodeError> {
        todo!()
    }
    /// Appends the LpPacket, or the bare fragment where no field is set.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(fragment) = self.fragment {
            self.encode_header(fragment.len(), out);
            out.extend_from_slice(fragment);
        } else {
            self.encode_header(0, out);
        }
    }
    /// Appends all that precedes the fragment's octets, for a fragment of `fragment_len` octets
    /// (`self.fragment` is not looked at; 0: no Fragment element). Appends nothing if no field is set.
    pub fn encode_header(&self, _fragment_len: usize, _out: &mut Vec<u8>) {
        todo!()
    }
    /// Octets that [`LpPacket::encode_header`] appends.
    pub fn header_len(&self, _fragment_len: usize) -> usize {
        todo!()
    }
}
