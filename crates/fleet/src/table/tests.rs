//! Tables against `BTreeMap`, and parts of them that somebody has cut or altered.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::chunk::{self, CHUNK_ROWS_MAX, chunks};
use super::content::{Content, State};
use super::delta::{DELTA_BYTES_MAX, Delta, RowChange};
use super::manifest::Manifest;
use super::store::Store;
use super::*;

fn rows(count: usize, rng: &mut SmallRng) -> Rows {
    let values: Vec<Arc<[u8]>> = (0..5u8).map(|value| vec![value; usize::from(value)].into()).collect();
    (0..count)
        .map(|_| {
            let key =
                format!("\x08\x03com\x08\x06{:06}\x08\x01{}", rng.random_range(0..1_000_000), rng.random_range(0..9));
            (key.into_bytes().into_boxed_slice(), values[rng.random_range(0..5)].clone())
        })
        .collect()
}

fn whole(rows: &Rows) -> (Manifest, Vec<chunk::Chunk>) {
    let chunks: Vec<_> = chunks(rows).collect();
    let mut manifest = Manifest::default();
    chunks.iter().for_each(|chunk| manifest.push(chunk));
    (manifest, chunks)
}

#[test]
fn tables_come_back_as_they_were() {
    for (seed, count) in [0, 1, 2, 1_000, 60_000].into_iter().enumerate() {
        let rows = rows(count, &mut SmallRng::seed_from_u64(seed as u64));
        let (manifest, chunks) = whole(&rows);
        let encoded = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(Digest::of(&encoded), &encoded).as_ref(), Ok(&manifest));
        assert_eq!(manifest.rows(), rows.len() as u64);
        let mut back = Rows::new();
        for (chunk, listed) in chunks.iter().zip(&manifest.chunks) {
            assert_eq!(chunk::decode(listed.digest, &chunk.bytes, &mut back), Ok(listed.rows));
            assert!(listed.rows <= CHUNK_ROWS_MAX);
        }
        assert_eq!(back, rows);
    }
}

/// Cuts and encodes a table that is in memory as a whole, as the first version of byname did.
fn cut_at_once(rows: &Rows) -> Vec<Vec<u8>> {
    let begins = |key: &[u8]| {
        let hash = key
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52 == 0
    };
    let cost = |key: &[u8], value: &[u8]| key.len() + value.len() + 32;
    let mut rows = rows.iter().map(|(key, value)| (&key[..], &value[..])).peekable();
    let mut chunks = Vec::new();
    while let Some(first) = rows.next() {
        let (mut part, mut bytes) = (vec![first], cost(first.0, first.1));
        while let Some(row) = rows.next_if(|(key, value)| {
            part.len() < CHUNK_ROWS_MAX && bytes + cost(key, value) <= chunk::CHUNK_BODY_BYTES_MAX && !begins(key)
        }) {
            bytes += cost(row.0, row.1);
            part.push(row);
        }
        let mut body = Vec::new();
        coding::push_rows(&mut body, part.iter().map(|(key, value)| (*key, Some(*value))));
        chunks.push(coding::frame(coding::Kind::Chunk, &body));
    }
    chunks
}

#[test]
fn rows_that_are_sorted_on_disk_make_the_same_chunks() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, count) in [0, 1, 5_000, 60_000].into_iter().enumerate() {
        let rng = &mut SmallRng::seed_from_u64(seed as u64);
        let mut rows = rows(count, rng);
        for n in 0..count as u32 / 100 {
            // Long rows, of which few fit in a chunk, and a row of no bytes.
            let key = [&n.to_be_bytes()[..], &vec![7; rng.random_range(0..ROW_KEY_BYTES_MAX - 4)]].concat();
            rows.insert(key.into(), Arc::from(vec![b'v'; rng.random_range(0..ROW_VALUE_BYTES_MAX)]));
            rows.insert(Box::default(), Arc::from([]));
        }
        let mut lines: Vec<_> = rows.iter().collect();
        for at in (1..lines.len()).rev() {
            lines.swap(at, rng.random_range(0..=at));
        }
        let mut sorter = sort::Sorter::new(folder.path(), sort::MEMORY_MIN);
        for (line, (key, value)) in lines.into_iter().enumerate() {
            let value = sorter.value(value).unwrap();
            sorter.push(key, value, line as u64).unwrap();
        }
        let (mut cutter, mut parts) = (chunk::Cutter::default(), Vec::new());
        let sorted = sorter.finish().unwrap();
        sorted
            .each(|key, value| {
                parts.extend(cutter.push(key, value));
                Ok::<(), sort::SortError>(())
            })
            .unwrap();
        parts.extend(cutter.end());
        let expected = cut_at_once(&rows);
        assert!(parts.iter().map(|part| part.encode().bytes).eq(expected.iter().cloned()), "seed {seed}");
        assert!(whole(&rows).1.iter().map(|chunk| &chunk.bytes).eq(&expected), "seed {seed}");
        for (part, bytes) in parts.iter().zip(&expected) {
            assert_eq!(chunk::Part::decode(Digest::of(bytes), bytes).as_ref(), Ok(part));
            let keys: Vec<_> = part.rows().map(|(key, _)| key).collect();
            assert_eq!((part.first(), part.last()), (keys[0], keys[keys.len() - 1]));
        }
    }
}

#[test]
fn tables_are_read_row_by_row() {
    let rng = &mut SmallRng::seed_from_u64(3);
    let rows_before = rows(30_000, rng);
    let (manifest, chunks) = whole(&rows_before);
    let by_name: std::collections::BTreeMap<Digest, Vec<u8>> =
        chunks.iter().map(|chunk| (chunk.digest, chunk.bytes.clone())).collect();
    let mut changes: stream::Changes = rows(50, rng).into_iter().map(|(key, value)| (key, Some(value))).collect();
    changes.extend(rows_before.keys().step_by(1_000).map(|key| (key.clone(), None)));
    changes.insert((*b"\xff").into(), Some(Arc::from(*b"last")));
    let mut expected = rows_before.clone();
    for (key, value) in &changes {
        match value {
            Some(value) => drop(expected.insert(key.clone(), value.clone())),
            None => drop(expected.remove(key)),
        }
    }
    let read_with = |manifest: &Manifest, read: &(dyn Fn(Digest) -> Result<Vec<u8>, String> + Sync)| {
        let mut out = Rows::new();
        let each = &mut |key: &[u8], value: &[u8]| {
            out.insert(key.into(), value.into()).map_or(Ok(()), |_| Err("twice".to_owned()))
        };
        stream::each(manifest, &changes, read, &|words| words, each)?;
        Ok::<Rows, String>(out)
    };
    let read = |digest: Digest| by_name.get(&digest).cloned().ok_or_else(|| "nobody has it".to_owned());
    assert!(read_with(&manifest, &read).as_ref() == Ok(&expected));
    // A chunk is missing, or another one, or in another place.
    let gone = |digest: Digest| if digest == chunks[3].digest { Err("gone".to_owned()) } else { read(digest) };
    assert_eq!(read_with(&manifest, &gone), Err("gone".to_owned()));
    let other = |digest: Digest| read(if digest == chunks[3].digest { chunks[4].digest } else { digest });
    assert!(read_with(&manifest, &other).unwrap_err().contains("the bytes have the SHA-256"));
    let mut swapped = manifest.clone();
    swapped.chunks.swap(2, 3);
    assert!(read_with(&swapped, &read).unwrap_err().contains("does not follow the one before"));
    let mut more = manifest;
    more.chunks[1].rows += 1;
    assert!(read_with(&more, &read).unwrap_err().contains("another number of rows"));
}

#[test]
fn few_changed_rows_change_few_chunks() {
    let mut rng = SmallRng::seed_from_u64(1);
    let before = rows(100_000, &mut rng);
    let names = |rows: &Rows| whole(rows).1.into_iter().map(|chunk| chunk.digest).collect::<BTreeSet<_>>();
    let mut after = before.clone();
    for key in before.keys().step_by(30_000) {
        after.remove(key);
    }
    after.extend(rows(2, &mut rng));
    let (before, after) = (names(&before), names(&after));
    let new = after.difference(&before).count();
    assert!(after.len() > 15 && (1..=12).contains(&new), "{new} of {}", after.len());
}

#[test]
fn large_rows_make_chunks_that_can_be_read() {
    let mut rows = Rows::new();
    for n in 0..600u32 {
        let mut key = vec![b'k'; ROW_KEY_BYTES_MAX];
        key[..4].copy_from_slice(&n.to_be_bytes());
        // What cannot be compressed.
        let value: Vec<u8> = (0..ROW_VALUE_BYTES_MAX as u32 / 32)
            .flat_map(|at| Digest::of(&[n, at].map(u32::to_be_bytes).concat()).0)
            .collect();
        rows.insert(key.into(), value.into());
    }
    let mut back = Rows::new();
    let (_, chunks) = whole(&rows);
    assert!(chunks.len() > 4);
    for chunk in chunks {
        chunk::decode(chunk.digest, &chunk.bytes, &mut back).unwrap();
    }
    assert_eq!(back, rows);
}

#[test]
fn deltas_follow_each_other_and_are_short_enough() {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut oracle = rows(1_000, &mut rng);
    let state = State { epoch: 3, sequence: 7, digest: Digest::of(b"base") };
    let mut content = Content { state, rows: oracle.clone() };
    let mut several = 0;
    for round in 0..20 {
        let count = if round == 19 { 60_000 } else { rng.random_range(1..50) };
        let mut changes: Vec<RowChange> =
            rows(count, &mut rng).into_iter().map(|(key, value)| (key, Some(value))).collect();
        let gone: Vec<_> = oracle.keys().filter(|_| rng.random_range(0..9) == 0).cloned().collect();
        changes.extend(gone.into_iter().map(|key| (key, None)));
        changes.sort();
        changes.dedup_by(|second, first| second.0 == first.0);
        for (key, value) in &changes {
            match value {
                Some(value) => drop(oracle.insert(key.clone(), value.clone())),
                None => drop(oracle.remove(key)),
            }
        }
        let deltas = Delta::encode(3, content.state.digest, &changes);
        several += usize::from(deltas.len() > 1);
        for (encoded, after) in &deltas {
            assert!(encoded.len() <= DELTA_BYTES_MAX);
            let delta = Delta::decode(encoded).unwrap();
            assert_eq!(delta.after, *after);
            let next = content.state.sequence + 1;
            // Once more, one left out, and one of another epoch.
            for (wrong, other) in
                [(next - 1, delta.clone()), (next + 1, delta.clone()), (next, Delta { epoch: 4, ..delta.clone() })]
            {
                let before = content.clone();
                assert!(matches!(content.apply(wrong, &other), Err(BadTable::Gap { .. })));
                assert_eq!(content, before);
            }
            content.apply(next, &delta).unwrap();
            assert!(content.apply(next + 1, &delta).is_err(), "of another history");
        }
        assert_eq!(content.rows, oracle);
    }
    assert_eq!(several, 1);
}

#[test]
fn parts_that_are_cut_or_altered_are_refused() {
    let mut rng = SmallRng::seed_from_u64(4);
    let (manifest, chunks) = whole(&rows(3_000, &mut rng));
    let changes: Vec<RowChange> = rows(50, &mut rng).into_iter().map(|(key, value)| (key, Some(value))).collect();
    let good =
        [chunks[0].bytes.clone(), manifest.encode().unwrap(), Delta::encode(1, Digest::of(b""), &changes)[0].0.clone()];
    let (mut refused, mut taken) = (0, 0);
    for round in 0..6_000 {
        let kind = round % 3;
        let mut bytes = good[kind].clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..4) {
                0 => bytes[at] = rng.random(),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, rng.random()),
                _ => bytes[at] ^= 1 << rng.random_range(0..8),
            }
        }
        // The name is that of the altered bytes, so that decoding begins at all.
        let name = Digest::of(&bytes);
        let mut back = Rows::new();
        let failed = match kind {
            0 => chunk::decode(name, &bytes, &mut back).is_err(),
            1 => Manifest::decode(name, &bytes).is_err(),
            _ => Delta::decode(&bytes).is_err(),
        };
        refused += usize::from(failed);
        taken += usize::from(!failed);
        if bytes != good[kind] {
            let of = Digest::of(&good[kind]);
            assert!(matches!(chunk::decode(of, &bytes, &mut Rows::new()), Err(BadTable::Digest { .. })));
            assert!(matches!(Manifest::decode(of, &bytes), Err(BadTable::Digest { .. })));
        }
    }
    assert!(refused > 4_000, "{refused} refused, {taken} taken");
}

#[test]
fn promises_of_much_memory_are_refused_before_it_is_taken() {
    // A megabyte of zeros in a thousand bytes, and more in it than promised.
    let bomb = coding::frame(coding::Kind::Chunk, &vec![0; 1 << 20]);
    assert!(bomb.len() < 2_000);
    let name = Digest::of(&bomb);
    assert!(chunk::decode(name, &bomb, &mut Rows::new()).is_err());
    let with_length = |len: u32| {
        let mut bytes = bomb.clone();
        bytes[5..9].copy_from_slice(&len.to_be_bytes());
        chunk::decode(Digest::of(&bytes), &bytes, &mut Rows::new())
    };
    assert_eq!(with_length(10), Err(BadTable::Compression(10)));
    assert_eq!(with_length(u32::MAX), Err(BadTable::Long(u32::MAX as usize, chunk::CHUNK_BODY_BYTES_MAX)));
    for (body, error) in [
        // So many rows, and no bytes.
        (&[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..], BadTable::Cut),
        (&[0xff; 11], BadTable::Contradiction("a number has more than 64 bits")),
        // One row and one value, which is longer than it may be.
        (&[1, 1, 0xe1, 0x44, 0, 0, 0], BadTable::Long(0x2261, ROW_VALUE_BYTES_MAX)),
        (&[1, 1, 1, b'v', 1, 0, 1], BadTable::Contradiction("a key shares more than there is with the key before")),
        (&[1, 1, 1, b'v', 0, 0, 2], BadTable::Contradiction("a row has a value that does not exist")),
        (&[1, 1, 1, b'v', 0, 0, 0], BadTable::Contradiction("a row of a chunk has no value")),
        (&[2, 1, 1, b'v', 0, 1, b'b', 1, 0, 1, b'a', 1], BadTable::Contradiction("the keys are not sorted")),
        (&[2, 1, 1, b'v', 0, 1, b'b', 1, 1, 0, 1, 0], BadTable::Contradiction("the keys are not sorted")),
        (&[1, 1, 1, b'v', 0, 0, 1, 9], BadTable::Contradiction("there are bytes after the end")),
        (&[0, 0], BadTable::Contradiction("the chunk does not follow the one before")),
    ] {
        let bytes = coding::frame(coding::Kind::Chunk, body);
        assert_eq!(chunk::decode(Digest::of(&bytes), &bytes, &mut Rows::new()), Err(error), "{body:?}");
    }
}

#[test]
fn files_are_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("chunks")).unwrap();
    let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
    store.write(one, b"one").unwrap();
    assert_eq!((store.write_copy(two, b"two").unwrap(), store.write_copy(two, b"two").unwrap()), (true, false));
    std::fs::write(store.folder().join(format!("{two}.1.part")), "tw").unwrap();
    std::fs::write(store.folder().join("notes"), "mine").unwrap();
    assert_eq!((store.read(one).unwrap().as_deref(), store.has(two)), (Some(&b"one"[..]), true));
    // Damaged: it is not there, and can be written again.
    std::fs::write(store.folder().join(one.to_string()), "0ne").unwrap();
    assert_eq!(store.read(one).unwrap(), None);
    store.write(one, b"one").unwrap();
    assert_eq!(store.read(one).unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(store.keep(&[one].into()).unwrap(), 2);
    assert_eq!((store.has(one), store.has(two), store.folder().join("notes").exists()), (true, false, true));
}

#[test]
fn digests_have_one_spelling() {
    let digest = Digest::of(b"a");
    assert_eq!(digest.to_string().parse(), Ok(digest));
    for bad in ["", "ab", &digest.to_string().to_uppercase(), &digest.to_string()[1..], &"g".repeat(64)] {
        assert_eq!(bad.parse::<Digest>(), Err(BadDigest), "{bad}");
    }
}
