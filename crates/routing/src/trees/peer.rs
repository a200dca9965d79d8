//! A neighbour: what it has told of trees, and what it is told.

use byname_wire::{FaceId, Name, TreeId};

use super::message::{Entry, Message, RouterKey};
use super::secret::Exchange;
use super::{PACE_MS, RETRY_MAX_MS, RETRY_MS};

/// A neighbour.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: Name,
    /// Face and cost of the link to it, if one is used.
    pub(super) link: Option<(FaceId, u64)>,
    /// What it has told.
    entries: Vec<Entry>,
    /// Start and number of its last message, and the version of its entries.
    heard: (u64, u64),
    heard_version: u64,
    pub(super) exchange: Exchange,

    /// What it is told.
    told: Vec<Entry>,
    version: u64,
    is_acknowledged: bool,
    must_answer: bool,
    sent_ms: u64,
    next_ms: u64,
    wait_ms: u64,
}

impl Peer {
    pub(super) fn new(name: Name, now_ms: u64) -> Self {
        Peer {
            name,
            link: None,
            entries: Vec::new(),
            heard: (0, 0),
            heard_version: 0,
            exchange: Exchange::default(),
            told: Vec::new(),
            version: 0,
            is_acknowledged: false,
            must_answer: false,
            sent_ms: 0,
            next_ms: now_ms,
            wait_ms: RETRY_MS,
        }
    }

    /// What it has told of a tree.
    pub(super) fn entry(&self, tree: TreeId) -> Option<&Entry> {
        self.link.and_then(|_| self.entries.iter().find(|entry| entry.tree == tree))
    }

    /// Its start, as it was last heard.
    pub(super) fn boot(&self) -> u64 {
        self.heard.0
    }

    /// Another link, or none. Returns whether anything changes.
    pub(super) fn set_link(&mut self, link: Option<(FaceId, u64)>, begins_exchange: bool, now_ms: u64) -> bool {
        if self.link == link {
            return false;
        }
        if self.link.is_none() {
            // Its entries may be outdated: it tells them again.
            self.entries.clear();
            self.heard_version = 0;
            self.exchange = Exchange::new(begins_exchange);
            self.is_acknowledged = false;
            self.hasten(now_ms);
        }
        self.link = link;
        true
    }

    /// Whether no message as late as this one was heard.
    pub(super) fn is_new(&self, message: &Message) -> bool {
        (message.boot, message.number) > self.heard
    }

    /// Takes a message. Returns whether entries or the secret have changed. `ends`: this router and the neighbour.
    pub(super) fn receive(
        &mut self,
        message: Message,
        ends: (RouterKey, RouterKey),
        own_boot: u64,
        now_ms: u64,
    ) -> bool {
        let mut has_changed = false;
        if message.boot != self.heard.0 {
            self.is_acknowledged = false;
            self.heard_version = 0;
            has_changed = !self.entries.is_empty();
            self.entries.clear();
        }
        self.heard = (message.boot, message.number);
        self.must_answer |= message.asks;
        if message.heard.0 != own_boot {
            // It does not know this start of this router, or somebody repeats its words. It will hear of it.
            self.is_acknowledged = false;
            self.hasten(now_ms);
            return has_changed;
        }
        let was_acknowledged = self.is_acknowledged;
        self.is_acknowledged = message.heard.1 == self.version && self.version > 0;
        if was_acknowledged && !self.is_acknowledged {
            self.hasten(now_ms);
        }
        if self.exchange.receive(message.key, message.answered_key, ends) {
            // The neighbour must have this side's key.
            self.version += 1;
            self.is_acknowledged = false;
            self.hasten(now_ms);
            has_changed = true;
        }
        if self.heard_version != message.version {
            self.heard_version = message.version;
            has_changed |= self.entries != message.entries;
            self.entries = message.entries;
        }
        has_changed
    }

    /// Tells it this from now on.
    pub(super) fn tell(&mut self, entries: Vec<Entry>, now_ms: u64) {
        if entries != self.told || self.version == 0 {
            self.told = entries;
            self.version += 1;
            self.is_acknowledged = false;
            self.hasten(now_ms);
        }
    }

    fn hasten(&mut self, now_ms: u64) {
        self.next_ms = now_ms.max(self.sent_ms + PACE_MS);
        self.wait_ms = RETRY_MS;
    }

    /// The message to send now.
    pub(super) fn poll(&mut self, key: RouterKey, boot: u64, number: u64, now_ms: u64) -> Option<(FaceId, Message)> {
        if self.due_ms().is_none_or(|due| due > now_ms) {
            return None;
        }
        let (face, _) = self.link?;
        self.must_answer = false;
        self.sent_ms = now_ms;
        self.next_ms = now_ms + self.wait_ms;
        self.wait_ms = (2 * self.wait_ms).min(RETRY_MAX_MS);
        let (own_key, answered_key) = self.exchange.keys();
        let message = Message {
            receiver: key,
            boot,
            number,
            version: self.version,
            heard: (self.heard.0, self.heard_version),
            asks: !self.is_acknowledged,
            key: own_key,
            answered_key,
            entries: self.told.clone(),
        };
        Some((face, message))
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        self.link?;
        match (self.must_answer, self.is_acknowledged) {
            (true, _) => Some(self.next_ms.min(self.sent_ms + PACE_MS)),
            (false, false) => Some(self.next_ms),
            (false, true) => None,
        }
    }
}
