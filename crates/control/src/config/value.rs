//! Deserializers of single values, with messages for invalid ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::strategy;
use byname_forward::worker::CsPolicy;
use byname_lookup::prefix::two_stage::StartDepth;
use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Component, HashFunction, Name};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A duration, such as `"10 min"`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Other(toml::Value),
    }
    match Written::deserialize(deserializer)? {
        Written::Text(text) => humantime::parse_duration(&text)
            .map_err(|_| D::Error::custom(format!("\"{text}\" is not a duration; {WRITE_TIME}"))),
        Written::Other(other) => Err(D::Error::custom(format!("{other} is not a duration; {WRITE_TIME}"))),
    }
}

const WRITE_TIME: &str = "write for example \"10 min\", \"30 s\" or \"500 ms\"";

/// A timeout for peers: at least [`TIMEOUT_MIN`], so that slow peers are not closed.
pub(super) fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match duration(deserializer)? {
        short if short < TIMEOUT_MIN => Err(D::Error::custom(format!(
            "{} is too short and would close connections to working peers; write at least \"1 s\"",
            humantime::format_duration(short)
        ))),
        timeout => Ok(timeout),
    }
}

const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Capacity of a packet queue, in bytes.
pub(super) fn queue_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match bytes(deserializer)? {
        few if few < QUEUE_BYTES_MIN => Err(D::Error::custom(format!(
            "a queue of {few} bytes is too small for the packets of one burst; write at least \"64 KiB\""
        ))),
        enough => Ok(enough),
    }
}

const QUEUE_BYTES_MIN: usize = 64 << 10;

/// A size in bytes: a number, or a string such as `"128 MiB"`.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
        Other(toml::Value),
    }
    let write = "write a number of bytes, or for example \"128 MiB\" or \"500 MB\"";
    let bytes = match Written::deserialize(deserializer)? {
        Written::Number(n) => n,
        Written::Text(text) => {
            text.parse::<bytesize::ByteSize>()
                .map_err(|_| D::Error::custom(format!("\"{text}\" is not a size; {write}")))?
                .0
        }
        Written::Other(other) => return Err(D::Error::custom(format!("{other} is not a size; {write}"))),
    };
    usize::try_from(bytes)
        .map_err(|_| D::Error::custom(format!("{bytes} bytes are more than this machine can address")))
}

/// A limit of at least 1. With 0, nothing could pass.
pub fn at_least_1<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(D::Error::custom("0 is too small: nothing could pass; write at least 1")),
        n => Ok(n),
    }
}

/// A port to listen on.
pub(super) fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let number = i64::deserialize(deserializer)?;
    u16::try_from(number)
        .map_err(|_| D::Error::custom(format!("{number} is not a port; write 0 to 65535 (0: any free port)")))
}

/// Largest frame to send, in bytes.
pub(super) fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    check_mtu(bytes).map_err(D::Error::custom)
}

/// As [`mtu`], for an optional key.
pub(super) fn mtu_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    mtu(deserializer).map(Some)
}

fn check_mtu(bytes: u64) -> Result<u64, String> {
    match bytes {
        64..=8800 => Ok(bytes),
        _ => Err(format!("a frame size of {bytes} bytes is not possible; write 64 to 8800")),
    }
}

/// A name.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    parse_name(&String::deserialize(deserializer)?)
}

/// A name, or an empty string for none.
pub(super) fn name_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(Name::default()) } else { parse_name(&text) }
}

/// A list of names.
pub(super) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| parse_name(text)).collect()
}

pub(super) fn parse_name<E: Error>(text: &str) -> Result<Name, E> {
    if !text.starts_with('/') && !text.starts_with("ndn:/") {
        return Err(E::custom(format!("\"{text}\" is not a name; names begin with /")));
    }
    text.parse().map_err(|e| E::custom(format!("\"{text}\" is not a name: {e}")))
}

/// The name of these generic components.
pub(super) fn name_of(components: &[&str]) -> Name {
    components.iter().fold(Name::default(), |name, component| name.join(Component::generic(component.as_bytes())))
}

/// An address with a port.
pub(super) fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!(
            "\"{text}\" is not an address with a port; write for example \"127.0.0.1:9626\" or \"[::1]:9626\""
        ))
    })
}

/// The address of a collector of OpenTelemetry, or an empty string for none.
pub(super) fn collector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.starts_with("https://") {
        return Err(D::Error::custom(format!(
            "\"{text}\" needs TLS, which byname does not speak to collectors; write the http:// address of a collector on \
             this host, which passes metrics on by TLS"
        )));
    }
    let host = text.strip_prefix("http://").filter(|host| !host.is_empty() && !host.starts_with(['/', ':']));
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'@'));
    match (text.is_empty(), host.filter(|_| is_plain)) {
        (true, _) | (false, Some(_)) => Ok(text),
        (false, None) => Err(D::Error::custom(format!(
            "\"{text}\" is not the address of a collector; write for example \"http://127.0.0.1:4318\""
        ))),
    }
}

/// Time from one message to a collector to the next: at least [`PUSH_INTERVAL_MIN`].
pub(super) fn push_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match duration(deserializer)? {
        short if short < PUSH_INTERVAL_MIN => {
            Err(D::Error::custom("metrics would be made all the time; write at least \"1 s\""))
        }
        interval => Ok(interval),
    }
}

const PUSH_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The replacement policy.
pub(super) fn cs_policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CsPolicy, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Written {
        Lru,
        #[serde(rename = "s3-fifo")]
        S3Fifo,
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Lru => CsPolicy::Lru,
        Written::S3Fifo => CsPolicy::S3Fifo,
    })
}

/// The start depth of the engine "two-stage": a depth, a share of the rules, or "most-likely".
///
/// # Errors
/// If it is none of these, or out of range.
pub(super) fn start_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StartDepth, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Depth(i64),
        Share(f64),
        Word(String),
    }
    let wrong = || {
        D::Error::custom(format!(
            "a start depth is a number of components, 1 to {COMPONENTS_MAX}, a share of all rules, such as 0.75, or \
             \"most-likely\""
        ))
    };
    match Written::deserialize(deserializer).map_err(|_| wrong())? {
        Written::Depth(depth) => {
            let depth = usize::try_from(depth).ok().filter(|depth| (1..=COMPONENTS_MAX).contains(depth));
            depth.map(StartDepth::Fixed).ok_or_else(wrong)
        }
        Written::Share(share) if (0.0..=1.0).contains(&share) => Ok(StartDepth::CumulativeThreshold(share)),
        Written::Word(word) if word == "most-likely" => Ok(StartDepth::MostLikely),
        _ => Err(wrong()),
    }
}

/// The number of children of the engine "level-pulling".
///
/// # Errors
/// If it is zero, or too large.
pub(super) fn children<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let children = at_least_1(deserializer)?;
    u32::try_from(children).map_err(|_| D::Error::custom(format!("at most {}", u32::MAX)))
}

/// The hash function for names.
pub(super) fn name_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashFunction, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Written {
        SipHash13,
        SipHash24,
        Aes,
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::SipHash13 => HashFunction::SipHash13,
        Written::SipHash24 => HashFunction::SipHash24,
        Written::Aes => HashFunction::Aes,
    })
}

/// Strategy instances by prefix.
pub(super) fn strategies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Name, Name>, D::Error> {
    let mut choices = BTreeMap::new();
    for (prefix, written) in BTreeMap::<String, String>::deserialize(deserializer)? {
        let asked = if written.starts_with('/') { parse_name(&written)? } else { short_strategy(&written)? };
        let instance = strategy::instance_name(asked.as_ref()).map_err(|e| {
            D::Error::custom(format!(
                "\"{written}\" for {prefix}: {e}; write {} or the full name of one of these",
                strategy::WORDS.map(|word| format!("\"{word}\"")).join(", ")
            ))
        })?;
        choices.insert(parse_name(&prefix)?, instance);
    }
    if !choices.contains_key(&Name::default()) {
        return Err(D::Error::custom("every name needs a strategy: add \"/\" = \"best-route\""));
    }
    Ok(choices)
}

/// Strategies without configuration, as in NFD.
pub(super) fn default_strategies() -> BTreeMap<Name, Name> {
    let instance = |short| {
        let asked = short_strategy::<serde::de::value::Error>(short).expect("a word is a component");
        strategy::instance_name(asked.as_ref()).expect("the worker has the strategies named here")
    };
    BTreeMap::from([
        (Name::default(), instance("best-route")),
        (name_of(&["localhost"]), instance("multicast")),
        (name_of(&["localhost", "nfd"]), instance("best-route")),
        (name_of(&["ndn", "broadcast"]), instance("multicast")),
    ])
}

/// The full name of a strategy that is written without the part that all have.
fn short_strategy<E: Error>(short: &str) -> Result<Name, E> {
    parse_name(&format!("/localhost/nfd/strategy/{short}"))
}
