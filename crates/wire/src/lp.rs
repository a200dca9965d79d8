//! NDNLPv2, the link protocol: header fields around a network packet or a fragment of one.

use smallvec::SmallVec;

use crate::PACKET_BYTES_MAX;
use crate::ids::FaceId;
use crate::tagnet;
use crate::tlv::{self, DecodeError, Reader, Tlv, types};

/// The largest frame: a packet, a prefix announcement, and header fields with room to spare.
pub const FRAME_BYTES_MAX: usize = 2 * PACKET_BYTES_MAX + 1024;

/// Most Acks that one frame may carry; more is [`DecodeError::TooLarge`].
pub const ACKS_MAX: usize = 1024;

/// Room for a header with a short PIT token: see [`LpPacket::encode_token`].
pub const TOKEN_HEADER_MAX: usize = 24;

/// TLV-TYPE numbers of the header fields.
pub mod field {
    #![allow(missing_docs)]
    pub const FRAGMENT: u64 = 0x50;
    pub const SEQUENCE: u64 = 0x51;
    pub const FRAG_INDEX: u64 = 0x52;
    pub const FRAG_COUNT: u64 = 0x53;
    pub const PIT_TOKEN: u64 = 0x62;
    pub const NACK: u64 = 0x0320;
    pub const NACK_REASON: u64 = 0x0321;
    pub const INCOMING_FACE_ID: u64 = 0x032c;
    pub const NEXT_HOP_FACE_ID: u64 = 0x0330;
    pub const CACHE_POLICY: u64 = 0x0334;
    pub const CACHE_POLICY_TYPE: u64 = 0x0335;
    pub const CONGESTION_MARK: u64 = 0x0340;
    pub const ACK: u64 = 0x0344;
    pub const TX_SEQUENCE: u64 = 0x0348;
    pub const NON_DISCOVERY: u64 = 0x034c;
    pub const PREFIX_ANNOUNCEMENT: u64 = 0x0350;
}

/// Reason of a Nack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// No reason given (0), or a reason that this forwarder does not know.
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
    pub fn from_number(n: u64) -> Self {
        match n {
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            _ => NackReason::None,
        }
    }
    /// The number in the packet.
    pub fn number(self) -> u64 {
        match self {
            NackReason::None => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
        }
    }
}

/// Opaque bytes (1 to 32) that the peer wants back with the answer. Empty means no token.
// Stored as whole words. A processor that has just written one byte of a word, and not its three
// neighbours, must wait for all earlier stores before it can read the word.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(align(4))]
pub struct PitToken {
    len: u8,
    bytes: [u8; 32],
}

impl PitToken {
    /// No token.
    pub const NONE: PitToken = PitToken { len: 0, bytes: [0; 32] };
    /// A token; `None` if longer than 32 bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > 8 {
            return PitToken::long(bytes);
        }
        // In a register, so that nobody reads a word whose bytes were just written one by one.
        let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut token = PitToken::NONE;
        token.set_word(word, bytes.len() as u8);
        Some(token)
    }
    fn long(bytes: &[u8]) -> Option<Self> {
        let mut token = PitToken { len: u8::try_from(bytes.len()).ok()?, bytes: [0; 32] };
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(token)
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The bytes, the first of them lowest, and their number; `None` if there are more than 8.
    #[inline]
    pub fn to_word(&self) -> Option<(u64, u8)> {
        let word = u64::from_le_bytes(*self.bytes.first_chunk().expect("a token has room for more"));
        (self.len <= 8).then_some((word, self.len))
    }
    /// Makes [`PitToken::NONE`] the token of [`PitToken::to_word`].
    #[inline]
    pub fn set_word(&mut self, word: u64, len: u8) {
        debug_assert!(self.is_empty() && (len == 8 || word.checked_shr(8 * u32::from(len)) == Some(0)));
        self.len = len;
        self.bytes[..8].copy_from_slice(&word.to_le_bytes());
    }
}

/// A parsed LpPacket. A bare packet ([`is_bare`]) parses as an LpPacket without header fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LpPacket<'a> {
    /// The network packet, or a fragment of one. Absent in an IDLE packet.
    pub fragment: Option<&'a [u8]>,
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex, 0 when absent.
    pub frag_index: u64,
    /// FragCount, 1 when absent.
    pub frag_count: u64,
    /// PIT token.
    pub pit_token: PitToken,
    /// Set if the fragment is an Interest that the peer refuses.
    pub nack: Option<NackReason>,
    /// Consumer-controlled forwarding.
    pub next_hop_face_id: Option<FaceId>,
    /// The face on which the peer received the packet.
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

impl Default for LpPacket<'_> {
    fn default() -> Self {
        LpPacket {
            fragment: None,
            sequence: None,
            frag_index: 0,
            frag_count: 1,
            pit_token: PitToken::NONE,
            nack: None,
            next_hop_face_id: None,
            incoming_face_id: None,
            cache_policy: None,
            congestion_mark: 0,
            acks: SmallVec::new(),
            tx_sequence: None,
            non_discovery: false,
            prefix_announcement: None,
        }
    }
}

/// Whether a frame begins like a network-layer packet: an Interest, a Data, or a packet addressed
/// by tags or locator.
#[inline]
pub fn is_bare(frame: &[u8]) -> bool {
    const INTEREST: u8 = types::INTEREST as u8;
    const DATA: u8 = types::DATA as u8;
    matches!(frame.first(), Some(&INTEREST | &DATA)) || tagnet::is_tagnet(frame)
}

impl<'a> LpPacket<'a> {
    /// Parses a frame: an LpPacket, or a bare network-layer packet.
    ///
    /// Fields stand in the order of their types, with the Fragment last. Only Acks may repeat.
    /// Unknown header fields are skipped where NDNLPv2 allows it (types 800 to 959 whose two lowest
    /// bits are 00); others are an error.
    #[inline]
    pub fn decode(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut packet = LpPacket::default();
        match frame {
            [] => Err(DecodeError::Truncated),
            _ if frame.len() > FRAME_BYTES_MAX => Err(DecodeError::TooLarge),
            _ if is_bare(frame) => {
                packet.fragment = Some(frame);
                Ok(packet)
            }
            _ => {
                packet.decode_fields(tlv::decode_only(frame, types::LP_PACKET)?)?;
                Ok(packet)
            }
        }
    }

    fn decode_fields(&mut self, value: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(value);
        let mut last = 0;
        while let Some(tlv) = reader.next_tlv()? {
            let in_order = match last {
                field::FRAGMENT => false,
                field::ACK if tlv.typ == field::ACK => true,
                _ => tlv.typ > last || tlv.typ == field::FRAGMENT,
            };
            if !in_order {
                return Err(DecodeError::UnexpectedCritical(tlv.typ));
            }
            last = tlv.typ;
            self.decode_field(tlv)?;
        }
        if self.frag_index >= self.frag_count {
            return Err(DecodeError::BadValue(field::FRAG_INDEX));
        }
        // A nested LpPacket has no meaning, and would let a sender hide fields from the link.
        if self.frag_index == 0 && self.fragment.is_some_and(|fragment| fragment.first() == Some(&LP_PACKET)) {
            return Err(DecodeError::BadValue(field::FRAGMENT));
        }
        Ok(())
    }

    fn decode_field(&mut self, tlv: Tlv<'a>) -> Result<(), DecodeError> {
        let Tlv { typ, value, .. } = tlv;
        let bad = DecodeError::BadValue(typ);
        match typ {
            field::FRAGMENT if value.is_empty() => return Err(bad),
            field::FRAGMENT => self.fragment = Some(value),
            field::SEQUENCE => self.sequence = Some(decode_sequence(tlv)?),
            field::FRAG_INDEX => self.frag_index = tlv::decode_nni(typ, value)?,
            field::FRAG_COUNT => self.frag_count = tlv::decode_nni(typ, value)?,
            field::PIT_TOKEN => self.pit_token = PitToken::new(value).filter(|token| !token.is_empty()).ok_or(bad)?,
            field::NACK => self.nack = Some(decode_nack(value)?),
            field::INCOMING_FACE_ID => self.incoming_face_id = Some(FaceId(tlv::decode_nni(typ, value)?)),
            field::NEXT_HOP_FACE_ID => self.next_hop_face_id = Some(FaceId(tlv::decode_nni(typ, value)?)),
            field::CACHE_POLICY => self.cache_policy = Some(decode_cache_policy(value)?),
            field::CONGESTION_MARK => self.congestion_mark = tlv::decode_nni(typ, value)?,
            field::ACK => {
                if self.acks.len() == ACKS_MAX {
                    return Err(DecodeError::TooLarge);
                }
                self.acks.push(decode_sequence(tlv)?);
            }
            field::TX_SEQUENCE => self.tx_sequence = Some(decode_sequence(tlv)?),
            field::NON_DISCOVERY if value.is_empty() => self.non_discovery = true,
            field::NON_DISCOVERY => return Err(bad),
            field::PREFIX_ANNOUNCEMENT => {
                tlv::decode_only(value, types::DATA).map_err(|_| bad)?;
                self.prefix_announcement = Some(value);
            }
            800..=959 if typ & 3 == 0 => {}
            _ => return Err(DecodeError::UnexpectedCritical(typ)),
        }
        Ok(())
    }

    /// Appends the LpPacket, or the bare fragment if no field is set.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(fragment) = self.fragment {
            self.encode_header(fragment.len(), out);
            out.extend_from_slice(fragment);
        } else {
            self.encode_header(0, out);
        }
    }

    /// Appends everything before the bytes of a fragment of `fragment_len` bytes. It ignores
    /// `self.fragment`; a length of 0 means no Fragment element. Appends nothing if no field is
    /// set.
    pub fn encode_header(&self, fragment_len: usize, out: &mut Vec<u8>) {
        let fields_len = self.fields_len();
        if fields_len == 0 {
            return;
        }
        out.reserve(fields_len + 16);
        tlv::push_number(out, types::LP_PACKET);
        tlv::push_number(out, (fields_len + fragment_element_len(fragment_len)) as u64);
        self.push_fields(out);
        if fragment_len > 0 {
            tlv::push_number(out, field::FRAGMENT);
            tlv::push_number(out, fragment_len as u64);
        }
    }

    /// Bytes that [`LpPacket::encode_header`] appends.
    pub fn header_len(&self, fragment_len: usize) -> usize {
        let fields_len = self.fields_len();
        if fields_len == 0 {
            return 0;
        }
        tlv::element_size(types::LP_PACKET, fields_len + fragment_element_len(fragment_len)) - fragment_len
    }

    /// Writes what [`LpPacket::encode_header`] appends if a PIT token, as [`PitToken::to_word`] gives it, is the only field.
    /// Most headers are such, and this takes a fraction of the time. Returns the number of bytes.
    ///
    /// # Panics
    /// If the token does not have 1 to 8 bytes, or the fragment does not have 1 to [`FRAME_BYTES_MAX`].
    #[inline]
    pub fn encode_token((token, len): (u64, u8), fragment_len: usize, out: &mut [u8; TOKEN_HEADER_MAX]) -> usize {
        assert!((1..=8).contains(&len), "a token of {len} bytes");
        assert!((1..=FRAME_BYTES_MAX).contains(&fragment_len), "a fragment of {fragment_len} bytes");
        let mut at = 0;
        let mut put = |bytes: &[u8], used: usize| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += used;
            at
        };
        // Types have one byte, and lengths one or three.
        let begin = |typ: u64, len: usize| {
            let [high, low] = (len as u16).to_be_bytes();
            if tlv::number_len(len as u64) == 1 {
                ([typ as u8, low, 0, 0], 2)
            } else {
                ([typ as u8, 253, high, low], 4)
            }
        };
        let (packet, used) = begin(types::LP_PACKET, 2 + usize::from(len) + fragment_element_len(fragment_len));
        put(&packet, used);
        put(&[field::PIT_TOKEN as u8, len], 2);
        // Bytes behind the token are written over.
        put(&token.to_le_bytes(), usize::from(len));
        let (fragment, used) = begin(field::FRAGMENT, fragment_len);
        put(&fragment, used)
    }

    /// The PIT token and the fragment of a frame that has no other field, and a token of up to 8 bytes. `None` for any
    /// other frame, also for one that [`LpPacket::decode`] refuses.
    #[inline]
    pub fn decode_token(frame: &'a [u8]) -> Option<(PitToken, &'a [u8])> {
        // The value of the element at the end of `bytes`, which must have this type.
        let last = |bytes: &'a [u8], typ: u64| {
            let (len, used) = tlv::decode_number(bytes.get(1..)?).ok()?;
            let value = &bytes[1 + used..];
            (u64::from(bytes[0]) == typ && value.len() as u64 == len).then_some(value)
        };
        let fields = last(frame, types::LP_PACKET).filter(|_| frame.len() <= FRAME_BYTES_MAX)?;
        let [typ, len @ 1..=8, rest @ ..] = fields else { return None };
        let (token, rest) = rest.split_at_checked(usize::from(*len)).filter(|_| u64::from(*typ) == field::PIT_TOKEN)?;
        let fragment = last(rest, field::FRAGMENT)?;
        (!matches!(fragment.first(), None | Some(&LP_PACKET))).then_some((PitToken::new(token)?, fragment))
    }

    fn push_fields(&self, out: &mut Vec<u8>) {
        if let Some(n) = self.sequence {
            tlv::push_tlv(out, field::SEQUENCE, &n.to_be_bytes());
        }
        if self.frag_index > 0 {
            tlv::push_nni(out, field::FRAG_INDEX, self.frag_index);
        }
        if self.frag_count > 1 {
            tlv::push_nni(out, field::FRAG_COUNT, self.frag_count);
        }
        if !self.pit_token.is_empty() {
            tlv::push_tlv(out, field::PIT_TOKEN, self.pit_token.as_slice());
        }
        match self.nack {
            Some(NackReason::None) => tlv::push_tlv(out, field::NACK, &[]),
            Some(reason) => {
                tlv::push_nested(out, field::NACK, |out| tlv::push_nni(out, field::NACK_REASON, reason.number()));
            }
            None => {}
        }
        if let Some(FaceId(id)) = self.incoming_face_id {
            tlv::push_nni(out, field::INCOMING_FACE_ID, id);
        }
        if let Some(FaceId(id)) = self.next_hop_face_id {
            tlv::push_nni(out, field::NEXT_HOP_FACE_ID, id);
        }
        if let Some(typ) = self.cache_policy {
            tlv::push_nested(out, field::CACHE_POLICY, |out| tlv::push_nni(out, field::CACHE_POLICY_TYPE, typ));
        }
        if self.congestion_mark != 0 {
            tlv::push_nni(out, field::CONGESTION_MARK, self.congestion_mark);
        }
        for ack in &self.acks {
            tlv::push_tlv(out, field::ACK, &ack.to_be_bytes());
        }
        if let Some(n) = self.tx_sequence {
            tlv::push_tlv(out, field::TX_SEQUENCE, &n.to_be_bytes());
        }
        if self.non_discovery {
            tlv::push_tlv(out, field::NON_DISCOVERY, &[]);
        }
        if let Some(data) = self.prefix_announcement {
            tlv::push_tlv(out, field::PREFIX_ANNOUNCEMENT, data);
        }
    }

    /// Bytes that [`LpPacket::push_fields`] appends.
    fn fields_len(&self) -> usize {
        // All types but the first four have three bytes. All lengths but the announcement's have
        // one.
        let number = |type_len: usize, n: u64| type_len + 1 + tlv::nni_len(n);
        let mut len = 0;
        len += if self.sequence.is_some() { 10 } else { 0 };
        len += if self.frag_index > 0 { number(1, self.frag_index) } else { 0 };
        len += if self.frag_count > 1 { number(1, self.frag_count) } else { 0 };
        len += if self.pit_token.is_empty() { 0 } else { 2 + self.pit_token.as_slice().len() };
        len += match self.nack {
            Some(NackReason::None) => 4,
            Some(reason) => 4 + number(3, reason.number()),
            None => 0,
        };
        len += self.incoming_face_id.map_or(0, |id| number(3, id.0));
        len += self.next_hop_face_id.map_or(0, |id| number(3, id.0));
        len += self.cache_policy.map_or(0, |typ| 4 + number(3, typ));
        len += if self.congestion_mark != 0 { number(3, self.congestion_mark) } else { 0 };
        len += 12 * self.acks.len();
        len += if self.tx_sequence.is_some() { 12 } else { 0 };
        len += if self.non_discovery { 4 } else { 0 };
        len + self.prefix_announcement.map_or(0, |data| tlv::element_size(field::PREFIX_ANNOUNCEMENT, data.len()))
    }
}

const LP_PACKET: u8 = types::LP_PACKET as u8;

fn fragment_element_len(fragment_len: usize) -> usize {
    if fragment_len == 0 { 0 } else { tlv::element_size(field::FRAGMENT, fragment_len) }
}

fn decode_sequence(tlv: Tlv<'_>) -> Result<u64, DecodeError> {
    tlv.value.try_into().map(u64::from_be_bytes).map_err(|_| DecodeError::BadValue(tlv.typ))
}

fn decode_nack(value: &[u8]) -> Result<NackReason, DecodeError> {
    let mut reason = None;
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            field::NACK_REASON if reason.is_none() => reason = Some(tlv::decode_nni(tlv.typ, tlv.value)?),
            typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
            _ => {}
        }
    }
    Ok(NackReason::from_number(reason.unwrap_or(0)))
}

fn decode_cache_policy(value: &[u8]) -> Result<u64, DecodeError> {
    let mut policy = None;
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            field::CACHE_POLICY_TYPE if policy.is_none() => policy = Some(tlv::decode_nni(tlv.typ, tlv.value)?),
            typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
            _ => {}
        }
    }
    policy.ok_or(DecodeError::Missing(field::CACHE_POLICY_TYPE))
}

#[cfg(test)]
mod tests;
