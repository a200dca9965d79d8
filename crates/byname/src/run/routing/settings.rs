//! Settings of the protocol, from `[routing]`.

use std::net::IpAddr;

use byname_control::config::{Config, Finding, RoutingProtocol};
use byname_routing::Policy;
use byname_routing::config::{self, Alternatives, Damping, Hello, Limits, ProtocolVersion, Timing};
use byname_routing::event::NeighbourSettings;
use byname_routing::trees;

/// The settings of the protocol. `boot` is the time of this start, in seconds since the Unix epoch; `uris` are those
/// under which neighbours reach this router.
///
/// # Errors
/// If the rules are wrong.
pub fn of_protocol(config: &Config, boot: u64, uris: Vec<String>) -> anyhow::Result<config::Config> {
    let routing = &config.routing;
    let misses = routing.hello_misses.min(usize::from(u8::MAX)) as u8;
    let settings = config::Config {
        version: match routing.protocol {
            RoutingProtocol::Main => ProtocolVersion::Main,
            RoutingProtocol::Dv2 => ProtocolVersion::Dv2,
        },
        seed: rand::random(),
        software: format!("byname {}", env!("BYNAME_VERSION")),
        uris,
        timing: Timing { advertise: routing.advertise_interval, dead: routing.dead_interval, ..Timing::default() },
        hello: Hello {
            enabled: !routing.hello_interval.is_zero(),
            interval: if routing.hello_interval.is_zero() { Hello::default().interval } else { routing.hello_interval },
            multiplier: misses,
            hold_down: routing.hold_down,
            ..Hello::default()
        },
        damping: Damping { enabled: routing.damping, ..Damping::default() },
        limits: Limits {
            neighbours: routing.neighbors_max,
            routers: routing.routers_max,
            prefixes_per_router: routing.prefixes_per_router_max,
            prefixes: routing.prefixes_max,
            ..Limits::default()
        },
        policy: policy(config)?,
        trees: trees::Settings {
            count: routing.trees,
            priority: routing.tree_priority,
            neighbours_max: routing.neighbors_max,
            ..trees::Settings::default()
        },
        alternatives: if routing.alternatives { Alternatives::LoopFree } else { Alternatives::None },
        ..config::Config::new(routing.network.clone(), routing.name.clone(), boot)
    };
    settings.check()?;
    Ok(settings)
}

/// The rules.
///
/// # Errors
/// If a line is no rule.
pub fn policy(config: &Config) -> anyhow::Result<Policy> {
    Ok(Policy::parse(config.routing.policy.iter().map(String::as_str))?)
}

/// What is wrong with the rules, for `byname check`.
pub fn findings(config: &Config) -> Vec<Finding> {
    match of_protocol(config, 1, Vec::new()) {
        _ if !config.routing.is_on() => Vec::new(),
        Ok(_) => Vec::new(),
        Err(error) => {
            let setting = if policy(config).is_err() { "routing.policy" } else { "routing" };
            vec![Finding::fatal(setting, error.to_string())]
        }
    }
}

/// The neighbours of the configuration.
pub fn neighbours(config: &Config) -> Vec<NeighbourSettings> {
    let settings = |neighbor: &byname_control::config::RoutingNeighbor| NeighbourSettings {
        uri: neighbor.face.to_string(),
        cost: neighbor.cost,
        mtu: neighbor.mtu,
    };
    config.routing.neighbors.iter().map(settings).collect()
}

/// The URIs under which neighbours on a link reach this router by UDP.
pub fn own_uris(config: &Config) -> Vec<String> {
    let udp = &config.faces.udp;
    if !udp.listen || !config.routing.multicast {
        return Vec::new();
    }
    let is_wanted = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => udp.ipv4 && !ip.is_loopback(),
        // Those of one link need a zone, which another host does not know.
        IpAddr::V6(ip) => udp.ipv6 && !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let Ok(addresses) = byname_face::own_addresses() else { return Vec::new() };
    let uri = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => format!("udp4://{ip}:{}", udp.port),
        IpAddr::V6(ip) => format!("udp6://[{ip}]:{}", udp.port),
    };
    addresses.into_iter().filter(is_wanted).map(uri).collect()
}
