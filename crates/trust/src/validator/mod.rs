//! Follows chains of certificates, from a signature to a trust anchor.
//!
//! [`Validator::begin`] gets the signature of a packet. If the chain is in the cache, the answer is there at once.
//! Otherwise the validator asks for certificates ([`Validator::poll`]), gets them ([`Validator::on_data`]), and tells the
//! outcome ([`Validator::take_done`]). It has no sockets and no clock.
//!
//! Each link of a chain is checked as soon as its certificate is there, before the next one is fetched: it is valid now,
//! its key's type is accepted, it is not revoked, the rule permits it, and its key made the signature. A certificate that
//! the rule cannot permit is not fetched at all. Only certificates of whole chains enter the cache.
//!
//! A [`Domain`] is a set of anchors with one rule. A packet is checked for several domains at once; see [`DomainSet`].
//!
//! # Bounds
//! An attacker chooses what is signed by whom, and may answer the Interests. [`Limits`] bounds the length of a chain, the
//! packets that wait, and the cache. One origin (a face) may have an eighth of the packets that wait. Fetches are bounded
//! by the packets that wait for them. What could not be fetched is not fetched again for a while. A wrong certificate is
//! ignored, so that the right one can still arrive, until the time is over: somebody else may have sent it.

mod cache;
mod fetch;
mod link;
mod request;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byname_wire::signature::SignatureType;
use byname_wire::{Data, Name, NameRef};
use thiserror::Error;

pub use self::fetch::Wanted;
pub use self::link::Signed;

use self::cache::Cache;
use self::fetch::Fetches;
use self::request::{Request, Step};
use super::{Certificate, KeyType, Revocations, Rights, Rule};
use crate::Moment;

/// One origin may have this part of the packets that wait: an eighth.
const ORIGIN_PART: usize = 8;

/// Trust anchors, and the rule for what they and the keys below them may sign.
#[derive(Debug, Clone)]
pub struct Domain {
    /// The anchors. They need no signature.
    pub anchors: Vec<Certificate>,
    /// The rule for each link.
    pub rule: Rule,
}

/// Some of a validator's domains, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DomainSet(u32);

impl DomainSet {
    /// Most domains.
    pub const MAX: usize = 32;

    /// The domain at this place.
    ///
    /// # Panics
    /// If the place is not below [`DomainSet::MAX`].
    pub fn one(place: usize) -> Self {
        assert!(place < DomainSet::MAX, "a validator has few domains");
        DomainSet(1 << place)
    }

    /// Whether it has the domain at this place.
    pub fn contains(self, place: usize) -> bool {
        place < DomainSet::MAX && self.0 & 1 << place != 0
    }

    /// Whether it has no domain.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The domains of both.
    pub fn union(self, other: Self) -> Self {
        DomainSet(self.0 | other.0)
    }

    fn intersection(self, other: Self) -> Self {
        DomainSet(self.0 & other.0)
    }

    fn places(self) -> impl Iterator<Item = usize> {
        (0..DomainSet::MAX).filter(move |place| self.contains(*place))
    }

    fn retain(self, keeps: impl Fn(usize) -> bool) -> Self {
        self.places()
            .filter(|place| keeps(*place))
            .fold(DomainSet::default(), |set, place| set.union(DomainSet::one(place)))
    }
}

/// Limits of a validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most certificates of a chain, the anchor not counted.
    pub depth_max: usize,
    /// Most packets that wait for certificates.
    pub waiting_max: usize,
    /// Most certificates in the cache.
    pub certificates_max: usize,
    /// How long to wait for one certificate.
    pub fetch_timeout: Duration,
    /// How long a certificate that could not be fetched is not fetched again.
    pub failed_for: Duration,
    /// Accepted types of keys.
    pub key_types: Vec<KeyType>,
    /// Whether Interests for the certificates of a packet have the packet's name as their forwarding hint, as ndn-dv
    /// demands.
    pub packet_name_as_hint: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            depth_max: 5,
            waiting_max: 256,
            certificates_max: 1024,
            fetch_timeout: Duration::from_secs(3),
            failed_for: Duration::from_secs(10),
            key_types: KeyType::ALL.to_vec(),
            packet_name_as_hint: false,
        }
    }
}

/// Why a packet is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum Rejection {
    #[error("the signature names no key")]
    NoLocator,
    #[error("signatures of type {0} need no key, and prove nothing")]
    Keyless(u64),
    #[error("the trust rules do not let {locator} sign {packet}")]
    NotPermitted { packet: Name, locator: Name },
    #[error("{0} is not valid at this time; compare the clocks")]
    NotValidNow(Name),
    #[error("keys of the type of {0} are not accepted; see `key_types` of [trust]")]
    KeyType(Name),
    #[error("{0} is revoked")]
    Revoked(Name),
    #[error("the signature is not by the key of {0}")]
    BadSignature(Name),
    #[error("{0} signs itself, and is no trust anchor of this router")]
    UnknownAnchor(Name),
    #[error("the certificates sign each other in a circle, at {0}")]
    Loop(Name),
    #[error("the chain has more than {max} certificates")]
    TooLong { max: usize },
    #[error("the certificate {0} could not be fetched")]
    NotFetched(Name),
    #[error("what was fetched for {0} is not its certificate")]
    WrongCertificate(Name),
    #[error("too many packets wait for certificates")]
    Busy,
}

/// A packet that is trusted.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The certificate of the key that signed it.
    pub certificate: Arc<Certificate>,
    /// The domains in which it is trusted.
    pub domains: DomainSet,
    /// What its signer may announce, as the certificates of the chain restrict it.
    pub rights: Rights,
}

/// The outcome for one packet.
pub type Outcome = Result<Accepted, Rejection>;

/// A packet that waits for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// The result of [`Validator::begin`].
#[derive(Debug)]
pub enum Begun {
    /// The outcome is known.
    Done(Outcome),
    /// Certificates must be fetched first.
    Waiting(RequestId),
}

/// Where the certificates of a packet may be found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The face that the packet came from. Its sender may have the certificates.
    pub face: Option<u64>,
    /// Names of places to which the Interests for the certificates are led.
    pub forwarding_hint: Vec<Name>,
}

/// Numbers for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that are trusted.
    pub accepted: u64,
    /// Packets that are not.
    pub rejected: u64,
    /// Packets that had to wait for certificates.
    pub waited: u64,
    /// Interests for certificates.
    pub interests: u64,
    /// Data that was not a certificate that a packet waited for.
    pub unwanted: u64,
}

/// Decides whether packets are trusted.
pub struct Validator {
    domains: Vec<Domain>,
    revocations: Revocations,
    limits: Limits,
    /// Certificates that need not be fetched. They are checked like those that are.
    known: Vec<Arc<Certificate>>,
    cache: Cache,
    fetches: Fetches,
    requests: BTreeMap<RequestId, Request>,
    last_id: u64,
    done: Vec<(RequestId, Outcome)>,
    counters: Counters,
    /// Names of certificates whose packets are wrong.
    poisoned: Vec<Name>,
}

impl Validator {
    /// A validator with these domains.
    ///
    /// # Panics
    /// If there are more than [`DomainSet::MAX`].
    pub fn new(domains: Vec<Domain>, revocations: Revocations, limits: Limits) -> Self {
        assert!(domains.len() <= DomainSet::MAX, "the configuration has few domains");
        Validator {
            domains,
            revocations,
            known: Vec::new(),
            cache: Cache::new(limits.certificates_max),
            limits,
            fetches: Fetches::default(),
            requests: BTreeMap::new(),
            last_id: 0,
            done: Vec::new(),
            counters: Counters::default(),
            poisoned: Vec::new(),
        }
    }

    /// With certificates that need not be fetched. They are checked like those that are.
    pub fn with_certificates(self, certificates: impl IntoIterator<Item = Certificate>) -> Self {
        Validator { known: certificates.into_iter().map(Arc::new).collect(), ..self }
    }

    /// A validator that trusts nobody.
    pub fn without_anchors() -> Self {
        Validator::new(Vec::new(), Revocations::default(), Limits::default())
    }

    /// All domains.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Numbers since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether a certificate is on the list of revocations.
    pub fn revokes(&self, certificate: NameRef<'_>) -> bool {
        self.revocations.covers(certificate)
    }

    /// Whether the name of a packet should be the forwarding hint for its certificates.
    pub fn hints_packet_name(&self) -> bool {
        self.limits.packet_name_as_hint
    }

    /// Number of packets that wait.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Number of certificates in the cache.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Takes over the domains, revocations and limits of another validator. The cache is emptied, and packets that wait
    /// are checked by the new rules once their certificates arrive. Returns a validator with the earlier settings.
    pub fn replace_rules(&mut self, other: Validator) -> Validator {
        let domains = std::mem::replace(&mut self.domains, other.domains);
        let revocations = std::mem::replace(&mut self.revocations, other.revocations);
        let limits = std::mem::replace(&mut self.limits, other.limits);
        let known = std::mem::replace(&mut self.known, other.known);
        self.cache = Cache::new(self.limits.certificates_max);
        let ids: Vec<RequestId> = self.requests.keys().copied().collect();
        ids.into_iter().for_each(|id| self.finish(id, Err(Rejection::Busy)));
        Validator { known, ..Validator::new(domains, revocations, limits) }
    }

    /// Checks whether a packet is trusted in any of these domains.
    pub fn begin(&mut self, packet: &Signed<'_>, domains: DomainSet, origin: Origin, now: Moment) -> Begun {
        let request = match Request::new(packet, domains, origin) {
            Ok(request) => request,
            Err(rejection) => return Begun::Done(self.count(Err(rejection))),
        };
        match self.step(request, now) {
            Step::Done(outcome, _) => Begun::Done(self.count(outcome)),
            Step::Want(request, locator) => self.wait_for(request, locator, now),
        }
    }

    fn wait_for(&mut self, request: Request, locator: Name, now: Moment) -> Begun {
        let of_origin = self.requests.values().filter(|other| other.origin.face == request.origin.face).count();
        let is_busy = self.requests.len() >= self.limits.waiting_max
            || of_origin >= self.limits.waiting_max.div_ceil(ORIGIN_PART);
        if is_busy || self.fetches.has_failed(&locator, request.origin.face, now.ms) {
            let rejection = if is_busy { Rejection::Busy } else { Rejection::NotFetched(locator) };
            return Begun::Done(self.count(Err(rejection)));
        }
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.fetches.want(locator, &request.origin, id, now.ms, self.timeout_ms());
        self.counters.waited += 1;
        self.requests.insert(id, request);
        Begun::Waiting(id)
    }

    fn timeout_ms(&self) -> u64 {
        u64::try_from(self.limits.fetch_timeout.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a Data packet. Returns whether it may be a certificate that was asked for.
    pub fn on_data(&mut self, data: &Data<'_>, now: Moment) -> bool {
        let waiting = self.fetches.waiting_for(data.name);
        if waiting.is_empty() {
            return false;
        }
        let certificate = Certificate::decode(data.wire).map(Arc::new);
        for (locator, face, id) in waiting {
            let Some(mut request) = self.requests.remove(&id) else { continue };
            let Ok(certificate) = &certificate else {
                self.reject_data(id, request, Rejection::WrongCertificate(locator), data.name);
                continue;
            };
            if let Err(rejection) = self.link(&mut request, certificate, now) {
                self.reject_data(id, request, rejection, data.name);
                continue;
            }
            self.fetches.forget(&locator, face, id);
            match self.step(request, now) {
                Step::Done(outcome, request) => {
                    self.requests.insert(id, request);
                    self.finish(id, outcome);
                }
                Step::Want(request, next) if self.fetches.has_failed(&next, request.origin.face, now.ms) => {
                    self.requests.insert(id, request);
                    self.finish(id, Err(Rejection::NotFetched(next)));
                }
                Step::Want(request, next) => {
                    self.fetches.want(next, &request.origin, id, now.ms, self.timeout_ms());
                    self.requests.insert(id, request);
                }
            }
        }
        true
    }

    /// A packet that arrived for a request is wrong. The request goes on waiting: the right one may still come.
    fn reject_data(&mut self, id: RequestId, mut request: Request, why: Rejection, name: NameRef<'_>) {
        self.counters.unwanted += 1;
        request.last_rejection = Some(why);
        self.requests.insert(id, request);
        if self.poisoned.len() < self.limits.waiting_max {
            self.poisoned.push(name.to_name());
        }
    }

    /// There is no way to fetch this name. Returns whether it was asked for.
    pub fn on_nack(&mut self, name: NameRef<'_>, now: Moment) -> bool {
        self.fetches.hasten(name, now.ms)
    }

    /// The content store has forgotten the wrong Data of this name ([`Validator::take_poisoned`]), so that another Interest
    /// can find the right one.
    pub fn on_erased(&mut self, name: NameRef<'_>, now: Moment) {
        self.fetches.repeat(name, now.ms);
    }

    /// The connection over which certificates are fetched was lost, and there is another one. All open fetches begin again,
    /// with all their tries.
    pub fn fetch_again(&mut self, now: Moment) {
        let timeout_ms = self.timeout_ms();
        self.fetches.restart(now.ms, timeout_ms);
    }

    /// Gives up what waits too long. Returns the Interests to send now.
    pub fn poll(&mut self, now: Moment) -> Vec<Wanted> {
        let failed_for_ms = u64::try_from(self.limits.failed_for.as_millis()).unwrap_or(u64::MAX);
        for (locator, ids) in self.fetches.expire(now.ms, failed_for_ms) {
            for id in ids {
                let why = self.requests.get_mut(&id).and_then(|request| request.last_rejection.take());
                self.finish(id, Err(why.unwrap_or_else(|| Rejection::NotFetched(locator.clone()))));
            }
        }
        let wanted = self.fetches.due(now.ms);
        self.counters.interests += wanted.len() as u64;
        wanted
    }

    /// When [`Validator::poll`] has something to do.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.done.is_empty() { self.fetches.next_deadline_ms() } else { Some(0) }
    }

    /// The outcomes since the last call.
    pub fn take_done(&mut self) -> Vec<(RequestId, Outcome)> {
        std::mem::take(&mut self.done)
    }

    /// Names of Data that turned out to be no right certificates. They should leave the content store, so that they do
    /// not answer the next Interest, too.
    pub fn take_poisoned(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.poisoned)
    }

    fn finish(&mut self, id: RequestId, outcome: Outcome) {
        if self.requests.remove(&id).is_some() {
            self.fetches.forget_request(id);
            let outcome = self.count(outcome);
            self.done.push((id, outcome));
        }
    }

    fn count(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(_) => self.counters.accepted += 1,
            Err(_) => self.counters.rejected += 1,
        }
        outcome
    }
}

/// Whether signatures of this type are made with a private key.
pub fn has_key(typ: SignatureType) -> bool {
    matches!(typ, SignatureType::Sha256WithRsa | SignatureType::Sha256WithEcdsa | SignatureType::Ed25519)
}
