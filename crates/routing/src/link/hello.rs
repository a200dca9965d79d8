//! Hellos: a neighbour that does not answer is found dead in milliseconds [RFC 5880, asynchronous mode].
//!
//! Each side sends hellos on each face to a neighbour. A hello has its sender's state and number for the link
//! (discriminator), and the receiver's number as its sender last heard it. So each side knows that the other hears it.
//! Both use the longer of their intervals, less up to a quarter.
//!
//! Differs from BFD:
//!
//! - A hello is Data in the parameters of an Interest, signed like a sync Interest, instead of a packet with a shared
//!   secret. Its name is one that ndn-dv's trust schema permits to the router's key.
//! - A hello has its sender's start and a number that grows, so that no hello can be repeated by others.
//! - On a link that many share, each router has a session with each other one, and all hear all hellos. So a hello names its
//!   receiver there. Otherwise, one that says "I do not hear you" to one router would take the links to all others down.
//! - A neighbour that has never said hello counts as working ([`HelloState::Silent`]): it may be ndnd, which does not
//!   know hellos. Its sync Interests show that it lives.
//! - On a busy machine, hellos come late now and then. So there are two times. After the detection time, the link is
//!   doubted: this router alone prefers its other nexthops. After [`DOWN_FACTOR`] times as long, the link is down, the
//!   other side is told so, and the routes change. And the times adapt: a silence counts only if it is longer than the
//!   longest one of late that ended, and one interval more ([`Gaps`]).
//! - A neighbour that was heard a moment ago is sent hellos in the short interval, although the session is down: one lost
//!   packet shall not make a link wait for a second.

use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Name, NameRef};

use crate::config::Hello as Settings;
use crate::note::DownReason;
use crate::status::HelloState;

const STATE: u64 = 501;
const MY_DISCRIMINATOR: u64 = 503;
const YOUR_DISCRIMINATOR: u64 = 505;
const INTERVAL: u64 = 507;
const MULTIPLIER: u64 = 509;
const BOOT: u64 = 511;
const NUMBER: u64 = 513;
const URI: u64 = 515;
/// Even, so that those who do not know it skip it.
const RECEIVER: u64 = 516;

/// Most URIs that are read from a hello.
const URIS_MAX: usize = 4;
/// Longest URI that is read, in bytes.
const URI_BYTES_MAX: usize = 128;
/// Longest interval that a neighbour may demand.
const INTERVAL_MAX_MS: u64 = 60_000;
/// A silence is remembered for this time to twice this time.
const GAP_MEMORY_MS: u64 = 15_000;
/// Silences that end make the time for detection at most so many times longer.
const DETECTION_FACTOR_MAX: u64 = 2;
/// A link is down after this many times the detection time: 5/3, so after five hellos where three are waited for.
const DOWN_FACTOR: (u64, u64) = (5, 3);

/// The content of a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// State of the sender's side. Never [`HelloState::Silent`].
    pub state: HelloState,
    /// The sender's number for this link.
    pub my_discriminator: u64,
    /// The receiver's number, as the sender last heard it; 0: it has heard none.
    pub your_discriminator: u64,
    /// Interval at which the sender wants to send and receive.
    pub interval_ms: u64,
    /// The receiver may conclude that the link is down if so many hellos are missing.
    pub multiplier: u8,
    /// When the sender started, in seconds since the Unix epoch.
    pub boot: u64,
    /// Grows with each hello of that start.
    pub number: u64,
    /// The router that it is for, on a link that many share. There, all hear it, and one without the receiver's number
    /// could be for any of them.
    pub receiver: Option<Name>,
    /// URIs of the sender.
    pub uris: Vec<String>,
}

impl Hello {
    /// Encodes the content of a hello.
    pub fn encode(&self) -> Vec<u8> {
        let state = match self.state {
            HelloState::Silent | HelloState::Down => 1,
            HelloState::Init => 2,
            HelloState::Up => 3,
        };
        let mut out = Vec::new();
        tlv::push_nni(&mut out, STATE, state);
        tlv::push_nni(&mut out, MY_DISCRIMINATOR, self.my_discriminator);
        tlv::push_nni(&mut out, YOUR_DISCRIMINATOR, self.your_discriminator);
        tlv::push_nni(&mut out, INTERVAL, self.interval_ms);
        tlv::push_nni(&mut out, MULTIPLIER, u64::from(self.multiplier));
        tlv::push_nni(&mut out, BOOT, self.boot);
        tlv::push_nni(&mut out, NUMBER, self.number);
        self.receiver.iter().for_each(|receiver| tlv::push_tlv(&mut out, RECEIVER, receiver.value()));
        self.uris.iter().take(URIS_MAX).for_each(|uri| tlv::push_tlv(&mut out, URI, uri.as_bytes()));
        out
    }

    /// Decodes the content of a hello.
    ///
    /// # Errors
    /// A [`DecodeError`].
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut numbers = [None; 7];
        let (mut receiver, mut uris) = (None, Vec::new());
        let mut reader = Reader::new(content);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                STATE..=NUMBER if tlv.typ % 2 == 1 => {
                    numbers[((tlv.typ - STATE) / 2) as usize] = Some(tlv::decode_nni(tlv.typ, tlv.value)?);
                }
                RECEIVER => receiver = Some(NameRef::new(tlv.value)?.to_name()),
                URI if tlv.value.len() > URI_BYTES_MAX => return Err(DecodeError::BadValue(URI)),
                URI if uris.len() < URIS_MAX => {
                    let uri = std::str::from_utf8(tlv.value).map_err(|_| DecodeError::BadValue(URI))?;
                    uris.push(uri.to_owned());
                }
                typ if tlv::is_critical(typ) && typ != URI => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        let number = |typ: u64| numbers[((typ - STATE) / 2) as usize].ok_or(DecodeError::Missing(typ));
        let state = match number(STATE)? {
            1 => HelloState::Down,
            2 => HelloState::Init,
            3 => HelloState::Up,
            _ => return Err(DecodeError::BadValue(STATE)),
        };
        let multiplier = u8::try_from(number(MULTIPLIER)?).ok().filter(|n| *n > 0);
        Ok(Hello {
            state,
            my_discriminator: Some(number(MY_DISCRIMINATOR)?)
                .filter(|n| *n > 0)
                .ok_or(DecodeError::BadValue(MY_DISCRIMINATOR))?,
            your_discriminator: number(YOUR_DISCRIMINATOR)?,
            interval_ms: Some(number(INTERVAL)?)
                .filter(|ms| (1..=INTERVAL_MAX_MS).contains(ms))
                .ok_or(DecodeError::BadValue(INTERVAL))?,
            multiplier: multiplier.ok_or(DecodeError::BadValue(MULTIPLIER))?,
            boot: number(BOOT)?,
            number: number(NUMBER)?,
            receiver,
            uris,
        })
    }
}

/// The neighbour's side, as its hellos told it.
#[derive(Debug, Clone, Copy)]
struct Remote {
    discriminator: u64,
    interval_ms: u64,
    multiplier: u8,
    /// Its start and the number of its last hello.
    last: (u64, u64),
    heard_ms: u64,
}

/// The longest silences between two hellos, of late.
#[derive(Debug, Clone, Copy, Default)]
struct Gaps {
    /// Of this period and of the one before.
    longest_ms: [u64; 2],
    since_ms: u64,
}

impl Gaps {
    /// A silence has ended.
    fn add(&mut self, gap_ms: u64, now_ms: u64) {
        let age_ms = now_ms.saturating_sub(self.since_ms);
        if age_ms >= GAP_MEMORY_MS {
            let before_ms = if age_ms < 2 * GAP_MEMORY_MS { self.longest_ms[0] } else { 0 };
            *self = Gaps { longest_ms: [0, before_ms], since_ms: now_ms };
        }
        self.longest_ms[0] = self.longest_ms[0].max(gap_ms);
    }

    fn longest_ms(&self) -> u64 {
        self.longest_ms[0].max(self.longest_ms[1])
    }
}

/// The hellos of one link.
#[derive(Debug)]
pub(crate) struct Session {
    state: HelloState,
    discriminator: u64,
    remote: Option<Remote>,
    send_ms: u64,
    down_reason: DownReason,
    gaps: Gaps,
}

impl Session {
    /// A session that sends its first hello at once. The discriminator is not 0, and hard to guess.
    pub(crate) fn new(discriminator: u64, now_ms: u64) -> Self {
        Session {
            state: HelloState::Silent,
            discriminator: discriminator.max(1),
            remote: None,
            send_ms: now_ms,
            down_reason: DownReason::Hello,
            gaps: Gaps::default(),
        }
    }

    /// A session with a neighbour that has spoken hellos: until it does so here, the link does not work. `last` are the
    /// start and number of its last hello.
    pub(crate) fn with_speaker(discriminator: u64, last: (u64, u64), now_ms: u64) -> Self {
        let remote = Remote { discriminator: 0, interval_ms: 1, multiplier: 1, last, heard_ms: now_ms };
        Session { state: HelloState::Down, remote: Some(remote), ..Session::new(discriminator, now_ms) }
    }

    pub(crate) fn state(&self) -> HelloState {
        self.state
    }

    pub(crate) fn down_reason(&self) -> DownReason {
        self.down_reason
    }

    pub(crate) fn heard_at_ms(&self) -> Option<u64> {
        self.remote.map(|remote| remote.heard_ms)
    }

    /// Whether a hello can be for this link, and new. Looked at before its signature is checked.
    pub(crate) fn may_take(&self, hello: &Hello) -> bool {
        let is_mine = match hello.your_discriminator {
            0 => hello.state == HelloState::Down,
            yours => yours == self.discriminator,
        };
        is_mine && self.remote.is_none_or(|remote| (hello.boot, hello.number) > remote.last)
    }

    /// Takes a hello whose signature is right. Returns whether it was new.
    pub(crate) fn receive(&mut self, hello: &Hello, settings: &Settings, now_ms: u64) -> bool {
        if !self.may_take(hello) {
            return false;
        }
        let is_new_start = self.remote.is_some_and(|remote| hello.boot > remote.last.0);
        if let Some(remote) = self.remote.filter(|_| !is_new_start) {
            let gap_ms = now_ms.saturating_sub(remote.heard_ms);
            let was_up = match self.state {
                HelloState::Up => true,
                // They were only late.
                HelloState::Down => self.down_reason == DownReason::Hello && self.was_heard_just_now(settings, now_ms),
                HelloState::Silent | HelloState::Init => false,
            };
            if was_up {
                self.gaps.add(gap_ms, now_ms);
            }
        }
        self.remote = Some(Remote {
            discriminator: hello.my_discriminator,
            interval_ms: hello.interval_ms,
            multiplier: hello.multiplier,
            last: (hello.boot, hello.number),
            heard_ms: now_ms,
        });
        let before = self.state;
        self.state = match (self.state, hello.state) {
            // Until it hears this router, all that is known is that it says hello.
            (HelloState::Silent, HelloState::Down) => HelloState::Silent,
            (HelloState::Silent, _) => HelloState::Up,
            (HelloState::Down, HelloState::Down) => HelloState::Init,
            (HelloState::Down, HelloState::Init) => HelloState::Up,
            (HelloState::Init, HelloState::Init | HelloState::Up) => HelloState::Up,
            // It has restarted, and its forwarder may still forward.
            (HelloState::Up, HelloState::Down) if is_new_start => HelloState::Silent,
            (HelloState::Up, HelloState::Down) => {
                self.down_reason = DownReason::Told;
                HelloState::Down
            }
            (state, _) => state,
        };
        // The neighbour waits for this.
        if self.state != before || hello.state != HelloState::Up {
            self.send_ms = self.send_ms.min(now_ms);
        }
        true
    }

    /// The interval of both sides.
    fn interval_ms(remote: &Remote, settings: &Settings) -> u64 {
        remote.interval_ms.max(settings.interval.as_millis() as u64)
    }

    /// Milliseconds without a hello after which the link is doubted, on a machine that is not busy.
    fn base_ms(remote: &Remote, settings: &Settings) -> u64 {
        Session::interval_ms(remote, settings).saturating_mul(u64::from(remote.multiplier))
    }

    /// Milliseconds without a hello after which the link is doubted.
    fn detection_ms(&self, remote: &Remote, settings: &Settings) -> u64 {
        let base_ms = Session::base_ms(remote, settings);
        let adapted_ms = self.gaps.longest_ms().saturating_add(Session::interval_ms(remote, settings));
        adapted_ms.clamp(base_ms, base_ms.saturating_mul(DETECTION_FACTOR_MAX))
    }

    /// Milliseconds without a hello after which the link is down.
    fn down_ms(&self, remote: &Remote, settings: &Settings) -> u64 {
        self.detection_ms(remote, settings).saturating_mul(DOWN_FACTOR.0) / DOWN_FACTOR.1
    }

    /// When the link is doubted, if no hello comes before.
    fn late_at_ms(&self, settings: &Settings) -> Option<u64> {
        let remote = self.remote.filter(|_| self.state == HelloState::Up)?;
        Some(remote.heard_ms.saturating_add(self.detection_ms(&remote, settings)))
    }

    /// Whether the link is doubted.
    pub(crate) fn is_late(&self, settings: &Settings, now_ms: u64) -> bool {
        self.late_at_ms(settings).is_some_and(|at| now_ms >= at)
    }

    /// Whether a neighbour that is down was heard so recently that it may only have been late.
    fn was_heard_just_now(&self, settings: &Settings, now_ms: u64) -> bool {
        let within_ms = |remote: &Remote| 2 * self.down_ms(remote, settings);
        self.remote.is_some_and(|remote| now_ms < remote.heard_ms.saturating_add(within_ms(&remote)))
    }

    fn expires_ms(&self, settings: &Settings) -> Option<u64> {
        let remote = self.remote?;
        matches!(self.state, HelloState::Init | HelloState::Up)
            .then(|| remote.heard_ms.saturating_add(self.down_ms(&remote, settings)))
    }

    /// Lets time pass. Returns whether the state has changed.
    pub(crate) fn expire(&mut self, settings: &Settings, now_ms: u64) -> bool {
        let is_over = self.expires_ms(settings).is_some_and(|at| now_ms >= at);
        if is_over {
            self.down(DownReason::Hello, now_ms);
        }
        is_over
    }

    /// The face is down: the neighbour must be heard anew.
    pub(crate) fn down(&mut self, why: DownReason, now_ms: u64) {
        if self.state != HelloState::Silent {
            self.state = HelloState::Down;
            self.down_reason = why;
            self.send_ms = self.send_ms.min(now_ms);
        }
        if let Some(remote) = &mut self.remote {
            remote.discriminator = 0;
        }
    }

    /// This router stops: the neighbour is told so.
    pub(crate) fn stop(&mut self, now_ms: u64) {
        self.state = HelloState::Down;
        self.send_ms = now_ms;
    }

    /// The neighbour has restarted: it may not speak hellos any more.
    pub(crate) fn begin_anew(&mut self, now_ms: u64) {
        if matches!(self.state, HelloState::Down | HelloState::Init) {
            self.state = HelloState::Silent;
            self.send_ms = self.send_ms.min(now_ms);
        }
    }

    /// When a hello is due, or the link is doubted, or down.
    pub(crate) fn due_ms(&self, settings: &Settings, now_ms: u64) -> u64 {
        let late = self.late_at_ms(settings).filter(|at| *at > now_ms);
        self.send_ms.min(late.or(self.expires_ms(settings)).unwrap_or(u64::MAX))
    }

    /// The hello to send now, if one is due. `boot` and `number` are those of this router. `jitter` is from 0 to 1.
    pub(crate) fn send(
        &mut self,
        settings: &Settings,
        (boot, number): (u64, u64),
        jitter: f64,
        now_ms: u64,
    ) -> Option<Hello> {
        if now_ms < self.send_ms {
            return None;
        }
        let fast_ms = settings.interval.as_millis() as u64;
        let interval_ms = match (self.state, self.remote) {
            (HelloState::Up, Some(remote)) => fast_ms.max(remote.interval_ms),
            (HelloState::Down | HelloState::Init, Some(remote)) if self.was_heard_just_now(settings, now_ms) => {
                fast_ms.max(remote.interval_ms)
            }
            _ => settings.slow_interval.as_millis().max(1) as u64,
        };
        self.send_ms = now_ms + interval_ms - (interval_ms as f64 / 4.0 * jitter) as u64;
        let your_discriminator = self.remote.map_or(0, |remote| remote.discriminator);
        Some(Hello {
            // A silent session that hears the other tells so.
            state: match self.state {
                HelloState::Silent if your_discriminator != 0 => HelloState::Init,
                HelloState::Silent => HelloState::Down,
                state => state,
            },
            my_discriminator: self.discriminator,
            your_discriminator,
            interval_ms: fast_ms,
            multiplier: settings.multiplier,
            boot,
            number,
            receiver: None,
            uris: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
