//! Applications at the edge of a [`Network`](crate::Network).

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use byname_forward::{LinkFields, Packet, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Data, Interest, NackReason, Name};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Packets that an application sends, each with its link fields.
pub type Sent = Vec<(LinkFields, Packet)>;

/// An application in virtual time, on a face of its own.
pub trait App: Any {
    /// Takes a packet from the router.
    fn receive(&mut self, now: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent);

    /// Called when the application is attached, and then at the time that it last returned, which must be later than
    /// `now`. `None`: not again.
    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        let _ = (now, sent);
        None
    }

    /// Asked after [`App::receive`]: when the next [`App::tick`] is wanted, if that is sooner than the last one said.
    fn wants_tick(&self) -> Option<Ticks> {
        None
    }
}

/// How often a [`Consumer`] looks for names without an answer.
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// How long it waits after a Nack, because routes may come back.
const WAITS_AFTER_NACK: Duration = Duration::from_millis(100);

/// Fetches a list of names, several at a time, and asks again for those without an answer.
pub struct Consumer {
    names: VecDeque<Name>,
    window: usize,
    retry: Duration,
    lifetime: Duration,
    can_be_prefix: bool,
    tries_max: usize,
    accepts: fn(&Data<'_>) -> bool,
    /// When to ask again for a name, and how often it was asked for.
    pending: BTreeMap<Name, (Ticks, usize)>,
    random: SmallRng,
    counts: Fetched,
}

/// What a [`Consumer`] did so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Names whose Data came and was accepted.
    pub names: usize,
    /// Interests sent.
    pub interests: usize,
    /// Tries that got no Data in time.
    pub timeouts: usize,
    /// Nacks, by the number of their reason.
    pub nacks: BTreeMap<u64, usize>,
}

impl Consumer {
    /// Fetches these names. The seed chooses nonces.
    pub fn new(names: impl IntoIterator<Item = Name>, seed: u64) -> Self {
        Consumer {
            names: names.into_iter().collect(),
            window: 8,
            retry: Duration::from_millis(400),
            lifetime: Duration::from_millis(1000),
            can_be_prefix: false,
            tries_max: usize::MAX,
            accepts: |_| true,
            pending: BTreeMap::new(),
            random: SmallRng::seed_from_u64(seed),
            counts: Fetched::default(),
        }
    }

    /// Sets how many names it waits for at a time; 8 by default.
    pub fn window(mut self, names: usize) -> Self {
        self.window = names;
        self
    }

    /// Sets after what time it asks again; 400 ms by default.
    pub fn retry(mut self, after: Duration) -> Self {
        self.retry = after;
        self
    }

    /// Sets the lifetime of Interests; 1 s by default. Whole milliseconds count.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Asks for prefixes: Data whose name has one more component is an answer, too.
    pub fn can_be_prefix(mut self) -> Self {
        self.can_be_prefix = true;
        self
    }

    /// Sets the number of tries after which it gives a name up; no limit by default.
    pub fn tries_max(mut self, tries_max: usize) -> Self {
        self.tries_max = tries_max;
        self
    }

    /// Sets which Data it accepts. Other Data is ignored, as if lost.
    pub fn accepts(mut self, accepts: fn(&Data<'_>) -> bool) -> Self {
        self.accepts = accepts;
        self
    }

    /// Whether every name was fetched or given up.
    pub fn is_done(&self) -> bool {
        self.names.is_empty() && self.pending.is_empty()
    }

    /// What it did so far.
    pub fn fetched(&self) -> &Fetched {
        &self.counts
    }

    /// Gives up all names.
    pub fn stop(&mut self) {
        self.names.clear();
        self.pending.clear();
    }

    fn express(&mut self, now: Ticks, name: Name, tries: usize, sent: &mut Sent) {
        let interest = InterestBuilder::new(name.clone(), self.random.random())
            .can_be_prefix(self.can_be_prefix)
            .lifetime_ms(self.lifetime.as_millis() as u64)
            .hop_limit(32)
            .encode();
        self.counts.interests += 1;
        self.pending.insert(name, (now + self.retry, tries));
        sent.push((LinkFields::default(), Packet::copy_from(&interest)));
    }

    fn fill_window(&mut self, now: Ticks, sent: &mut Sent) {
        while self.pending.len() < self.window
            && let Some(name) = self.names.pop_front()
        {
            self.express(now, name, 1, sent);
        }
    }
}

impl App for Consumer {
    fn receive(&mut self, now: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent) {
        if let Some(reason) = fields.nack {
            *self.counts.nacks.entry(reason.number()).or_default() += 1;
            let name = Interest::decode(packet).map(|interest| interest.name.to_name());
            if let Some((retry, _)) = name.ok().and_then(|name| self.pending.get_mut(&name)) {
                *retry = (*retry).min(now + WAITS_AFTER_NACK);
            }
            return;
        }
        let Ok(data) = Data::decode(packet) else { return };
        let mut asked = data.name.to_name();
        if self.can_be_prefix && !self.pending.contains_key(&asked) && !data.name.is_empty() {
            asked = data.name.prefix(data.name.len() - 1).to_name();
        }
        if self.pending.contains_key(&asked) && (self.accepts)(&data) {
            self.pending.remove(&asked);
            self.counts.names += 1;
            self.fill_window(now, sent);
        }
    }

    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        let is_late =
            |(name, (retry, tries)): (&Name, &(Ticks, usize))| (*retry <= now).then(|| (name.clone(), *tries));
        let late: Vec<_> = self.pending.iter().filter_map(is_late).collect();
        for (name, tries) in late {
            self.counts.timeouts += 1;
            self.pending.remove(&name);
            if tries < self.tries_max {
                self.express(now, name, tries + 1, sent);
            }
        }
        self.fill_window(now, sent);
        (!self.is_done()).then(|| now + LOOKS_EVERY)
    }
}

/// Answers every Interest at once.
pub struct Producer {
    content: fn(&Name) -> Vec<u8>,
    freshness: Duration,
    refuses: Option<NackReason>,
    version: Option<u64>,
    interests: usize,
}

impl Producer {
    /// Answers with this content for each name. Data is stale at once, unless [`Producer::freshness`] says more.
    pub fn new(content: fn(&Name) -> Vec<u8>) -> Self {
        Producer { content, freshness: Duration::ZERO, refuses: None, version: None, interests: 0 }
    }

    /// Sets how long caches may call its Data fresh. Whole milliseconds count.
    pub fn freshness(mut self, freshness: Duration) -> Self {
        self.freshness = freshness;
        self
    }

    /// Refuses every Interest instead.
    pub fn refusing(mut self, reason: NackReason) -> Self {
        self.refuses = Some(reason);
        self
    }

    /// Answers Interests that may be prefixes with Data of this version.
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Number of Interests that came so far.
    pub fn interests(&self) -> usize {
        self.interests
    }
}

impl App for Producer {
    fn receive(&mut self, _: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent) {
        let Ok(interest) = Interest::decode(packet) else { return };
        if fields.nack.is_some() {
            return;
        }
        self.interests += 1;
        let token = LinkFields { pit_token: fields.pit_token, ..LinkFields::default() };
        if self.refuses.is_some() {
            return sent.push((LinkFields { nack: self.refuses, ..token }, packet.clone()));
        }
        let name = interest.name.to_name();
        let name = match self.version {
            Some(version) if interest.can_be_prefix => {
                name.join_number(byname_wire::name::component_type::VERSION, version)
            }
            _ => name,
        };
        let content = (self.content)(&name);
        let data = DataBuilder::new(name).freshness_ms(self.freshness.as_millis() as u64).content(content);
        sent.push((token, Packet::copy_from(&data.encode())));
    }
}
