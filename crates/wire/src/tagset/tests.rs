use super::*;
use crate::Name;

/// From `printf %s TAG | sha256sum`.
const VECTORS: [(&str, u32); 6] = [
    ("classical", 0x25d9_548a),
    ("Beethoven", 0x0e06_8db1),
    ("concert", 0x5359_565a),
    ("", 0xe3b0_c442),
    ("1:org", 0x031f_86f8),
    ("交響曲", 0xe0e9_e22d),
];

#[test]
fn digests_are_the_specified_ones() {
    for (tag, digest) in VECTORS {
        assert_eq!(TagDigest::of(tag.as_bytes()), TagDigest(digest), "{tag}");
    }
}

#[test]
fn filters_are_the_specified_ones() {
    // From an independent program written after docs/tagset.md.
    let classical = [22, 35, 55, 84, 120, 143, 169];
    let beethoven = [9, 47, 64, 100, 112, 161, 175];
    assert_eq!(Filter::positions(TagDigest(0x25d9_548a)), classical);
    assert_eq!(Filter::positions(TagDigest(0x0e06_8db1)), beethoven);
}

#[test]
fn a_name_is_the_set_of_its_numbered_components() {
    let name = "/org/gnu/software".parse::<Name>().unwrap();
    let tags = ["1:org", "2:gnu", "3:software"];
    assert_eq!(Descriptor::of_name(name.as_ref()).unwrap(), Descriptor::of(tags).unwrap());
}

#[test]
fn each_part_gets_one_bit_of_each_tag() {
    for digest in (0..1_000_000).step_by(37) {
        let positions = Filter::positions(TagDigest(digest));
        for (part, position) in positions.into_iter().enumerate() {
            assert_eq!(usize::from(position) / PART_BITS, part);
        }
        assert_eq!(Filter::of(&[TagDigest(digest)]).weight(), FUNCTIONS as u32);
        assert!(Filter::of(&[TagDigest(digest)]).ones().eq(positions));
    }
}

#[test]
fn bits_of_a_part_are_chosen_alike_and_apart_from_other_parts() {
    let digests = 27 * 27 * 400;
    let mut pairs = vec![0u32; FUNCTIONS * 27 * 27];
    for digest in 0..digests {
        let positions = Filter::positions(TagDigest(digest));
        for part in 0..FUNCTIONS {
            let place = |part: usize| usize::from(positions[part]) - part * PART_BITS;
            pairs[(part * 27 + place(part)) * 27 + place((part + 1) % FUNCTIONS)] += 1;
        }
    }
    // The mean is 400 for each pair of positions of two parts, and the standard deviation 20. The
    // bounds are 5.5 of them away.
    assert!(pairs.iter().all(|&count| (290..510).contains(&count)));
}

#[test]
fn subsets_of_tags_are_subsets_of_bits() {
    let tags: Vec<TagDigest> = (0..20).map(|i: u32| TagDigest(i.wrapping_mul(0x9e37_79b9))).collect();
    for set in 0u32..4096 {
        let some = Descriptor::from_digests((0..12).filter(|i| set >> i & 1 == 1).map(|i| tags[i])).unwrap();
        let all = Descriptor::from_digests(tags.iter().copied()).unwrap();
        assert!(some.is_subset(&all) && some.filter().is_subset(&all.filter()));
        assert!(!all.is_subset(&some) && !all.filter().is_subset(&some.filter()));
        assert_eq!(some.tags().len(), set.count_ones() as usize);
    }
}

#[test]
fn tags_are_counted_once_and_at_most_so_many() {
    let twice = Descriptor::of(["a", "b", "a"]).unwrap();
    assert_eq!(twice, Descriptor::of(["b", "a"]).unwrap());
    let tags = |count: u32| Descriptor::from_digests((0..count).map(TagDigest));
    assert_eq!(tags(TAGS_MAX as u32).unwrap().tags().len(), TAGS_MAX);
    assert_eq!(tags(TAGS_MAX as u32 + 1), Err(DescriptorError::TooManyTags));
    assert!(Descriptor::default().is_subset(&twice) && Descriptor::default().filter() == Filter::EMPTY);
}

#[test]
fn spare_bits_make_no_filter() {
    assert!(Filter::from_words([u64::MAX, u64::MAX, u64::MAX >> 3]).is_some());
    for bit in 61..64 {
        assert_eq!(Filter::from_words([0, 0, 1 << bit]), None);
    }
}
