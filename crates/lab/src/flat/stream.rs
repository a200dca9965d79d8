//! Streams all names of a table with their digests and actions. Engines are built from it, so generating and hashing
//! the names is part of the construction.

use byname_lookup::EntryId;
use byname_lookup::flat::BURST_MAX;
use byname_wire::Digest;
use smallvec::SmallVec;

use super::hasher::Hasher;
use super::names::Names;

/// Names in the order of their numbers, hashed in bursts.
pub struct Stream<'a> {
    names: &'a Names,
    hasher: &'a Hasher,
    action_bits: u32,
    /// Number of the burst's first name, and the number after the last name of the stream.
    first: u64,
    end: u64,
    /// Names of the burst that were already returned.
    taken: usize,
    bytes: Vec<u8>,
    ends: SmallVec<[usize; BURST_MAX]>,
    digests: [Digest; BURST_MAX],
}

impl<'a> Stream<'a> {
    /// Streams the names with numbers from `first` up to, but not including, `end`.
    pub fn new(names: &'a Names, hasher: &'a Hasher, action_bits: u32, (first, end): (u64, u64)) -> Self {
        let mut stream = Stream {
            names,
            hasher,
            action_bits,
            first,
            end,
            taken: 0,
            bytes: Vec::new(),
            ends: SmallVec::new(),
            digests: [Digest::default(); BURST_MAX],
        };
        stream.fill();
        stream
    }

    /// Visits all names with their bytes.
    pub fn visit(mut self, mut visitor: impl FnMut(&[u8], Digest, EntryId)) {
        while !self.ends.is_empty() {
            let mut start = 0;
            for (i, (&end, digest)) in self.ends.iter().zip(&self.digests).enumerate() {
                let action = self.names.action(self.first + i as u64, self.action_bits);
                visitor(&self.bytes[start..end], *digest, action);
                start = end;
            }
            self.first += self.ends.len() as u64;
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        for i in self.first..self.end.min(self.first + BURST_MAX as u64) {
            self.names.write(i, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
        let digests = &mut self.digests[..self.ends.len()];
        match self.names.size() {
            Some(size) => self.hasher.digest_fixed_burst(&self.bytes, size, digests),
            None => {
                let starts = std::iter::once(0).chain(self.ends.iter().copied());
                let places = starts.zip(&self.ends);
                let names: SmallVec<[&[u8]; BURST_MAX]> = places.map(|(start, &end)| &self.bytes[start..end]).collect();
                self.hasher.digest_burst(&names, digests);
            }
        }
    }
}

impl Iterator for Stream<'_> {
    type Item = (Digest, EntryId);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.taken == self.ends.len() {
            self.first += self.taken as u64;
            self.taken = 0;
            self.fill();
        }
        let i = self.taken;
        self.taken += 1;
        let number = self.first + i as u64;
        if i < self.ends.len() {
            return Some((self.digests[i], self.names.action(number, self.action_bits)));
        }
        self.taken = i;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::hasher::Function;
    use crate::flat::names::Keys;
    use crate::options::Hash;

    #[test]
    fn each_name_comes_once_with_its_digest() {
        let names = Names::open(Keys::Random, None, 20, 150, 1).expect("made-up names");
        let hasher = Hasher::new(Function::Keyed(Hash::Aes), 1);
        for range in [(0, 150), (3, 131), (64, 64), (149, 150)] {
            let expected = (range.0..range.1).map(|i| {
                let mut name = Vec::new();
                names.write(i, &mut name);
                (hasher.digest(&name), names.action(i, 8))
            });
            let expected: Vec<_> = expected.collect();
            assert!(Stream::new(&names, &hasher, 8, range).eq(expected.iter().copied()), "{range:?}");
            let mut visited = Vec::new();
            Stream::new(&names, &hasher, 8, range).visit(|bytes, digest, action| {
                assert_eq!(hasher.digest(bytes), digest);
                visited.push((digest, action));
            });
            assert_eq!(visited, expected);
        }
    }
}
