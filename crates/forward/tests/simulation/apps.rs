//! Applications at the edge of the network.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use byname_forward::{LinkFields, Packet, Ticks};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;
use byname_wire::{Data, Interest, NackReason, Name};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

type Sent = Vec<(LinkFields, Packet)>;

pub trait App {
    fn receive(&mut self, now: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent);
    /// Called at the start, and then at the time that it last returned.
    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks>;
    /// Stops asking for names.
    fn stop(&mut self);
    fn as_any(&self) -> &dyn Any;
}

/// The content of a name, which a consumer can check.
fn content_of(name: &Name) -> Vec<u8> {
    name.value().iter().rev().copied().cycle().take(200).collect()
}

/// Fetches a list of names, several at a time, and asks again for those without an answer.
pub struct Consumer {
    names: VecDeque<Name>,
    window: usize,
    retry_ms: u64,
    lifetime_ms: u64,
    can_be_prefix: bool,
    tries_max: usize,
    /// When to ask again for a name, and how often it was asked for.
    pending: BTreeMap<Name, (Ticks, usize)>,
    random: SmallRng,
    pub fetched: usize,
    pub expressed: usize,
    pub nacks: BTreeMap<u64, usize>,
    pub timeouts: usize,
}

impl Consumer {
    pub fn new(names: impl IntoIterator<Item = String>, seed: u64) -> Self {
        Consumer {
            names: names.into_iter().map(|n| n.parse().expect("a literal name")).collect(),
            window: 8,
            retry_ms: 400,
            lifetime_ms: 1000,
            can_be_prefix: false,
            tries_max: usize::MAX,
            pending: BTreeMap::new(),
            random: SmallRng::seed_from_u64(seed),
            fetched: 0,
            expressed: 0,
            nacks: BTreeMap::new(),
            timeouts: 0,
        }
    }

    pub fn can_be_prefix(mut self) -> Self {
        self.can_be_prefix = true;
        self
    }

    pub fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = lifetime_ms;
        self
    }

    /// Sets the number of tries after which it gives a name up.
    pub fn tries_max(mut self, tries_max: usize) -> Self {
        self.tries_max = tries_max;
        self
    }

    pub fn is_done(&self) -> bool {
        self.names.is_empty() && self.pending.is_empty()
    }

    fn express(&mut self, now: Ticks, name: Name, tries: usize, sent: &mut Sent) {
        let interest = InterestBuilder::new(name.clone(), self.random.random())
            .can_be_prefix(self.can_be_prefix)
            .lifetime_ms(self.lifetime_ms)
            .hop_limit(32)
            .encode();
        self.expressed += 1;
        self.pending.insert(name, (now + Duration::from_millis(self.retry_ms), tries));
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
            let interest = Interest::decode(packet).expect("a Nack carries the Interest");
            *self.nacks.entry(reason.number()).or_default() += 1;
            // It asks again after a while, because routes may come back.
            if let Some((retry, _)) = self.pending.get_mut(&interest.name.to_name()) {
                *retry = (*retry).min(now + Duration::from_millis(100));
            }
            return;
        }
        let Ok(data) = Data::decode(packet) else { return };
        let whole = data.name.to_name();
        let asked = if self.can_be_prefix { data.name.prefix(data.name.len() - 1).to_name() } else { whole.clone() };
        if self.pending.contains_key(&asked) && data.content == content_of(&whole) {
            self.pending.remove(&asked);
            self.fetched += 1;
            self.fill_window(now, sent);
        }
    }

    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        let is_late =
            |(name, (retry, tries)): (&Name, &(Ticks, usize))| (*retry <= now).then(|| (name.clone(), *tries));
        let late: Vec<_> = self.pending.iter().filter_map(is_late).collect();
        for (name, tries) in late {
            self.timeouts += 1;
            self.pending.remove(&name);
            if tries < self.tries_max {
                self.express(now, name, tries + 1, sent);
            }
        }
        self.fill_window(now, sent);
        (!self.is_done()).then(|| now + Duration::from_millis(20))
    }

    fn stop(&mut self) {
        self.names.clear();
        self.pending.clear();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Answers every Interest at once.
#[derive(Default)]
pub struct Producer {
    pub freshness_ms: u64,
    /// If set, it refuses every Interest instead.
    pub refuses: Option<NackReason>,
    pub interests: usize,
}

impl App for Producer {
    fn receive(&mut self, _: Ticks, fields: &LinkFields, packet: &Packet, sent: &mut Sent) {
        let Ok(interest) = Interest::decode(packet) else { return };
        if fields.nack.is_some() {
            return;
        }
        self.interests += 1;
        if self.refuses.is_some() {
            let fields = LinkFields { nack: self.refuses, pit_token: fields.pit_token, ..Default::default() };
            return sent.push((fields, packet.clone()));
        }
        let mut name = interest.name.to_name();
        if interest.can_be_prefix {
            name = name.join_number(component_type::VERSION, 1);
        }
        let data = DataBuilder::new(name.clone()).freshness_ms(self.freshness_ms).content(content_of(&name));
        let fields = LinkFields { pit_token: fields.pit_token, ..Default::default() };
        sent.push((fields, Packet::copy_from(&data.encode())));
    }

    fn tick(&mut self, _: Ticks, _: &mut Sent) -> Option<Ticks> {
        None
    }

    fn stop(&mut self) {}

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Asks for a new name each time, many times per ms, and ignores answers.
pub struct Flooder {
    pub prefix: String,
    pub names_per_ms: u64,
    pub left: u64,
}

impl App for Flooder {
    fn receive(&mut self, _: Ticks, _: &LinkFields, _: &Packet, _: &mut Sent) {}

    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        for _ in 0..self.names_per_ms.min(self.left) {
            self.left -= 1;
            let name: Name = self.prefix.parse().expect("a literal name");
            let interest =
                InterestBuilder::new(name.join_number(component_type::SEQUENCE_NUM, self.left), self.left as u32);
            sent.push((LinkFields::default(), Packet::copy_from(&interest.lifetime_ms(2000).encode())));
        }
        (self.left > 0).then(|| now + Duration::from_millis(1))
    }

    fn stop(&mut self) {
        self.left = 0;
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
