//! Interfaces that come and go with the configuration: Ethernet and memif.
//!
//! New ones are opened first, because that may fail. One that changes is closed and opened anew, so its faces end. Those
//! that the file no longer has are closed last.

use anyhow::Context;
use byname_control::config::{Config, Ethernet, Memif};

use super::super::ports;
use super::Router;
use super::apply::{Steps, log_failure};

/// An interface of the configuration.
#[derive(Debug, Clone, PartialEq)]
enum Interface {
    Ethernet(Ethernet),
    Memif(Memif),
}

impl Interface {
    /// All that a configuration has.
    fn all(config: &Config) -> Vec<Interface> {
        let ethernet = config.faces.ethernet.iter().cloned().map(Interface::Ethernet);
        ethernet.chain(config.faces.memif.iter().cloned().map(Interface::Memif)).collect()
    }

    fn key(&self) -> String {
        match self {
            Interface::Ethernet(ethernet) => ethernet.key(),
            Interface::Memif(memif) => memif.key(),
        }
    }

    /// The configuration with this interface and no other.
    fn alone(&self, config: &Config) -> Config {
        let mut alone = config.clone();
        (alone.faces.ethernet, alone.faces.memif) = (Vec::new(), Vec::new());
        match self {
            Interface::Ethernet(ethernet) => alone.faces.ethernet.push(ethernet.clone()),
            Interface::Memif(memif) => alone.faces.memif.push(memif.clone()),
        }
        alone
    }
}

impl Router {
    /// Opens an interface, and starts its ports.
    fn open(&self, interface: &Interface, config: &Config) -> anyhow::Result<()> {
        let mut bound = ports::open_exclusive(&interface.alone(config))?;
        bound.capture(self.setup.capture.as_ref());
        for (thread, port) in bound.ports {
            if let Err(error) = self.handle.insert_ports(thread, vec![port]) {
                self.close(&interface.key());
                return Err(error).context(interface.key());
            }
        }
        tracing::info!(interface = interface.key(), "an interface is opened");
        Ok(())
    }

    /// Closes an interface. All of its faces end.
    pub(super) fn close(&self, interface: &str) {
        drop(self.handle.remove_ports(interface));
        tracing::info!(interface, "an interface is closed");
    }
}

impl Steps<'_> {
    /// Opens and reopens interfaces. Those that the new configuration does not have are closed later.
    pub(super) fn interfaces(&mut self, old: &Config, new: &Config) -> anyhow::Result<()> {
        let (before, after) = (Interface::all(old), Interface::all(new));
        let find = |list: &[Interface], wanted: &Interface| list.iter().find(|one| one.key() == wanted.key()).cloned();
        for gone in before.iter().filter(|one| find(&after, one).is_none()) {
            self.unwanted.push(gone.key());
        }
        for wanted in &after {
            let earlier = find(&before, wanted);
            if earlier.as_ref() == Some(wanted) {
                continue;
            }
            let opened = match earlier {
                None => self.open_new(wanted, new),
                Some(earlier) => self.reopen((earlier, old), (wanted, new)),
            };
            self.allow(opened)?;
        }
        Ok(())
    }

    fn open_new(&mut self, wanted: &Interface, new: &Config) -> anyhow::Result<()> {
        self.router.open(wanted, new)?;
        let key = wanted.key();
        self.undo.push(Box::new(move |router| router.close(&key)));
        Ok(())
    }

    fn reopen(
        &mut self,
        (earlier, old): (Interface, &Config),
        (wanted, new): (&Interface, &Config),
    ) -> anyhow::Result<()> {
        self.has_reopened = true;
        let (key, old) = (wanted.key(), old.clone());
        let go_back = move |router: &mut Router| log_failure("an interface", router.open(&earlier, &old));
        self.router.close(&key);
        if let Err(error) = self.router.open(wanted, new) {
            go_back(self.router);
            return Err(error);
        }
        self.undo.push(Box::new(move |router| {
            router.close(&key);
            go_back(router);
        }));
        Ok(())
    }
}
