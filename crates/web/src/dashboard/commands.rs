//! Commands: JSON in, a command through management's door, and its answer as JSON.

use std::time::Duration;

use byname_control::mgmt::Command;
use byname_control::mgmt::json::{parameters_json, parse_origin};
use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element, StrategyName, cs_flags, route_flags};
use byname_control::service::Door;
use byname_wire::Name;
use hyper::StatusCode;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answers::Failure;
use super::questions::NoAnswer;

/// How long an answer may take. The connection of a new face may take seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// The guest that sends commands.
const GUEST: usize = 0;
/// Flags of a face.
const RELIABILITY: u64 = 2;
const CONGESTION_MARKING: u64 = 4;

/// Commands that the dashboard may send.
const ALLOWED: [Command; 11] = [
    Command::FaceCreate,
    Command::FaceUpdate,
    Command::FaceDestroy,
    Command::FaceMove,
    Command::RibRegister,
    Command::RibUnregister,
    Command::CsConfig,
    Command::CsErase,
    Command::StrategySet,
    Command::StrategyUnset,
    Command::FibRemoveNexthop,
];

/// What a command is about. Which fields it needs, and which it may not have, management decides.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    name: Option<String>,
    face_id: Option<u64>,
    remote_uri: Option<String>,
    local_uri: Option<String>,
    /// `persistent` or `permanent`.
    persistency: Option<String>,
    mtu: Option<u64>,
    reliability: Option<bool>,
    congestion_marking: Option<bool>,
    origin: Option<String>,
    cost: Option<u64>,
    child_inherit: Option<bool>,
    capture: Option<bool>,
    expires_in_ms: Option<u64>,
    strategy: Option<String>,
    capacity: Option<u64>,
    admit: Option<bool>,
    serve: Option<bool>,
    count: Option<u64>,
    thread: Option<u64>,
}

/// Carries out a command, and waits for its answer.
pub async fn carry_out(door: &Door, (module, verb): (&str, &str), body: &[u8]) -> Result<String, Failure> {
    let command = Command::from_names(module.as_bytes(), verb.as_bytes()).map(|(command, _)| command);
    let command = command.filter(|command| ALLOWED.contains(command)).ok_or_else(Failure::unknown)?;
    let parameters: Parameters = serde_json::from_slice(body).map_err(|error| Failure::malformed(error.to_string()))?;
    let response = send(door, GUEST, command, parameters.encoded(command)?).await?;
    let done = ControlParameters::decode(&response.body).map(|done| parameters_json(&done)).unwrap_or_default();
    succeeded(&response)?;
    Ok(done.to_string())
}

/// Sends a command of a guest, and waits for the answer.
pub async fn send(
    door: &Door,
    guest: usize,
    command: Command,
    parameters: ControlParameters,
) -> Result<ControlResponse, Failure> {
    let (sender, answer) = oneshot::channel();
    let tell = Box::new(move |response| drop(sender.send(response)));
    if !door.command(guest, command, parameters, tell) {
        return Err(NoAnswer::Busy.into());
    }
    match timeout(PATIENCE, answer).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) | Err(_) => Err(NoAnswer::Silent.into()),
    }
}

/// Whether a command has done what it should.
pub fn succeeded(response: &ControlResponse) -> Result<(), Failure> {
    if response.code == 200 {
        return Ok(());
    }
    let status = u16::try_from(response.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    Err(Failure::new(status.unwrap_or(StatusCode::BAD_GATEWAY), response.text.clone()))
}

impl Parameters {
    fn encoded(&self, command: Command) -> Result<ControlParameters, Failure> {
        let name = |text: &Option<String>, what: &str| {
            let parsed = text.as_ref().map(|text| text.parse::<Name>());
            parsed.transpose().map_err(|error| Failure::malformed(format!("`{what}` is no name: {error}")))
        };
        let origin = self.origin.as_ref().map(|text| parse_origin(text)).transpose();
        let persistency = self.persistency.as_deref().map(|word| match word {
            "persistent" => Ok(0),
            "permanent" => Ok(2),
            _ => Err(Failure::malformed("`persistency` must be persistent or permanent")),
        });
        let (flags, mask) = self.flags(command);
        Ok(ControlParameters {
            name: name(&self.name, "name")?,
            face_id: self.face_id,
            uri: self.remote_uri.clone(),
            local_uri: self.local_uri.clone(),
            origin: origin.map_err(|error| Failure::malformed(format!("`origin` {error}")))?,
            cost: self.cost,
            capacity: self.capacity,
            count: self.count,
            flags,
            mask,
            strategy: name(&self.strategy, "strategy")?.map(StrategyName),
            expiration_period_ms: self.expires_in_ms,
            face_persistency: persistency.transpose()?,
            mtu: self.mtu,
            thread: self.thread,
            ..ControlParameters::default()
        })
    }

    /// Flags, and those to change. A route has all its flags, and no mask.
    fn flags(&self, command: Command) -> (Option<u64>, Option<u64>) {
        let known = [
            (self.reliability, RELIABILITY),
            (self.congestion_marking, CONGESTION_MARKING),
            (self.admit, cs_flags::ADMIT),
            (self.serve, cs_flags::SERVE),
        ];
        if command == Command::RibRegister {
            let bit = |flag: Option<bool>, default: bool, bit: u64| if flag.unwrap_or(default) { bit } else { 0 };
            let flags = bit(self.child_inherit, true, route_flags::CHILD_INHERIT)
                | bit(self.capture, false, route_flags::CAPTURE);
            return (Some(flags), None);
        }
        let mask = known.iter().filter(|(flag, _)| flag.is_some()).fold(0, |mask, (_, bit)| mask | bit);
        let flags = known.iter().filter(|(flag, _)| *flag == Some(true)).fold(0, |flags, (_, bit)| flags | bit);
        if mask == 0 { (None, None) } else { (Some(flags), Some(mask)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(command: Command, json: &str) -> Result<ControlParameters, Failure> {
        serde_json::from_str::<Parameters>(json)
            .map_err(|error| Failure::malformed(error.to_string()))?
            .encoded(command)
    }

    #[test]
    fn json_becomes_parameters() {
        let route = r#"{"name":"/a/%41","face_id":300,"origin":"static","cost":5,"capture":true,"expires_in_ms":9}"#;
        let route = encoded(Command::RibRegister, route).expect("good");
        assert_eq!(route.name, Some("/a/A".parse().expect("a name")));
        assert_eq!((route.origin, route.cost, route.flags, route.mask), (Some(255), Some(5), Some(3), None));
        assert_eq!((route.face_id, route.expiration_period_ms), (Some(300), Some(9)));
        let face = r#"{"remote_uri":"udp4://192.0.2.1:6363","persistency":"permanent","reliability":false}"#;
        let face = encoded(Command::FaceCreate, face).expect("good");
        assert_eq!((face.face_persistency, face.flags, face.mask), (Some(2), Some(0), Some(RELIABILITY)));
        let store = encoded(Command::CsConfig, r#"{"admit":true,"serve":false,"capacity":7}"#).expect("good");
        assert_eq!((store.capacity, store.flags, store.mask), (Some(7), Some(1), Some(3)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for json in ["", "{\"name\":7}", "{\"nmae\":\"/a\"}", "{\"origin\":\"x\"}", "{\"persistency\":\"on-demand\"}"] {
            assert!(encoded(Command::RibRegister, json).is_err(), "{json}");
        }
    }
}
