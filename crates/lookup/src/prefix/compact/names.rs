//! The bytes of names, packed.

/// Alignment of names in bytes.
const UNIT: usize = 8;
/// Number of units in a chunk: 1 MiB.
const CHUNK: usize = 1 << 17;
/// Maximum length of a name in bytes. No packet carries a longer one.
const BYTES_MAX: usize = u16::MAX as usize;

/// Where a name lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameAt {
    pub(super) unit: u32,
    pub(super) len: u16,
}

/// Names in chunks that never move. Room of removed names is reused for names of similar length.
#[derive(Default)]
pub(super) struct Names {
    chunks: Vec<Box<[u8]>>,
    /// The first unit that was never used.
    unused: usize,
    /// Free places, by their length in units.
    free: Vec<Vec<u32>>,
}

impl Names {
    /// Stores a name. `None` if 32 GiB are full.
    ///
    /// # Panics
    /// If it has more than 65,535 bytes.
    pub(super) fn add(&mut self, name: &[u8]) -> Option<NameAt> {
        assert!(name.len() <= BYTES_MAX, "no packet carries a name this long");
        let units = name.len().div_ceil(UNIT);
        let unit = match self.free.get_mut(units).and_then(Vec::pop) {
            Some(unit) => unit,
            None => self.fresh(units)?,
        };
        let (chunk, at) = (unit as usize / CHUNK, unit as usize % CHUNK * UNIT);
        if units > 0 {
            self.chunks[chunk][at..at + name.len()].copy_from_slice(name);
        }
        Some(NameAt { unit, len: name.len() as u16 })
    }

    /// The place behind all used ones. The rest of a chunk that is too small stays unused.
    fn fresh(&mut self, units: usize) -> Option<u32> {
        if self.unused % CHUNK + units > CHUNK {
            self.unused = self.unused.next_multiple_of(CHUNK);
        }
        let unit = u32::try_from(self.unused).ok()?;
        self.unused += units;
        while self.chunks.len() * CHUNK < self.unused {
            self.chunks.push(vec![0; CHUNK * UNIT].into());
        }
        Some(unit)
    }

    pub(super) fn get(&self, at: NameAt) -> &[u8] {
        if at.len == 0 {
            return &[];
        }
        let start = at.unit as usize % CHUNK * UNIT;
        &self.chunks[at.unit as usize / CHUNK][start..start + usize::from(at.len)]
    }

    /// Forgets a name.
    pub(super) fn remove(&mut self, at: NameAt) {
        let units = usize::from(at.len).div_ceil(UNIT);
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        self.free[units].push(at.unit);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|places| places.capacity() * size_of::<u32>()).sum();
        self.chunks.len() * (CHUNK * UNIT + size_of::<Box<[u8]>>()) + free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_no_name_is_disturbed() {
        let mut names = Names::default();
        let name = |i: usize| vec![i as u8; (i * 37) % 3000];
        let mut kept: Vec<_> = (0..2000).map(|i| (i, names.add(&name(i)).expect("a few megabytes"))).collect();
        for (i, at) in kept.iter().filter(|(i, _)| i % 2 == 0) {
            assert_eq!(names.get(*at), name(*i));
            names.remove(*at);
        }
        let before = names.memory_bytes();
        kept.retain(|(i, _)| i % 2 == 1);
        kept.extend((0..2000).step_by(2).map(|i| (i, names.add(&name(i)).expect("the same room"))));
        assert_eq!(names.memory_bytes(), before);
        for (i, at) in kept {
            assert_eq!(names.get(at), name(i));
        }
        assert_eq!(names.get(NameAt::default()), b"");
    }
}
