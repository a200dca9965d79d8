//! Packet captures: a port that writes its packets to a pcap file.
//!
//! Wireshark's NDN dissector reads NDN in Ethernet frames (EtherType 0x8624), whatever link the packets came on. So the
//! capture holds network packets in made-up Ethernet frames, with a link header if they have fields to carry. The
//! forwarder is `02:01:00:00:00:00`, and face N is `02:00` and the four bytes of N. Fragments and acknowledgements do
//! not appear.

use std::any::Any;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byname_forward::{FaceId, LinkFields, Outgoing, Packet, Ticks};
use byname_wire::NackReason;
use byname_wire::lp::LpPacket;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};
use crate::link;
use crate::port::{Port, PortContext, Readiness, call_inner_port};
use crate::uri::FaceUri;

const ETHERTYPE_NDN: [u8; 2] = [0x86, 0x24];
const FORWARDER: [u8; 6] = [0x02, 0x01, 0, 0, 0, 0];
/// Bytes of a record beside its frame.
const RECORD_HEADER_BYTES: u64 = 16;
/// Maximum time until a captured packet is in the file.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// A capture file, which several ports may share.
#[derive(Clone)]
pub struct Capture {
    file: Arc<Mutex<CaptureFile>>,
}

struct CaptureFile {
    /// `None` after the file was full or failed.
    writer: Option<PcapWriter<Sink>>,
    sink: Sink,
    bytes_left: u64,
    frame: Vec<u8>,
    /// Wall-clock time at tick zero of the loop's clock.
    epoch: Option<Duration>,
}

/// The file. The pcap writer holds it and cannot flush it; we hold it to flush it.
#[derive(Clone)]
struct Sink(Arc<Mutex<BufWriter<File>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl Capture {
    /// Creates or empties the file. The capture ends before `bytes_max` bytes, and logs that.
    pub fn create(path: &Path, bytes_max: u64) -> io::Result<Capture> {
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let sink = Sink(Arc::new(Mutex::new(BufWriter::new(File::create(path)?))));
        let writer = PcapWriter::with_header(sink.clone(), header).map_err(io_error)?;
        let file = CaptureFile { writer: Some(writer), sink, bytes_left: bytes_max, frame: Vec::new(), epoch: None };
        Ok(Capture { file: Arc::new(Mutex::new(file)) })
    }

    /// Writes one packet, as seen at `now`.
    fn write(&self, now: Ticks, from: [u8; 6], to: [u8; 6], fields: &LinkFields, packet: &Packet) {
        // A panic elsewhere leaves at worst an incomplete record.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write(now, from, to, fields, packet);
    }

    fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = file.sink.flush();
        file.check(flushed);
    }
}

impl CaptureFile {
    fn write(&mut self, now: Ticks, from: [u8; 6], to: [u8; 6], fields: &LinkFields, packet: &Packet) {
        let Some(writer) = &mut self.writer else { return };
        self.frame.clear();
        push_addresses(from, to, &mut self.frame);
        if !link::has_no_fields(fields) || fields.next_hop_face_id.is_some() {
            fields.header().encode_header(packet.len(), &mut self.frame);
        }
        self.frame.extend_from_slice(packet);
        let bytes = self.frame.len() as u64 + RECORD_HEADER_BYTES;
        if bytes > self.bytes_left {
            tracing::warn!("the packet capture is full; it ends here");
            self.writer = None;
            return;
        }
        self.bytes_left -= bytes;
        let since_zero = now.since(Ticks(0));
        let epoch = *self.epoch.get_or_insert_with(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(since_zero)
        });
        let record = PcapPacket::new(epoch + since_zero, self.frame.len() as u32, &self.frame);
        let written = writer.write_packet(&record).map(|_| ()).map_err(io_error);
        self.check(written);
    }

    fn check(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            tracing::error!(%error, "the packet capture failed; it ends here");
            self.writer = None;
        }
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

fn push_addresses(from: [u8; 6], to: [u8; 6], frame: &mut Vec<u8>) {
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&ETHERTYPE_NDN);
}

/// Appends the frame of a packet from a face, or of a Nack for it, as captures hold it.
pub fn frame_from(face: FaceId, nack: Option<NackReason>, packet: &[u8], frame: &mut Vec<u8>) {
    push_addresses(address(face), FORWARDER, frame);
    LpPacket { fragment: Some(packet), nack, ..LpPacket::default() }.encode(frame);
}

/// Address of a face in captures.
fn address(face: FaceId) -> [u8; 6] {
    let [.., a, b, c, d] = face.0.to_be_bytes();
    [0x02, 0x00, a, b, c, d]
}

/// A port whose packets are all captured.
///
/// Files are written on the packet thread. Use it for debugging, not at full speed.
pub struct CapturePort {
    inner: Box<dyn Port>,
    capture: Capture,
    /// Time at which captured packets must be in the file.
    flush_at: Option<Ticks>,
}

impl CapturePort {
    /// Wraps a port.
    pub fn new(inner: Box<dyn Port>, capture: Capture) -> Self {
        CapturePort { inner, capture, flush_at: None }
    }

    /// Calls the port, and captures the packets that it delivers.
    fn inside<R>(
        &mut self,
        cx: &mut PortContext<'_>,
        call: impl FnOnce(&mut dyn Port, &mut PortContext<'_>) -> R,
    ) -> R {
        let before = cx.received.len();
        let result = call(&mut *self.inner, cx);
        for received in &cx.received[before..] {
            self.capture.write(cx.now, address(received.face), FORWARDER, &received.fields, &received.packet);
        }
        if cx.received.len() > before {
            self.plan_flush(cx.now);
        }
        result
    }

    fn plan_flush(&mut self, now: Ticks) {
        self.flush_at.get_or_insert(now + FLUSH_INTERVAL);
    }
}

impl Port for CapturePort {
    call_inner_port!();

    fn transmit(&mut self, cx: &mut PortContext<'_>, burst: &mut [Outgoing]) {
        for Outgoing { face, fields, packet } in &*burst {
            self.capture.write(cx.now, FORWARDER, address(*face), fields, packet);
        }
        self.plan_flush(cx.now);
        self.inside(cx, |port, cx| port.transmit(cx, burst));
    }

    fn has_output(&self) -> bool {
        self.inner.has_output()
    }

    fn moves_faces(&self) -> bool {
        self.inner.moves_faces()
    }

    fn has_room(&self) -> bool {
        self.inner.has_room()
    }

    fn expect_face(&mut self, remote: Option<&FaceUri>) -> Result<(), String> {
        self.inner.expect_face(remote)
    }

    fn lead_to(&mut self, face: FaceId, thread: usize) -> Result<(), String> {
        self.inner.lead_to(face, thread)
    }

    fn has_received_all(&self) -> bool {
        self.inner.has_received_all()
    }

    fn detach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId) -> Option<Box<dyn Any + Send>> {
        self.inside(cx, |port, cx| port.detach_face(cx, face))
    }

    fn attach_face(&mut self, cx: &mut PortContext<'_>, face: FaceId, state: Box<dyn Any + Send>) {
        self.inside(cx, |port, cx| port.attach_face(cx, face, state));
    }

    fn next_deadline(&self) -> Option<Ticks> {
        self.flush_at.into_iter().chain(self.inner.next_deadline()).min()
    }

    fn on_deadline(&mut self, cx: &mut PortContext<'_>) {
        if self.flush_at.is_some_and(|at| at <= cx.now) {
            self.flush_at = None;
            self.capture.flush();
        }
        if self.inner.next_deadline().is_some_and(|at| at <= cx.now) {
            self.inside(cx, |port, cx| port.on_deadline(cx));
        }
    }
}

#[cfg(test)]
mod tests {
    use byname_wire::{LpPacket, PitToken};
    use pcap_file::pcap::PcapReader;

    use super::*;
    use crate::memory;
    use crate::port::tests::Bench;

    fn packet(typ: u8) -> Packet {
        Packet::copy_from(&[typ, 5, 7, 3, 8, 1, b'a'])
    }

    fn frames(path: &Path) -> Vec<(Duration, Vec<u8>)> {
        let mut reader = PcapReader::new(File::open(path).expect("a file")).expect("a header");
        assert_eq!(reader.header().datalink, DataLink::ETHERNET);
        let mut frames = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.expect("a record");
            frames.push((packet.timestamp, packet.data.into_owned()));
        }
        frames
    }

    #[test]
    fn both_directions_are_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("faces.pcap");
        let capture = Capture::create(&path, 1 << 20).expect("a file");
        let (near, mut far) = memory::pair(8);
        let mut port = CapturePort::new(Box::new(near), capture);
        let (mut bench, mut far_bench) = (Bench::new(), Bench::new());
        port.start(&mut bench.cx()).expect("it starts");
        far.start(&mut far_bench.cx()).expect("it starts");
        let face = FaceId::FIRST;
        let outgoing = |fields, packet| [Outgoing { face, fields, packet }];
        far.transmit(&mut far_bench.cx(), &mut outgoing(LinkFields::default(), packet(5)));
        port.receive(&mut bench.cx(), 8);
        bench.now = Ticks::from_ms(250);
        let fields = LinkFields { pit_token: PitToken::new(&[1, 2, 3, 4]).expect("short"), ..LinkFields::default() };
        port.transmit(&mut bench.cx(), &mut outgoing(fields, packet(6)));
        assert_eq!((bench.received.len(), far.has_input()), (1, true), "they pass as well");

        assert_eq!(port.next_deadline(), Some(Ticks::from_ms(1_000)));
        bench.now = Ticks::from_ms(1_000);
        port.on_deadline(&mut bench.cx());
        assert_eq!(port.next_deadline(), None);
        let frames = frames(&path);
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[1].0 - frames[0].0, Duration::from_millis(250));
        let (head, body) = frames[0].1.split_at(14);
        assert_eq!(head, [2, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0x86, 0x24]);
        assert_eq!(body, &packet(5)[..]);
        let (head, body) = frames[1].1.split_at(14);
        assert_eq!(head, [2, 0, 0, 0, 1, 0, 2, 1, 0, 0, 0, 0, 0x86, 0x24]);
        let lp = LpPacket::decode(body).expect("a link header");
        assert_eq!((lp.pit_token.as_slice(), lp.fragment), (&[1, 2, 3, 4][..], Some(&packet(6)[..])));
    }

    #[test]
    fn a_full_file_ends_with_a_whole_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("faces.pcap");
        let capture = Capture::create(&path, 100).expect("a file");
        for _ in 0..10 {
            capture.write(Ticks(0), FORWARDER, address(FaceId(300)), &LinkFields::default(), &packet(5));
        }
        drop(capture);
        assert_eq!(frames(&path).len(), 2);
    }
}
