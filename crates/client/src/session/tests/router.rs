//! An application's host: its session, its connection to a scripted router, and their clock.

use std::collections::BTreeMap;
use std::time::Duration;

use byname_mgmt::{ControlResponse, Element};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Interest, LpPacket, NackReason, Name};

use super::super::{Event, Peer, Session, SessionOptions};
use crate::clock::Now;
use crate::link::{DataPacket, ExchangeError};
use crate::outbox::Outbox;
use crate::reassembly::Incoming;

/// Time that a packet takes from the router.
const DELAY: Duration = Duration::from_millis(10);
/// Nothing waits longer than this.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the router does with an Interest.
pub enum Reply {
    Data(Vec<u8>),
    /// Data with a congestion mark.
    Marked(Vec<u8>),
    Nack(NackReason),
    /// So many Nacks.
    Nacks(NackReason, usize),
}

/// A packet, why it was refused, and its congestion mark.
type Arriving = (Vec<u8>, Option<NackReason>, u64);
type Script = Box<dyn FnMut(&Interest<'_>, Duration) -> Vec<Reply>>;

pub struct Host {
    pub session: Session,
    outbox: Outbox,
    pub now: Now,
    script: Script,
    /// Packets on their way to the application, by time and order.
    arriving: BTreeMap<(Duration, u64), Arriving>,
    order: u64,
    /// Packets that the application has sent.
    pub sent: Vec<Vec<u8>>,
}

impl Host {
    pub fn new(script: impl FnMut(&Interest<'_>, Duration) -> Vec<Reply> + 'static) -> Self {
        Host::with_options(SessionOptions::default(), script)
    }

    pub fn with_options(
        options: SessionOptions,
        script: impl FnMut(&Interest<'_>, Duration) -> Vec<Reply> + 'static,
    ) -> Self {
        let now = Now { elapsed: Duration::from_secs(1), unix: Duration::from_secs(1_795_000_000) };
        let mut host = Host {
            session: Session::new(options),
            outbox: Outbox::new(None, 0),
            now,
            script: Box::new(script),
            arriving: BTreeMap::new(),
            order: 0,
            sent: Vec::new(),
        };
        host.connect();
        host
    }

    pub fn connect(&mut self) {
        self.connect_to(Peer { is_local: true, is_datagram: false });
    }

    pub fn connect_to(&mut self, peer: Peer) {
        self.with(|session, now, outbox| session.on_connected(peer, now, outbox));
    }

    /// The router is gone, with all packets on their way.
    pub fn lose_connection(&mut self) {
        self.outbox.clear();
        self.arriving.clear();
        self.session.on_disconnected(self.now);
    }

    pub fn with<T>(&mut self, call: impl FnOnce(&mut Session, Now, &mut Outbox) -> T) -> T {
        let result = call(&mut self.session, self.now, &mut self.outbox);
        self.deliver();
        result
    }

    /// A packet arrives now.
    pub fn arrives(&mut self, packet: Vec<u8>) {
        self.with(|session, now, outbox| session.on_packet(&Incoming::bare(&packet), now, outbox));
    }

    /// Lets time pass.
    pub fn run_for(&mut self, wait: Duration) {
        let end = self.now.elapsed + wait;
        while self.step(end) {}
    }

    /// Waits for the next event.
    pub fn event(&mut self) -> Event {
        let end = self.now.elapsed + PATIENCE;
        loop {
            if let Some(event) = self.session.next_event() {
                return event;
            }
            assert!(self.step(end), "nothing happens");
        }
    }

    pub fn express(&mut self, interest: InterestBuilder, tries: u32) -> Result<DataPacket, ExchangeError> {
        let id = self.with(|session, now, outbox| session.express(interest.encode(), tries, now, outbox)).unwrap();
        match self.event() {
            Event::Answer { id: answered, result } if answered == id => result,
            other => panic!("{other:?}"),
        }
    }

    /// Goes on to the next moment at which something happens. Returns false if that is `end`.
    pub fn step(&mut self, end: Duration) -> bool {
        let due = self.session.next_deadline(self.now);
        let arrival = self.arriving.keys().next().map(|(at, _)| *at);
        let next = [due, arrival].into_iter().flatten().min().unwrap_or(end).clamp(self.now.elapsed, end);
        self.now = self.now.after(next - self.now.elapsed);
        while let Some(entry) = self.arriving.first_entry().filter(|entry| entry.key().0 <= self.now.elapsed) {
            let (packet, nack, congestion_mark) = entry.remove();
            let incoming = Incoming { nack, congestion_mark, ..Incoming::bare(&packet) };
            self.session.on_packet(&incoming, self.now, &mut self.outbox);
        }
        self.with(|session, now, outbox| session.poll(now, outbox));
        next < end
    }

    /// Hands what was sent to the router.
    fn deliver(&mut self) {
        let frames: Vec<Vec<u8>> = self.outbox.frames().map(<[u8]>::to_vec).collect();
        self.outbox.clear();
        for frame in frames {
            let packet = LpPacket::decode(&frame).unwrap().fragment.unwrap().to_vec();
            self.sent.push(packet.clone());
            let Ok(interest) = Interest::decode(&packet) else { continue };
            for reply in (self.script)(&interest, self.now.elapsed) {
                let (packet, nack, mark, count) = match reply {
                    Reply::Data(data) => (data, None, 0, 1),
                    Reply::Marked(data) => (data, None, 1, 1),
                    Reply::Nack(reason) => (packet.clone(), Some(reason), 0, 1),
                    Reply::Nacks(reason, count) => (packet.clone(), Some(reason), 0, count),
                };
                for _ in 0..count {
                    self.order += 1;
                    let at = self.now.elapsed + DELAY;
                    self.arriving.insert((at, self.order), (packet.clone(), nack, mark));
                }
            }
        }
    }
}

pub fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

/// A packet with this name and content.
pub fn data(uri: &str, content: &[u8]) -> Vec<u8> {
    DataBuilder::new(name(uri)).content(content.to_vec()).encode()
}

/// A router's answer to a command.
pub fn ok(interest: &Interest<'_>, response: &ControlResponse) -> Vec<u8> {
    DataBuilder::new(interest.name.to_name()).content(response.encode()).encode()
}
