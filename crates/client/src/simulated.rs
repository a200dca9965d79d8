//! Applications in a simulated network: a [`Session`] at the edge of a [`Network`](byname_embed::Network), in virtual
//! time.
//!
//! Links of such a network lose, delay and damage packets, and an hour passes in moments. So a test sees what an
//! application does on a bad network. Routers that applications register at are built with
//! [`Builder::registrations`](byname_embed::Builder::registrations). A session that has something to do later never lets
//! [`Network::settle`](byname_embed::Network::settle) end: use `run_for`.
//!
//! ```
//! use std::time::Duration;
//!
//! use byname_client::management::RegisterOptions;
//! use byname_client::session::{Event, Session, SessionOptions};
//! use byname_client::simulated::{Application, Behavior};
//! use byname_client::{Now, Outbox};
//! use byname_embed::{Faults, Forwarder, Network};
//! use byname_wire::data::DataBuilder;
//!
//! struct Greeter;
//!
//! impl Behavior for Greeter {
//!     fn begin(&mut self, session: &mut Session, now: Now, outbox: &mut Outbox) {
//!         session.produce("/hello".parse().expect("a name"), RegisterOptions::default(), now, outbox);
//!     }
//!
//!     fn on_event(&mut self, event: Event, session: &mut Session, _: Now, outbox: &mut Outbox) {
//!         if let Event::Request(request) = event {
//!             let data = DataBuilder::new(request.interest().name.to_name()).content(b"hello".to_vec());
//!             session.reply(&request, &data, outbox).expect("a digest needs no key");
//!         }
//!     }
//! }
//!
//! let mut net = Network::new(1);
//! let [near, far] = [net.add(Forwarder::builder())?, net.add(Forwarder::builder().registrations())?];
//! let (to_far, _) = net.link(near, far, Faults { loss: 0.1, ..Faults::NONE });
//! net.forwarder(near).set_route(&"/hello".parse()?, &[(to_far, 0)])?;
//! net.attach(far, Application::new(SessionOptions::default(), Greeter));
//! let (guest, _) = net.attach(near, byname_embed::Consumer::new(["/hello/1".parse()?], 2));
//! net.run_for(Duration::from_secs(10));
//! assert_eq!(net.app::<byname_embed::Consumer>(guest).fetched().names, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use byname_embed::apps::Sent;
use byname_embed::{App, LinkFields, Packet, Ticks};
use byname_wire::lp::LpPacket;

use crate::clock::Now;
use crate::outbox::Outbox;
use crate::reassembly::Incoming;
use crate::session::{Event, Session, SessionOptions};
use crate::transport::Peer;

/// Time since the Unix epoch when the time of the network is zero: January 2027. Signatures and certificates need one.
pub const EPOCH: Duration = Duration::from_secs(1_798_761_600);

/// What an application does.
pub trait Behavior: 'static {
    /// Called once, when the session is connected.
    fn begin(&mut self, session: &mut Session, now: Now, outbox: &mut Outbox);

    /// Called for each event of the session.
    fn on_event(&mut self, event: Event, session: &mut Session, now: Now, outbox: &mut Outbox);

    /// Called after packets have arrived and time has passed, for what comes without an event: segments to take
    /// ([`Session::take_chunk`]).
    fn step(&mut self, session: &mut Session, now: Now, outbox: &mut Outbox) {
        let _ = (session, now, outbox);
    }
}

/// An application on a face of its own, with its session.
pub struct Application<B> {
    session: Session,
    outbox: Outbox,
    behavior: B,
    /// When the session has something to do next.
    deadline: Option<Ticks>,
    has_begun: bool,
}

impl<B: Behavior> Application<B> {
    /// An application for [`Network::attach`](byname_embed::Network::attach). Its router is on its host.
    pub fn new(options: SessionOptions, behavior: B) -> Self {
        let (session, outbox) = (Session::new(options), Outbox::new(None, 0));
        Application { session, outbox, behavior, deadline: None, has_begun: false }
    }

    /// What it does.
    pub fn behavior(&self) -> &B {
        &self.behavior
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Hands out what has happened, and sends what is to be sent.
    fn go_on(&mut self, now: Now, sent: &mut Sent) {
        while let Some(event) = self.session.next_event() {
            self.behavior.on_event(event, &mut self.session, now, &mut self.outbox);
        }
        self.behavior.step(&mut self.session, now, &mut self.outbox);
        // What was taken may have made room for more.
        self.session.poll(now, &mut self.outbox);
        for frame in self.outbox.frames() {
            let lp = LpPacket::decode(frame).expect("an outbox holds frames");
            let fields = LinkFields {
                pit_token: lp.pit_token,
                nack: lp.nack,
                congestion_mark: lp.congestion_mark,
                ..LinkFields::default()
            };
            sent.extend(lp.fragment.map(|packet| (fields, Packet::copy_from(packet))));
        }
        self.outbox.clear();
        self.deadline = self.session.next_deadline(now).map(ticks);
    }
}

impl<B: Behavior> App for Application<B> {
    fn receive(&mut self, now: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent) {
        let now = moment(now);
        let incoming = Incoming {
            packet,
            pit_token: fields.pit_token,
            nack: fields.nack,
            congestion_mark: fields.congestion_mark,
        };
        self.session.on_packet(&incoming, now, &mut self.outbox);
        self.go_on(now, sent);
    }

    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        let now = moment(now);
        if !self.has_begun {
            self.has_begun = true;
            self.session.on_connected(Peer { is_local: true, is_datagram: false }, now, &mut self.outbox);
            self.behavior.begin(&mut self.session, now, &mut self.outbox);
        }
        self.session.poll(now, &mut self.outbox);
        self.go_on(now, sent);
        self.deadline
    }

    fn wants_tick(&self) -> Option<Ticks> {
        self.deadline
    }
}

fn moment(now: Ticks) -> Now {
    let elapsed = Duration::from_nanos(now.0);
    Now { elapsed, unix: EPOCH + elapsed }
}

fn ticks(at: Duration) -> Ticks {
    Ticks(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}
