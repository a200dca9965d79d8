//! Names packed in memory, for workloads from files.

use std::ops::Range;

use byname_wire::NameRef;

use super::random::Random;

/// Names in one buffer.
#[derive(Default)]
pub struct NameList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl NameList {
    /// Sorts names into canonical order and removes duplicates.
    pub fn sorted(&self) -> NameList {
        let mut names: Vec<_> = self.iter().collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().collect()
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Name `i`.
    pub fn name(&self, i: usize) -> NameRef<'_> {
        NameRef::new_checked_before(&self.bytes[self.place(i)])
    }

    /// All names.
    pub fn iter(&self) -> impl Iterator<Item = NameRef<'_>> {
        (0..self.len()).map(|i| self.name(i))
    }

    /// Adds a name.
    pub fn push(&mut self, name: NameRef<'_>) {
        self.bytes.extend_from_slice(name.value());
        self.ends.push(self.bytes.len());
    }

    /// The longest prefix of `name` in this list, which must be sorted.
    pub fn covering(&self, name: NameRef<'_>) -> Option<usize> {
        (0..=name.len()).rev().find_map(|depth| self.find(name.prefix(depth)))
    }

    /// The position of `name` in this list, which must be sorted.
    pub fn find(&self, name: NameRef<'_>) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(&name) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Draws `count` names at random and keeps their order.
    pub fn sample(&self, count: usize, random: &mut Random) -> NameList {
        // Algorithm S [Knuth, 3.4.2]: each name is taken with the probability that gives the wanted number in the end.
        let mut wanted = count.min(self.len());
        let mut sample = NameList::default();
        for (i, name) in self.iter().enumerate() {
            if random.below((self.len() - i) as u64) < wanted as u64 {
                sample.push(name);
                wanted -= 1;
            }
        }
        sample
    }

    fn place(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        start..self.ends[i]
    }
}

impl<'a> FromIterator<NameRef<'a>> for NameList {
    fn from_iter<I: IntoIterator<Item = NameRef<'a>>>(names: I) -> Self {
        let mut list = NameList::default();
        names.into_iter().for_each(|name| list.push(name));
        list
    }
}

#[cfg(test)]
mod tests {
    use byname_wire::Name;

    use super::*;

    fn list(uris: &[&str]) -> NameList {
        let mut list = NameList::default();
        for uri in uris {
            list.push(uri.parse::<Name>().expect("a literal name").as_ref());
        }
        list
    }

    #[test]
    fn the_longest_prefix_is_found() {
        let sorted = list(&["/b", "/a/b/c", "/a", "/a", "/a/b/c/d"]).sorted();
        assert_eq!(sorted.len(), 4);
        for (asked, expected) in [("/a/b/x", Some("/a")), ("/a/b/c/d/e", Some("/a/b/c/d")), ("/c", None)] {
            let asked: Name = asked.parse().expect("a literal name");
            let found = sorted.covering(asked.as_ref()).map(|i| sorted.name(i).to_string());
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn samples_have_the_size_asked_for() {
        let all = list(&["/a", "/b", "/c", "/d", "/e"]);
        for count in 0..=7 {
            let sample = all.sample(count, &mut Random::new(4));
            assert_eq!(sample.len(), count.min(5));
            assert!(sample.iter().is_sorted());
        }
    }
}
