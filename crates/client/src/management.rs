//! The NFD management protocol from the client's side: signed commands and datasets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byname_mgmt::{ControlParameters, ControlResponse, Element};
use byname_trust::{Signer, SignerError};
use byname_wire::data::content_type;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, DecodeError, Name};
use thiserror::Error;

use crate::clock::as_ms;
use crate::link::{ExchangeError, Link, nack_words};

/// Lifetime of dataset Interests, and the default lifetime, which commands have.
pub const LIFETIME: Duration = Duration::from_secs(4);
/// Maximum number of segments of a dataset: 4 million times 8,000 bytes.
const DATASET_SEGMENTS_MAX: u64 = 1 << 22;
/// Origin of routes that applications register for themselves.
const ORIGIN_APP: u64 = 0;
/// Origin of routes that the forwarder announces to a routing daemon.
const ORIGIN_CLIENT: u64 = 65;

/// The reason why a command or dataset failed.
#[derive(Debug, Error)]
pub enum ManagementError {
    /// There was no answer.
    #[error("no answer to {command}: {}{}", reason(error), if *local { "" } else { NOT_LOCAL })]
    Unanswered {
        /// `module/verb`.
        command: String,
        /// The reason.
        error: ExchangeError,
        /// Whether the connection is local to the forwarder's host.
        local: bool,
    },
    /// The forwarder refused.
    #[error("the forwarder refuses {command}: {text} (code {code})")]
    Refused {
        /// `module/verb`.
        command: String,
        /// Status code, like those of HTTP.
        code: u64,
        /// Status text.
        text: String,
        /// Parameters that came with the refusal.
        body: Option<Box<ControlParameters>>,
    },
    /// The key cannot sign the command.
    #[error("cannot sign {command}: {error}")]
    Unsigned {
        /// `module/verb`.
        command: String,
        /// The reason.
        error: SignerError,
    },
    /// The answer is malformed.
    #[error("the answer to {command} is malformed: {error}")]
    Malformed {
        /// `module/verb`.
        command: String,
        /// The defect.
        error: DecodeError,
    },
}

/// Forwarders silently drop `/localhost` packets from remote peers.
const NOT_LOCAL: &str = "; the forwarder accepts management only from its own host, for example over its Unix socket";

/// Describes an error without the command's name, because that is long and full of digests.
fn reason(error: &ExchangeError) -> String {
    match error {
        ExchangeError::Timeout { waited, .. } => format!("the forwarder was silent for {} ms", waited.as_millis()),
        ExchangeError::Nack { reason, .. } => format!("refused: {}", nack_words(*reason)),
        ExchangeError::Offline { waited, .. } => format!("no connection to a forwarder for {} s", waited.as_secs()),
        other => other.to_string(),
    }
}

/// Options of a registration.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegisterOptions {
    /// Register with the origin that the forwarder announces to its routing daemon.
    pub announce: bool,
}

/// Registers `prefix` for this connection.
pub fn register(client: &mut Link, prefix: &Name, options: RegisterOptions) -> Result<(), ManagementError> {
    command_under(client, scope(client.is_local()), "rib", "register", &registration(prefix, options)).map(drop)
}

/// The parameters of a registration.
pub(crate) fn registration(prefix: &Name, options: RegisterOptions) -> ControlParameters {
    ControlParameters {
        name: Some(prefix.clone()),
        origin: Some(if options.announce { ORIGIN_CLIENT } else { ORIGIN_APP }),
        ..ControlParameters::default()
    }
}

/// Forwarders accept /localhost only from local peers, but may accept /localhop from remote ones.
pub(crate) fn scope(is_local: bool) -> &'static str {
    if is_local { "localhost" } else { "localhop" }
}

/// Sends a command and returns the parameters in its answer.
pub fn command(
    client: &mut Link,
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
) -> Result<ControlParameters, ManagementError> {
    command_under(client, "localhost", module, verb, parameters)
}

fn command_under(
    client: &mut Link,
    scope: &str,
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
) -> Result<ControlParameters, ManagementError> {
    let command = format!("{module}/{verb}");
    let name = management_name(scope, module, verb).join(Component::generic(&parameters.encode()));
    let response = respond_to(client, &command, name, Vec::new())?;
    outcome(command, response)
}

/// Encodes and signs a command Interest. Its name ends with a digest that no other command has.
pub fn command_interest(module: &str, verb: &str, parameters: &ControlParameters) -> Vec<u8> {
    signed(management_name("localhost", module, verb).join(Component::generic(&parameters.encode())), Vec::new(), None)
}

/// The parameters in the content of an answer to `command`.
pub fn answered(command: &str, content: &[u8]) -> Result<ControlParameters, ManagementError> {
    let response = ControlResponse::decode(content)
        .map_err(|error| ManagementError::Malformed { command: command.to_owned(), error })?;
    outcome(command.to_owned(), response)
}

pub(crate) fn outcome(command: String, response: ControlResponse) -> Result<ControlParameters, ManagementError> {
    let malformed = |error| ManagementError::Malformed { command: command.clone(), error };
    let body = match response.body.is_empty() {
        true => None,
        false => Some(ControlParameters::decode(&response.body).map_err(malformed)?),
    };
    if response.code == 200 {
        return Ok(body.unwrap_or_default());
    }
    Err(ManagementError::Refused { command, code: response.code, text: response.text, body: body.map(Box::new) })
}

/// Sends a command with its parameters in ApplicationParameters. Returns the body of the answer.
pub fn command_with(
    client: &mut Link,
    module: &str,
    verb: &str,
    parameters: &[u8],
) -> Result<Vec<u8>, ManagementError> {
    let command = format!("{module}/{verb}");
    let response = respond_to(client, &command, management_name("localhost", module, verb), parameters.to_vec())?;
    match response.code {
        200 => Ok(response.body),
        code => Err(ManagementError::Refused { command, code, text: response.text, body: None }),
    }
}

/// Sends a command whose answer may take as long as `patience`. Returns the answer, whatever its code.
pub fn slow_command(
    client: &mut Link,
    module: &str,
    verb: &str,
    parameters: &ControlParameters,
    patience: Duration,
) -> Result<ControlResponse, ManagementError> {
    let name = management_name("localhost", module, verb).join(Component::generic(&parameters.encode()));
    let lifetime_ms = u64::try_from(patience.as_millis()).ok();
    exchange(client, &format!("{module}/{verb}"), &signed(name, Vec::new(), lifetime_ms))
}

fn respond_to(
    client: &mut Link,
    command: &str,
    name: Name,
    parameters: Vec<u8>,
) -> Result<ControlResponse, ManagementError> {
    exchange(client, command, &signed(name, parameters, None))
}

fn exchange(client: &mut Link, command: &str, interest: &[u8]) -> Result<ControlResponse, ManagementError> {
    let command = command.to_owned();
    let local = client.is_local();
    match client.exchange(interest, 1) {
        Ok(answer) => ControlResponse::decode(answer.data().content)
            .map_err(|error| ManagementError::Malformed { command, error }),
        Err(error) => Err(ManagementError::Unanswered { command, error, local }),
    }
}

/// Fetches a dataset: `faces/list`, or `faces/query` with its filter.
pub fn dataset(client: &mut Link, module: &str, verb: &str, filter: Option<&[u8]>) -> Result<Vec<u8>, ManagementError> {
    dataset_in_time(client, module, verb, filter, (LIFETIME, 2))
}

/// As [`dataset`]: the first answer must come in this time, after so many tries.
pub fn dataset_in_time(
    client: &mut Link,
    module: &str,
    verb: &str,
    filter: Option<&[u8]>,
    (lifetime, tries): (Duration, u32),
) -> Result<Vec<u8>, ManagementError> {
    let mut name = management_name("localhost", module, verb);
    if let Some(filter) = filter {
        name = name.join(Component::generic(filter));
    }
    dataset_at(client, &format!("{module}/{verb}"), name, (lifetime, tries))
}

/// Fetches the dataset with this name. `what` names it in messages. The first answer must come in this time, after so
/// many tries.
pub fn dataset_at(
    client: &mut Link,
    what: &str,
    name: Name,
    (lifetime, tries): (Duration, u32),
) -> Result<Vec<u8>, ManagementError> {
    let command = what.to_owned();
    let local = client.is_local();
    let unanswered = |error| ManagementError::Unanswered { command: command.clone(), error, local };
    let first = InterestBuilder::new(name, rand::random()).can_be_prefix(true).must_be_fresh(true);
    let packet =
        client.exchange(&first.lifetime_ms(lifetime.as_millis() as u64).encode(), tries).map_err(unanswered)?;
    let data = packet.data();
    let segment = data.name.component(-1).filter(|last| last.typ == component_type::SEGMENT);
    if segment.is_none() || data.content_type == content_type::NACK {
        let error = match ControlResponse::decode(data.content) {
            Ok(response) => ManagementError::Refused { command, code: response.code, text: response.text, body: None },
            Err(error) => ManagementError::Malformed { command, error },
        };
        return Err(error);
    }
    let mut content = data.content.to_vec();
    let base = data.name.prefix(data.name.len() - 1).to_name();
    let mut last = data.final_block.and_then(|last| last.number());
    let mut next = 1;
    while last.is_none_or(|last| next <= last) && next < DATASET_SEGMENTS_MAX {
        let name = base.join_number(component_type::SEGMENT, next);
        let interest = InterestBuilder::new(name, rand::random()).lifetime_ms(LIFETIME.as_millis() as u64).encode();
        let packet = client.exchange(&interest, 3).map_err(unanswered)?;
        content.extend_from_slice(packet.data().content);
        last = packet.data().final_block.and_then(|last| last.number()).or(last);
        next += 1;
    }
    Ok(content)
}

pub(crate) fn management_name(scope: &str, module: &str, verb: &str) -> Name {
    [scope, "nfd", module, verb]
        .iter()
        .fold(Name::default(), |name, component| name.join(Component::generic(component.as_bytes())))
}

/// A command Interest in the v0.3 format, signed with DigestSha256: the forwarder trusts the socket, not the key.
/// The Interest has no lifetime unless one is given, and then lives for the default time.
fn signed(name: Name, parameters: Vec<u8>, lifetime_ms: Option<u64>) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A digest needs no key, and the random bytes of its nonce come from the system.
    signed_by(&Signer::digest(), name, parameters, lifetime_ms, as_ms(now)).unwrap_or_default()
}

/// A command Interest, signed by this signer at this time.
pub(crate) fn signed_by(
    signer: &Signer,
    name: Name,
    parameters: Vec<u8>,
    lifetime_ms: Option<u64>,
    unix_ms: u64,
) -> Result<Vec<u8>, SignerError> {
    // To a command without a lifetime, the router tells more about faces: python-ndn and NDNts, which send one, cannot
    // read all of it.
    let interest = InterestBuilder::new(name, rand::random()).application_parameters(parameters);
    let interest = match lifetime_ms {
        Some(ms) => interest.lifetime_ms(ms),
        None => interest,
    };
    signer.sign_command(&interest, unix_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Interest;

    #[test]
    fn commands_are_signed_and_named() {
        let wire =
            signed(management_name("localhost", "rib", "register").join(Component::generic(b"p")), Vec::new(), None);
        let interest = Interest::decode(&wire).unwrap();
        assert!(interest.name.to_string().starts_with("/localhost/nfd/rib/register/p/params-sha256="));
        assert!(interest.parameters_digest_matches());
        let signature = interest.signature.unwrap();
        assert_eq!(signature.info.nonce.map(<[u8]>::len), Some(8));
        assert!(signature.info.time_ms.is_some());
        assert_eq!(byname_wire::digest::sha256(&signature.signed), signature.value);
    }
}
