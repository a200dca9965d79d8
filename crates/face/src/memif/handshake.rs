//! How two ends agree to share rings. Takes and returns messages, and has no sockets.
//!
//! The server sends HELLO. The client answers with INIT, its memory (ADD_REGION), its rings (ADD_RING) and CONNECT.
//! It sends each after the last was acknowledged. The server ends with CONNECTED. From then on there is only one
//! message, DISCONNECT.
//!
//! HELLO tells how many rings the server takes in each direction. The client brings as many, or fewer.
//!
//! Differs from libmemif: there are as many rings in one direction as in the other, because each thread serves a pair.
//! There are no private headers before packets. The memory must be sealed ([`super::shared`]).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::breach::{Breach, Ended};
use super::message::{AddRing, Hello, Init, Message, SECRET_BYTES, VERSION};
use super::rings::{Offer, Rings, SLOTS_LOG2_MAX, is_eventfd};
use super::shared::SharedMemory;

/// Maximum number of a client's regions.
const REGIONS_MAX: usize = 64;
/// Maximum memory of a client, in bytes. It takes only address space here until it is used.
const MEMORY_BYTES_MAX: u64 = 16 << 30;

/// Terms on which both ends must agree, and sizes that a client chooses.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Number of the interface.
    pub id: u32,
    /// A text that both ends know. Zeros mean none.
    pub secret: [u8; SECRET_BYTES],
    /// Binary logarithm of the slots in a client's rings, 3 to 14. Lowered to the server's maximum.
    pub slots_log2: u8,
    /// Bytes of each of a client's buffers.
    pub buffer_bytes: u32,
    /// Maximum number of rings in each direction, at least 1.
    pub pairs: u16,
}

/// Next step for the caller.
#[derive(Debug)]
pub enum Step {
    /// Send this message, with this descriptor.
    Send(Message, Option<OwnedFd>),
    /// Packets may flow by these pairs of rings, at least one, once this message is sent.
    Up(Vec<Rings>, Option<Message>),
}

/// State of one end, before and after the rings are shared.
#[derive(Debug)]
pub struct Handshake {
    terms: Terms,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A client waits for HELLO.
    Greeted,
    /// A client has these messages left to send. It waits for ACK, or after the last message for CONNECTED.
    Offering(VecDeque<(Message, Option<OwnedFd>)>, Vec<Rings>),
    /// A server waits for INIT.
    Listening,
    /// A server is told about memory and rings.
    Building(Building),
    /// Packets flow.
    Up,
}

#[derive(Debug, Default)]
struct Building {
    regions: Vec<Region>,
    bytes: u64,
    from_client: Vec<(AddRing, OwnedFd)>,
    to_client: Vec<(AddRing, OwnedFd)>,
}

/// A region of the client's memory, which is mapped once more for each further pair of rings.
#[derive(Debug)]
struct Region {
    file: OwnedFd,
    bytes: u64,
    mapped: Option<SharedMemory>,
}

impl Handshake {
    /// A client's end.
    pub fn client(terms: Terms) -> Self {
        Handshake { terms, state: State::Greeted }
    }

    /// A server's end, and its first message.
    pub fn server(terms: Terms) -> (Self, Message) {
        let hello = Hello {
            name: own_name(),
            version_min: VERSION,
            version_max: VERSION,
            region_max: REGIONS_MAX as u16 - 1,
            to_client_ring_max: terms.pairs.saturating_sub(1),
            to_server_ring_max: terms.pairs.saturating_sub(1),
            slots_log2_max: SLOTS_LOG2_MAX,
        };
        (Handshake { terms, state: State::Listening }, Message::Hello(hello))
    }

    /// Whether packets may flow.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Handles a message.
    ///
    /// # Errors
    /// If the connection is over.
    pub fn receive(&mut self, message: Message, fd: Option<OwnedFd>) -> Result<Step, Ended> {
        let kind = message.kind();
        match (&mut self.state, message) {
            (_, Message::Disconnect { reason, .. }) => Err(Ended::Told(reason)),
            (State::Greeted, Message::Hello(hello)) => self.offer(&hello),
            (State::Offering(rest, _), Message::Ack) => match rest.pop_front() {
                Some((message, fd)) => Ok(Step::Send(message, fd)),
                None => Err(Breach::Unexpected(kind).into()),
            },
            (State::Offering(rest, _), Message::Connected(_)) if rest.is_empty() => {
                let State::Offering(_, mut rings) = std::mem::replace(&mut self.state, State::Up) else {
                    return Err(Breach::Unexpected(kind).into());
                };
                rings.iter_mut().for_each(Rings::begin);
                Ok(Step::Up(rings, None))
            }
            (State::Listening, Message::Init(init)) => {
                self.check(&init)?;
                self.state = State::Building(Building::default());
                Ok(Step::Send(Message::Ack, None))
            }
            (State::Building(building), Message::AddRegion { index, bytes }) => {
                building.add_region(index, bytes, fd)?;
                Ok(Step::Send(Message::Ack, None))
            }
            (State::Building(building), Message::AddRing(ring)) => {
                building.add_ring(ring, fd, self.terms.pairs)?;
                Ok(Step::Send(Message::Ack, None))
            }
            (State::Building(building), Message::Connect(_)) => {
                let rings = std::mem::take(building).join()?;
                self.state = State::Up;
                Ok(Step::Up(rings, Some(Message::Connected(interface_name(self.terms.id)))))
            }
            _ => Err(Breach::Unexpected(kind).into()),
        }
    }

    /// Creates memory and rings, and queues all messages about them for the server.
    fn offer(&mut self, hello: &Hello) -> Result<Step, Ended> {
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            let spoken = format!("{} to {}", shown(hello.version_min), shown(hello.version_max));
            return Err(Breach::Version(spoken).into());
        }
        let slots_log2 = self.terms.slots_log2.min(hello.slots_log2_max).max(1);
        let taken = hello.to_client_ring_max.min(hello.to_server_ring_max).saturating_add(1);
        let pairs = self.terms.pairs.min(taken);
        let (rings, offer) = Rings::create(slots_log2, self.terms.buffer_bytes, pairs)?;
        let Offer { memory, bytes, rings: told } = offer;
        let init =
            Init { version: VERSION, id: self.terms.id, ethernet: true, secret: self.terms.secret, name: own_name() };
        let mut rest = VecDeque::from([(Message::AddRegion { index: 0, bytes }, Some(memory))]);
        let (from_client, to_client): (Vec<_>, Vec<_>) = told.into_iter().map(|[from, to]| (from, to)).unzip();
        let told = from_client.into_iter().chain(to_client);
        rest.extend(told.map(|(ring, interrupt)| (Message::AddRing(ring), Some(interrupt))));
        rest.push_back((Message::Connect(interface_name(self.terms.id)), None));
        self.state = State::Offering(rest, rings);
        Ok(Step::Send(Message::Init(init), None))
    }

    /// Checks whether a client may have the interface.
    fn check(&self, init: &Init) -> Result<(), Breach> {
        if init.version != VERSION {
            return Err(Breach::Version(shown(init.version)));
        }
        if !init.ethernet {
            return Err(Breach::Mode);
        }
        if init.id != self.terms.id {
            return Err(Breach::Id(init.id));
        }
        // Compare all bytes, so that the time tells nothing about the secret.
        let differing = init.secret.iter().zip(&self.terms.secret).fold(0, |differing, (a, b)| differing | (a ^ b));
        if differing == 0 { Ok(()) } else { Err(Breach::Secret) }
    }
}

impl Building {
    fn add_region(&mut self, index: u16, bytes: u64, fd: Option<OwnedFd>) -> Result<(), Breach> {
        let fd = fd.ok_or(Breach::Unexpected("ADD_REGION without its memory"))?;
        let total = self.bytes.saturating_add(bytes);
        if usize::from(index) != self.regions.len() || self.regions.len() == REGIONS_MAX || total > MEMORY_BYTES_MAX {
            return Err(Breach::Region(index));
        }
        self.bytes = total;
        let mapped = Some(SharedMemory::map(&fd, bytes)?);
        self.regions.push(Region { file: fd, bytes, mapped });
        Ok(())
    }

    fn add_ring(&mut self, ring: AddRing, fd: Option<OwnedFd>, rings_max: u16) -> Result<(), Breach> {
        let fd = fd.ok_or(Breach::Unexpected("ADD_RING without its interrupt"))?;
        if !is_eventfd(&fd) {
            return Err(Breach::Interrupt);
        }
        let rings = if ring.from_client { &mut self.from_client } else { &mut self.to_client };
        if usize::from(ring.index) != rings.len() || ring.index >= rings_max {
            return Err(Breach::Ring);
        }
        rings.push((ring, fd));
        Ok(())
    }

    /// Joins the pairs of rings. There must be as many in one direction as in the other.
    fn join(mut self) -> Result<Vec<Rings>, Breach> {
        let (from_client, to_client) = (std::mem::take(&mut self.from_client), std::mem::take(&mut self.to_client));
        if from_client.is_empty() || from_client.len() != to_client.len() {
            return Err(Breach::Unexpected("CONNECT without a ring each way"));
        }
        let mut pairs = Vec::with_capacity(from_client.len());
        for (from_client, to_client) in from_client.into_iter().zip(to_client) {
            let regions = self.regions.iter_mut().map(Region::map).collect::<Result<_, _>>()?;
            pairs.push(Rings::join(regions, from_client, to_client)?);
        }
        pairs.iter_mut().for_each(Rings::begin);
        Ok(pairs)
    }
}

impl Region {
    /// A mapping that nobody else has.
    fn map(&mut self) -> Result<SharedMemory, Breach> {
        match self.mapped.take() {
            Some(mapped) => Ok(mapped),
            None => Ok(SharedMemory::map(&self.file, self.bytes)?),
        }
    }
}

fn own_name() -> String {
    format!("byname {}", env!("CARGO_PKG_VERSION"))
}

fn interface_name(id: u32) -> String {
    format!("byname{id}")
}

fn shown(version: u16) -> String {
    format!("{}.{}", version >> 8, version & 0xff)
}

#[cfg(test)]
mod tests {
    use rustix::event::EventfdFlags;

    use super::*;

    const TERMS: Terms = Terms { id: 7, secret: [1; SECRET_BYTES], slots_log2: 4, buffer_bytes: 256, pairs: 1 };

    fn init() -> Init {
        Init { version: VERSION, id: 7, ethernet: true, secret: [1; SECRET_BYTES], name: String::new() }
    }

    fn eventfd() -> Option<OwnedFd> {
        Some(rustix::event::eventfd(0, EventfdFlags::empty()).expect("an eventfd"))
    }

    fn ring(from_client: bool) -> AddRing {
        AddRing { from_client, index: 0, region: 0, offset: 0, slots_log2: 3, private_header_bytes: 0 }
    }

    /// A server that is told about memory and rings.
    fn building() -> Handshake {
        let (mut server, _) = Handshake::server(TERMS);
        let step = server.receive(Message::Init(init()), None).expect("the right one");
        assert!(matches!(step, Step::Send(Message::Ack, None)));
        server
    }

    fn breach(step: Result<Step, Ended>) -> Breach {
        match step {
            Err(Ended::Breach(breach)) => breach,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_ends_agree_message_by_message() {
        let mut client = Handshake::client(TERMS);
        let (mut server, mut to_client) = Handshake::server(TERMS);
        let mut said = Vec::new();
        let mut server_rings = None;
        let client_rings = loop {
            said.push(to_client.kind());
            let (message, fd) = match client.receive(to_client, None).expect("goes well") {
                Step::Send(message, fd) => (message, fd),
                Step::Up(rings, None) => break rings,
                Step::Up(..) => panic!("the client has nothing more to say"),
            };
            said.push(message.kind());
            to_client = match server.receive(message, fd).expect("goes well") {
                Step::Send(message, None) => message,
                Step::Up(rings, Some(message)) => {
                    server_rings = Some(rings);
                    message
                }
                other => panic!("{other:?}"),
            };
        };
        let expected =
            [["HELLO", "INIT"], ["ACK", "ADD_REGION"], ["ACK", "ADD_RING"], ["ACK", "ADD_RING"], ["ACK", "CONNECT"]];
        assert_eq!(said, [&expected.concat()[..], &["CONNECTED"]].concat());
        assert!(client.is_up() && server.is_up());
        let (mut from, mut to) = (client_rings, server_rings.expect("up"));
        assert_eq!((from.len(), to.len()), (1, 1));
        let (from, to) = (&mut from[0], &mut to[0]);
        from.push([b"a", b"b", b"c"]).expect("room");
        from.send();
        to.receive(1, |frame| assert_eq!(*frame, *b"abc")).expect("honest");
    }

    /// Rings of both ends, after they have agreed on these terms.
    fn agreed(client: Terms, server: Terms) -> (Vec<Rings>, Vec<Rings>) {
        let mut client = Handshake::client(client);
        let (mut server, mut to_client) = Handshake::server(server);
        let mut of_server = Vec::new();
        loop {
            let (message, fd) = match client.receive(to_client, None).expect("goes well") {
                Step::Send(message, fd) => (message, fd),
                Step::Up(of_client, _) => return (of_client, of_server),
            };
            to_client = match server.receive(message, fd).expect("goes well") {
                Step::Send(message, _) => message,
                Step::Up(rings, message) => {
                    of_server = rings;
                    message.expect("it tells")
                }
            };
        }
    }

    #[test]
    fn there_are_as_many_rings_as_the_end_with_fewer_wants() {
        for (wanted, taken) in [(1, 1), (1, 4), (4, 1), (3, 4), (4, 3), (16, 64)] {
            let terms = |pairs| Terms { pairs, ..TERMS };
            let (mut client, mut server) = agreed(terms(wanted), terms(taken));
            let pairs = usize::from(wanted.min(taken));
            assert_eq!((client.len(), server.len()), (pairs, pairs));
            // Each ring leads to its other end only.
            for round in 0..40u8 {
                for (n, (client, server)) in client.iter_mut().zip(&mut server).enumerate() {
                    client.push([&[n as u8], &[round], b"up"]).expect("room");
                    server.push([&[n as u8], &[round], b"down"]).expect("room");
                    client.send();
                    server.send();
                }
                for (n, (client, server)) in client.iter_mut().zip(&mut server).enumerate() {
                    let mut heard = Vec::new();
                    server.receive(9, |frame| heard.push(frame.to_vec())).expect("honest");
                    client.receive(9, |frame| heard.push(frame.to_vec())).expect("honest");
                    assert_eq!(
                        heard,
                        [[&[n as u8, round][..], b"up"].concat(), [&[n as u8, round][..], b"down"].concat()]
                    );
                }
            }
        }
        // So many buffers that a region could not hold more than one pair.
        assert!(Rings::create(14, 1 << 16, 2).is_ok_and(|(rings, _)| rings.len() == 1));
    }

    #[test]
    fn rings_come_in_order_and_in_both_directions() {
        let of_two = || {
            let (mut server, _) = Handshake::server(Terms { pairs: 2, ..TERMS });
            server.receive(Message::Init(init()), None).expect("the right one");
            server
        };
        let add = |server: &mut Handshake, from_client, index| {
            server.receive(Message::AddRing(AddRing { index, ..ring(from_client) }), eventfd())
        };
        assert!(matches!(breach(add(&mut of_two(), true, 1)), Breach::Ring), "the second before the first");
        let mut three = of_two();
        (0..2).for_each(|index| drop(add(&mut three, true, index).expect("in order")));
        assert!(matches!(breach(add(&mut three, true, 2)), Breach::Ring), "more than HELLO told");
        let mut uneven = of_two();
        for (from_client, index) in [(true, 0), (false, 0), (true, 1)] {
            add(&mut uneven, from_client, index).expect("in order");
        }
        assert!(matches!(breach(uneven.receive(Message::Connect(String::new()), None)), Breach::Unexpected(_)));
    }

    #[test]
    fn a_client_of_others_is_refused() {
        let refuse = |change: fn(&mut Init)| {
            let (mut server, _) = Handshake::server(TERMS);
            let mut init = init();
            change(&mut init);
            breach(server.receive(Message::Init(init), None))
        };
        assert!(matches!(refuse(|i| i.version = 0x0100), Breach::Version(v) if v == "1.0"));
        assert!(matches!(refuse(|i| i.ethernet = false), Breach::Mode));
        assert!(matches!(refuse(|i| i.id = 8), Breach::Id(8)));
        assert!(matches!(refuse(|i| i.secret[23] = 0), Breach::Secret));
    }

    #[test]
    fn a_server_of_another_version_is_left() {
        let (_, hello) = Handshake::server(TERMS);
        let Message::Hello(mut hello) = hello else { panic!("it greets") };
        hello.version_max = 0x01ff;
        hello.version_min = 0x0100;
        let left = breach(Handshake::client(TERMS).receive(Message::Hello(hello), None));
        assert!(matches!(left, Breach::Version(v) if v == "1.0 to 1.255"));
    }

    #[test]
    fn memory_and_rings_come_in_order_or_not_at_all() {
        let (_memory, fd) = SharedMemory::create(4096).expect("memory");
        let copy = || Some(fd.try_clone().expect("a copy"));
        let region = |index, bytes| Message::AddRegion { index, bytes };
        assert!(matches!(breach(building().receive(region(0, 4096), None)), Breach::Unexpected(_)));
        assert!(matches!(breach(building().receive(region(1, 4096), copy())), Breach::Region(1)));
        assert!(matches!(breach(building().receive(region(0, 4097), copy())), Breach::Map(_)));
        assert!(matches!(breach(building().receive(region(0, u64::MAX), copy())), Breach::Region(0)));
        let mut many = building();
        for index in 0..REGIONS_MAX as u16 {
            many.receive(region(index, 4096), copy()).expect("room");
        }
        assert!(matches!(breach(many.receive(region(REGIONS_MAX as u16, 4096), copy())), Breach::Region(64)));

        assert!(matches!(breach(building().receive(Message::AddRing(ring(true)), None)), Breach::Unexpected(_)));
        assert!(matches!(breach(building().receive(Message::AddRing(ring(true)), copy())), Breach::Interrupt));
        let second = AddRing { index: 1, ..ring(true) };
        assert!(matches!(breach(building().receive(Message::AddRing(second), eventfd())), Breach::Ring));
        let mut twice = building();
        twice.receive(Message::AddRing(ring(true)), eventfd()).expect("the first");
        assert!(matches!(breach(twice.receive(Message::AddRing(ring(true)), eventfd())), Breach::Ring));
        assert!(matches!(breach(twice.receive(Message::Connect(String::new()), None)), Breach::Unexpected(_)));
        // A ring's place without its cookie.
        let mut none = building();
        none.receive(region(0, 4096), copy()).expect("good");
        for from_client in [true, false] {
            none.receive(Message::AddRing(ring(from_client)), eventfd()).expect("looked at later");
        }
        assert!(matches!(breach(none.receive(Message::Connect(String::new()), None)), Breach::Ring));
    }

    #[test]
    fn messages_out_of_place_end_it() {
        let (_, hello) = Handshake::server(TERMS);
        for message in [Message::Ack, Message::Connected("x".into()), Message::Init(init())] {
            assert!(matches!(breach(Handshake::client(TERMS).receive(message, None)), Breach::Unexpected(_)));
        }
        for message in [Message::Ack, hello.clone(), Message::Connect("x".into()), Message::AddRing(ring(true))] {
            let (mut server, _) = Handshake::server(TERMS);
            assert!(matches!(breach(server.receive(message, None)), Breach::Unexpected(_)));
        }
        // CONNECTED before the client has sent everything, and one ACK too many.
        let mut client = Handshake::client(TERMS);
        client.receive(hello, None).expect("greeted");
        assert!(matches!(breach(client.receive(Message::Connected("x".into()), None)), Breach::Unexpected(_)));
        for _ in 0..4 {
            client.receive(Message::Ack, None).expect("goes on");
        }
        assert!(matches!(breach(client.receive(Message::Ack, None)), Breach::Unexpected(_)));
        let told = client.receive(Message::Disconnect { code: 1, reason: "enough".into() }, None);
        assert!(matches!(told, Err(Ended::Told(reason)) if reason == "enough"));
    }
}
