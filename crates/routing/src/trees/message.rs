//! What neighbours tell each other of trees: Data inside an Interest, as hellos are.

use byname_wire::tagnet::types as tagnet;
use byname_wire::tlv::{self, Reader};
use byname_wire::{DecodeError, Label, Name, NameRef, TreeId, digest};

use super::{GENERATIONS_MAX, HOPS_MAX, TREES_MAX};

const RECEIVER: u64 = 601;
const BOOT: u64 = 603;
const NUMBER: u64 = 605;
const VERSION: u64 = 607;
const HEARD_BOOT: u64 = 609;
const HEARD_VERSION: u64 = 611;
const ASKS: u64 = 613;
const ENTRY: u64 = 615;
const PRIORITY: u64 = 617;
const ROOT: u64 = 619;
const COST: u64 = 621;
const PATH: u64 = 623;
const IS_CHILD: u64 = 625;
const NODES: u64 = 627;
const WANTS: u64 = 629;
const HAS: u64 = 631;
const GIVES: u64 = 633;
const LENGTH: u64 = 635;
const KEY: u64 = 637;
const ANSWERED_KEY: u64 = 639;
const GENERATION: u64 = 641;
const GENERATION_ROOT: u64 = 643;
const GENERATION_NUMBER: u64 = 645;
const GENERATION_PARENT: u64 = 647;
const STALE: u64 = 649;

/// Bytes of a router's key in messages.
const KEY_BYTES: usize = 8;
/// Bytes of a public key of X25519.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// A router, as messages name it: the first 64 bits of the SHA-256 of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouterKey(pub u64);

impl RouterKey {
    /// The key of the router with this name.
    pub fn of(name: NameRef<'_>) -> Self {
        RouterKey(first_64_bits(&[name.value()]))
    }
}

/// The first 64 bits of a SHA-256.
pub(super) fn first_64_bits(parts: &[&[u8]]) -> u64 {
    let digest = digest::sha256(parts);
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

/// Numbers of a tree's nodes that one router hands out: to itself, and to all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The router's own label, with the first of the numbers.
    pub label: Label,
    /// How many numbers there are, at least 1.
    pub len: u32,
}

impl Span {
    /// The first number.
    pub fn first(&self) -> u32 {
        self.label.node()
    }

    /// The last number.
    pub fn last(&self) -> u32 {
        self.label.node() + (self.len - 1)
    }

    /// A span, unless its numbers exceed 32 bits.
    fn checked(label: Label, len: u64) -> Option<Self> {
        let len = u32::try_from(len).ok().filter(|len| *len > 0)?;
        label.node().checked_add(len - 1)?;
        Some(Span { label, len })
    }
}

/// A public key of X25519, of a pair that is used once.
pub type PublicKey = [u8; PUBLIC_KEY_BYTES];

/// What a router tells a neighbour of all trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Whom it is for.
    pub receiver: RouterKey,
    /// When the sender started, in seconds since the Unix epoch.
    pub boot: u64,
    /// Grows with each message of that start.
    pub number: u64,
    /// Grows when the entries change.
    pub version: u64,
    /// Start of the receiver and version of its entries that the sender has; 0 and 0: none.
    pub heard: (u64, u64),
    /// Whether the sender waits for an answer: it has not heard that the receiver has this version.
    pub asks: bool,
    /// A key of the sender for the link's secret.
    pub key: Option<PublicKey>,
    /// The receiver's key that `key` answers.
    pub answered_key: Option<PublicKey>,
    /// One entry for each tree.
    pub entries: Vec<Entry>,
}

/// What a generation of a tree is called: by the router that began it, and a number that rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GenerationKey {
    /// The root that began it.
    pub root: RouterKey,
    /// Grows with each generation of that root.
    pub number: u64,
}

/// A generation that the sender has adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The generation.
    pub key: GenerationKey,
    /// The id of the tree under which packets and descriptors are on its edges.
    pub id: TreeId,
    /// If the receiver is the sender's parent in it: the start of the receiver that it was adopted from.
    pub parent_boot: Option<u64>,
}

/// A router's place on a tree, for one neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The tree.
    pub tree: TreeId,
    /// What the root says of itself: the root with the lowest number wins.
    pub priority: u64,
    /// The root.
    pub root: Name,
    /// Cost of the way to the root.
    pub cost: u64,
    /// The routers on that way, from the sender to the root, both included.
    pub path: Vec<RouterKey>,
    /// Whether the receiver is the sender's parent.
    pub is_child: bool,
    /// Number of routers in the sender's part of the tree, including itself.
    pub nodes: u32,
    /// How many numbers the sender wants from its parent, at least.
    pub wants: u32,
    /// The numbers that the sender has. Told to its parent only.
    pub has: Option<Span>,
    /// The numbers that the sender gives to the receiver, its child.
    pub gives: Option<Span>,
    /// The generations that the sender has, at most [`GENERATIONS_MAX`].
    pub generations: Vec<Told>,
    /// The number of a generation of the root that ought to be replaced, for the sender or a router below it.
    pub stale: Option<u64>,
}

impl Message {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        tlv::push_nni(&mut out, RECEIVER, self.receiver.0);
        tlv::push_nni(&mut out, BOOT, self.boot);
        tlv::push_nni(&mut out, NUMBER, self.number);
        tlv::push_nni(&mut out, VERSION, self.version);
        tlv::push_nni(&mut out, HEARD_BOOT, self.heard.0);
        tlv::push_nni(&mut out, HEARD_VERSION, self.heard.1);
        tlv::push_nni(&mut out, ASKS, u64::from(self.asks));
        if let Some(key) = &self.key {
            tlv::push_tlv(&mut out, KEY, key);
        }
        if let Some(key) = &self.answered_key {
            tlv::push_tlv(&mut out, ANSWERED_KEY, key);
        }
        self.entries.iter().for_each(|entry| entry.push(&mut out));
        out
    }

    /// Decodes a message. Entries of more than [`TREES_MAX`] trees, and paths of more than [`HOPS_MAX`] routers, are
    /// refused.
    ///
    /// # Errors
    /// A [`DecodeError`].
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut numbers = [None; 7];
        let (mut key, mut answered_key) = (None, None);
        let mut entries = Vec::new();
        let mut reader = Reader::new(content);
        while let Some(tlv) = reader.next_tlv()? {
            match tlv.typ {
                RECEIVER..=ASKS if tlv.typ % 2 == 1 => {
                    numbers[((tlv.typ - RECEIVER) / 2) as usize] = Some(tlv::decode_nni(tlv.typ, tlv.value)?);
                }
                KEY => key = Some(tlv.value.try_into().map_err(|_| DecodeError::BadValue(KEY))?),
                ANSWERED_KEY => {
                    answered_key = Some(tlv.value.try_into().map_err(|_| DecodeError::BadValue(ANSWERED_KEY))?);
                }
                ENTRY if entries.len() == TREES_MAX => return Err(DecodeError::TooLarge),
                ENTRY => entries.push(Entry::decode(tlv.value)?),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        let number = |typ: u64| numbers[((typ - RECEIVER) / 2) as usize].ok_or(DecodeError::Missing(typ));
        Ok(Message {
            receiver: RouterKey(number(RECEIVER)?),
            boot: number(BOOT)?,
            number: number(NUMBER)?,
            version: number(VERSION)?,
            heard: (number(HEARD_BOOT)?, number(HEARD_VERSION)?),
            asks: number(ASKS)? != 0,
            key,
            answered_key,
            entries,
        })
    }
}

impl Entry {
    fn push(&self, out: &mut Vec<u8>) {
        tlv::push_nested(out, ENTRY, |out| {
            tlv::push_nni(out, tagnet::TREE, self.tree.0.into());
            tlv::push_nni(out, PRIORITY, self.priority);
            tlv::push_tlv(out, ROOT, self.root.value());
            tlv::push_nni(out, COST, self.cost);
            tlv::push_nested(out, PATH, |out| {
                self.path.iter().for_each(|router| out.extend_from_slice(&router.0.to_be_bytes()));
            });
            tlv::push_nni(out, IS_CHILD, u64::from(self.is_child));
            tlv::push_nni(out, NODES, self.nodes.into());
            tlv::push_nni(out, WANTS, self.wants.into());
            for (typ, span) in [(HAS, &self.has), (GIVES, &self.gives)] {
                if let Some(span) = span {
                    tlv::push_nested(out, typ, |out| {
                        tlv::push_nni(out, LENGTH, span.len.into());
                        tlv::push_nested(out, tagnet::LABEL, |out| span.label.push(out));
                    });
                }
            }
            self.generations.iter().for_each(|told| told.push(out));
            if let Some(number) = self.stale {
                tlv::push_nni(out, STALE, number);
            }
        });
    }

    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (mut generations, mut stale) = (Vec::new(), None);
        let (mut tree, mut priority, mut root, mut cost, mut path) = (None, None, None, None, None);
        let (mut is_child, mut nodes, mut wants, mut has, mut gives) = (false, None, None, None, None);
        let mut reader = Reader::new(value);
        while let Some(tlv) = reader.next_tlv()? {
            let number = || tlv::decode_nni(tlv.typ, tlv.value);
            let number_32 = || u32::try_from(number()?).map_err(|_| DecodeError::BadValue(tlv.typ));
            match tlv.typ {
                tagnet::TREE => tree = Some(number_32()?),
                PRIORITY => priority = Some(number()?),
                ROOT => root = Some(NameRef::new(tlv.value)?.to_name()),
                COST => cost = Some(number()?),
                PATH => path = Some(decode_path(tlv.value)?),
                IS_CHILD => is_child = number()? != 0,
                NODES => nodes = Some(number_32()?),
                WANTS => wants = Some(number_32()?),
                HAS => has = Some(decode_span(HAS, tlv.value)?),
                GIVES => gives = Some(decode_span(GIVES, tlv.value)?),
                GENERATION if generations.len() == GENERATIONS_MAX => return Err(DecodeError::TooLarge),
                GENERATION => generations.push(Told::decode(tlv.value)?),
                STALE => stale = Some(number()?),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(Entry {
            tree: TreeId(tree.ok_or(DecodeError::Missing(tagnet::TREE))?),
            priority: priority.ok_or(DecodeError::Missing(PRIORITY))?,
            root: root.ok_or(DecodeError::Missing(ROOT))?,
            cost: cost.ok_or(DecodeError::Missing(COST))?,
            path: path.ok_or(DecodeError::Missing(PATH))?,
            is_child,
            nodes: nodes.filter(|nodes| *nodes > 0).ok_or(DecodeError::BadValue(NODES))?,
            wants: wants.filter(|wants| *wants > 0).ok_or(DecodeError::BadValue(WANTS))?,
            has,
            gives,
            generations,
            stale,
        })
    }
}

impl Told {
    fn push(&self, out: &mut Vec<u8>) {
        tlv::push_nested(out, GENERATION, |out| {
            tlv::push_nni(out, tagnet::TREE, self.id.0.into());
            tlv::push_nni(out, GENERATION_ROOT, self.key.root.0);
            tlv::push_nni(out, GENERATION_NUMBER, self.key.number);
            if let Some(boot) = self.parent_boot {
                tlv::push_nni(out, GENERATION_PARENT, boot);
            }
        });
    }

    fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let (mut id, mut root, mut number, mut parent_boot) = (None, None, None, None);
        let mut reader = Reader::new(value);
        while let Some(tlv) = reader.next_tlv()? {
            let value = || tlv::decode_nni(tlv.typ, tlv.value);
            match tlv.typ {
                tagnet::TREE => id = Some(u8::try_from(value()?).map_err(|_| DecodeError::BadValue(tlv.typ))?),
                GENERATION_ROOT => root = Some(value()?),
                GENERATION_NUMBER => number = Some(value()?),
                GENERATION_PARENT => parent_boot = Some(value()?),
                typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
                _ => {}
            }
        }
        Ok(Told {
            key: GenerationKey {
                root: RouterKey(root.ok_or(DecodeError::Missing(GENERATION_ROOT))?),
                number: number.ok_or(DecodeError::Missing(GENERATION_NUMBER))?,
            },
            id: TreeId(id.ok_or(DecodeError::Missing(tagnet::TREE))?.into()),
            parent_boot,
        })
    }
}

fn decode_path(value: &[u8]) -> Result<Vec<RouterKey>, DecodeError> {
    let (keys, rest) = value.as_chunks::<KEY_BYTES>();
    if keys.is_empty() || !rest.is_empty() {
        return Err(DecodeError::BadValue(PATH));
    }
    if keys.len() > HOPS_MAX {
        return Err(DecodeError::TooLarge);
    }
    Ok(keys.iter().map(|key| RouterKey(u64::from_be_bytes(*key))).collect())
}

fn decode_span(typ: u64, value: &[u8]) -> Result<Span, DecodeError> {
    let mut reader = Reader::new(value);
    let (mut len, mut label) = (None, None);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            LENGTH => len = Some(tlv::decode_nni(LENGTH, tlv.value)?),
            tagnet::LABEL => label = Some(Label::decode(tagnet::LABEL, tlv.value)?),
            typ if tlv::is_critical(typ) => return Err(DecodeError::UnexpectedCritical(typ)),
            _ => {}
        }
    }
    label.zip(len).and_then(|(label, len)| Span::checked(label, len)).ok_or(DecodeError::BadValue(typ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let label = Label::new(0x40_0000).light_child(0x40_0001, 3).unwrap();
        let span = Span { label, len: 17 };
        let entry = |tree, has: Option<Span>, gives| Entry {
            tree: TreeId(tree),
            priority: 100,
            root: "/net/r1".parse().unwrap(),
            cost: 3,
            path: vec![RouterKey(7), RouterKey(u64::MAX)],
            is_child: has.is_some(),
            nodes: 4,
            wants: 9,
            has,
            gives,
            generations: vec![
                Told {
                    key: GenerationKey { root: RouterKey(7), number: 1 << 40 },
                    id: TreeId(9),
                    parent_boot: has.map(|_| 1_600_000_000),
                };
                2
            ],
            stale: has.map(|_| 5),
        };
        Message {
            receiver: RouterKey(9),
            boot: 1_700_000_000,
            number: 5,
            version: 4,
            heard: (1_600_000_000, 2),
            asks: true,
            key: Some([7; 32]),
            answered_key: None,
            entries: vec![entry(1, Some(span), None), entry(2, None, Some(span))],
        }
    }

    #[test]
    fn messages_are_decoded_as_they_were_encoded() {
        assert_eq!(Message::decode(&message().encode()), Ok(message()));
    }

    #[test]
    fn what_is_too_long_or_impossible_is_refused() {
        let refused = |change: fn(&mut Message)| {
            let mut message = message();
            change(&mut message);
            Message::decode(&message.encode()).unwrap_err()
        };
        assert_eq!(refused(|of| of.entries = vec![of.entries[0].clone(); TREES_MAX + 1]), DecodeError::TooLarge);
        assert_eq!(refused(|of| of.entries[0].path = vec![RouterKey(1); HOPS_MAX + 1]), DecodeError::TooLarge);
        let generations = |of: &mut Message| of.entries[0].generations = vec![of.entries[0].generations[0]; 5];
        assert_eq!(refused(generations), DecodeError::TooLarge);
        let no_byte = |of: &mut Message| of.entries[0].generations[0].id = TreeId(256);
        assert_eq!(refused(no_byte), DecodeError::BadValue(tagnet::TREE));
        assert_eq!(refused(|of| of.entries[0].path.clear()), DecodeError::BadValue(PATH));
        assert_eq!(refused(|of| of.entries[0].nodes = 0), DecodeError::BadValue(NODES));
        let span = Span { label: Label::new(u32::MAX), len: 2 };
        assert_eq!(
            refused(move |of| of.entries[1].gives = Some(Span { ..span_beyond() })),
            DecodeError::BadValue(GIVES)
        );
        assert_eq!(span, span_beyond());
    }

    fn span_beyond() -> Span {
        Span { label: Label::new(u32::MAX), len: 2 }
    }

    #[test]
    fn every_shorter_message_is_refused_or_has_less() {
        let (whole, wire) = (message(), message().encode());
        for len in 0..wire.len() {
            assert_ne!(Message::decode(&wire[..len]).ok(), Some(whole.clone()));
        }
    }
}
