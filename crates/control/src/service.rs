//! The control thread: management, between the worker and whoever asks.
//!
//! It sleeps until the worker forwards something to the internal face, a face comes or goes, a
//! route expires, or the process asks. Interests are answered in batches: the changes that they
//! make reach the FIB together, and before the answers are sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use byname_face::{FaceEvent, ForwarderHandle, InternalFace};
use byname_forward::tables::Tables;
use byname_forward::{FaceId, LinkFields, Packet};
use byname_lookup::locator::Trees;
use byname_wire::tlv::types::INTEREST;
use byname_wire::{Data, Interest, Name};
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError, bounded};
use thiserror::Error;

use crate::config::Readvertise;
use crate::fib_writer::{FibEngine, FibWriter, TagFibEngine};
use crate::metrics::ControlGauges;
use crate::mgmt::tlv::{ControlResponse, Element, origin};
use crate::mgmt::{Management, Moment};
use crate::readvertise::Readvertiser;
use crate::rib::{RibError, Route};
use crate::security::Authorizer;
use crate::tags::{OwnTree, TagLimits, TagRouting};

/// Packets from the worker that are handled before their answers are sent: few, so that the packet
/// thread and this one work at the same time.
const BATCH_MAX: usize = 32;
/// How often an answer is tried again while the queue to the worker is full.
const SEND_TRIES: u32 = 100;
/// How long to wait in between.
const SEND_WAIT: Duration = Duration::from_micros(100);

/// What the control thread is to know from the start.
pub struct ControlConfig {
    /// Who may command what.
    pub authorizer: Authorizer,
    /// Most routes.
    pub routes_max: usize,
    /// Prefixes and names of their strategies.
    pub strategies: Vec<(Name, Name)>,
    /// Most descriptors.
    pub tag_limits: TagLimits,
    /// Which routing daemon is to hear of client routes, if it is enabled.
    pub readvertise: Readvertise,
}

/// The packet thread's side of control, as [`byname_face::io_loop::start`] makes it.
pub struct Forwarder {
    /// Commands to the packet thread.
    pub handle: ForwarderHandle,
    /// The internal face.
    pub internal: InternalFace,
    /// What happens to faces.
    pub events: Receiver<FaceEvent>,
}

/// Why the control thread does not do what it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ControlError {
    /// The RIB refuses.
    #[error(transparent)]
    Rib(#[from] RibError),
    /// The thread has ended.
    #[error("the control thread has ended")]
    Ended,
}

type Request = Box<dyn FnOnce(&mut Management) + Send>;

/// A control thread that runs. It ends when this is dropped.
pub struct ControlHandle {
    requests: Option<Sender<Request>>,
    gauges: Arc<ControlGauges>,
    thread: Option<JoinHandle<()>>,
}

impl ControlHandle {
    /// Adds a route, as a command would; forwarding knows it when this returns.
    pub fn add_route(&self, name: Name, route: Route) -> Result<(), ControlError> {
        self.call(move |management| {
            let added = management.add_route(&name, &route);
            management.commit();
            added
        })?
        .map_err(ControlError::Rib)
    }

    /// Joins trees: what forwarding needs of them, and what routing by tags does. To be called once.
    pub fn set_trees(&self, trees: Trees, own: Vec<OwnTree>) -> Result<(), ControlError> {
        self.call(move |management| {
            management.fib().tables().replace_trees(trees);
            own.into_iter().for_each(|tree| management.tags_mut().add_tree(tree));
        })
    }

    /// What it has, for metrics.
    pub fn gauges(&self) -> Arc<ControlGauges> {
        Arc::clone(&self.gauges)
    }

    /// Ends the thread after what it is at, and waits for it.
    pub fn stop(mut self) {
        self.end();
    }

    fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Management) -> R + Send + 'static,
    ) -> Result<R, ControlError> {
        let (reply, answer) = bounded(1);
        let request: Request = Box::new(move |management| {
            let _ = reply.send(job(management));
        });
        let requests = self.requests.as_ref().ok_or(ControlError::Ended)?;
        requests.send(request).map_err(|_| ControlError::Ended)?;
        answer.recv().map_err(|_| ControlError::Ended)
    }

    fn end(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread has panicked");
        }
    }
}

impl Drop for ControlHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the control thread of a forwarder whose worker reads `tables`, which show what the engines
/// hold: nothing yet.
pub fn start(
    config: ControlConfig,
    forwarder: Forwarder,
    (engine, tag_engine): (FibEngine, TagFibEngine),
    tables: Arc<Tables>,
) -> std::io::Result<ControlHandle> {
    let (requests, receiver) = bounded(16);
    let gauges = Arc::<ControlGauges>::default();
    let clock = Clock { start: Instant::now() };
    let now = clock.now();
    let tag_fib = FibWriter::new(tag_engine, Arc::clone(&tables));
    let mut management = Management::new(
        forwarder.handle,
        config.authorizer,
        config.routes_max,
        FibWriter::new(engine, tables),
        TagRouting::new(tag_fib, config.tag_limits, now.unix_ms),
        config.strategies,
        now,
    );
    let readvertiser = config.readvertise.enabled.then(|| {
        management.rib_mut().observe(origin::CLIENT, config.readvertise.prefix.clone());
        Readvertiser::new(config.readvertise.clone(), clock.start)
    });
    // Whoever starts us may connect as soon as this function returns.
    management.commit();
    let service = Service {
        management,
        internal: forwarder.internal,
        events: forwarder.events,
        requests: receiver,
        readvertiser,
        readvertise_prefix: config.readvertise.prefix,
        gauges: Arc::clone(&gauges),
        clock,
        inbox: Vec::new(),
        outbox: Vec::new(),
    };
    let thread = std::thread::Builder::new().name("byname-control".into()).spawn(move || service.run())?;
    Ok(ControlHandle { requests: Some(requests), gauges, thread: Some(thread) })
}

struct Clock {
    start: Instant,
}

impl Clock {
    fn now(&self) -> Moment {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // 0 is "now" to whoever waits for a deadline.
        Moment { ms: ms(self.start.elapsed()) + 1, unix_ms: ms(since_epoch) }
    }
}

struct Service {
    management: Management,
    internal: InternalFace,
    events: Receiver<FaceEvent>,
    requests: Receiver<Request>,
    readvertiser: Option<Readvertiser>,
    /// Where the routing daemon listens.
    readvertise_prefix: Name,
    gauges: Arc<ControlGauges>,
    clock: Clock,
    inbox: Vec<(LinkFields, Packet)>,
    outbox: Vec<Packet>,
}

/// The other side of a channel is gone.
struct Ended;

impl Service {
    fn run(mut self) {
        while self.round().is_ok() {
            self.wait();
        }
    }

    /// Handles what is there, up to a batch of it.
    fn round(&mut self) -> Result<(), Ended> {
        let now = self.clock.now();
        while self.inbox.len() < BATCH_MAX
            && let Some(received) = next(&self.internal.from_worker)?
        {
            self.inbox.push(received);
        }
        // Faces are announced before what comes from them: with the Interests in hand, and not
        // before, all their faces are known.
        while let Some(event) = next(&self.events)? {
            self.outbox.push(self.management.face_event(&event));
        }
        for (fields, packet) in std::mem::take(&mut self.inbox) {
            self.receive(&fields, &packet, now);
        }
        if self.management.next_deadline_ms().is_some_and(|at| at <= now.ms) {
            self.management.advance(now);
        }
        while let Some(request) = next(&self.requests)? {
            request(&mut self.management);
        }
        self.management.commit();
        for packet in std::mem::take(&mut self.outbox) {
            // A dataset is to be fresh each time.
            let fields = LinkFields { no_cache: true, ..LinkFields::default() };
            if !self.send(&fields, &packet) {
                tracing::warn!("the worker's queue is full: an answer is dropped");
            }
        }
        for (face, interest) in self.management.tags_mut().poll(now.ms) {
            let fields = LinkFields { next_hop_face_id: Some(face), ..LinkFields::default() };
            // One that finds no room is sent again, as one that is lost.
            self.send(&fields, &Packet::copy_from(&interest));
        }
        self.readvertise(now);
        self.gauges.descriptors.store(self.management.tags().len() as u64, Ordering::Relaxed);
        self.gauges.descriptors_refused.store(self.management.tags().refused(), Ordering::Relaxed);
        self.gauges.routes.store(self.management.rib().len() as u64, Ordering::Relaxed);
        self.gauges.fib_entries.store(self.management.fib().len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn receive(&mut self, fields: &LinkFields, packet: &Packet, now: Moment) {
        let is_interest = packet.first() == Some(&(INTEREST as u8));
        if is_interest && fields.nack.is_none() {
            let incoming = fields.incoming_face_id.unwrap_or(FaceId::NONE);
            self.outbox.extend(self.management.answer(packet, incoming, now));
        } else if !self.is_tag_answer(packet)
            && let Some(readvertiser) = &mut self.readvertiser
        {
            let now = Instant::now();
            if !is_interest && let Ok(data) = Data::decode(packet) {
                readvertiser.on_data(&data, now);
            } else if let Ok(interest) = Interest::decode(packet) {
                readvertiser.on_nack(interest.name, now);
            }
        }
    }

    /// Whether this is a neighbour's answer about descriptors, which is then taken.
    fn is_tag_answer(&mut self, packet: &Packet) -> bool {
        let Ok(data) = Data::decode(packet) else { return false };
        let Ok(response) = ControlResponse::decode(data.content) else { return false };
        self.management.tags_mut().answered(&data.name.to_name(), response.code, &response.body)
    }

    /// Tells the routing daemon what has changed.
    fn readvertise(&mut self, now: Moment) {
        let Some(mut readvertiser) = self.readvertiser.take() else { return };
        let instant = Instant::now();
        for event in self.management.rib_mut().take_events() {
            match event {
                _ if event.name == self.readvertise_prefix => {
                    if event.added {
                        readvertiser.daemon_appeared(instant);
                    }
                }
                _ if event.added => readvertiser.route_added(event.name.as_ref()),
                _ => readvertiser.route_removed(event.name.as_ref()),
            }
        }
        for interest in readvertiser.poll(instant, now.unix_ms) {
            let sent = self.send(&LinkFields::default(), &Packet::copy_from(&interest));
            if !sent && let Ok(interest) = Interest::decode(&interest) {
                readvertiser.on_nack(interest.name, instant);
            }
        }
        self.readvertiser = Some(readvertiser);
    }

    /// Sends to the worker; false if its queue stays full.
    fn send(&self, fields: &LinkFields, packet: &Packet) -> bool {
        for _ in 0..SEND_TRIES {
            if self.internal.send(fields.clone(), packet.clone()) {
                return true;
            }
            std::thread::sleep(SEND_WAIT);
        }
        false
    }

    /// Sleeps until there is something to do.
    fn wait(&self) {
        let mut select = Select::new();
        select.recv(&self.events);
        select.recv(&self.internal.from_worker);
        select.recv(&self.requests);
        let tags = self.management.tags().next_deadline_ms();
        let management = self.management.next_deadline_ms().into_iter().chain(tags).min();
        let management = management.map(|at| Duration::from_millis(at.saturating_sub(self.clock.now().ms)));
        let readvertiser = self.readvertiser.as_ref().and_then(Readvertiser::next_deadline);
        let readvertiser = readvertiser.map(|at| at.saturating_duration_since(Instant::now()));
        match [management, readvertiser].into_iter().flatten().min() {
            Some(wait) => {
                let _ = select.ready_timeout(wait);
            }
            None => {
                select.ready();
            }
        }
    }
}

fn next<T>(receiver: &Receiver<T>) -> Result<Option<T>, Ended> {
    match receiver.try_recv() {
        Ok(item) => Ok(Some(item)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => Err(Ended),
    }
}
