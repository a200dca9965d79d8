//! Seeded names for tests, in families that each stress another part.

use byname_wire::name::COMPONENTS_MAX;
use byname_wire::{Component, Name};

use crate::suite::Random;

/// The name that a plain URI of generic components means.
pub fn name(uri: &str) -> Name {
    Name::from_components(uri.split('/').filter(|c| !c.is_empty()).map(|c| Component::generic(c.as_bytes())))
}

/// A family of names.
pub struct Family {
    pub name: &'static str,
    /// Maximum number of changes in a batch.
    pub batch_max: usize,
    /// Draws the name of a rule with at most this many components.
    pub rule: fn(&mut Random, usize) -> Name,
    /// Draws a name to look up.
    pub asked: fn(&mut Random) -> Name,
}

pub const FAMILIES: &[Family] = &[
    // So few names that edges split and merge, and inherited answers change, all the time.
    Family {
        name: "dense",
        batch_max: 12,
        rule: |random, depth_max| dense(random, 2, 6.min(depth_max)),
        asked: |random| dense(random, 2, 8),
    },
    Family {
        name: "bushy",
        batch_max: 40,
        rule: |random, depth_max| dense(random, 7, 3.min(depth_max)),
        asked: |random| dense(random, 7, 4),
    },
    // Tables of thousands of rules, which grow and are rebuilt.
    Family {
        name: "wide",
        batch_max: 2000,
        rule: |random, depth_max| dense(random, 30, 4.min(depth_max)),
        asked: |random| dense(random, 30, 5),
    },
    Family { name: "chains", batch_max: 12, rule: chain, asked: |random| chain(random, COMPONENTS_MAX) },
    Family { name: "bytes", batch_max: 12, rule: bytes, asked: |random| bytes(random, COMPONENTS_MAX) },
    Family { name: "hostile", batch_max: 12, rule: trunk, asked: garbage_below_a_trunk },
];

/// One of about `fanout` to the power of `depth_max` names.
fn dense(random: &mut Random, fanout: usize, depth_max: usize) -> Name {
    let bytes: Vec<_> = (0..random.below(depth_max + 1)).map(|_| b'a' + random.below(fanout) as u8).collect();
    Name::from_components(bytes.iter().map(|byte| Component::generic(std::slice::from_ref(byte))))
}

/// One component repeated, with at most one other: long shared prefixes at all depths.
fn chain(random: &mut Random, depth_max: usize) -> Name {
    let near = [0, 1, 2, 7, 8, 15, 16, 17, 30, 31, 32, 33, 63, 64, 65, 126, 127, 128];
    let depth = (*random.pick(&near)).min(depth_max);
    let turn = *random.pick(&near);
    Name::from_components((0..depth).map(|i| Component::generic(if i == turn { b"x" } else { b"a" })))
}

/// Components that are empty, typed, long, or look like other names.
fn bytes(random: &mut Random, depth_max: usize) -> Name {
    const LONG: [u8; 600] = [7; 600];
    let values: [&[u8]; 10] =
        [b"", b"\0", b"a", b"aa", b"\x08\x01a", b"\x08\x00", &LONG[..252], &LONG[..253], &LONG[..255], &LONG];
    let types = [8, 8, 8, 32, 54, 253, 65535];
    let depth = random.below(5).min(depth_max);
    let mut name = Name::default();
    for _ in 0..depth {
        let (&typ, &value) = (random.pick(&types), random.pick(&values));
        name = name.join(Component { typ, value });
    }
    name
}

/// A prefix of one of a few deep names.
fn trunk(random: &mut Random, depth_max: usize) -> Name {
    let which = random.below(4) as u8;
    let depth = random.below(40).min(depth_max);
    let bytes: Vec<_> = (0..depth).map(|i| [which, i as u8]).collect();
    Name::from_components(bytes.iter().map(|value| Component::generic(value)))
}

/// Garbage tokens of [So §2.3]: a name that follows the rules for a while, then leaves them.
fn garbage_below_a_trunk(random: &mut Random) -> Name {
    let mut name = trunk(random, COMPONENTS_MAX);
    let room = COMPONENTS_MAX - name.as_ref().len();
    let more = if random.one_in(8) { room } else { random.below(12) };
    for _ in 0..more {
        name = name.join_number(8, random.next());
    }
    name
}
