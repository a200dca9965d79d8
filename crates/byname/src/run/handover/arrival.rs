//! The part of the process that takes over.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use byname_control::mgmt::Management;
use byname_control::service::ControlHandle;
use byname_control::state::records::Snapshot;
use byname_face::handover::{Channel, ChannelError, HandedFace, Inherited, SharedSocket};
use byname_face::{ForwarderHandle, Port};
use byname_forward::{FaceId, LinkFields, Packet};
use serde_bytes::ByteBuf;

use super::departure::unix_us;
use super::parcel::OpenParcel;
use super::taken::Taken;
use super::{Offer, PROTOCOL, ToNew, ToOld, content};
use crate::run::ports::Placed;

/// Time to wait for the next message. The old process has its own limit, and ends this one.
const PATIENCE: Duration = Duration::from_secs(600);

/// Time that the old process may take to end.
const END_TIME: Duration = Duration::from_secs(5);

/// A process that takes over.
pub struct Arrival {
    origin: Origin,
    offer: Offer,
}

/// Where the messages of the old process come from.
enum Origin {
    /// The old process itself.
    Process(Channel),
    /// A parcel that it has left with the service manager.
    Parcel(RefCell<OpenParcel>),
}

/// A message and its descriptors. A parcel may lack some.
type Heard = (ToNew, Vec<Option<OwnedFd>>);

/// The faces, and what came with them.
struct Faces {
    faces: Vec<HandedFace>,
    next_ids: Vec<u64>,
    waiting: Vec<(u64, ByteBuf)>,
}

impl Arrival {
    /// Meets the old process on standard input. Returns the sockets that it offers, too.
    ///
    /// # Errors
    /// If standard input leads to no such process.
    pub fn begin() -> anyhow::Result<(Arrival, Inherited)> {
        const WHAT: &str = "--takeover is for byname itself: `byname restart` takes over from a running process";
        let socket = std::io::stdin().as_fd().try_clone_to_owned().context(WHAT)?;
        // A later child must not get the socket.
        let _ = File::open("/dev/null").map(rustix::stdio::dup2_stdin);
        Arrival::meet(Origin::Process(Channel::on(socket)))?.context(WHAT)
    }

    /// Opens the parcel that an earlier process has left with the service manager, if there is one.
    ///
    /// # Errors
    /// If it is damaged, or of another version.
    pub fn of_parcel(descriptors: Vec<OwnedFd>) -> anyhow::Result<Option<(Arrival, Inherited)>> {
        match OpenParcel::among(descriptors) {
            Some(parcel) => Arrival::meet(Origin::Parcel(RefCell::new(parcel))),
            None => Ok(None),
        }
    }

    /// Hears the offer. `None` if there is none.
    fn meet(origin: Origin) -> anyhow::Result<Option<(Arrival, Inherited)>> {
        let offer = match origin.hear() {
            Ok((ToNew::Offer(offer), _)) => offer,
            Ok((other, _)) => bail!("the old process says {other:?} first"),
            Err(_) => return Ok(None),
        };
        let mut sockets = Vec::new();
        loop {
            match origin.hear()? {
                (ToNew::Sockets(records), descriptors) => {
                    let socket = |(record, descriptor): (_, Option<_>)| {
                        descriptor.map(|descriptor| SharedSocket { record, descriptor })
                    };
                    sockets.extend(records.into_iter().zip(descriptors).filter_map(socket));
                }
                (ToNew::SocketsEnd, _) => break,
                (other, _) => bail!("the old process says {other:?} instead of sockets"),
            }
        }
        Ok(Some((Arrival { origin, offer }, Inherited::new(sockets))))
    }

    /// Whether the old process has told more than its sockets.
    pub fn has_faces(&self) -> bool {
        match &self.origin {
            Origin::Process(_) => true,
            Origin::Parcel(parcel) => !parcel.borrow_mut().is_at_end(),
        }
    }

    /// Closes the descriptors of a parcel that were not taken over.
    pub fn close_rest(&self) {
        if let Origin::Parcel(parcel) = &self.origin {
            parcel.borrow_mut().close_rest();
        }
    }

    /// Whether the old process has ended before this one began.
    pub fn is_late(&self) -> bool {
        matches!(self.origin, Origin::Parcel(_))
    }

    /// Checks that this process can take over with this number of packet threads.
    ///
    /// # Errors
    /// If it cannot. The reason is for the operator.
    pub fn check(&self, threads: usize) -> anyhow::Result<()> {
        let Offer { protocol, version, threads: before, .. } = &self.offer;
        if *protocol != PROTOCOL {
            bail!(
                "byname {} cannot take over from byname {version} (protocol {protocol}, not {PROTOCOL}): end it, and \
                 start this one",
                env!("BYNAME_VERSION")
            );
        }
        if *before != threads {
            bail!(
                "`[threads] count` was {before} and is {threads} now: faces cannot be taken over to another number of \
                 threads. End byname and start it again for that"
            );
        }
        Ok(())
    }

    /// Tells the old process why this one ends.
    pub fn fail(&self, error: &anyhow::Error) {
        // It sees the end of this process, too.
        let _ = self.tell(&ToOld::Failed(crate::exit::message_of(error)));
    }

    /// Takes over everything. The ports go to their threads with the faces of the old process, and packets flow when
    /// this returns. `open` opens the files that the old process had open. The ports `reopened` are not among these: they are
    /// opened when the old process has ended.
    ///
    /// # Errors
    /// If the old process gave up, or the system refuses. This process must then end.
    pub fn complete(
        &self,
        handle: &ForwarderHandle,
        control: &ControlHandle,
        ports: Vec<Placed>,
        reopened: Vec<String>,
        open: impl FnOnce(&mut Management) + Send + 'static,
    ) -> anyhow::Result<Taken> {
        self.tell(&ToOld::Ready)?;
        let mut taken = Taken { process: self.offer.process, reopened, ..Taken::default() };
        self.take_records(control, &mut taken)?;
        self.take_cached(handle, &mut taken)?;
        // Before the old process freezes, since this takes some time.
        handle.freeze();
        self.tell(&ToOld::Installed)?;
        let Faces { faces, next_ids, waiting } = self.receive_faces()?;
        let (all, left) = (faces.len(), attach(handle, ports, faces, &next_ids)?);
        taken.faces = all - left.len();
        for face in left {
            if face.record.is_made_anew() {
                taken.anew.push(*face.record);
            } else {
                let (id, remote) = (face.record.id, face.record.remote);
                tracing::warn!(face = id, remote, "a face of the former process has no port here, and is closed");
            }
        }
        self.tell(&ToOld::Attached)?;
        let frozen_unix_us = self.await_go()?;
        for (face, interest) in waiting {
            handle.receive_again(FaceId(face), LinkFields::default(), Packet::copy_from(&interest));
        }
        settle(handle, control, (taken, frozen_unix_us), open)
    }

    /// Waits for the old process's last word. Returns when it received its last packet, in us since the Unix epoch.
    fn await_go(&self) -> anyhow::Result<u64> {
        match self.origin.hear() {
            Ok((ToNew::Go { frozen_unix_us }, _)) => Ok(frozen_unix_us),
            Ok((other, _)) => bail!("the old process says {other:?} instead of the last word"),
            // It has ended, so nobody has the faces but this process.
            Err(error) if matches!(error.downcast_ref(), Some(ChannelError::Closed)) => Ok(unix_us()),
            Err(error) => Err(error),
        }
    }

    /// Waits until the other process has ended, and so has closed all that only one process may have open.
    pub fn await_end(&self) {
        let end = Instant::now() + END_TIME;
        // It is the parent of this one. The system gives this one another parent after it has closed everything.
        let parent = || rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        while parent() == Some(self.offer.process) {
            if Instant::now() >= end {
                tracing::warn!(process = self.offer.process, "the former process does not end");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tell(&self, message: &ToOld) -> Result<(), ChannelError> {
        match &self.origin {
            Origin::Process(channel) => channel.send(message, &[], Instant::now() + PATIENCE),
            Origin::Parcel(_) => Ok(()),
        }
    }

    /// Takes the routes and settings.
    fn take_records(&self, control: &ControlHandle, taken: &mut Taken) -> anyhow::Result<()> {
        loop {
            match self.origin.hear()? {
                (ToNew::Records(wire), _) => taken.routes_left += control.take_over(Snapshot::read(&wire)?)?,
                (ToNew::Tags { face, lists }, _) => {
                    taken.tags.extend(lists.into_iter().map(|list| (FaceId(face), list.into_vec())));
                }
                (ToNew::RecordsEnd { next_event, configured }, _) => {
                    taken.configured = configured;
                    control.with_management(move |management| {
                        management.number_events_from(next_event);
                        management.commit();
                    })?;
                    return Ok(());
                }
                (other, _) => bail!("the old process says {other:?} instead of records"),
            }
        }
    }

    /// Takes the Data of the content stores, as far as there is room and time for it.
    fn take_cached(&self, handle: &ForwarderHandle, taken: &mut Taken) -> anyhow::Result<()> {
        let max = content::wanted(handle);
        // A parcel has them unasked.
        // An older version tells none, and would not understand the question.
        if !self.offer.has_cached || max == 0 && !self.is_late() {
            return Ok(());
        }
        self.tell(&ToOld::WantsCached { max })?;
        let mut records = Vec::new();
        loop {
            match self.origin.hear()? {
                (ToNew::Cached(part), _) => records.extend(part.into_iter().take(max - records.len())),
                (ToNew::CachedEnd { all }, _) => {
                    taken.cached = content::restore(handle, records);
                    taken.cached_left = all.saturating_sub(taken.cached);
                    return Ok(());
                }
                (other, _) => bail!("the old process says {other:?} instead of its content stores"),
            }
        }
    }

    fn receive_faces(&self) -> anyhow::Result<Faces> {
        let mut all = Vec::new();
        loop {
            match self.origin.hear()? {
                (ToNew::Faces { faces, connected }, descriptors) => {
                    let mut descriptors = descriptors.into_iter();
                    let handed = faces.into_iter().zip(connected).map(|(record, connected)| HandedFace {
                        record: Box::new(record),
                        descriptor: connected.then(|| descriptors.next().flatten()).flatten(),
                    });
                    all.extend(handed);
                }
                (ToNew::FacesEnd { next_ids, waiting }, _) => return Ok(Faces { faces: all, next_ids, waiting }),
                (other, _) => bail!("the old process says {other:?} instead of faces"),
            }
        }
    }
}

impl Origin {
    /// Waits for a message of the old process.
    fn hear(&self) -> anyhow::Result<Heard> {
        match self {
            Origin::Process(channel) => {
                let (message, descriptors) = channel.receive(Instant::now() + PATIENCE)?;
                Ok((message, descriptors.into_iter().map(Some).collect()))
            }
            Origin::Parcel(parcel) => Ok(parcel.borrow_mut().next()?.ok_or(ChannelError::Closed)?),
        }
    }
}

/// Lets packets flow, after they have waited since `frozen_unix_us`. The control thread answers commands when it has the state of the other process.
fn settle(
    handle: &ForwarderHandle,
    control: &ControlHandle,
    (mut taken, frozen_unix_us): (Taken, u64),
    open: impl FnOnce(&mut Management) + Send + 'static,
) -> anyhow::Result<Taken> {
    let ((begun, begins), (flowing, flows)) = (mpsc::channel(), mpsc::channel());
    let settle = move |management: &mut Management| {
        // From now on no command is handled before this is done, and packets may flow.
        let _ = begun.send(());
        open(management);
        let anew: Vec<FaceId> = taken.anew.iter().map(|face| FaceId(face.id)).collect();
        taken.faces_left = management.forget_missing_faces(&anew);
        taken.routes = management.rib().len();
        // If the sender is gone, this process ends.
        taken.gap = flows.recv().unwrap_or_default();
        management.note_takeover(taken.text());
        taken
    };
    let settled = std::thread::scope(|scope| {
        let settling = scope.spawn(|| control.with_management(settle));
        // If the control thread has ended, `settling` says so.
        let _ = begins.recv();
        handle.thaw();
        let _ = flowing.send(Duration::from_micros(unix_us().saturating_sub(frozen_unix_us)));
        settling.join()
    });
    Ok(settled.map_err(|_| anyhow::anyhow!("the control thread has failed"))??)
}

/// Starts the ports of each thread, with the faces that its owner had in the old process. Returns the faces that no port
/// took.
fn attach(
    handle: &ForwarderHandle,
    ports: Vec<Placed>,
    mut faces: Vec<HandedFace>,
    next_ids: &[u64],
) -> anyhow::Result<Vec<HandedFace>> {
    let mut by_thread: Vec<Vec<Box<dyn Port>>> = (0..handle.threads()).map(|_| Vec::new()).collect();
    for (thread, port) in ports {
        by_thread[thread].push(port);
    }
    let mut left = Vec::new();
    for (thread, ports) in by_thread.into_iter().enumerate() {
        let here = faces.extract_if(.., |face| face.record.thread == thread).collect();
        let next_id = next_ids.get(thread).copied().unwrap_or_default();
        left.extend(handle.take_over(thread, ports, here, next_id)?);
    }
    left.append(&mut faces);
    Ok(left)
}
