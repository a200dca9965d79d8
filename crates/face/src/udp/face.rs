//! Sends datagrams to one UDP peer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use byname_forward::Network;

use byname_forward::SourcePrefix;

use super::socket::{DATAGRAM_BYTES_MAX, DatagramSocket, route_to};
use super::steering::Detour;
use crate::link::Frame;
use crate::peers::{PeerFace, Sent, Transport};
use crate::uri::FaceUri;

/// Bytes of a datagram that every path takes in one piece [RFC 8200: 1,280 bytes with headers].
const SEGMENT_BYTES_SAFE: usize = 1_232;

/// Ways to send. After a refusal by the system, the next plainer one is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Many datagrams at once.
    Run,
    /// One by one.
    Single,
    /// One by one, from an address that the system chooses.
    Plainest,
}

/// A peer, or a group.
pub(super) struct UdpTransport {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    /// Source address of datagrams. If absent, the system chooses.
    pub(super) source: Option<IpAddr>,
    /// Longest datagram that is sent in runs. `None`: the route was not asked yet.
    segment_bytes_max: Option<usize>,
    /// Networks of a group's members.
    pub(super) networks: Option<Arc<[Network]>>,
    /// Whether the last queued frames had one length. If so, the next ones may have it too.
    pub(super) alike: bool,
    /// Set if the face has moved to another socket than its peer's datagrams would come to.
    pub(super) detour: Option<Detour>,
}

pub(super) type UdpFace = PeerFace<UdpTransport>;

impl Transport for UdpTransport {
    type Address = SocketAddr;
    type Group = SourcePrefix;

    fn group(address: &SocketAddr) -> SourcePrefix {
        SourcePrefix::of(address)
    }

    fn address(&self) -> SocketAddr {
        self.remote
    }

    fn remote(&self) -> FaceUri {
        FaceUri::Udp(self.remote)
    }

    fn local(&self) -> FaceUri {
        FaceUri::Udp(self.local)
    }

    fn networks(&self) -> Option<Arc<[Network]>> {
        self.networks.clone()
    }
}

impl UdpFace {
    /// Sends the queue, in runs of equal length as far as possible.
    pub(super) fn send_queued(&mut self, socket: &mut DatagramSocket) -> Sent {
        let Some(len) = self.queue.first().map(Frame::len) else { return Sent::All };
        let alike = self.queue.iter().all(|frame| frame.len() == len);
        self.transport.alike = alike && self.queue.len() > 1;
        // Reliability detects losses by the order of frames. Without it, order is not promised.
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

    /// Sends datagrams of `segment` bytes; the last may be shorter. Returns the number of bytes that were sent or
    /// dropped, which is less than all if the system takes no more now.
    pub(super) fn send_run(&mut self, socket: &mut DatagramSocket, bytes: &[u8], segment: usize) -> usize {
        let (mut done, mut manner) = (0, Manner::Run);
        while done < bytes.len() {
            let rest = &bytes[done..];
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
            networks: None,
            alike: false,
            detour: None,
        }
    }

    /// Draws conclusions when a plainer manner works than the one tried first.
    fn learn(&mut self, manner: Manner, segment: usize) {
        match manner {
            Manner::Run => {}
            // The datagrams are too long for runs on this route, or the route takes no runs.
            Manner::Single if segment > SEGMENT_BYTES_SAFE => self.segment_bytes_max = Some(SEGMENT_BYTES_SAFE),
            Manner::Single => self.segment_bytes_max = Some(0),
            // The address is no longer ours.
            Manner::Plainest => self.source = None,
        }
    }

    /// Maximum number of datagrams of `segment` bytes in a run, if the system takes `run_max`.
    pub(super) fn run_max(&mut self, segment: usize, run_max: usize) -> usize {
        if run_max < 2 || segment > self.segment_bytes_max(segment) {
            return 1;
        }
        run_max.min(DATAGRAM_BYTES_MAX / segment.max(1)).max(1)
    }

    /// Number of frames, from the first on, that form a run. `alike`: all have one length.
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

/// Whether a datagram can name this address as its source. A link-local address would also need its interface, which
/// the system knows better from the destination.
fn is_source(address: &IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !address.is_unspecified() && !link_local
}
