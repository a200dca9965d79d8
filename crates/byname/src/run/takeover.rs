//! What `byname run` does when a process takes over from another one, beside the exchange itself (`handover`).

use std::time::{Duration, Instant};

use byname_control::config::Config;
use byname_control::service::{self, ControlHandle};
use byname_face::ForwarderHandle;
use byname_face::handover::{FaceRecord, Inherited, SharedSocket, SocketRecord};
use byname_face::pcap::Capture;
use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_secure::Secure;
use byname_web::WebServer;

use super::descriptor_store::{self, DescriptorStore};
use super::handover::{Arrival, Departure, Program, Taken, parcel_of_sockets};
use super::initial::Initial;
use super::{add_ports, ports, state};
use crate::exit;

/// Time that lasting faces which have to be made anew may take, after a new process has taken over. Then their routes are
/// forgotten.
const COME_BACK_TIME: Duration = Duration::from_secs(2);
/// Name of the web thread's listener among the sockets that pass to another process.
pub const HTTP: &str = "http";

/// Takes over the faces and routes of another process, with all ports.
///
/// # Errors
/// If this process cannot take over. The other one then goes on.
pub fn take_over(
    arrival: &Arrival,
    config: &Config,
    handle: &ForwarderHandle,
    control: &ControlHandle,
    bound: &mut ports::Bound,
) -> anyhow::Result<Taken> {
    let mut ports = std::mem::take(&mut bound.ports);
    ports.append(&mut bound.applications);
    let open = state::opener(config.clone());
    let taken = arrival.complete(handle, control, ports, exclusive(config), open)?;
    arrival.close_rest();
    tracing::info!(
        process = taken.process,
        faces = taken.faces,
        routes = taken.routes,
        cached = taken.cached,
        cached_left = taken.cached_left,
        gap_us = u64::try_from(taken.gap.as_micros()).unwrap_or(u64::MAX),
        "took over from another process"
    );
    if !taken.reopened.is_empty() {
        let (ports, faces) = (taken.reopened.join(", "), taken.anew.len());
        tracing::info!(ports, faces, "cannot be taken over, and are opened anew: packets of these ports are lost");
    }
    Ok(taken)
}

/// Opens the ports that the other process had open until it ended, and makes the faces on them anew, with the numbers
/// that they had. Forgets the routes of the faces that do not come back.
pub fn take_rest(
    arrival: &Arrival,
    config: &Config,
    handle: &ForwarderHandle,
    control: &ControlHandle,
    (taken, capture): (&Taken, Option<&Capture>),
    bound: &mut ports::Bound,
) {
    arrival.await_end();
    match ports::open_exclusive(config) {
        Ok(mut exclusive) => {
            exclusive.capture(capture);
            handle.expect_faces(&taken.anew);
            let added = add_ports(handle, std::mem::take(&mut exclusive.ports));
            bound.notes.extend(added.err().map(|error| error.to_string()));
            bound.add_exclusive(exclusive);
        }
        // The other ports go on all the same.
        Err(error) => {
            let problem = exit::message_of(&error);
            tracing::error!("{problem}");
            bound.notes.push(problem);
        }
    }
    for request in taken.anew.iter().filter_map(FaceRecord::request) {
        let remote = request.remote.clone();
        if let Err(error) = handle.create_face(request) {
            bound.notes.push(format!("no face to {remote} again: {error}"));
        }
    }
    // Some ports make their faces when their peers are back.
    let end = Instant::now() + COME_BACK_TIME;
    let is_missing = |face: &FaceRecord| face.persistency() != Persistency::OnDemand && !has_face(handle, face.id);
    while taken.anew.iter().any(is_missing) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // If the control thread has ended, the process ends, too.
    let _ = control.with_management(|management| management.forget_missing_faces(&[]));
}

/// Advertises the descriptors that applications had advertised at the other process. The router must be on its trees.
///
/// # Errors
/// If the control thread has ended.
pub fn advertise_tags(taken: Option<&mut Taken>, control: &ControlHandle) -> anyhow::Result<()> {
    let tags = taken.map(|taken| std::mem::take(&mut taken.tags)).unwrap_or_default();
    if !tags.is_empty() {
        control.with_management(move |management| {
            tags.iter().for_each(|(face, list)| management.take_over_tags(*face, list));
        })?;
    }
    Ok(())
}

/// The ports that only one process may have open.
fn exclusive(config: &Config) -> Vec<String> {
    let interfaces = config.faces.ethernet.iter().map(|ethernet| ethernet.interface.clone());
    let memif = config.faces.memif.iter().map(|memif| format!("memif {} {}", memif.socket.display(), memif.id));
    interfaces.chain(memif).collect()
}

fn has_face(handle: &ForwarderHandle, id: u64) -> bool {
    handle.face(FaceId(id)).is_some()
}

/// The listener of the web thread, for another process.
pub fn share_http(web: &WebServer) -> Option<SharedSocket> {
    let record = SocketRecord { port: HTTP.to_owned(), local: web.address().to_string(), thread: 0 };
    Some(SharedSocket { record, descriptor: web.listener().ok()? })
}

/// A process that hands over.
pub struct Departing<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// What that has made.
    pub initial: &'a Initial,
    /// The server of metrics.
    pub web: Option<&'a WebServer>,
    /// The thread for encrypted faces.
    pub secure: Option<&'a Secure>,
    /// Its packet threads.
    pub handle: &'a ForwarderHandle,
    /// Its control thread.
    pub control: &'a ControlHandle,
}

impl<'a> Departing<'a> {
    fn departure(&self) -> Departure<'a> {
        Departure {
            handle: self.handle,
            control: self.control,
            more: self.web.and_then(share_http).into_iter().collect(),
            farewell: self.secure.map(Secure::farewell),
            configured: self.initial.former(),
        }
    }
}

/// Hands over to a new process, which ends this one. Returns only if that failed.
pub fn restart(program: &Program, store: Option<DescriptorStore>, departing: Departing<'_>) {
    tracing::info!(program = %program.path().display(), "starts a new process, which takes over");
    let reopen = state::opener(departing.config.clone());
    let close = move |control: &mut service::Departure<'_>| {
        control.management().authorizer_mut().release_marks();
        // The new process puts its own sockets there.
        empty(store);
    };
    let within = departing.config.general.takeover_time;
    let error = departing.departure().attempt((program, within), close, move |control| reopen(control.management()));
    report_no_restart(departing.control, exit::message_of(&error));
}

/// Says why no new process takes over.
pub fn report_no_restart(control: &ControlHandle, why: String) {
    tracing::error!("no restart: {why}. This process goes on as before");
    // If the control thread has ended, the process ends, too.
    let _ = control.with_management(move |management| management.note_failed_restart(why));
}

/// Leaves sockets and faces to the service manager, and ends this process. Returns if the service manager keeps none.
pub fn leave_to_manager(store: Option<DescriptorStore>, departing: Departing<'_>) {
    let Some(store) = store else { return };
    let reopen = state::opener(departing.config.clone());
    let error = departing.departure().leave_to_manager(
        store,
        |control| control.management().authorizer_mut().release_marks(),
        move |control| reopen(control.management()),
    );
    empty(Some(store));
    tracing::warn!("the service manager does not keep the connections: {}", exit::message_of(&error));
}

/// Lets the service manager keep the sockets that belong to no single face.
pub fn keep_sockets(store: Option<DescriptorStore>, departing: &Departing<'_>) {
    let Some(store) = store else { return };
    let mut sockets = departing.handle.shared_sockets();
    sockets.extend(departing.web.and_then(share_http));
    let parcel = parcel_of_sockets(departing.handle.threads(), &sockets, store.descriptors_max);
    if let Err(error) = parcel.and_then(|parcel| Ok(store.keep(&parcel)?)) {
        tracing::warn!("the service manager does not keep the sockets: {}", exit::message_of(&error));
    }
}

/// Takes everything out of the service manager's store.
pub fn empty(store: Option<DescriptorStore>) {
    if let Some(Err(error)) = store.map(DescriptorStore::forget) {
        tracing::warn!(%error, "the service manager's descriptor store is not emptied");
    }
}

/// Takes everything out of the service manager's store, and waits until it has closed it: ports whose sockets do not fit
/// here are bound again.
pub fn release(store: Option<DescriptorStore>) {
    empty(store);
    if let Some(Err(error)) = store.map(DescriptorStore::await_reader) {
        tracing::warn!(%error, "the service manager does not read");
    }
}

/// Opens what an earlier process has left with the service manager.
pub fn open_parcel() -> (Option<Arrival>, Inherited) {
    match Arrival::of_parcel(descriptor_store::returned()) {
        Ok(Some((arrival, inherited))) => (Some(arrival), inherited),
        Ok(None) => (None, Inherited::default()),
        Err(error) => {
            // There is no log yet.
            eprintln!("byname: starts without what the service manager has kept: {}", exit::message_of(&error));
            (None, Inherited::default())
        }
    }
}

/// Whether this process can take over with this number of packet threads. From a process that has ended, it takes over as
/// much as it can: `None` if that is sockets alone.
///
/// # Errors
/// If it cannot. The other process then goes on.
pub fn usable<'a>(
    arrival: Option<&'a Arrival>,
    threads: usize,
    inherited: &mut Inherited,
) -> anyhow::Result<Option<&'a Arrival>> {
    let Some(arrival) = arrival else { return Ok(None) };
    match arrival.check(threads) {
        Ok(()) => Ok(Some(arrival).filter(|arrival| arrival.has_faces())),
        Err(error) if arrival.is_late() => {
            tracing::warn!("connections of the former process are closed: {}", exit::message_of(&error));
            // Each thread has one, so others must be bound, and these would be in their way.
            arrival.close_rest();
            ["udp4", "udp6"].iter().for_each(|port| drop(inherited.take(port, |_| true)));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
