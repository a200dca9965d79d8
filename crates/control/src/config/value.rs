//! Values of the configuration as people write them, and what to say when they miss.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use byname_forward::strategy;
use byname_forward::worker::CsPolicy;
use byname_wire::{Component, HashFunction, Name};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::fib_writer::FibEngineKind;

/// A time: `"10 min"`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Other(toml::Value),
    }
    match Written::deserialize(deserializer)? {
        Written::Text(text) => humantime::parse_duration(&text)
            .map_err(|_| D::Error::custom(format!("\"{text}\" is no time; {WRITE_TIME}"))),
        Written::Other(other) => Err(D::Error::custom(format!("{other} is no time; {WRITE_TIME}"))),
    }
}

const WRITE_TIME: &str = "write for example \"10 min\", \"30 s\" or \"500 ms\"";

/// A size in octets: a number, or `"128 MiB"`.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
        Other(toml::Value),
    }
    let write = "write octets, or for example \"128 MiB\" or \"500 MB\"";
    let octets = match Written::deserialize(deserializer)? {
        Written::Number(n) => n,
        Written::Text(text) => {
            text.parse::<bytesize::ByteSize>()
                .map_err(|_| D::Error::custom(format!("\"{text}\" is no size; {write}")))?
                .0
        }
        Written::Other(other) => return Err(D::Error::custom(format!("{other} is no size; {write}"))),
    };
    usize::try_from(octets).map_err(|_| D::Error::custom(format!("{octets} octets are more than this machine has")))
}

/// A limit that must let something through.
pub(super) fn at_least_1<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(D::Error::custom("0 would let nothing through; write at least 1")),
        n => Ok(n),
    }
}

/// A port to listen on.
pub(super) fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let number = i64::deserialize(deserializer)?;
    u16::try_from(number)
        .map_err(|_| D::Error::custom(format!("{number} is no port; write 0 to 65535 (0: any free one)")))
}

/// Largest frame.
pub(super) fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let octets = u64::deserialize(deserializer)?;
    check_mtu(octets).map_err(D::Error::custom)
}

/// Largest frame, if given.
pub(super) fn mtu_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    mtu(deserializer).map(Some)
}

fn check_mtu(octets: u64) -> Result<u64, String> {
    match octets {
        64..=8800 => Ok(octets),
        _ => Err(format!("{octets} octets are no frame size; write 64 to 8800")),
    }
}

/// A name.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    parse_name(&String::deserialize(deserializer)?)
}

/// A list of names.
pub(super) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| parse_name(text)).collect()
}

fn parse_name<E: Error>(text: &str) -> Result<Name, E> {
    if !text.starts_with('/') && !text.starts_with("ndn:/") {
        return Err(E::custom(format!("\"{text}\" is no name; names begin with /")));
    }
    text.parse().map_err(|e| E::custom(format!("\"{text}\" is no name: {e}")))
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
            "\"{text}\" is no address with a port; write for example \"127.0.0.1:9626\" or \"[::1]:9626\""
        ))
    })
}

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

/// The FIB's engine.
pub(super) fn fib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FibEngineKind, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Written {
        Compact,
        CompactExact,
        LongestFirst,
        TwoStage,
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Compact => FibEngineKind::Compact,
        Written::CompactExact => FibEngineKind::CompactExact,
        Written::LongestFirst => FibEngineKind::LongestFirst,
        Written::TwoStage => FibEngineKind::TwoStage,
    })
}

/// The function that names are hashed with.
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

/// Strategies by prefix.
pub(super) fn strategies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Name, Name>, D::Error> {
    let mut choices = BTreeMap::new();
    for (prefix, written) in BTreeMap::<String, String>::deserialize(deserializer)? {
        let asked = if written.starts_with('/') { parse_name(&written)? } else { short_strategy(&written) };
        let instance = strategy::instance_name(asked.as_ref()).map_err(|e| {
            D::Error::custom(format!(
                "\"{written}\" for {prefix}: {e}; write \"best-route\", \"multicast\", \"adaptive\" \
                 or the full name of one of these"
            ))
        })?;
        choices.insert(parse_name(&prefix)?, instance);
    }
    if !choices.contains_key(&Name::default()) {
        return Err(D::Error::custom("every name needs a strategy: add \"/\" = \"best-route\""));
    }
    Ok(choices)
}

/// What holds without configuration.
pub(super) fn default_strategies() -> BTreeMap<Name, Name> {
    let instance = |short| {
        strategy::instance_name(short_strategy(short).as_ref()).expect("the worker has the strategies named here")
    };
    BTreeMap::from([
        (Name::default(), instance("best-route")),
        (name_of(&["localhost"]), instance("multicast")),
        (name_of(&["localhost", "nfd"]), instance("best-route")),
    ])
}

fn short_strategy(short: &str) -> Name {
    name_of(&["localhost", "nfd", "strategy", short])
}
