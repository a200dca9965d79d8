//! Faces that move from one packet thread to another while traffic goes on.
//!
//! The control side directs a move, in the steps of [`Owners`]. It waits for the threads, and no thread waits for it: in
//! the meantime a thread holds back what it has to send on the face. What the peer sends on a connection stays in the
//! system. If the face shares a socket with others, its peer is led to the socket of the new thread first. The face
//! keeps its number, its link service, its queued output and its routes. Pending Interests are with their names,
//! on any thread, and are not touched.

use std::any::Any;
use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byname_forward::seat::Owners;
use byname_forward::{FaceId, Outgoing};

use super::registrations::Waiting;
use super::{ForwarderHandle, IoLoop};
use crate::face::{FaceEvent, FaceStatus, MoveFaceError};
use crate::pulse::Doing;
use crate::uri::FaceUri;

/// A face's old thread has this time to receive what was sent before its peer was led to the new thread. Packets that
/// are still left then are dropped and counted.
const RECEIVE_TIME: Duration = Duration::from_secs(1);
/// Pause between two looks whether it has.
const RECEIVE_PAUSE: Duration = Duration::from_micros(200);

/// Faces that had moved and are gone. The next move makes all threads forget who owned them.
#[derive(Clone, Default)]
pub(super) struct GoneFaces(Arc<Mutex<Vec<FaceId>>>);

impl GoneFaces {
    /// Notes that a face is gone from all workers.
    pub fn note(&self, face: FaceId, owners: &Owners) {
        if owners.has_moved(face) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(face);
        }
    }

    fn take(&self) -> Vec<FaceId> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a thread holds for a face that leaves it, beside the state of the port.
struct Luggage {
    output: Vec<Outgoing>,
    registrations: Vec<Waiting>,
    /// Events that the control side has not received yet.
    events: Vec<FaceEvent>,
}

fn stays(why: impl Into<String>) -> MoveFaceError {
    MoveFaceError::Stays(why.into())
}

impl ForwarderHandle {
    /// Moves a face to another packet thread, and waits until that works for it. The face keeps everything but its
    /// thread. Nothing happens if it is there already.
    ///
    /// # Errors
    /// If there is no such face or thread, if the face shares an interface that stays on its thread, or if the other
    /// thread has no room.
    pub fn move_face(&self, face: FaceId, to: u64) -> Result<FaceStatus, MoveFaceError> {
        self.move_if_possible(face, to)?;
        self.face(face).ok_or(MoveFaceError::NotFound)
    }

    /// The faces of a thread that [`ForwarderHandle::move_face`] can move.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn movable_faces(&self, thread: usize) -> HashSet<FaceId> {
        let movable = |io_loop: &mut IoLoop| {
            let faces = io_loop.faces.iter().filter(|(_, port)| io_loop.ports[**port].moves_faces());
            faces.map(|(face, _)| *face).collect()
        };
        self.line(thread).call(movable).unwrap_or_default()
    }

    fn move_if_possible(&self, face: FaceId, to: u64) -> Result<(), MoveFaceError> {
        let mut owners = self.owners();
        let (from, threads) = (owners.of(face), self.threads());
        let exists = self.line(from).call(move |io_loop| io_loop.faces.contains_key(&face)).unwrap_or(false);
        if !exists {
            return Err(MoveFaceError::NotFound);
        }
        let no_thread = MoveFaceError::NoThread { thread: to, last: threads - 1 };
        let to = usize::try_from(to).ok().filter(|to| *to < threads).ok_or(no_thread)?;
        if to == from {
            return Ok(());
        }
        let ended = || stays("the forwarder is shutting down");
        let port = self.line(from).call(move |io_loop| io_loop.port_of_movable(face)).ok_or_else(ended)??;
        let name = port.clone();
        self.line(to).call(move |io_loop| io_loop.check_room(&name)).ok_or_else(ended)??;
        self.redirect(face, &port, from, to)?;
        let (mark, marks) = channel();
        let sent = self.line(from).call(move |io_loop| io_loop.send_away(face, &mark)).ok_or_else(ended)?;
        let state = sent.inspect_err(|_| self.expect_no_face(&port, to))?;
        // A thread that ends drops its mark.
        if marks.iter().take(threads).count() < threads {
            return Err(ended());
        }
        let gone = self.gone_faces.take();
        gone.iter().for_each(|face| owners.forget(*face));
        self.line(to).call(move |io_loop| io_loop.owners.moves(face, to, to)).ok_or_else(ended)?;
        self.call_all(move |io_loop| {
            let here = io_loop.seat.number();
            gone.iter().for_each(|face| io_loop.owners.forget(*face));
            if here != from && here != to {
                io_loop.owners.moves(face, to, here);
            }
        });
        let luggage = self.line(from).call(move |io_loop| io_loop.pack(face, to)).ok_or_else(ended)?;
        self.line(to).call(move |io_loop| io_loop.take_in(face, &port, state, luggage)).ok_or_else(ended)?;
        owners.set(face, to);
        Ok(())
    }
}

impl ForwarderHandle {
    /// Has what the peer of a face sends go to the new thread, and waits until the old thread has received everything
    /// that was sent before. The new thread keeps what comes meanwhile.
    fn redirect(&self, face: FaceId, port: &str, from: usize, to: usize) -> Result<(), MoveFaceError> {
        let ended = || stays("the forwarder is shutting down");
        let status = self.line(from).call(move |io_loop| io_loop.status(face)).ok_or_else(ended)?;
        let (remote, name) = (status.ok_or(MoveFaceError::NotFound)?.remote, port.to_owned());
        let expect = move |io_loop: &mut IoLoop| io_loop.expect_face(&name, Some(&remote));
        self.line(to).call(expect).ok_or_else(ended)?.map_err(stays)?;
        let led = self.line(from).call(move |io_loop| io_loop.lead_to(face, to)).ok_or_else(ended)?;
        led.inspect_err(|_| self.expect_no_face(port, to))?;
        let (begun, name) = (Instant::now(), port.to_owned());
        while begun.elapsed() < RECEIVE_TIME {
            let name = name.clone();
            if self.line(from).call(move |io_loop| io_loop.has_received_all(&name)).ok_or_else(ended)? {
                break;
            }
            std::thread::sleep(RECEIVE_PAUSE);
        }
        Ok(())
    }

    /// The face that a thread expects does not come.
    fn expect_no_face(&self, port: &str, thread: usize) {
        let name = port.to_owned();
        self.line(thread).call(move |io_loop| io_loop.expect_face(&name, None));
    }
}

impl IoLoop {
    fn expect_face(&mut self, port: &str, remote: Option<&FaceUri>) -> Result<(), String> {
        // Ports stay, so it is there.
        self.port_for(port).map_or(Ok(()), |port| self.ports[port].expect_face(remote))
    }

    fn lead_to(&mut self, face: FaceId, thread: usize) -> Result<(), MoveFaceError> {
        let port = *self.faces.get(&face).ok_or(MoveFaceError::NotFound)?;
        self.ports[port].lead_to(face, thread).map_err(stays)
    }

    fn has_received_all(&self, port: &str) -> bool {
        self.port_for(port).is_none_or(|port| self.ports[port].has_received_all())
    }

    /// The name of a face's port, if that port's faces can move.
    fn port_of_movable(&self, face: FaceId) -> Result<String, MoveFaceError> {
        let port = &self.ports[*self.faces.get(&face).ok_or(MoveFaceError::NotFound)?];
        match port.moves_faces() {
            true if self.stopping => Err(stays("the forwarder is shutting down")),
            true => Ok(port.name().to_owned()),
            false => {
                let why = "its faces share what belongs to their thread";
                Err(stays(format!("a face of port {} cannot move: {why}", port.name())))
            }
        }
    }

    /// The index of the port with this name, which takes faces from other threads.
    fn port_for(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name() == name && port.moves_faces())
    }

    fn check_room(&self, name: &str) -> Result<(), MoveFaceError> {
        let thread = self.seat.number();
        match self.port_for(name) {
            _ if self.stopping => Err(stays("the forwarder is shutting down")),
            None => Err(stays(format!("packet thread {thread} has no port {name}"))),
            Some(port) if self.ports[port].has_room() => Ok(()),
            Some(_) => Err(stays(format!("port {name} of packet thread {thread} has as many faces as it may"))),
        }
    }

    /// Takes a face out of its port, and holds back what is sent there. Each worker sends `mark` when it has handled all
    /// packets of the face.
    fn send_away(&mut self, face: FaceId, mark: &Sender<()>) -> Result<Box<dyn Any + Send>, MoveFaceError> {
        let port = *self.faces.get(&face).ok_or(MoveFaceError::NotFound)?;
        let loan = self.lend(face);
        let detached = self.with_port(Doing::Command, port, |port, cx| port.detach_face(cx, face));
        // It may have ended in this round.
        let state = detached.ok_or(MoveFaceError::NotFound)?;
        self.faces.remove(&face);
        self.seat.leave_face(face);
        self.owners.leave(face);
        self.go_on_sending(face, loan);
        let mark = mark.clone();
        self.seat.tell_all_after(move |_| {
            // The control side waits for it, unless it is gone itself.
            let _ = mark.send(());
        });
        Ok(state)
    }

    /// Gives out what this thread still has for a face that it has sent away to thread `to`.
    fn pack(&mut self, face: FaceId, to: usize) -> Luggage {
        self.seat.take_output(&mut self.outgoing);
        self.transmit();
        self.faces_left_for += 1;
        Luggage {
            output: self.owners.left(face, to),
            registrations: self.registrations.take(self.now, face),
            events: self.event_queue.take(face),
        }
    }

    /// Takes over a face from another thread.
    fn take_in(&mut self, face: FaceId, port: &str, state: Box<dyn Any + Send>, luggage: Luggage) {
        // Ports stay, so it is there.
        let Some(port) = self.port_for(port) else { return };
        let Luggage { mut output, registrations, events } = luggage;
        self.faces.insert(face, port);
        self.faces_come += 1;
        events.into_iter().for_each(|event| self.event_queue.push(event));
        self.registrations.add(registrations);
        output.append(&mut self.owners.arrived(face));
        self.outgoing.append(&mut output);
        self.with_port(Doing::Command, port, |port, cx| port.attach_face(cx, face, state));
        self.own(face);
        if let Some(status) = self.status(face) {
            self.seat.enter_face(face, &status.whereabouts());
        }
        self.transmit();
    }
}
