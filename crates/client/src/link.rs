//! A blocking connection to a router, for programs that handle each packet by themselves.
//!
//! It has one socket and one thread. [`Link::receive`] hands each arriving packet to a closure, together with the
//! [`Outbox`]. All packets that the closure queues leave in one write. [`Link::exchange`] sends one Interest and waits
//! for its answer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byname_trust::SignerError;
use byname_wire::data::Data;
use byname_wire::interest::{Interest, with_nonce};
use byname_wire::name::component_type;
use byname_wire::tlv::{self, Reader, types};
use byname_wire::{Component, DecodeError, NackReason, Name, NameRef};
use thiserror::Error;

use crate::outbox::{Fields, Outbox, PacketTooLarge};
use crate::reassembly::{Incoming, Reassembly};
use crate::socket::{ConnectError, Socket};
use crate::transport::{Peer, Transport};
use crate::verify::Doubt;

/// Longest sleep in a read. It bounds the delay when a signal comes just before the read.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// A connection to a forwarder.
///
/// ```no_run
/// use byname_client::transport::Environment;
/// use byname_client::{Link, interest};
///
/// let mut link = Link::connect(&Environment::of_process().candidates(None)?)?;
/// let data = link.exchange(&interest(&"/example/hello".parse()?).encode(), 3)?;
/// println!("{}", data.data().name);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Link {
    socket: Socket,
    transport: Transport,
    outbox: Outbox,
    reassembly: Reassembly,
    interrupted: Arc<AtomicBool>,
}

/// The connection to the forwarder failed while it was in use.
#[derive(Debug, Error)]
pub struct ConnectionLost {
    transport: Transport,
    /// Not the `source` of this error: callers treat a broken pipe among the sources as one of standard output.
    cause: io::Error,
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
        let ConnectionLost { transport, cause } = self;
        match cause.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
                write!(f, "the forwarder on {transport} closed the connection: it ended, or closed this face")?;
            }
            ConnectionRefused => write!(f, "no forwarder listens on {transport} any more")?,
            _ => write!(f, "the connection to the forwarder on {transport} failed: {cause}")?,
        }
        f.write_str("; check it with `byname status`, then run this command again")
    }
}

impl From<ConnectionLost> for io::Error {
    fn from(lost: ConnectionLost) -> io::Error {
        io::Error::other(lost)
    }
}

/// The reason why an Interest brought no Data.
#[derive(Debug, Error)]
pub enum ExchangeError {
    /// No answer came.
    #[error("no answer to {name} within {} ms{}", waited.as_millis(), Tries(*tries))]
    Timeout {
        /// The Interest's name.
        name: Name,
        /// Total time waited.
        waited: Duration,
        /// Number of Interests sent.
        tries: u32,
    },
    /// The network refused with a Nack.
    #[error("{name} was refused: {}", nack_words(*reason))]
    Nack {
        /// The Interest's name.
        name: Name,
        /// The reason in the Nack.
        reason: NackReason,
    },
    /// The flag of [`Link::interrupt_flag`] was set.
    #[error("interrupted")]
    Interrupted,
    /// The connection failed.
    #[error(transparent)]
    Lost(#[from] ConnectionLost),
    /// There was no connection to a router for too long.
    #[error("no connection to a router for {} s while {name} waited", waited.as_secs())]
    Offline {
        /// The Interest's name.
        name: Name,
        /// Time since the Interest was first sent.
        waited: Duration,
    },
    /// The answer is not trusted.
    #[error("{name} is not trusted: {doubt}")]
    Untrusted {
        /// Name of the answer.
        name: Name,
        /// The reason.
        doubt: Doubt,
    },
    /// The Interest is malformed, and was not sent.
    #[error("cannot ask for {name}: the Interest is malformed: {error}")]
    BadInterest {
        /// The Interest's name, as far as it can be read.
        name: Name,
        /// The defect.
        error: DecodeError,
    },
    /// The Interest is too large, and was not sent.
    #[error("cannot ask for {name}: {error}")]
    TooLarge {
        /// The Interest's name.
        name: Name,
        /// Its size.
        error: PacketTooLarge,
    },
    /// The key cannot sign the Interest, and it was not sent.
    #[error("cannot ask for {name}: {error}")]
    Unsigned {
        /// The Interest's name.
        name: Name,
        /// The reason.
        error: SignerError,
    },
    /// The answer is malformed.
    #[error("the answer to {name} is malformed: {error}")]
    Malformed {
        /// Name of the answer.
        name: Name,
        /// The defect.
        error: DecodeError,
    },
}

impl ExchangeError {
    /// The reason why this Interest cannot be sent.
    pub(crate) fn unsendable(interest: &[u8], error: DecodeError) -> Self {
        let name = name_in(interest).unwrap_or_default();
        match PacketTooLarge::check(interest) {
            Err(error) => ExchangeError::TooLarge { name, error },
            Ok(()) => ExchangeError::BadInterest { name, error },
        }
    }

    /// The key cannot sign this Interest.
    pub(crate) fn unsigned(interest: &[u8], error: SignerError) -> Self {
        ExchangeError::Unsigned { name: name_in(interest).unwrap_or_default(), error }
    }
}

/// The name in an Interest of which the rest may be malformed.
fn name_in(interest: &[u8]) -> Option<Name> {
    let mut elements = Reader::new(tlv::decode_only(interest, types::INTEREST).ok()?);
    let name = elements.next_tlv().ok()??;
    NameRef::new(name.value).ok().filter(|_| name.typ == types::NAME).map(|name| name.to_name())
}

struct Tries(u32);

impl fmt::Display for Tries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, " ({} tries)", self.0) } else { Ok(()) }
    }
}

/// Describes the reason of a Nack.
pub fn nack_words(reason: NackReason) -> &'static str {
    match reason {
        NackReason::NoRoute => "no route (see `byname route list`)",
        NackReason::Congestion => "congestion",
        NackReason::Duplicate => "duplicate nonce",
        NackReason::None => "no reason given",
    }
}

/// A Data packet that the client owns.
#[derive(Debug, Clone)]
pub struct DataPacket(Vec<u8>);

impl DataPacket {
    pub(crate) fn copy(of: &Data<'_>) -> Self {
        DataPacket(of.wire.to_vec())
    }

    /// The packet's fields.
    pub fn data(&self) -> Data<'_> {
        Data::decode(&self.0).expect("was decoded before it was stored")
    }
}

impl Link {
    /// Connects to the first of `candidates` that answers.
    pub fn connect(candidates: &[Transport]) -> Result<Link, ConnectError> {
        let (socket, transport) = Socket::connect_first(candidates)?;
        let outbox = Outbox::new(socket.mtu(), rand::random());
        let interrupted = Arc::new(AtomicBool::new(false));
        Ok(Link { socket, transport, outbox, reassembly: Reassembly::default(), interrupted })
    }

    /// A flag that ends all waiting. A signal handler, or another thread, may set it.
    pub fn interrupt_flag(&self) -> Arc<AtomicBool> {
        self.interrupted.clone()
    }

    /// Uses this flag instead of its own.
    pub(crate) fn with_interrupt_flag(self, flag: Arc<AtomicBool>) -> Self {
        Link { interrupted: flag, ..self }
    }

    /// Whether the flag of [`Link::interrupt_flag`] is set.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The other end.
    pub fn peer(&self) -> Peer {
        self.socket.peer()
    }

    /// Whether `/localhost` names may be used on this connection.
    pub fn is_local(&self) -> bool {
        self.socket.is_local()
    }

    /// The transport in use.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The queue of packets that leave at the next [`Link::flush`] or [`Link::receive`].
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Sends the queued packets.
    pub fn flush(&mut self) -> Result<(), ConnectionLost> {
        let sent = self.socket.send(&mut self.outbox);
        self.lost(sent)
    }

    /// Sends the queued packets, waits at most `wait` for packets, hands each one to `handle`, and sends the packets
    /// that `handle` queued. Returns early on signals.
    pub fn receive(
        &mut self,
        wait: Duration,
        mut handle: impl FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<(), ConnectionLost> {
        self.flush()?;
        let Link { socket, outbox, reassembly, .. } = self;
        let received =
            socket.receive(wait.min(WAIT_MAX), |frame| reassembly.accept(frame, |packet| handle(packet, outbox)));
        self.lost(received)?;
        self.flush()
    }

    fn lost(&self, result: io::Result<()>) -> Result<(), ConnectionLost> {
        result.map_err(|cause| ConnectionLost { transport: self.transport.clone(), cause })
    }

    /// Sends one Interest and waits for the answer. Each of `tries` has a new nonce and waits for the Interest's
    /// lifetime.
    pub fn exchange(&mut self, interest_wire: &[u8], tries: u32) -> Result<DataPacket, ExchangeError> {
        let interest =
            Interest::decode(interest_wire).map_err(|error| ExchangeError::unsendable(interest_wire, error))?;
        let lifetime = Duration::from_millis(interest.lifetime_or_default_ms());
        let start = Instant::now();
        for attempt in 0..tries.max(1) {
            if attempt == 0 {
                self.outbox.push(interest_wire, Fields::default());
            } else {
                self.outbox.push(&with_nonce(&interest, rand::random()), Fields::default());
            }
            if let Some(data) = self.await_answer(&interest, Instant::now() + lifetime)? {
                return Ok(data);
            }
        }
        Err(ExchangeError::Timeout { name: interest.name.to_name(), waited: start.elapsed(), tries })
    }

    /// Answers Interests with `answer` until it is interrupted, or until `answer` returns false.
    pub fn serve(
        &mut self,
        mut answer: impl FnMut(&Interest<'_>, &Incoming<'_>, &mut Outbox) -> bool,
    ) -> Result<(), ConnectionLost> {
        let mut go_on = true;
        while go_on && !self.interrupted() {
            self.receive(WAIT_MAX, |incoming, outbox| {
                if incoming.nack.is_none()
                    && let Ok(interest) = Interest::decode(incoming.packet)
                {
                    go_on &= answer(&interest, &incoming, outbox);
                }
            })?;
        }
        Ok(())
    }

    fn await_answer(
        &mut self,
        interest: &Interest<'_>,
        deadline: Instant,
    ) -> Result<Option<DataPacket>, ExchangeError> {
        let mut answer = None;
        loop {
            if self.interrupted() {
                return Err(ExchangeError::Interrupted);
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(None);
            }
            self.receive(wait, |incoming, _| {
                if answer.is_some() {
                } else if let Some(reason) = incoming.nack {
                    if Interest::decode(incoming.packet).is_ok_and(|nacked| nacked.name == interest.name) {
                        answer = Some(Err(reason));
                    }
                } else if let Ok(data) = Data::decode(incoming.packet)
                    && satisfies(interest, &data)
                {
                    answer = Some(Ok(DataPacket::copy(&data)));
                }
            })?;
            match answer.take() {
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(reason)) => return Err(ExchangeError::Nack { name: interest.name.to_name(), reason }),
                None => {}
            }
        }
    }
}

/// Whether `data` may answer `interest`. Ignores freshness, which only forwarders can judge.
pub fn satisfies(interest: &Interest<'_>, data: &Data<'_>) -> bool {
    if interest.name == data.name || (interest.can_be_prefix && interest.name.is_prefix_of(&data.name)) {
        return true;
    }
    let digest = interest.name.component(-1);
    let full_name = |component: Component<'_>| {
        component.typ == component_type::IMPLICIT_SHA256_DIGEST
            && interest.name.prefix(interest.name.len() - 1) == data.name
            && component.value == data.implicit_digest()
    };
    digest.is_some_and(full_name)
}
