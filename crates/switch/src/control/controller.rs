//! The controller: knows where hosts are, and computes each switch's table [Concise §3.1].
//!
//! The controller has the control halves of the tables. Events are recorded at once: a switch connects, a link fails, a
//! frame of a host is reported. [`Controller::flush`] then sends their effects, many in one batch.
//!
//! Configured hosts stay at their ports. Other hosts are learned from their frames. A learned host that sends from
//! another port has moved there. A port that goes down loses its learned hosts. A port with too many hosts loses the
//! one learned first, so that a host with invented addresses takes nothing from other ports. Learned hosts do not
//! expire otherwise.
//!
//! A restarted controller loads the hosts that the earlier one learned ([`Controller::remember`]). Otherwise, silent
//! hosts would stay unknown: no frame could reach them that would make them send one.
//!
//! A switch whose session ends stays in the network. It keeps forwarding with its tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;

use crate::key::{Key, KeyKind};
use crate::segments::{Numbers, Outer, PortSegments};
use crate::switch::{NO_PORT, PORTS_MAX, Plan, Role, check};
use byname_lookup::flat::message::Sender;
use byname_lookup::flat::othello::NetworkChange;
use byname_lookup::{BuildError, EntryId};
use byname_wire::{Digest, MacAddress, NameHashKey};

use super::config::{PortName, SwitchNetwork};
use super::message::{ToController, ToSwitch};
use super::routes::{PortAt, Routes};
use super::tables::Tables;

/// Most bytes of a table message. With its header, it fits in a session's payload.
const MESSAGE_BYTES_MAX: usize = 1 << 14;

/// The controller's knowledge of the network.
pub struct Controller {
    config: SwitchNetwork,
    key: NameHashKey,
    tables: Tables,
    routes: Routes,
    /// Epoch of the flooding tree in `routes`.
    epoch: u8,
    /// Whether a link's state or a switch's port numbers may have changed.
    is_rerouted: bool,
    switches: Vec<SwitchState>,
    hosts: HashMap<Key, Host>,
    /// Learned hosts of each port, in the order in which they were learned.
    learned: HashMap<PortAt, BTreeMap<u64, Key>>,
    /// Number of the last learned host.
    heard: u64,
    pending: Vec<NetworkChange>,
    /// Names to remove once the switches know that they are invalid.
    invalid: HashSet<Digest>,
    counters: ControllerCounters,
}

/// Counters of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Learned hosts.
    pub learned: u64,
    /// Hosts that moved to another port.
    pub moved: u64,
    /// Hosts forgotten because their port went down or had too many hosts.
    pub forgotten: u64,
    /// Reported hosts that were not learned. Reasons: the configuration has the host elsewhere, learning is disabled,
    /// the port is a trunk, or there are too many hosts.
    pub refused: u64,
    /// Whole tables sent.
    pub whole_tables: u64,
}

/// One switch.
struct SwitchState {
    name: String,
    ports: Vec<String>,
    /// Segments of each port. Empty if the kind of key has none.
    segments: Vec<PortSegments>,
    up: Vec<bool>,
    session: Option<Told>,
}

/// Sending state of one session with a switch.
struct Told {
    sender: Sender,
    /// Whether the plan has changed.
    plan_due: bool,
    /// Whether the whole table is needed.
    table_due: bool,
}

/// Location of a host.
#[derive(Debug, Clone)]
struct Host {
    switch: usize,
    /// `None` if the port's number is unknown: the switch has no port of that name, or has not connected yet.
    port: Option<u8>,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    /// Configured at the port of this name.
    Configured(String),
    Learned {
        /// Key of the host in `learned`.
        heard: u64,
    },
    /// Learned by an earlier controller at the port of this name. The switch has not connected yet.
    Remembered(String),
}

impl Controller {
    /// A controller whose switches hash keys with `key`. `epoch` is the epoch of the first tree. It is random, so
    /// that it differs from that of an earlier controller's last tree.
    ///
    /// # Errors
    /// If there is no memory for empty tables, or no room for the configured hosts.
    pub fn new(config: SwitchNetwork, key: NameHashKey, epoch: u8) -> Result<Self, BuildError> {
        let state = |name: &String| SwitchState {
            name: name.clone(),
            ports: vec![],
            segments: vec![],
            up: vec![],
            session: None,
        };
        let switches: Vec<_> = config.switches.iter().map(state).collect();
        let mut controller = Controller {
            key,
            // Twice as large, because forgotten hosts remain in the tables for a moment.
            tables: Tables::new(config.engine, switches.len(), 2 * config.hosts_max)?,
            routes: Routes::new(switches.len(), &[]),
            epoch,
            is_rerouted: false,
            switches,
            hosts: HashMap::new(),
            learned: HashMap::new(),
            heard: 0,
            pending: Vec::new(),
            invalid: HashSet::new(),
            counters: ControllerCounters::default(),
            config,
        };
        for host in controller.config.hosts.clone() {
            let Some(switch) = controller.number_of(&host.at.switch) else { continue };
            let Ok(key) = controller.config.key_of(&host) else { continue };
            let origin = Origin::Configured(host.at.port);
            controller.hosts.insert(key, Host { switch, port: None, origin });
            controller.place(key);
        }
        controller.apply()?;
        Ok(controller)
    }

    /// Number of the switch with this name. `None` if the configuration does not have it.
    pub fn number_of(&self, switch: &str) -> Option<usize> {
        self.switches.iter().position(|state| state.name == switch)
    }

    /// Number of switches with a session, and number of all switches.
    pub fn connected(&self) -> (usize, usize) {
        (self.switches.iter().filter(|state| state.session.is_some()).count(), self.switches.len())
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The counters.
    pub fn counters(&self) -> ControllerCounters {
        self.counters
    }

    /// Configured links that are down, each named by one of its ports.
    pub fn links_down(&self) -> Vec<&PortName> {
        let links = self.config.links.iter();
        links
            .filter(|link| !link.ends.iter().all(|end| self.port_up(end).is_some()))
            .map(|link| &link.ends[0])
            .collect()
    }

    /// Begins a session with a switch that has these ports, and ends an earlier one. Table messages are sealed with
    /// `table_key`.
    ///
    /// # Errors
    /// If the switch forwards by another kind of key, there are too many ports, or a configured port is missing.
    ///
    /// # Panics
    /// If `switch` is out of range.
    pub fn connect(
        &mut self,
        switch: usize,
        key: KeyKind,
        ports: Vec<String>,
        table_key: NameHashKey,
    ) -> Result<(), String> {
        if key != self.config.key {
            return Err(format!(
                "the controller forwards by the key \"{}\", and the switch by \"{key}\": write the same `key` in both files",
                self.config.key
            ));
        }
        if ports.len() > PORTS_MAX {
            return Err(format!("{} ports are more than {PORTS_MAX}", ports.len()));
        }
        let state = &self.switches[switch];
        let configured = self.config.links.iter().flat_map(|link| &link.ends);
        let configured = configured.chain(self.config.host_ports());
        let missing = configured.filter(|end| end.switch == state.name).find(|end| !ports.contains(&end.port));
        if let Some(missing) = missing {
            return Err(format!(
                "the controller's configuration has {missing}, but the switch's `ports` are {}",
                ports.join(", ")
            ));
        }
        let sender = Sender::new(table_key, MESSAGE_BYTES_MAX);
        self.switches[switch].session = Some(Told { sender, plan_due: true, table_due: true });
        if self.switches[switch].ports == ports {
            // The connection was interrupted; the port numbers still hold.
            return Ok(());
        }
        // The port numbers have changed their meaning.
        for port in 0..self.switches[switch].ports.len() {
            self.forget_port((switch, port as u8));
        }
        let segments = self.segments(switch, &ports);
        let state = &mut self.switches[switch];
        state.up = vec![false; ports.len()];
        state.segments = segments;
        state.ports = ports;
        let here = self.hosts.iter().filter(|(_, host)| host.switch == switch).map(|(address, _)| *address);
        for address in here.collect::<Vec<_>>() {
            self.recall(switch, address);
            self.place(address);
        }
        self.is_rerouted = true;
        Ok(())
    }

    /// Turns a remembered host of a switch into a learned one, once the switch's port numbers are known.
    fn recall(&mut self, switch: usize, address: Key) {
        let Some(Host { origin: Origin::Remembered(name), .. }) = self.hosts.get(&address) else { return };
        match port_named(&self.switches[switch], name).map(|port| (switch, port)) {
            Some(at) if !self.is_trunk(at) => self.enlist(at, address),
            _ => self.forget(address),
        }
    }

    /// The learned hosts as text for a later controller, one host per line.
    pub fn learned(&self) -> String {
        let mut text = String::new();
        for (address, host) in &self.hosts {
            let state = &self.switches[host.switch];
            let port = match &host.origin {
                Origin::Configured(_) => continue,
                Origin::Remembered(name) => name,
                Origin::Learned { .. } => match host.port.and_then(|port| state.ports.get(usize::from(port))) {
                    Some(name) => name,
                    None => continue,
                },
            };
            text += &format!("{address} {}:{port}\n", state.name);
        }
        text
    }

    /// Adds hosts that an earlier controller learned. Invalid lines are skipped. Returns the number of all hosts.
    ///
    /// # Errors
    /// If the tables refuse them.
    pub fn remember(&mut self, learned: &str) -> Result<usize, BuildError> {
        for line in learned.lines() {
            let parts = line
                .split_once(' ')
                .and_then(|(address, at)| Some((self.config.key.parse(address), at.split_once(':')?)));
            let Some((address, (switch, port))) = parts else { continue };
            let (Ok(address), Some(switch)) = (address, self.number_of(switch)) else { continue };
            if self.hosts.len() < self.config.hosts_max && !self.hosts.contains_key(&address) {
                let origin = Origin::Remembered(port.to_owned());
                self.hosts.insert(address, Host { switch, port: None, origin });
                self.place(address);
            }
        }
        self.apply()?;
        Ok(self.hosts.len())
    }

    /// Ends the session with a switch.
    pub fn disconnect(&mut self, switch: usize) {
        self.switches[switch].session = None;
    }

    /// Handles a message of a connected switch.
    pub fn receive(&mut self, switch: usize, message: ToController) {
        match message {
            ToController::Links(up) => self.set_links(switch, &up),
            ToController::Heard { port, source } => {
                if !self.learn((switch, port), source) {
                    self.counters.refused += 1;
                }
            }
            ToController::TableNeeded => {
                if let Some(told) = &mut self.switches[switch].session {
                    told.table_due = true;
                }
            }
            ToController::Alive => {}
        }
    }

    fn set_links(&mut self, switch: usize, up: &[bool]) {
        for port in 0..self.switches[switch].up.len() {
            let now = up.get(port).copied().unwrap_or(false);
            if std::mem::replace(&mut self.switches[switch].up[port], now) && !now {
                self.forget_port((switch, port as u8));
            }
        }
        self.is_rerouted = true;
    }

    /// Records where a host was heard. Returns false if it cannot be learned there.
    fn learn(&mut self, at: PortAt, source: Key) -> bool {
        let (switch, port) = at;
        if !self.config.learn || usize::from(port) >= self.switches[switch].ports.len() || self.is_trunk(at) {
            return false;
        }
        // Nobody hears a tunnel: packets tell the receiver's.
        if !self.config.key.has(&source) || matches!(source, Key::Gtp { .. }) {
            return false;
        }
        let segments = self.switches[switch].segments.get(usize::from(port));
        if source.segment().is_some_and(|segment| !segments.is_some_and(|segments| segments.carry(segment))) {
            return false;
        }
        match self.hosts.get(&source) {
            Some(host) if (host.switch, host.port) == (switch, Some(port)) => return true,
            Some(Host { origin: Origin::Configured(_), .. }) => return false,
            Some(_) => {
                self.unlist(source);
                self.counters.moved += 1;
            }
            None if self.hosts.len() >= self.config.hosts_max => return false,
            None => self.counters.learned += 1,
        }
        self.enlist(at, source);
        self.place(source);
        true
    }

    /// Adds a learned host to a port. If the port then has too many, it loses the host learned first.
    fn enlist(&mut self, at: PortAt, address: Key) {
        self.heard += 1;
        let here = self.learned.entry(at).or_default();
        here.insert(self.heard, address);
        let first = here.first_key_value().filter(|_| here.len() > self.config.hosts_per_port_max);
        let first = first.map(|(_, first)| *first);
        let origin = Origin::Learned { heard: self.heard };
        self.hosts.insert(address, Host { switch: at.0, port: Some(at.1), origin });
        if let Some(first) = first {
            self.forget(first);
        }
    }

    /// Removes a learned host from its port's list.
    fn unlist(&mut self, address: Key) {
        if let Some(Host { switch, port: Some(port), origin: Origin::Learned { heard } }) = self.hosts.get(&address)
            && let Some(list) = self.learned.get_mut(&(*switch, *port))
        {
            list.remove(heard);
        }
    }

    fn forget(&mut self, address: Key) {
        self.unlist(address);
        self.hosts.remove(&address);
        // A removal writes nothing, so the table would still return the old entry. Overwrite it with a wrong checksum
        // first.
        let digest = self.digest(address);
        let wrong = EntryId(stored(digest, NO_PORT).0 ^ 1);
        self.pending.push(NetworkChange::Set(digest, vec![wrong; self.switches.len()].into()));
        self.invalid.insert(digest);
        self.counters.forgotten += 1;
    }

    fn forget_port(&mut self, at: PortAt) {
        for address in self.learned.remove(&at).unwrap_or_default().into_values() {
            self.forget(address);
        }
    }

    /// Queues a host's entries for all tables.
    fn place(&mut self, address: Key) {
        let Some(host) = self.hosts.get_mut(&address) else { return };
        if let Origin::Configured(name) = &host.origin {
            host.port = port_named(&self.switches[host.switch], name);
        }
        let (host, digest) = (host.clone(), self.digest(address));
        let entries = (0..self.switches.len()).map(|switch| stored(digest, self.port_for(switch, &host))).collect();
        self.invalid.remove(&digest);
        self.pending.push(NetworkChange::Set(digest, entries));
    }

    /// The port on which a switch sends to a host.
    fn port_for(&self, switch: usize, host: &Host) -> u8 {
        if host.switch == switch { host.port.unwrap_or(NO_PORT) } else { self.routes.next(switch, host.switch) }
    }

    fn digest(&self, key: Key) -> Digest {
        digest(&self.key, self.config.key, key)
    }

    /// The segments of a switch's ports.
    fn segments(&self, switch: usize, ports: &[String]) -> Vec<PortSegments> {
        let kind = self.config.key;
        if !kind.has_segments() {
            return Vec::new();
        }
        let of_port = |port: &String| {
            let at = PortName { switch: self.switches[switch].name.clone(), port: port.clone() };
            let link = self.config.links.iter().find(|link| link.ends.contains(&at));
            let Some(link) = link else { return self.config.segments_of(&at) };
            let peer = link.ends.iter().find(|end| **end != at).and_then(|end| self.number_of(&end.switch));
            let outer = peer.filter(|_| kind == KeyKind::Vxlan).map(|peer| between(switch, peer));
            PortSegments { plain: None, tagged: Numbers::All, outer }
        };
        ports.iter().map(of_port).collect()
    }

    /// Whether a port leads to another switch.
    fn is_trunk(&self, (switch, port): PortAt) -> bool {
        let state = &self.switches[switch];
        let name = state.ports.get(usize::from(port));
        let mut ends = self.config.links.iter().flat_map(|link| &link.ends);
        name.is_some_and(|name| ends.any(|end| end.switch == state.name && end.port == *name))
    }

    /// The switch and port numbers of a link's end, if the port exists and is up.
    fn port_up(&self, end: &PortName) -> Option<PortAt> {
        let switch = self.number_of(&end.switch)?;
        let state = &self.switches[switch];
        let port = port_named(state, &end.port)?;
        state.up[usize::from(port)].then_some((switch, port))
    }

    /// Recomputes the routes, and queues the changed table entries.
    fn reroute(&mut self) {
        let links = self.config.links.iter().filter_map(|link| {
            let [a, b] = link.ends.each_ref().map(|end| self.port_up(end));
            Some([a?, b?])
        });
        let routes = Routes::new(self.switches.len(), &links.collect::<Vec<_>>());
        let before = std::mem::replace(&mut self.routes, routes);
        if before == self.routes {
            return;
        }
        if !before.has_tree_of(&self.routes) {
            self.epoch = self.epoch.wrapping_add(1);
        }
        for state in &mut self.switches {
            if let Some(told) = &mut state.session {
                told.plan_due = true;
            }
        }
        let switches = 0..self.switches.len();
        for (address, host) in &self.hosts {
            let digest = digest(&self.key, self.config.key, *address);
            let others = switches.clone().filter(|&switch| switch != host.switch);
            for switch in
                others.filter(|&switch| before.next(switch, host.switch) != self.routes.next(switch, host.switch))
            {
                let entry = stored(digest, self.routes.next(switch, host.switch));
                self.pending.push(NetworkChange::Alter(digest, switch, entry));
            }
        }
    }

    fn plan(&self, switch: usize) -> Plan {
        let role = |port: usize| {
            let at = (switch, port as u8);
            if self.is_trunk(at) { Role::Trunk { floods: self.routes.floods(at) } } else { Role::Host }
        };
        let roles = (0..self.switches[switch].ports.len()).map(role).collect();
        Plan {
            epoch: self.epoch,
            hop_limit: self.config.hop_limit,
            roles,
            segments: self.switches[switch].segments.clone(),
        }
    }

    /// Applies the pending changes to the tables.
    fn apply(&mut self) -> Result<(), BuildError> {
        let removed: Vec<_> = self.invalid.drain().map(NetworkChange::Remove).collect();
        for changes in [std::mem::take(&mut self.pending), removed] {
            if !changes.is_empty() {
                self.tables.apply(&changes)?;
            }
        }
        Ok(())
    }

    /// Sends to each switch the changes that it has not received yet.
    ///
    /// # Errors
    /// If the tables refuse the pending changes. With the engine `line`, some tables may have them.
    pub fn flush(&mut self, send: &mut dyn FnMut(usize, ToSwitch)) -> Result<(), BuildError> {
        if std::mem::take(&mut self.is_rerouted) {
            self.reroute();
        }
        let applied = self.apply();
        for switch in 0..self.switches.len() {
            let Some(told) = &mut self.switches[switch].session else { continue };
            let (whole, plan_due) = (std::mem::take(&mut told.table_due), std::mem::take(&mut told.plan_due));
            self.counters.whole_tables += u64::from(whole);
            let mut send_table = |message: &[u8]| send(switch, ToSwitch::Table(message.to_vec()));
            self.tables.feed(switch, whole, &mut told.sender, &mut send_table);
            if plan_due {
                send(switch, ToSwitch::Plan(self.plan(switch)));
            }
        }
        applied
    }

    /// Sends a keep-alive of the table to each switch. Call this periodically.
    pub fn beat(&mut self, send: &mut dyn FnMut(usize, ToSwitch)) {
        for (switch, state) in self.switches.iter_mut().enumerate() {
            if let Some(told) = &mut state.session {
                told.sender.beat(|message| send(switch, ToSwitch::Table(message.to_vec())));
            }
        }
    }
}

fn port_named(state: &SwitchState, name: &str) -> Option<u8> {
    state.ports.iter().position(|port| port == name).map(|port| port as u8)
}

fn digest(names_key: &NameHashKey, kind: KeyKind, key: Key) -> Digest {
    let mut name = Vec::new();
    key.write(kind, &mut name);
    names_key.digest_bytes(&name)
}

/// Addresses of VXLAN packets from one switch to the next: link-local ones [RFC 3927], which no configuration needs.
/// Nobody checks them.
fn between(switch: usize, peer: usize) -> Outer {
    let address =
        |number: usize| Ipv4Addr::new(169, 254, (1 + number / 254 % 254) as u8, (1 + number % 254) as u8).into();
    let station = |number: usize| MacAddress([2, b'b', b'y', 0, (number >> 8) as u8, number as u8]);
    Outer {
        source: address(switch),
        destination: address(peer),
        source_station: station(switch),
        station: station(peer),
    }
}

/// A port and its checksum, as tables store them.
fn stored(digest: Digest, port: u8) -> EntryId {
    check().stored(digest, EntryId(port.into())).expect("a port has eight bits, as an entry has")
}
