//! The state of management that passes to another process, or comes from one.
//!
//! Records hold what commands have changed. The new process has read the configuration file itself, and applies them on
//! top: so a change of the file takes effect, unless a command changed the same thing before.

use byname_forward::FaceId;
use byname_wire::Name;

use super::tlv::StrategyName;
use super::{Management, Moment};
use crate::rib::{RibError, route_of_record};
use crate::state::records::{ContentStoreRecord, Snapshot, StrategyRecord, VERSION, layer};

/// Most routes, or changes of flat names, in one snapshot.
const PER_SNAPSHOT: usize = 4096;

impl Management {
    /// Gives `tell` the routes and settings, in several snapshots. Stops at the first error, and returns it.
    ///
    /// # Errors
    /// An error of `tell`.
    pub fn hand_over<E>(&self, now: Moment, mut tell: impl FnMut(Snapshot) -> Result<(), E>) -> Result<(), E> {
        tell(Snapshot {
            version: VERSION,
            strategies: self.strategies.changes().map(|(prefix, strategy)| record_of(prefix, strategy)).collect(),
            content_store: vec![self.content_store.clone()],
            ..Snapshot::default()
        })?;
        let mut flat = self.flat.records().peekable();
        while flat.peek().is_some() {
            let flat = flat.by_ref().take(PER_SNAPSHOT).collect();
            tell(Snapshot { version: VERSION, flat, ..Snapshot::default() })?;
        }
        let mut routes = self.rib.records(now).peekable();
        while routes.peek().is_some() {
            let routes = routes.by_ref().take(PER_SNAPSHOT).collect();
            tell(Snapshot { version: VERSION, routes, ..Snapshot::default() })?;
        }
        Ok(())
    }

    /// Takes over what another process has told. Returns the number of routes that do not fit here.
    pub fn take_over(&mut self, snapshot: Snapshot, now: Moment) -> usize {
        for StrategyRecord { prefix, strategy } in snapshot.strategies {
            match strategy.0.as_ref().is_empty() {
                true => drop(self.strategies.unset(&prefix)),
                false => {
                    if let Err(refused) = self.strategies.set(&prefix, strategy.0.as_ref()) {
                        tracing::warn!(%prefix, strategy = %strategy.0, "a strategy stays behind: {}", refused.text);
                    }
                }
            }
        }
        for record in snapshot.content_store {
            self.set_content_store(&record);
        }
        self.restore_flat(snapshot.flat);
        let mut refused = 0;
        for record in snapshot.routes {
            let is_nexthop = record.layer == layer::FIB;
            let added = if let Some(until) = record.stale_until_unix_ms {
                self.rib.remove_stale_at(now.ms.saturating_add(until.saturating_sub(now.unix_ms)));
                let route = route_of_record(&record, now);
                self.rib.restore(&mut self.fib, record.name.as_ref(), &route, (is_nexthop, true)).map(drop)
            } else if is_nexthop {
                self.rib.add_nexthop(&mut self.fib, record.name.as_ref(), FaceId(record.face), record.cost)
            } else {
                self.insert_route(&record.name, &route_of_record(&record, now))
            };
            if let Err(error) = added {
                refused += 1;
                note_refused(refused, &record.name, &error);
            }
        }
        refused
    }

    /// Called when the faces of the other process are here: forgets the routes of faces that are not, and not among those
    /// that will `come`. Returns the number of these faces.
    pub fn forget_missing_faces(&mut self, come: &[FaceId]) -> usize {
        let is_missing = |face: &FaceId| self.forwarder.face(*face).is_none() && !come.contains(face);
        let missing: Vec<FaceId> = self.rib.faces().into_iter().filter(is_missing).collect();
        for face in &missing {
            self.rib.remove_face(&mut self.fib, *face);
        }
        self.more_to_search = true;
        self.rib.tell_routed_again();
        self.commit();
        missing.len()
    }

    /// Says which strategies the configuration file sets: what differs is told to another process.
    pub fn set_configured_strategies(&mut self, configured: Vec<(Name, Name)>) {
        self.strategies.set_configured(configured);
    }

    /// Number of the next notification of a face's event.
    pub fn next_event(&self) -> u64 {
        self.events.next()
    }

    /// Numbers notifications from here on.
    pub fn number_events_from(&mut self, next: u64) {
        self.events.number_from(next);
    }

    /// Notes that no new process could take over, for those who asked for it.
    pub fn note_failed_restart(&mut self, why: String) {
        self.failed_restarts = (self.failed_restarts.0 + 1, Some(why));
    }

    /// Notes what this process has taken over from another one, in words.
    pub fn note_takeover(&mut self, words: String) {
        self.taken_over = Some(words);
    }

    /// Applies settings of the content store, and notes them as changed by a command.
    pub(super) fn set_content_store(&mut self, record: &ContentStoreRecord) {
        let ContentStoreRecord { capacity_packets, admit, serve } = *record;
        let packets = capacity_packets.map(|packets| usize::try_from(packets).unwrap_or(usize::MAX));
        self.forwarder.cs_config(packets, admit.map(|on| on != 0), serve.map(|on| on != 0));
        let changed = &mut self.content_store;
        changed.capacity_packets = capacity_packets.or(changed.capacity_packets);
        changed.admit = admit.or(changed.admit);
        changed.serve = serve.or(changed.serve);
    }
}

/// A record of a choice. An empty strategy means that a command removed the choice of the configuration.
fn record_of(prefix: &Name, strategy: Option<&Name>) -> StrategyRecord {
    StrategyRecord { prefix: prefix.clone(), strategy: StrategyName(strategy.cloned().unwrap_or_default()) }
}

/// Warns when the number of refused routes reaches a power of two.
fn note_refused(refused: usize, name: &Name, error: &RibError) {
    if refused.is_power_of_two() {
        tracing::warn!(%name, refused, %error, "routes of the former process stay behind");
    }
}
