//! Other receivers of route advertisements while the router runs.
//!
//! A receiver that goes is told to forget what it knows. If another one comes in its place, it comes after that: both may
//! be the same program, which would otherwise forget what the second one has told it.

use std::time::{Duration, Instant};

use super::{ControlError, ControlHandle, Service};
use crate::mgmt::tlv::origin;
use crate::readvertise::{Destination, Readvertiser};
use crate::rib::RouteEvent;

/// How long a receiver that goes may take to forget everything.
const LEAVING_TIME: Duration = Duration::from_secs(10);

impl ControlHandle {
    /// Replaces the destination with this label, which [`Destination::label`] returns.
    ///
    /// # Errors
    /// If the control thread has ended.
    pub fn set_destination(&self, label: &'static str, new: Option<Destination>) -> Result<(), ControlError> {
        self.call_service(move |service| {
            let now = Instant::now();
            service.coming.retain(|coming| coming.label() != label);
            for one in service.readvertisers.iter_mut().filter(|one| one.destination().label() == label) {
                one.retire(now + LEAVING_TIME);
            }
            service.coming.extend(new);
        })
    }
}

impl Service {
    /// Makes the router observe the routes that a destination wants.
    pub(super) fn readvertiser(&mut self, destination: Destination, now: Instant) -> Readvertiser {
        let observed = Some(origin::CLIENT).filter(|_| !destination.wants_all_routes());
        self.management.rib_mut().observe(observed, destination.prefix().clone());
        Readvertiser::new(destination, now)
    }

    /// Lets go of destinations that have forgotten everything, and begins with those that were waiting for that.
    pub(super) fn exchange_destinations(&mut self, now: Instant) {
        self.readvertisers.retain(|one| !one.has_retired(now));
        let is_busy = |label| self.readvertisers.iter().any(|one: &Readvertiser| one.destination().label() == label);
        let (waiting, ready): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.coming).into_iter().partition(|coming| is_busy(coming.label()));
        self.coming = waiting;
        for destination in ready {
            let mut readvertiser = self.readvertiser(destination, now);
            for entry in self.management.rib().entries_after(None) {
                for listed in entry.routes() {
                    let (face, origin) = (listed.route.face, listed.route.origin);
                    let event = RouteEvent { name: entry.name().to_name(), face, origin, added: true };
                    readvertiser.route_changed(&event, self.management.is_local(face), now);
                }
            }
            self.readvertisers.push(readvertiser);
        }
    }
}
