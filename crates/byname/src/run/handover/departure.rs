//! The part of the process that hands over.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use byname_control::mgmt::tlv::Element;
use byname_control::service::{self, ControlHandle};
use byname_face::ForwarderHandle;
use byname_face::handover::{Channel, ChannelError, DESCRIPTORS_MAX, HandedFace, SharedSocket};
use byname_face::io_loop::CachedCount;
use byname_secure::Farewell;
use byname_wire::tlv::types::INTEREST;
use sd_notify::NotifyState;

use super::parcel::Parcel;
use super::program::Program;
use super::talk::Talk;
use super::{Offer, PROTOCOL, ToNew, ToOld, content};
use crate::exit;
use crate::run::descriptor_store::DescriptorStore;
use crate::run::initial::Former;

/// Time that the new process may take for the faces. Packets wait in the system meanwhile.
const FROZEN_MAX: Duration = Duration::from_secs(3);

/// What a process needs to hand over to another one.
pub struct Departure<'a> {
    /// Its packet threads.
    pub handle: &'a ForwarderHandle,
    /// Its control thread.
    pub control: &'a ControlHandle,
    /// Sockets that the new process gets beside those of the packet threads.
    pub more: Vec<SharedSocket>,
    /// Tells peers of encrypted faces, which no other process can take over.
    pub farewell: Option<Farewell>,
    /// What the configuration has made.
    pub configured: Former,
}

impl Departure<'_> {
    /// Starts the program again, which may take the time `within` for each step, and ends this process when the new one has taken over everything. Returns only if that
    /// failed. This process then goes on as if nothing had happened.
    ///
    /// `close` closes the files that only one process may have open, and `reopen` opens them again.
    pub fn attempt(
        mut self,
        (program, within): (&Program, Duration),
        close: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
        reopen: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
    ) -> anyhow::Error {
        if std::process::id() == 1 {
            return anyhow!("this is the first process of its container, which ends with it: restart the container");
        }
        let mut successor = match Successor::start(program, within) {
            Ok(successor) => successor,
            Err(error) => return error,
        };
        let mut sockets = self.handle.shared_sockets();
        sockets.append(&mut self.more);
        let error = match successor.prepare(self.handle.threads(), &sockets) {
            Err(error) => error,
            Ok(()) => {
                let (handle, talk, configured) = (self.handle.clone(), successor.talk.clone(), self.configured);
                let farewell = self.farewell;
                let pid = successor.child.id();
                let leave = move |talk: &Talk, go: &ToNew| match talk.tell(go, &[]) {
                    Ok(()) => leave_service_to(pid, farewell.as_ref()),
                    Err(error) => error.into(),
                };
                let handed = self.control.hand_over(move |control| {
                    HandsOver { handle: &handle, talk: &talk, configured }.run(control, (close, reopen), leave)
                });
                handed.unwrap_or_else(|ended| ended.into())
            }
        };
        successor.give_up(error)
    }

    /// Ends this process and leaves everything to the service manager, for the process that it starts next. Returns only
    /// if that failed. `close` and `reopen` are as for [`Departure::attempt`].
    pub fn leave_to_manager(
        mut self,
        store: DescriptorStore,
        close: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
        reopen: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
    ) -> anyhow::Error {
        let parcel = match Parcel::new(store.descriptors_max) {
            Ok(parcel) => Arc::new(Mutex::new(parcel)),
            Err(error) => return error.into(),
        };
        let talk = Talk::with_parcel(Arc::clone(&parcel));
        let mut sockets = self.handle.shared_sockets();
        sockets.append(&mut self.more);
        if let Err(error) = tell_sockets(&talk, self.handle.threads(), &sockets) {
            return error;
        }
        drop(sockets);
        let (handle, configured, farewell) = (self.handle.clone(), self.configured, self.farewell);
        let leave = move |talk: &Talk, go: &ToNew| {
            let sent = talk.tell(go, &[]).map_err(anyhow::Error::from);
            match sent.and_then(|()| Ok(put_away(&parcel, store)?)) {
                Ok(()) => leave_service(farewell.as_ref()),
                Err(error) => error,
            }
        };
        let handed = self.control.hand_over(move |control| {
            HandsOver { handle: &handle, talk: &talk, configured }.run(control, (close, reopen), leave)
        });
        handed.unwrap_or_else(|ended| ended.into())
    }
}

/// A parcel of sockets alone, for a process that starts after a crash.
///
/// # Errors
/// If the system refuses.
pub fn parcel_of_sockets(threads: usize, sockets: &[SharedSocket], room: usize) -> anyhow::Result<Vec<OwnedFd>> {
    let parcel = Arc::new(Mutex::new(Parcel::new(room)?));
    tell_sockets(&Talk::with_parcel(Arc::clone(&parcel)), threads, sockets)?;
    let parcel = Arc::into_inner(parcel).context("the conversation is over")?;
    Ok(parcel.into_inner().unwrap_or_else(PoisonError::into_inner).close()?)
}

/// Puts a finished parcel into the descriptor store.
fn put_away(parcel: &Mutex<Parcel>, store: DescriptorStore) -> std::io::Result<()> {
    let mut parcel = parcel.lock().unwrap_or_else(PoisonError::into_inner);
    let parcel = std::mem::replace(&mut *parcel, Parcel::new(1)?);
    store.keep(&parcel.close()?)?;
    store.await_reader()
}

/// Offers the sockets.
fn tell_sockets(talk: &Talk, threads: usize, sockets: &[SharedSocket]) -> anyhow::Result<()> {
    let version = env!("BYNAME_VERSION").to_owned();
    let offer = Offer { protocol: PROTOCOL, version, process: std::process::id(), threads, has_cached: true };
    talk.tell(&ToNew::Offer(offer), &[])?;
    for sockets in sockets.chunks(DESCRIPTORS_MAX) {
        let descriptors: Vec<_> = sockets.iter().map(|socket| socket.descriptor.as_fd()).collect();
        let records = sockets.iter().map(|socket| socket.record.clone()).collect();
        talk.tell(&ToNew::Sockets(records), &descriptors)?;
    }
    talk.tell(&ToNew::SocketsEnd, &[])?;
    Ok(())
}

/// The new process.
struct Successor {
    child: Child,
    talk: Talk,
}

impl Successor {
    fn start(program: &Program, within: Duration) -> anyhow::Result<Successor> {
        let (channel, other) = Channel::pair().context("no socket to the new process")?;
        let child = program.start_successor(other);
        let child = child.with_context(|| format!("{} does not start", program.path().display()))?;
        Ok(Successor { child, talk: Talk::with_process(channel.into(), within) })
    }

    /// Offers the sockets, and waits until the new process is ready.
    fn prepare(&mut self, threads: usize, sockets: &[SharedSocket]) -> anyhow::Result<()> {
        tell_sockets(&self.talk, threads, sockets)?;
        self.talk.hear(|message| matches!(message, ToOld::Ready))
    }

    /// Ends the new process, and says what has happened.
    fn give_up(mut self, error: anyhow::Error) -> anyhow::Error {
        let ended = self.child.try_wait();
        // A process that hangs must not begin later.
        let _ = self.child.kill();
        let status = self.child.wait();
        match (error.downcast_ref::<ChannelError>(), ended, status) {
            (Some(ChannelError::Closed), _, Ok(status)) => anyhow!("the new process has ended: {status}"),
            (Some(ChannelError::TimedOut), Ok(None), _) => {
                anyhow!("the new process was not ready in time; see `takeover_time` under [general]")
            }
            _ => error,
        }
    }
}

/// The steps that the control thread does.
struct HandsOver<'a> {
    handle: &'a ForwarderHandle,
    talk: &'a Talk,
    configured: Former,
}

impl HandsOver<'_> {
    /// Hands over. `leave` says the last word, and ends the process. Returns only if that failed.
    fn run(
        &self,
        control: &mut service::Departure<'_>,
        (close, reopen): (impl FnOnce(&mut service::Departure<'_>), impl FnOnce(&mut service::Departure<'_>)),
        leave: impl FnOnce(&Talk, &ToNew) -> anyhow::Error,
    ) -> anyhow::Error {
        if let Err(error) = self.tell_records(control) {
            return error;
        }
        self.handle.freeze();
        let frozen_unix_us = unix_us();
        let talk = self.talk.until(Instant::now() + FROZEN_MAX);
        let error = match self.tell_faces(&talk, control) {
            Err(error) => error,
            Ok(()) => {
                close(control);
                self.handle.leave();
                let error = leave(&talk, &ToNew::Go { frozen_unix_us });
                reopen(control);
                error
            }
        };
        self.handle.thaw();
        error
    }

    fn tell_records(&self, control: &mut service::Departure<'_>) -> anyhow::Result<()> {
        control.records(|snapshot| self.talk.tell(&ToNew::Records(snapshot.encode().into()), &[]))?;
        for (face, lists) in control.management().tags().of_applications() {
            let lists = lists.into_iter().map(Into::into).collect();
            self.talk.tell(&ToNew::Tags { face: face.0, lists }, &[])?;
        }
        let next_event = control.management().next_event();
        self.talk.tell(&ToNew::RecordsEnd { next_event, configured: self.configured.clone() }, &[])?;
        if self.talk.is_one_way() {
            return Ok(self.tell_cached(usize::MAX)?);
        }
        loop {
            match self.talk.next()? {
                ToOld::WantsCached { max } => self.tell_cached(max)?,
                ToOld::Installed => return Ok(()),
                message => bail!("the new process says {message:?} at the wrong time"),
            }
        }
    }

    fn tell_cached(&self, max: usize) -> Result<(), ChannelError> {
        let tell = |part| self.talk.tell(&ToNew::Cached(part), &[]);
        let CachedCount { told, all } = content::copy(self.handle, max, self.talk.deadline(), tell)?;
        tracing::info!(told, left = all.saturating_sub(told), "content stores passed to the new process");
        self.talk.tell(&ToNew::CachedEnd { all }, &[])
    }

    fn tell_faces(&self, talk: &Talk, control: &mut service::Departure<'_>) -> anyhow::Result<()> {
        for ids in self.handle.face_ids().chunks(DESCRIPTORS_MAX) {
            let (mut faces, mut connected, mut descriptors) = (Vec::new(), Vec::new(), Vec::new());
            for HandedFace { record, descriptor } in self.handle.hand_over(ids) {
                // A connection without a place in the parcel ends with this process.
                if descriptor.is_some() && descriptors.len() >= talk.room() {
                    continue;
                }
                faces.push(*record);
                connected.push(descriptor.is_some());
                descriptors.extend(descriptor);
            }
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            talk.tell(&ToNew::Faces { faces, connected }, &borrowed)?;
        }
        let interests = control
            .waiting()
            .iter()
            .filter(|(fields, packet)| fields.nack.is_none() && packet.first() == Some(&(INTEREST as u8)));
        let waiting =
            interests.filter_map(|(fields, packet)| Some((fields.incoming_face_id?.0, packet.to_vec().into())));
        let waiting = waiting.collect();
        talk.tell(&ToNew::FacesEnd { next_ids: self.handle.next_face_ids(), waiting }, &[])?;
        talk.hear(|message| matches!(message, ToOld::Attached))
    }
}

/// Ends this process. The other one is the service from now on.
fn leave_service_to(process: u32, farewell: Option<&Farewell>) -> ! {
    farewell.inspect(|farewell| farewell.say());
    tracing::info!(successor = process, "handed over to a new process; ends");
    // Without a service manager nobody is told.
    let _ = sd_notify::notify(&[NotifyState::MainPid(process)]);
    // Not an orderly end: that would close what the other process has taken over.
    std::process::exit(i32::from(exit::OK))
}

/// Ends this process. The service manager has what the next one needs.
fn leave_service(farewell: Option<&Farewell>) -> ! {
    farewell.inspect(|farewell| farewell.say());
    tracing::info!("left sockets and faces to the service manager; ends");
    // Not an orderly end: that would close what the service manager keeps.
    std::process::exit(i32::from(exit::OK))
}

pub(super) fn unix_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}
