//! How datagrams are sent to one UDP peer.

use std::net::{IpAddr, SocketAddr};

use super::socket::{DATAGRAM_BYTES_MAX, DatagramSocket, route_to};
use crate::link::Frame;
use crate::peers::{PeerFace, Sent, Transport};
use crate::uri::FaceUri;

/// Datagrams that any path of today takes in one piece [RFC 8200: 1,280 octets with headers].
const SEGMENT_BYTES_SAFE: usize = 1_232;

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

/// A peer, or a group.
pub(super) struct UdpTransport {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    /// Source address for datagrams; the system chooses when absent.
    pub(super) source: Option<IpAddr>,
    /// Longest datagram that is sent in runs; `None`: the route was not asked yet.
    segment_bytes_max: Option<usize>,
    /// The frames that were queued last were of one length: those that come next may be, too.
    pub(super) alike: bool,
}

pub(super) type UdpFace = PeerFace<UdpTransport>;

impl Transport for UdpTransport {
    type Address = SocketAddr;

    fn address(&self) -> SocketAddr {
        self.remote
    }

    fn remote(&self) -> FaceUri {
        FaceUri::Udp(self.remote)
    }

    fn local(&self) -> FaceUri {
        FaceUri::Udp(self.local)
    }
}

impl UdpFace {
    /// Sends what is queued, in runs of equal length as far as possible.
    pub(super) fn send_queued(&mut self, socket: &mut DatagramSocket) -> Sent {
        let Some(len) = self.queue.first().map(Frame::len) else { return Sent::All };
        let alike = self.queue.iter().all(|frame| frame.len() == len);
        self.transport.alike = alike && self.queue.len() > 1;
        // Reliability reads losses from the order of frames; elsewhere order is not promised.
        if !alike && !self.link.config().flags.reliability {
            self.queue.sort_by_key(|f| std::cmp::Reverse(f.len()));
        }
        let (mut done, mut run) = (0, std::mem::take(&mut socket.run));
        while done < self.queue.len() {
            let segment = self.queue[done].len();
            let count = self.transport.run_len(&self.queue[done..], alike, socket.run_max());
            run.clear();
            for frame in &self.queue[done..done + count] {
                frame.write_to(&mut run);
            }
            let sent = self.send_run(socket, &run, segment);
            if sent < run.len() {
                done += sent / segment;
                break;
            }
            done += count;
        }
        socket.run = run;
        self.dequeue(done)
    }

    /// Sends datagrams of `segment` octets, of which the last may be shorter; returns how many octets are done with,
    /// sent or dropped: less than all where the system takes no more now.
    pub(super) fn send_run(&mut self, socket: &mut DatagramSocket, octets: &[u8], segment: usize) -> usize {
        let (mut done, mut manner) = (0, Manner::Run);
        while done < octets.len() {
            let rest = &octets[done..];
            let run = match manner {
                Manner::Run => rest,
                Manner::Single | Manner::Plainest => &rest[..rest.len().min(segment)],
            };
            let source = self.transport.source.filter(|_| manner != Manner::Plainest);
            match socket.send_run(self.transport.remote, source, run, segment) {
                Ok(()) => {
                    self.transport.learn(manner, segment);
                    done += run.len();
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) if manner == Manner::Run && rest.len() > segment => manner = Manner::Single,
                Err(_) if source.is_some() => manner = Manner::Plainest,
                Err(error) => {
                    tracing::trace!(%error, remote = %self.transport.remote, "datagram refused");
                    self.link.counters.out_drops += 1;
                    done += run.len();
                }
            }
        }
        done
    }
}

impl UdpTransport {
    pub(super) fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        UdpTransport {
            remote,
            local,
            source: Some(local.ip()).filter(is_source),
            segment_bytes_max: None,
            alike: false,
        }
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

    /// How many datagrams of `segment` octets make a run at most, where the system takes `run_max`.
    pub(super) fn run_max(&mut self, segment: usize, run_max: usize) -> usize {
        if run_max < 2 || segment > self.segment_bytes_max(segment) {
            return 1;
        }
        run_max.min(DATAGRAM_BYTES_MAX / segment.max(1)).max(1)
    }

    /// How many of the frames, from the first on, make a run; `alike` where all are of one length.
    fn run_len(&mut self, frames: &[Frame], alike: bool, run_max: usize) -> usize {
        if frames.len() < 2 {
            return 1;
        }
        let segment = frames[0].len();
        let run_max = self.run_max(segment, run_max);
        if alike {
            return frames.len().min(run_max);
        }
        let (mut count, mut bytes) = (0, 0);
        for frame in frames.iter().take(run_max) {
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
}

/// Whether a datagram can name this address as its source. A link-local one would need its
/// interface with it; the system knows that better from the destination.
fn is_source(address: &IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !address.is_unspecified() && !link_local
}
