//! What `byname run` does when a process takes over from another one, beside the exchange itself (`handover`).

use std::time::{Duration, Instant};

use byname_control::config::Config;
use byname_control::service::ControlHandle;
use byname_face::ForwarderHandle;
use byname_face::handover::{FaceRecord, SharedSocket, SocketRecord};
use byname_face::pcap::Capture;
use byname_forward::FaceId;
use byname_forward::face_table::Persistency;
use byname_web::WebServer;

use super::handover::{Arrival, Departure, Program, Taken};
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
    let taken = arrival.complete(handle, control, ports, open)?;
    tracing::info!(
        process = taken.process,
        faces = taken.faces,
        routes = taken.routes,
        gap_us = u64::try_from(taken.gap.as_micros()).unwrap_or(u64::MAX),
        "took over from another process"
    );
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

fn has_face(handle: &ForwarderHandle, id: u64) -> bool {
    handle.face(FaceId(id)).is_some()
}

/// The listener of the web thread, for another process.
pub fn share_http(web: &WebServer) -> Option<SharedSocket> {
    let record = SocketRecord { port: HTTP.to_owned(), local: web.address().to_string(), thread: 0 };
    Some(SharedSocket { record, descriptor: web.listener().ok()? })
}

/// Hands over to a new process, which ends this one. Returns only if that failed.
pub fn restart(
    (program, config): (&Program, &Config),
    handle: &ForwarderHandle,
    control: &ControlHandle,
    more: Vec<SharedSocket>,
) {
    tracing::info!(program = %program.path().display(), "starts a new process, which takes over");
    let departure = Departure { program, handle, control, more, within: config.general.takeover_time };
    let reopen = state::opener(config.clone());
    let error = departure.attempt(
        |control| control.management().authorizer_mut().release_marks(),
        move |control| reopen(control.management()),
    );
    report_no_restart(control, exit::message_of(&error));
}

/// Says why no new process takes over.
pub fn report_no_restart(control: &ControlHandle, why: String) {
    tracing::error!("no restart: {why}. This process goes on as before");
    // If the control thread has ended, the process ends, too.
    let _ = control.with_management(move |management| management.note_failed_restart(why));
}
