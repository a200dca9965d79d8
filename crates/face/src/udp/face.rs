//! One UDP peer: its link service, and what is queued for it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use byname_forward::{FaceId, Outgoing, Ticks};

use super::socket::{DATAGRAM_BYTES_MAX, DatagramSocket, route_to};
use crate::face::FaceStatus;
use crate::link::{Frame, LinkService};
use crate::uri::FaceUri;

/// Datagrams that any path of today takes in one piece [RFC 8200: 1,280 octets with headers].
const SEGMENT_BYTES_SAFE: usize = 1_232;

/// How far sending got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The queue is empty.
    All,
    /// The system takes no more now.
    Blocked,
}

/// Ways to send, each plainer than the one before, to be tried when the system refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Many datagrams at once.
    Run,
    /// One by one.
    Single,
    /// One by one, from whatever address the system likes.
    Plainest,
}

pub(super) struct UdpFace {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) scope: Scope,
    pub(super) persistency: Persistency,
    pub(super) link: LinkService,
    /// When the peer was heard last.
    pub(super) heard: Ticks,
    /// The timer that is set.
    pub(super) timer: Option<Ticks>,
    pub(super) queue: Vec<Frame>,
    pub(super) queue_bytes: u64,
    /// The port has it among those to flush.
    pub(super) dirty: bool,
    /// Source address for datagrams; the system chooses when absent.
    source: Option<IpAddr>,
    /// Longest datagram that is sent in runs; `None`: the route was not asked yet.
    segment_bytes_max: Option<usize>,
}

impl UdpFace {
    pub(super) fn new(
        remote: SocketAddr,
        local: SocketAddr,
        scope: Scope,
        persistency: Persistency,
        link: LinkService,
        now: Ticks,
    ) -> Self {
        UdpFace {
            remote,
            local,
            scope,
            persistency,
            link,
            heard: now,
            timer: None,
            queue: Vec::new(),
            queue_bytes: 0,
            dirty: false,
            source: Some(local.ip()).filter(is_source),
            segment_bytes_max: None,
        }
    }

    /// Sets the source address of datagrams; `None` leaves it to the system.
    pub(super) fn set_source(&mut self, source: Option<IpAddr>) {
        self.source = source;
    }

    /// Whether the link service is due before the timer that is set.
    pub(super) fn has_earlier_deadline(&self) -> bool {
        self.link.next_deadline().is_some_and(|at| self.timer.is_none_or(|timer| at < timer))
    }

    /// Queues a packet.
    pub(super) fn send(&mut self, now: Ticks, outgoing: Outgoing, congested_bytes: u64) {
        let before = self.queue.len();
        self.link.send(now, outgoing, congested_bytes, &mut self.queue);
        self.count_queued(before);
    }

    /// Queues what timers of the link yield.
    pub(super) fn on_deadline(&mut self, now: Ticks) {
        let before = self.queue.len();
        self.link.on_deadline(now, &mut self.queue);
        self.count_queued(before);
    }

    fn count_queued(&mut self, before: usize) {
        self.queue_bytes += self.queue[before..].iter().map(|f| f.len() as u64).sum::<u64>();
    }

    /// Sends what is queued, in runs of equal length as far as possible.
    pub(super) fn send_queued(&mut self, socket: &mut DatagramSocket) -> Sent {
        // Reliability reads losses from the order of frames; elsewhere order is not promised.
        if !self.link.config().flags.reliability && self.queue.windows(2).any(|w| w[0].len() != w[1].len()) {
            self.queue.sort_by_key(|f| std::cmp::Reverse(f.len()));
        }
        let (mut done, mut manner) = (0, Manner::Run);
        while done < self.queue.len() {
            let segment = self.queue[done].len();
            let count = if manner == Manner::Run { self.run_len(done, socket.run_max()) } else { 1 };
            let source = self.source.filter(|_| manner != Manner::Plainest);
            let run = socket.run();
            for frame in &self.queue[done..done + count] {
                frame.write_to(run);
            }
            match socket.send_run(self.remote, source, segment) {
                Ok(()) => {
                    self.learn(manner, segment);
                    done += count;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) if manner == Manner::Run && count > 1 => manner = Manner::Single,
                Err(_) if source.is_some() => manner = Manner::Plainest,
                Err(error) => {
                    tracing::trace!(%error, remote = %self.remote, "datagram refused");
                    self.link.counters.out_drops += 1;
                    done += count;
                }
            }
        }
        self.queue_bytes -= self.queue.drain(..done).map(|f| f.len() as u64).sum::<u64>();
        if self.queue.is_empty() { Sent::All } else { Sent::Blocked }
    }

    /// Draws conclusions where a plainer manner works than was tried first.
    fn learn(&mut self, manner: Manner, segment: usize) {
        match manner {
            Manner::Run => {}
            // Too long for the route in runs; or it takes none at all.
            Manner::Single if segment > SEGMENT_BYTES_SAFE => self.segment_bytes_max = Some(SEGMENT_BYTES_SAFE),
            Manner::Single => self.segment_bytes_max = Some(0),
            // The address is not ours any more.
            Manner::Plainest => self.source = None,
        }
    }

    /// How many frames from `start` on make a run.
    fn run_len(&mut self, start: usize, run_max: usize) -> usize {
        let segment = self.queue[start].len();
        if run_max < 2 || self.queue.len() - start < 2 || segment > self.segment_bytes_max(segment) {
            return 1;
        }
        let (mut count, mut bytes) = (0, 0);
        for frame in self.queue[start..].iter().take(run_max) {
            bytes += frame.len();
            if frame.len() > segment || bytes > DATAGRAM_BYTES_MAX {
                break;
            }
            count += 1;
            if frame.len() < segment {
                break;
            }
        }
        count.max(1)
    }

    fn segment_bytes_max(&mut self, wanted: usize) -> usize {
        match self.segment_bytes_max {
            Some(known) => known,
            None if wanted <= SEGMENT_BYTES_SAFE => SEGMENT_BYTES_SAFE,
            None => {
                let max = route_to(self.remote).map_or(SEGMENT_BYTES_SAFE, |r| r.datagram_bytes);
                *self.segment_bytes_max.insert(max)
            }
        }
    }

    pub(super) fn status(&self, id: FaceId, now: Ticks, idle_timeout: Duration) -> FaceStatus {
        let config = self.link.config();
        let on_demand = self.persistency == Persistency::OnDemand;
        FaceStatus {
            id,
            remote: FaceUri::Udp(self.remote),
            local: FaceUri::Udp(self.local),
            scope: self.scope,
            link_type: LinkType::PointToPoint,
            persistency: self.persistency,
            mtu: config.mtu.map(|mtu| mtu as u64),
            flags: config.flags,
            base_congestion_marking_interval_ns: config.base_congestion_marking_interval.as_nanos() as u64,
            default_congestion_threshold_bytes: config.congestion_threshold_bytes,
            expires_in_ms: on_demand.then(|| (self.heard + idle_timeout).since(now).as_millis() as u64),
            up: true,
            counters: FaceCounters::default(),
            link: self.link.counters,
        }
    }
}

/// Whether a datagram can name this address as its source. A link-local one would need its
/// interface with it; the system knows that better from the destination.
fn is_source(address: &IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !address.is_unspecified() && !link_local
}
