//! Digests of a name on their way to another thread, which then need not hash the name again.

use super::{DepthSet, Digest, NameHashKey, PrefixHashes, digest_name};
use crate::name::NameRef;

/// Names with more components are hashed again.
const CARRIED_MAX: usize = 10;

/// Where the components of a name end, and its digests, in three cache lines. Names of up to ten components have room.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct CarriedHashes {
    /// A half of the digest of `/`, which tells keys apart.
    key: u64,
    len: u16,
    depths: CarriedDepths,
    /// `end[d - 1]` is the length of the first `d` components in bytes.
    end: [u16; CARRIED_MAX],
    /// `digest[d - 1]` is the digest of the first `d` components.
    digest: [Digest; CARRIED_MAX],
}

const _: () = assert!(size_of::<CarriedHashes>() == 192);

/// Depths from 1 to 10 at which the digests of a name are certain to be right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CarriedDepths(u16);

impl CarriedDepths {
    /// The depths of `set` that a name of `len` components can have, if these are at most ten.
    #[inline]
    fn of(set: DepthSet, len: usize) -> Self {
        CarriedDepths((set.words()[0] >> 1) as u16 & ((1 << len) - 1))
    }

    /// Whether they are all depths of `prefixes`, and the deepest one, that a name of `len` components has.
    #[inline]
    pub fn are_enough(self, prefixes: DepthSet, len: usize) -> bool {
        let CarriedDepths(depths) = self;
        let has_whole = len == 0 || (len <= CARRIED_MAX && depths >> (len - 1) & 1 == 1);
        has_whole && depths | CarriedDepths::of(prefixes, len).0 == depths
    }
}

impl CarriedHashes {
    /// Of no name.
    pub const EMPTY: CarriedHashes = CarriedHashes {
        key: 0,
        len: 0,
        depths: CarriedDepths(0),
        end: [0; CARRIED_MAX],
        digest: [Digest { hash: 0, check: 0 }; CARRIED_MAX],
    };
}

impl PrefixHashes {
    /// Whether the name has few enough components for [`PrefixHashes::carry_to`].
    #[inline]
    pub fn is_carried(&self) -> bool {
        (1..=CARRIED_MAX).contains(&self.len)
    }

    /// Copies the ends and digests of a name that [`PrefixHashes::is_carried`]. The digests of the whole name and of
    /// `prefixes` are right.
    #[inline]
    pub fn carry_to(&self, carried: &mut CarriedHashes, mut prefixes: DepthSet) {
        debug_assert!(self.is_carried());
        prefixes.insert(self.len);
        carried.key = self.digest[0].check;
        carried.len = self.len as u16;
        carried.depths = CarriedDepths::of(prefixes, self.len);
        // Always all: copies of one length take no loop.
        carried.end.copy_from_slice(&self.end[1..=CARRIED_MAX]);
        carried.digest.copy_from_slice(&self.digest[1..=CARRIED_MAX]);
    }

    /// Takes what another [`PrefixHashes`] has carried. Returns the depths at which the digests are right: none if they are
    /// of another key than `key`. The ends are noted in any case.
    #[inline]
    pub fn take_carried(&mut self, key: KeyMark, carried: &CarriedHashes) -> CarriedDepths {
        let KeyMark(root) = key;
        self.digest[0] = root;
        self.len = usize::from(carried.len);
        self.end[0] = 0;
        self.end[1..=CARRIED_MAX].copy_from_slice(&carried.end);
        self.digest[1..=CARRIED_MAX].copy_from_slice(&carried.digest);
        if carried.key == root.check { carried.depths } else { CarriedDepths::default() }
    }
}

/// Tells a key from others that were drawn at random.
#[derive(Debug, Clone, Copy)]
pub struct KeyMark(Digest);

impl KeyMark {
    /// The mark of a key.
    pub fn of(key: &NameHashKey) -> Self {
        KeyMark(digest_name(key, NameRef::ROOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NameView;
    use crate::name::{Component, Name};
    use crate::name_hash::{HashFunction, tests::SECRET};

    fn name_of(components: usize) -> Name {
        Name::from_components((0..components).map(|i| Component::generic(&b"component"[..i % 9])))
    }

    #[test]
    fn a_name_arrives_with_its_ends_and_digests() {
        for function in [HashFunction::SipHash13, HashFunction::Aes] {
            let key = NameHashKey::with_function(function, SECRET);
            let mut arrived = PrefixHashes::default();
            // Something else was there before.
            arrived.fill(&NameHashKey::new([8, 9]), name_of(100).as_ref());
            for components in 0..=12 {
                let name = name_of(components);
                let mut hashes = PrefixHashes::default();
                hashes.fill(&key, name.as_ref());
                assert_eq!(hashes.is_carried(), (1..=10).contains(&components));
                if !hashes.is_carried() {
                    continue;
                }
                let mut carried = CarriedHashes::EMPTY;
                hashes.carry_to(&mut carried, DepthSet::of(2));
                let depths = arrived.take_carried(KeyMark::of(&key), &carried);
                let [sent, view] = [&hashes, &arrived].map(|hashes| NameView::from_filled(name.as_ref(), hashes));
                assert_eq!((view.len(), view.name()), (components, name.as_ref()));
                for depth in 0..=components {
                    assert_eq!(view.prefix(depth), sent.prefix(depth));
                    assert_eq!(view.digest(depth), sent.digest(depth));
                    let is_enough = depth == 0 || depth == 2 || depth == components;
                    assert_eq!(depths.are_enough(DepthSet::of(depth), components), is_enough, "{depth}");
                }
                assert!(depths.are_enough(DepthSet::of(100), components), "no name of these components has the depth");
                assert_eq!(depths.are_enough(DepthSet::ALL, components), components == 1);
            }
        }
    }

    #[test]
    fn digests_of_another_key_are_not_right_and_ends_are() {
        let (name, mut hashes, mut carried) = (name_of(3), PrefixHashes::default(), CarriedHashes::EMPTY);
        hashes.fill(&NameHashKey::new([1, 2]), name.as_ref());
        hashes.carry_to(&mut carried, DepthSet::ALL);
        let key = NameHashKey::new([1, 3]);
        let depths = hashes.take_carried(KeyMark::of(&key), &carried);
        assert!(!depths.are_enough(DepthSet::EMPTY, 3));
        PrefixHashes::fill_noted_burst_where(
            |_| DepthSet::ALL,
            &key,
            &[name.as_ref()],
            std::slice::from_mut(&mut hashes),
            0..1,
        );
        let view = NameView::from_filled(name.as_ref(), &hashes);
        assert!((0..=3).all(|depth| view.digest(depth) == digest_name(&key, view.prefix(depth))));
    }
}
