//! The controller: where hosts are, and what follows for each switch's table [Concise §3.1].
//!
//! It holds the control halves. Whatever happens, a switch that comes, a link that fails, a host that is
//! heard, is noted at once, and told by [`Controller::flush`], many changes in one batch.
//!
//! Hosts are those of the configuration, which stay where it says, and those that were heard. One that is
//! heard elsewhere has moved there. What was learned at a port is forgotten when the port goes down; a
//! port with too many hosts loses the one that was learned first, so that a host that invents addresses
//! takes nothing from others. There is no other end to what was learned.
//!
//! A controller that begins anew is told what an earlier one has learned ([`Controller::remember`]): hosts
//! that are silent would be unknown else, and nothing would be sent to them that could make them speak.
//!
//! A switch whose session ends is not taken out: it goes on with what it has.

use std::collections::{BTreeMap, HashMap, HashSet};

use byname_forward::switch::{NO_PORT, PORTS_MAX, Plan, Role, check};
use byname_lookup::flat::message::Sender;
use byname_lookup::flat::othello::NetworkChange;
use byname_lookup::{BuildError, EntryId};
use byname_wire::{Digest, MacAddress, NameHashKey};

use super::message::{ToController, ToSwitch};
use super::routes::{PortAt, Routes};
use super::tables::Tables;
use crate::config::{PortName, SwitchNetwork};

/// Octets of a message of the table; together with what is around it, below what a session carries.
const MESSAGE_OCTETS_MAX: usize = 1 << 14;

/// What the controller knows of the network.
pub struct Controller {
    config: SwitchNetwork,
    key: NameHashKey,
    tables: Tables,
    routes: Routes,
    /// Of the tree in `routes`.
    epoch: u8,
    /// Links, or what they lead to, may have changed.
    is_rerouted: bool,
    switches: Vec<SwitchState>,
    hosts: HashMap<MacAddress, Host>,
    /// Of each port, those that were learned there, by when.
    learned: HashMap<PortAt, BTreeMap<u64, MacAddress>>,
    /// Numbers what was learned.
    heard: u64,
    pending: Vec<NetworkChange>,
    /// Names to remove once switches know that they are not valid any more.
    invalid: HashSet<Digest>,
    counters: ControllerCounters,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Hosts that were learned.
    pub learned: u64,
    /// Hosts that were heard elsewhere.
    pub moved: u64,
    /// Hosts that were forgotten, since their port went down or has too many.
    pub forgotten: u64,
    /// Hosts that were heard and not learned: the configuration has them elsewhere, forbids it, or there
    /// are too many.
    pub refused: u64,
    /// Whole tables that were sent.
    pub whole_tables: u64,
}

/// One switch.
struct SwitchState {
    name: String,
    ports: Vec<String>,
    up: Vec<bool>,
    session: Option<Told>,
}

/// What a switch is told in one session.
struct Told {
    sender: Sender,
    /// The plan has changed.
    plan_due: bool,
    /// The whole table is to be sent.
    table_due: bool,
}

/// Where a host is.
#[derive(Debug, Clone)]
struct Host {
    switch: usize,
    /// `None`: its switch has no port of the name that the configuration has.
    port: Option<u8>,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    /// The configuration has it at the port of this name.
    Configured(String),
    Learned {
        /// Its number in `learned`.
        heard: u64,
    },
    /// An earlier controller has learned it at the port of this name, and the switch is not here yet.
    Remembered(String),
}

impl Controller {
    /// Of a network, whose switches hash addresses with `key`; `epoch` is the first tree's, drawn by
    /// chance, so that it is not that of the last tree of an earlier controller.
    ///
    /// # Errors
    /// If there is no memory for empty tables, or no room for the hosts of the configuration.
    pub fn new(config: SwitchNetwork, key: NameHashKey, epoch: u8) -> Result<Self, BuildError> {
        let state = |name: &String| SwitchState { name: name.clone(), ports: vec![], up: vec![], session: None };
        let switches: Vec<_> = config.switches.iter().map(state).collect();
        let mut controller = Controller {
            key,
            // Those that are forgotten are there for a moment more.
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
            let origin = Origin::Configured(host.at.port);
            controller.hosts.insert(host.address, Host { switch, port: None, origin });
            controller.place(host.address);
        }
        controller.apply()?;
        Ok(controller)
    }

    /// The number of a switch; `None`: the configuration has none of this name.
    pub fn number_of(&self, switch: &str) -> Option<usize> {
        self.switches.iter().position(|state| state.name == switch)
    }

    /// Switches with a session, of how many.
    pub fn connected(&self) -> (usize, usize) {
        (self.switches.iter().filter(|state| state.session.is_some()).count(), self.switches.len())
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// What has happened so far.
    pub fn counters(&self) -> ControllerCounters {
        self.counters
    }

    /// Links of the configuration that are down, by one of their ports.
    pub fn links_down(&self) -> Vec<&PortName> {
        let links = self.config.links.iter();
        links
            .filter(|link| !link.ends.iter().all(|end| self.port_up(end).is_some()))
            .map(|link| &link.ends[0])
            .collect()
    }

    /// Begins a session with a switch that has these ports; its messages of the table are sealed with
    /// `table_key`. A session that it had is over.
    ///
    /// # Errors
    /// If there are too many ports, or one that the configuration has is missing.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn connect(&mut self, switch: usize, ports: Vec<String>, table_key: NameHashKey) -> Result<(), String> {
        if ports.len() > PORTS_MAX {
            return Err(format!("{} ports are more than {PORTS_MAX}", ports.len()));
        }
        let state = &self.switches[switch];
        let configured = self.config.links.iter().flat_map(|link| &link.ends);
        let configured = configured.chain(self.config.hosts.iter().map(|host| &host.at));
        let missing = configured.filter(|end| end.switch == state.name).find(|end| !ports.contains(&end.port));
        if let Some(missing) = missing {
            return Err(format!(
                "the controller's configuration has {missing}, but the switch's `ports` are {}",
                ports.join(", ")
            ));
        }
        let sender = Sender::new(table_key, MESSAGE_OCTETS_MAX);
        self.switches[switch].session = Some(Told { sender, plan_due: true, table_due: true });
        if self.switches[switch].ports == ports {
            // It was away for a moment: what it had stays as it was.
            return Ok(());
        }
        // Numbers have changed their meaning.
        for port in 0..self.switches[switch].ports.len() {
            self.forget_port((switch, port as u8));
        }
        let state = &mut self.switches[switch];
        state.up = vec![false; ports.len()];
        state.ports = ports;
        let here = self.hosts.iter().filter(|(_, host)| host.switch == switch).map(|(address, _)| *address);
        for address in here.collect::<Vec<_>>() {
            self.recall(switch, address);
            self.place(address);
        }
        self.is_rerouted = true;
        Ok(())
    }

    /// Takes a host as learned that was remembered at a switch, now that its ports have numbers.
    fn recall(&mut self, switch: usize, address: MacAddress) {
        let Some(Host { origin: Origin::Remembered(name), .. }) = self.hosts.get(&address) else { return };
        match port_named(&self.switches[switch], name).map(|port| (switch, port)) {
            Some(at) if !self.is_trunk(at) => self.enlist(at, address),
            _ => self.forget(address),
        }
    }

    /// What was learned, for a controller after this one: a line for each host.
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

    /// Takes what an earlier controller has learned, as far as it makes sense; how many hosts.
    ///
    /// # Errors
    /// If the tables do not take them.
    pub fn remember(&mut self, learned: &str) -> Result<usize, BuildError> {
        for line in learned.lines() {
            let parts = line.split_once(' ').and_then(|(address, at)| Some((address, at.split_once(':')?)));
            let Some((address, (switch, port))) = parts else { continue };
            let address = address.parse().ok().filter(|address: &MacAddress| !address.is_group() && !address.is_zero());
            let (Some(address), Some(switch)) = (address, self.number_of(switch)) else { continue };
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

    /// Takes a message of a switch that is connected.
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

    /// Notes where a host was heard; false where it is not to be there.
    fn learn(&mut self, at: PortAt, source: MacAddress) -> bool {
        let (switch, port) = at;
        if !self.config.learn || usize::from(port) >= self.switches[switch].ports.len() || self.is_trunk(at) {
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

    /// Has a host as learned at a port, which loses another if it has too many.
    fn enlist(&mut self, at: PortAt, address: MacAddress) {
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

    /// Takes a host that was learned off its port's list.
    fn unlist(&mut self, address: MacAddress) {
        if let Some(Host { switch, port: Some(port), origin: Origin::Learned { heard } }) = self.hosts.get(&address)
            && let Some(list) = self.learned.get_mut(&(*switch, *port))
        {
            list.remove(heard);
        }
    }

    fn forget(&mut self, address: MacAddress) {
        self.unlist(address);
        self.hosts.remove(&address);
        // A name that is removed is answered as before, since that writes nothing: a wrong checksum first.
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

    /// Notes what all tables are to have for a host.
    fn place(&mut self, address: MacAddress) {
        let Some(host) = self.hosts.get_mut(&address) else { return };
        if let Origin::Configured(name) = &host.origin {
            host.port = port_named(&self.switches[host.switch], name);
        }
        let (host, digest) = (host.clone(), self.digest(address));
        let entries = (0..self.switches.len()).map(|switch| stored(digest, self.port_for(switch, &host))).collect();
        self.invalid.remove(&digest);
        self.pending.push(NetworkChange::Set(digest, entries));
    }

    /// The port by which a switch sends to a host.
    fn port_for(&self, switch: usize, host: &Host) -> u8 {
        if host.switch == switch { host.port.unwrap_or(NO_PORT) } else { self.routes.next(switch, host.switch) }
    }

    fn digest(&self, address: MacAddress) -> Digest {
        self.key.digest_octets(&address.0)
    }

    /// Whether a port leads to another switch.
    fn is_trunk(&self, (switch, port): PortAt) -> bool {
        let state = &self.switches[switch];
        let name = state.ports.get(usize::from(port));
        let mut ends = self.config.links.iter().flat_map(|link| &link.ends);
        name.is_some_and(|name| ends.any(|end| end.switch == state.name && end.port == *name))
    }

    /// A port of a link by numbers, if it is there and up.
    fn port_up(&self, end: &PortName) -> Option<PortAt> {
        let switch = self.number_of(&end.switch)?;
        let state = &self.switches[switch];
        let port = port_named(state, &end.port)?;
        state.up[usize::from(port)].then_some((switch, port))
    }

    /// Finds ways anew, and notes what changes in tables.
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
            let digest = self.key.digest_octets(&address.0);
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
        Plan { epoch: self.epoch, hop_limit: self.config.hop_limit, roles }
    }

    /// Has the tables take what is pending.
    fn apply(&mut self) -> Result<(), BuildError> {
        let removed: Vec<_> = self.invalid.drain().map(NetworkChange::Remove).collect();
        for changes in [std::mem::take(&mut self.pending), removed] {
            if !changes.is_empty() {
                self.tables.apply(&changes)?;
            }
        }
        Ok(())
    }

    /// Tells all switches what they do not know.
    ///
    /// # Errors
    /// If the tables do not take what is pending: none of it, or, of tables computed one by one, some.
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

    /// Tells all switches that nothing is missing: to be called from time to time.
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

/// An entry as tables have it.
fn stored(digest: Digest, port: u8) -> EntryId {
    check().stored(digest, EntryId(port.into())).expect("a port has eight bits, as an entry has")
}
