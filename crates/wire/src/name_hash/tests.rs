use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};

use super::*;
use crate::name::{Component, Name};

pub(super) const SECRET: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

fn reference<H: Hasher + Hasher128>(mut hasher: H, bytes: &[u8]) -> Digest {
    hasher.write(bytes);
    let digest = hasher.finish128();
    Digest { hash: digest.h1, check: digest.h2 }
}

/// Names whose components begin and end at every place within words and blocks.
pub(super) fn name_of_many_lengths() -> Name {
    let mut name = Name::default();
    for len in [0, 1, 3, 5, 6, 7, 8, 9, 14, 15, 16, 22, 300, 2, 0, 0] {
        name = name.join(Component::generic(&vec![len as u8; len]));
    }
    name
}

#[test]
fn every_prefix_has_siphash_of_its_bytes() {
    let [k0, k1] = SECRET;
    let name = name_of_many_lengths();
    let mut prefixes = PrefixHashes::default();
    for function in [HashFunction::SipHash13, HashFunction::SipHash24] {
        let key = NameHashKey::with_function(function, SECRET);
        let view = NameView::new(&key, name.as_ref(), &mut prefixes);
        assert_eq!(view.len(), name.as_ref().len());
        for depth in 0..=view.len() {
            let bytes = view.prefix(depth).value();
            let reference = match function {
                HashFunction::SipHash13 => reference(SipHasher13::new_with_keys(k0, k1), bytes),
                _ => reference(SipHasher24::new_with_keys(k0, k1), bytes),
            };
            assert_eq!(view.digest(depth), reference);
            assert_eq!((view.hash(depth), view.check(depth)), (reference.hash, reference.check));
        }
    }
}

#[test]
fn every_function_gives_a_prefix_what_it_has_alone() {
    for function in [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes] {
        let key = NameHashKey::with_function(function, SECRET);
        let name = name_of_many_lengths();
        let mut prefixes = PrefixHashes::default();
        let view = NameView::new(&key, name.as_ref(), &mut prefixes);
        for depth in 0..=view.len() {
            assert_eq!(view.prefix(depth), name.as_ref().prefix(depth));
            assert_eq!(view.digest(depth), digest_name(&key, view.prefix(depth)));
        }
        assert_eq!(view.full_hash(), hash_name(&key, name.as_ref()));
        NameView::from_filled(name.as_ref(), &prefixes);
    }
}

/// Hashes one name after the other, several together, and without vector instructions; long names and short ones.
#[test]
fn every_way_gives_the_same_digests() {
    let many = Name::from_components((0..128).map(|_| Component::generic(b"many")));
    let longest = Name::from_components([Component::generic(&[7; 4000]), Component::generic(&[8; 4792])]);
    assert!(longest.value().len() == crate::PACKET_BYTES_MAX);
    let mut names = vec![Name::default(), name_of_many_lengths(), many, longest];
    for len in 0..40 {
        names.push(Name::from_components([Component { typ: 300, value: &vec![1; len] }, Component::generic(&[2; 3])]));
        names.push(Name::from_components((0..len).map(|_| Component::generic(b"component"))));
    }
    let names: Vec<NameRef<'_>> = names.iter().map(Name::as_ref).collect();
    for function in [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes] {
        let key = NameHashKey::with_function(function, SECRET);
        let mut burst = vec![PrefixHashes::default(); names.len()];
        PrefixHashes::fill_burst(&key, &names, &mut burst);
        let (mut single, mut portable) = (PrefixHashes::default(), PrefixHashes::default());
        for (name, burst) in names.iter().zip(&burst) {
            single.fill(&key, *name);
            portable.fill_portable(&key, *name);
            for hashes in [&single, burst] {
                assert_eq!(hashes.len, name.len());
                assert_eq!(hashes.end[..=hashes.len], portable.end[..=portable.len]);
                assert_eq!(hashes.digest[..=hashes.len], portable.digest[..=portable.len], "{function:?} {name}");
            }
        }
    }
}

#[test]
fn names_at_the_limit_fit() {
    let value = [8, 0].repeat(COMPONENTS_MAX);
    let name = NameRef::new(&value).unwrap();
    let mut prefixes = PrefixHashes::default();
    let view = NameView::new(&NameHashKey::new(SECRET), name, &mut prefixes);
    assert_eq!(view.len(), COMPONENTS_MAX);
    let [k0, k1] = SECRET;
    assert_eq!(view.digest(COMPONENTS_MAX), reference(SipHasher13::new_with_keys(k0, k1), &value));
}

/// [So §2.1]: as many names as buckets leave 1/e of the buckets empty. The paper's chains have 1.58 names on average,
/// and 9 at most.
#[test]
fn buckets_fill_evenly_and_no_names_collide() {
    const NAMES: usize = 1 << 18;
    let names: Vec<_> = (0..NAMES as u64)
        .map(|i| Name::default().join_number(8, i % 512).join(Component::generic(i.to_string().as_bytes())))
        .collect();
    for function in [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes] {
        let key = NameHashKey::with_function(function, SECRET);
        let mut digests: Vec<_> = names.iter().map(|name| digest_name(&key, name.as_ref())).collect();
        // Tables take some bits of either half, from either end.
        let places: [fn(&Digest) -> u64; 4] =
            [|digest| digest.hash, |digest| digest.hash >> 46, |digest| digest.check, |digest| digest.check >> 46];
        for place in places {
            let mut chains = vec![0u32; NAMES];
            digests.iter().for_each(|digest| chains[place(digest) as usize % NAMES] += 1);
            let empty = chains.iter().filter(|&&names| names == 0).count() as f64 / NAMES as f64;
            let longest = chains.into_iter().max().expect("there are buckets");
            assert!((0.363..0.373).contains(&empty) && longest <= 11, "{function:?}: {empty} empty, {longest} in one");
        }
        for half in [|digest: &Digest| digest.hash, |digest: &Digest| digest.check] {
            digests.sort_unstable_by_key(half);
            assert!(digests.windows(2).all(|pair| half(&pair[0]) != half(&pair[1])), "{function:?}");
        }
    }
}

#[test]
fn key_and_function_matter() {
    let name: Name = "/a".parse().unwrap();
    let mut digests = Vec::new();
    for function in [HashFunction::SipHash13, HashFunction::SipHash24, HashFunction::Aes] {
        for secret in [[0, 1], [1, 0]] {
            let digest = digest_name(&NameHashKey::with_function(function, secret), name.as_ref());
            digests.extend([digest.hash, digest.check]);
        }
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 12);
}
