//! The part of the process that hands over.

use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use byname_control::mgmt::tlv::Element;
use byname_control::service::{self, ControlHandle};
use byname_face::ForwarderHandle;
use byname_face::handover::{Channel, ChannelError, DESCRIPTORS_MAX, HandedFace, SharedSocket};
use byname_face::io_loop::CachedCount;
use byname_wire::tlv::types::INTEREST;
use sd_notify::NotifyState;

use super::program::Program;
use super::{Offer, PROTOCOL, ToNew, ToOld, content};
use crate::exit;
use crate::run::initial::Former;

/// Time that the new process may take for the faces. Packets wait in the system meanwhile.
const FROZEN_MAX: Duration = Duration::from_secs(3);

/// What a process needs to hand over to another one.
pub struct Departure<'a> {
    /// How the process was started.
    pub program: &'a Program,
    /// Its packet threads.
    pub handle: &'a ForwarderHandle,
    /// Its control thread.
    pub control: &'a ControlHandle,
    /// Sockets that the new process gets beside those of the packet threads.
    pub more: Vec<SharedSocket>,
    /// What the configuration has made.
    pub configured: Former,
    /// Time that the new process may take.
    pub within: Duration,
}

impl Departure<'_> {
    /// Starts the program again, and ends this process when the new one has taken over everything. Returns only if that
    /// failed. This process then goes on as if nothing had happened.
    ///
    /// `close` closes the files that only one process may have open, and `reopen` opens them again.
    pub fn attempt(
        mut self,
        close: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
        reopen: impl FnOnce(&mut service::Departure<'_>) + Send + 'static,
    ) -> anyhow::Error {
        if std::process::id() == 1 {
            return anyhow!("this is the first process of its container, which ends with it: restart the container");
        }
        let until = Instant::now() + self.within;
        let mut successor = match Successor::start(self.program, until) {
            Ok(successor) => successor,
            Err(error) => return error,
        };
        let mut sockets = self.handle.shared_sockets();
        sockets.append(&mut self.more);
        let error = match successor.prepare(self.handle.threads(), &sockets) {
            Err(error) => error,
            Ok(()) => {
                let (handle, channel) = (self.handle.clone(), successor.talk());
                let pid = successor.child.id();
                let configured = self.configured;
                let handed = self.control.hand_over(move |control| {
                    HandsOver { handle: &handle, talk: &channel, configured }.run(control, pid, (close, reopen))
                });
                handed.unwrap_or_else(|ended| ended.into())
            }
        };
        successor.give_up(error)
    }
}

/// The new process.
struct Successor {
    child: Child,
    channel: std::sync::Arc<Channel>,
    until: Instant,
}

/// A conversation with the new process, up to some time.
struct Talk {
    channel: std::sync::Arc<Channel>,
    until: Instant,
}

impl Talk {
    fn tell(&self, message: &ToNew, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        self.channel.send(message, descriptors, self.until)
    }

    /// Waits until the new process says that it has come as far as `what`.
    fn hear(&self, what: fn(&ToOld) -> bool) -> anyhow::Result<()> {
        match self.next()? {
            message if what(&message) => Ok(()),
            message => bail!("the new process says {message:?} at the wrong time"),
        }
    }

    fn next(&self) -> anyhow::Result<ToOld> {
        match self.channel.receive::<ToOld>(self.until)?.0 {
            ToOld::Failed(why) => bail!("{why}"),
            message => Ok(message),
        }
    }

    fn until(&self, until: Instant) -> Talk {
        Talk { channel: self.channel.clone(), until: until.min(self.until) }
    }
}

impl Successor {
    fn start(program: &Program, until: Instant) -> anyhow::Result<Successor> {
        let (channel, other) = Channel::pair().context("no socket to the new process")?;
        let child = program.start_successor(other);
        let child = child.with_context(|| format!("{} does not start", program.path().display()))?;
        Ok(Successor { child, channel: channel.into(), until })
    }

    fn talk(&self) -> Talk {
        Talk { channel: self.channel.clone(), until: self.until }
    }

    /// Offers the sockets, and waits until the new process is ready.
    fn prepare(&mut self, threads: usize, sockets: &[SharedSocket]) -> anyhow::Result<()> {
        let talk = self.talk();
        let version = env!("BYNAME_VERSION").to_owned();
        let offer = Offer { protocol: PROTOCOL, version, process: std::process::id(), threads, has_cached: true };
        talk.tell(&ToNew::Offer(offer), &[])?;
        for sockets in sockets.chunks(DESCRIPTORS_MAX) {
            let descriptors: Vec<_> = sockets.iter().map(|socket| socket.descriptor.as_fd()).collect();
            let records = sockets.iter().map(|socket| socket.record.clone()).collect();
            talk.tell(&ToNew::Sockets(records), &descriptors)?;
        }
        talk.tell(&ToNew::SocketsEnd, &[])?;
        talk.hear(|message| matches!(message, ToOld::Ready))
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
    /// Hands over, and ends the process. Returns only if that failed.
    fn run(
        &self,
        control: &mut service::Departure<'_>,
        successor: u32,
        (close, reopen): (impl FnOnce(&mut service::Departure<'_>), impl FnOnce(&mut service::Departure<'_>)),
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
                match talk.tell(&ToNew::Go { frozen_unix_us }, &[]) {
                    Ok(()) => leave_service_to(successor),
                    Err(error) => {
                        reopen(control);
                        error.into()
                    }
                }
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
        let CachedCount { told, all } = content::copy(self.handle, max, self.talk.until, tell)?;
        tracing::info!(told, left = all.saturating_sub(told), "content stores passed to the new process");
        self.talk.tell(&ToNew::CachedEnd { all }, &[])
    }

    fn tell_faces(&self, talk: &Talk, control: &mut service::Departure<'_>) -> anyhow::Result<()> {
        for ids in self.handle.face_ids().chunks(DESCRIPTORS_MAX) {
            let (mut faces, mut connected, mut descriptors) = (Vec::new(), Vec::new(), Vec::new());
            for HandedFace { record, descriptor } in self.handle.hand_over(ids) {
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
fn leave_service_to(process: u32) -> ! {
    tracing::info!(successor = process, "handed over to a new process; ends");
    // Without a service manager nobody is told.
    let _ = sd_notify::notify(&[NotifyState::MainPid(process)]);
    // Not an orderly end: that would close what the other process has taken over.
    std::process::exit(i32::from(exit::OK))
}

pub(super) fn unix_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}
