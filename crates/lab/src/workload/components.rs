//! Random components, and first components in ascending order.
//!
//! [Yuan §3.3.1] gives each component six to ten random characters. Rule names must come in canonical order, but must
//! not be held in memory or sorted. So their first components are a *stratified* sample. For each length, all strings
//! in order are divided into as many strata as rules begin with that length, and each rule takes a random string of its
//! stratum. All lengths are equally frequent. Canonical order puts shorter components first, so the first fifth of the
//! names begins with six characters, and the last fifth with ten. First components are therefore all different, as
//! random ones of these lengths nearly are. The stratum of a component tells which name begins with it.

use super::random::Random;

/// Minimum length of a component.
const LENGTH_MIN: usize = 6;
/// Number of lengths: the minimum and the next four.
const LENGTHS: usize = 5;
/// The characters in ascending order.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// A character for each random byte. Some characters are a quarter more frequent than others.
const CHARACTERS: [u8; 256] = {
    let mut characters = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        characters[byte] = ALPHABET[byte * ALPHABET.len() / 256];
        byte += 1;
    }
    characters
};
/// TLV-TYPE of a GenericNameComponent, in one byte.
const GENERIC: u8 = 8;

/// Appends an encoded component of six to ten random characters.
#[inline]
pub fn push_random(random: &mut Random, out: &mut Vec<u8>) {
    let (first, second) = (random.bits(), random.bits());
    let len = LENGTH_MIN + (((second >> 32) * LENGTHS as u64) >> 32) as usize;
    let mut component = [GENERIC, len as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (character, byte) in component[2..].iter_mut().zip(first.to_le_bytes()) {
        *character = CHARACTERS[usize::from(byte)];
    }
    component[10] = CHARACTERS[usize::from(second as u8)];
    component[11] = CHARACTERS[usize::from((second >> 8) as u8)];
    out.extend_from_slice(&component[..2 + len]);
}

/// The first components of `count` names.
#[derive(Debug, Clone)]
pub struct FirstComponents {
    seed: u64,
    classes: [Class; LENGTHS],
}

/// The first components of one length.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    /// The first name of this class.
    from: u64,
    /// Number of names in the class.
    count: u64,
    /// 2^64 divided by `count`, rounded down.
    step: u64,
    /// Number of strings of this length.
    strings: u64,
}

impl Class {
    /// The first string of stratum `j`, as a number to base 62. For `j = count`, the end of the class.
    #[inline]
    fn begin(&self, j: u64) -> u64 {
        if j == self.count { self.strings } else { high(j * self.step, self.strings) }
    }

    /// The stratum of a string.
    fn stratum(&self, string: u64) -> u64 {
        let guess = u128::from(string) * u128::from(self.count) / u128::from(self.strings);
        let mut j = guess as u64;
        while self.begin(j) > string {
            j -= 1;
        }
        while self.begin(j + 1) <= string {
            j += 1;
        }
        j
    }
}

/// The upper half of the product.
#[inline]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

impl FirstComponents {
    /// # Panics
    /// If `count` is above 2^36: strata would be empty.
    pub fn new(seed: u64, count: u64) -> Self {
        assert!(count <= 1 << 36, "there are fewer strings of six characters");
        let mut classes = [Class::default(); LENGTHS];
        for (c, class) in classes.iter_mut().enumerate() {
            let from = count / LENGTHS as u64 * c as u64;
            let until = if c + 1 == LENGTHS { count } else { from + count / LENGTHS as u64 };
            let strings = (ALPHABET.len() as u64).pow((LENGTH_MIN + c) as u32);
            *class = Class { from, count: until - from, step: u64::MAX / (until - from).max(1), strings };
        }
        FirstComponents { seed, classes }
    }

    /// Appends the encoded first component of name `i`.
    #[inline]
    pub fn push(&self, i: u64, out: &mut Vec<u8>) {
        let c = self.classes.partition_point(|class| class.from + class.count <= i);
        let class = &self.classes[c];
        let j = i - class.from;
        let (begin, end) = (class.begin(j), class.begin(j + 1));
        push_number(begin + Random::of(self.seed, i).below(end - begin), LENGTH_MIN + c, out);
    }

    /// Appends a component with which no name begins.
    pub fn push_other(&self, random: &mut Random, out: &mut Vec<u8>) {
        let from = out.len();
        loop {
            push_random(random, out);
            if self.find(&out[from..]).is_none() {
                return;
            }
            out.truncate(from);
        }
    }

    /// The name that begins with this encoded component.
    pub fn find(&self, component: &[u8]) -> Option<u64> {
        let (&[GENERIC, len], characters) = component.split_first_chunk::<2>()? else { return None };
        let class = self.classes.get(usize::from(len).checked_sub(LENGTH_MIN)?)?;
        if class.count == 0 || characters.len() != usize::from(len) {
            return None;
        }
        let string = characters.iter().try_fold(0, |string, character| {
            Some(string * ALPHABET.len() as u64 + ALPHABET.binary_search(character).ok()? as u64)
        })?;
        let i = class.from + class.stratum(string);
        let mut there = Vec::with_capacity(component.len());
        self.push(i, &mut there);
        (there == component).then_some(i)
    }
}

/// Appends a component of `len` characters: `number` to base 62.
#[inline]
fn push_number(mut number: u64, len: usize, out: &mut Vec<u8>) {
    let mut component = [GENERIC, len as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for character in component[2..2 + len].iter_mut().rev() {
        *character = ALPHABET[(number % ALPHABET.len() as u64) as usize];
        number /= ALPHABET.len() as u64;
    }
    out.extend_from_slice(&component[..2 + len]);
}

#[cfg(test)]
mod tests {
    use byname_wire::NameRef;

    use super::*;

    #[test]
    fn first_components_ascend_and_are_found_again() {
        for count in [1, 4, 5, 6, 1000, 1_000_003] {
            let firsts = FirstComponents::new(7, count);
            let (mut last, mut component) = (Vec::new(), Vec::new());
            for i in (0..count).step_by(1 + count as usize / 5000) {
                component.clear();
                firsts.push(i, &mut component);
                let name = NameRef::new(&component).expect("well-formed");
                assert!(name > NameRef::new(&last).expect("well-formed"), "{i} of {count}");
                assert_eq!(firsts.find(&component), Some(i), "{i} of {count}");
                last.clone_from(&component);
                component[3] = b'-';
                assert_eq!(firsts.find(&component), None);
            }
        }
    }

    #[test]
    fn a_billion_first_components_ascend() {
        let firsts = FirstComponents::new(1, 1_000_000_000);
        let (mut last, mut component) = (Vec::new(), Vec::new());
        // Includes the neighbourhood of the ends of classes.
        for i in (0..1_000_000_000).step_by(1_000_000).flat_map(|i| i..i + 20) {
            component.clear();
            firsts.push(i, &mut component);
            assert!(component > last, "{i}");
            assert_eq!(firsts.find(&component), Some(i));
            std::mem::swap(&mut last, &mut component);
        }
    }

    #[test]
    fn lengths_are_equally_frequent_and_characters_nearly_so() {
        let (mut random, mut lengths, mut seen) = (Random::new(1), [0; 11], [0u32; 256]);
        for _ in 0..100_000 {
            let mut component = Vec::new();
            push_random(&mut random, &mut component);
            lengths[component.len() - 2] += 1;
            component[2..].iter().for_each(|&c| seen[usize::from(c)] += 1);
        }
        assert!(lengths[6..].iter().all(|count| (19_000..21_000).contains(count)), "{lengths:?}");
        let expected = 800_000 / 62;
        assert!(ALPHABET.iter().all(|&c| (expected * 9 / 10..expected * 13 / 10).contains(&seen[usize::from(c)])));
    }

    #[test]
    fn others_are_none_of_the_first() {
        let (firsts, mut random) = (FirstComponents::new(3, 50), Random::new(3));
        for _ in 0..1000 {
            let mut component = Vec::new();
            firsts.push_other(&mut random, &mut component);
            assert_eq!(firsts.find(&component), None);
        }
    }
}
