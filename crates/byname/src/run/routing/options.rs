//! Routing by options of `byname run`, which override the configuration file.

use std::path::PathBuf;

use byname_control::config::{Config, ConfigError, Finding, RoutingNeighbor, Source};
use byname_wire::Name;
use clap::Args;

use crate::manage::face_uri::{canonical, parse_uri};

/// Options of `byname run` about routing.
#[derive(Debug, Clone, Default, Args)]
pub struct RoutingArgs {
    /// Take part in the routing of this network, for example /example; see [routing] in the configuration
    #[arg(long, value_name = "NAME", requires = "name")]
    network: Option<Name>,
    /// Name of this router: that of the network and one component, for example /example/r1
    #[arg(long, value_name = "NAME", requires = "network")]
    name: Option<Name>,
    /// A neighbor that multicast does not find, for example udp://r2.example.net; any number
    #[arg(long = "neighbor", visible_alias = "neighbour", value_name = "URI", value_parser = parse_uri)]
    neighbors: Vec<String>,
    /// Folder with this router's key and certificate, and the anchor's certificate [default: that of `byname key`]
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
    /// Believe everybody, and sign nothing: as ndn-dv with `keychain: insecure`
    #[arg(long, conflicts_with = "keys")]
    insecure_routing: bool,
}

impl RoutingArgs {
    /// Sets what the options say.
    ///
    /// # Errors
    /// If the result contradicts itself, or a neighbor's host is not found.
    pub fn override_in(&self, config: &mut Config, source: &Source) -> Result<(), ConfigError> {
        let routing = &mut config.routing;
        if let (Some(network), Some(name)) = (&self.network, &self.name) {
            (routing.network, routing.name) = (network.clone(), name.clone());
            // Neighbours are found there, unless the file forbids it.
            config.faces.udp.multicast.enabled |= routing.multicast && !source.has("faces.udp.multicast.enabled");
        }
        if let Some(keys) = &self.keys {
            // Relative to the folder in which the command runs, and not to that of the file.
            routing.keys = std::path::absolute(keys).unwrap_or_else(|_| keys.clone());
        }
        routing.insecure |= self.insecure_routing;
        for uri in &self.neighbors {
            let face = canonical(uri).map_err(|error| error.to_string());
            let face = face.and_then(|uri| uri.parse().map_err(|error| format!("--neighbor {uri}: {error}")));
            let face = face.map_err(|problem| source.place(&Finding::fatal("routing.neighbor", problem)))?;
            if !routing.neighbors.iter().any(|neighbor| neighbor.face == face) {
                routing.neighbors.push(RoutingNeighbor { face, cost: 1, mtu: None });
            }
        }
        match source.errors(&config.contradictions()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
