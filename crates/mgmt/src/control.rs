//! ControlParameters and ControlResponse: parameters of commands, and answers.

use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Name};

use crate::{Element, StrategyName, element, types};

element! {
    /// Parameters of a command, and the body of most responses. All fields are optional here; each command defines
    /// which ones it requires.
    ControlParameters = types::CONTROL_PARAMETERS, {
        /// Prefix.
        name: Option<Name> = tlv::types::NAME,
        /// Face id. Absent or 0: the command's incoming face.
        face_id: Option<u64> = types::FACE_ID,
        /// Remote URI of a face.
        uri: Option<String> = types::URI,
        /// Local URI of a face.
        local_uri: Option<String> = types::LOCAL_URI,
        /// Origin of a route; see [`crate::origin`].
        origin: Option<u64> = types::ORIGIN,
        /// Cost of a route.
        cost: Option<u64> = types::COST,
        /// Capacity of the content store, in packets.
        capacity: Option<u64> = types::CAPACITY,
        /// Number of packets to erase, or erased.
        count: Option<u64> = types::COUNT,
        /// Flags of a route, a face or the content store.
        flags: Option<u64> = types::FLAGS,
        /// Flags to change.
        mask: Option<u64> = types::MASK,
        /// A strategy's name.
        strategy: Option<StrategyName> = types::STRATEGY,
        /// Lifetime of a route, in ms.
        expiration_period_ms: Option<u64> = types::EXPIRATION_PERIOD,
        /// 0 persistent, 1 on demand, 2 permanent.
        face_persistency: Option<u64> = types::FACE_PERSISTENCY,
        /// See `byname_face::FaceStatus`.
        base_congestion_marking_interval_ns: Option<u64> = types::BASE_CONGESTION_MARKING_INTERVAL,
        /// See `byname_face::FaceStatus`.
        default_congestion_threshold_bytes: Option<u64> = types::DEFAULT_CONGESTION_THRESHOLD,
        /// Largest frame, in bytes.
        mtu: Option<u64> = types::MTU,
        /// Packet thread, by number. Other forwarders do not know it.
        thread: Option<u64> = types::THREAD,
        /// Label of a flat name: the name whose route it follows. Other forwarders do not know it.
        label: Option<Name> = types::ROUTE_LABEL,
    }
}

impl ControlParameters {
    /// Encodes the element with the link settings (marking interval, threshold, MTU) before flags and persistency. This
    /// is python-ndn's order; [`Element::encode`] uses ndn-cxx's.
    pub fn encode_link_settings_first(&self) -> Vec<u8> {
        let first = ControlParameters {
            flags: None,
            mask: None,
            strategy: None,
            expiration_period_ms: None,
            face_persistency: None,
            ..self.clone()
        };
        let last = ControlParameters {
            flags: self.flags,
            mask: self.mask,
            strategy: self.strategy.clone(),
            expiration_period_ms: self.expiration_period_ms,
            face_persistency: self.face_persistency,
            ..ControlParameters::default()
        };
        let mut out = Vec::new();
        tlv::push_nested(&mut out, Self::TYPE, |out| {
            first.encode_value(out);
            last.encode_value(out);
        });
        out
    }
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlResponse {
    /// 200, or the code of an error.
    pub code: u64,
    /// Description of the code.
    pub text: String,
    /// One element, usually [`ControlParameters`]. Empty if there is none.
    pub body: Vec<u8>,
}

impl ControlResponse {
    /// A response without a body.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        ControlResponse { code, text: text.into(), body: Vec::new() }
    }
    /// A response for success.
    pub fn ok(body: &ControlParameters) -> Self {
        ControlResponse::new(200, "OK").with_body(body)
    }
    /// This response with parameters as its body.
    pub fn with_body(mut self, body: &ControlParameters) -> Self {
        self.body = body.encode();
        self
    }
    /// Decodes the parameters in the body.
    pub fn parameters(&self) -> Result<ControlParameters, DecodeError> {
        ControlParameters::decode(&self.body)
    }
}

impl Element for ControlResponse {
    const TYPE: u64 = types::CONTROL_RESPONSE;

    fn encode_value(&self, out: &mut Vec<u8>) {
        tlv::push_nni(out, types::STATUS_CODE, self.code);
        tlv::push_tlv(out, types::STATUS_TEXT, self.text.as_bytes());
        out.extend_from_slice(&self.body);
    }

    fn decode_value(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut next = |typ| match reader.next_tlv()? {
            Some(tlv) if tlv.typ == typ => Ok(tlv.value),
            _ => Err(DecodeError::Missing(typ)),
        };
        let code = tlv::decode_nni(types::STATUS_CODE, next(types::STATUS_CODE)?)?;
        let text = std::str::from_utf8(next(types::STATUS_TEXT)?);
        let text = text.map_err(|_| DecodeError::BadValue(types::STATUS_TEXT))?.to_owned();
        let body = reader.next_tlv()?.map(|tlv| tlv.wire.to_vec()).unwrap_or_default();
        Ok(ControlResponse { code, text, body })
    }
}
