//! What differs between two files of one length, line by line: a builder's change for nodes that have the file before.
//!
//! A patch is a chunk, too. It has the lines of 64 bytes that differ, and where they are. A node that has the blocks before
//! makes the new ones of it, and the list of all blocks, whose name etcd has: so it needs nothing else.

use super::blocks::{BLOCK_BYTES, BLOCKS_MAX, Blocks};
use super::coding::{self, Body, Kind};
use super::store::Store;
use super::{BadTable, Digest};

/// Length of a line, in bytes.
const LINE: usize = 64;
/// Most bytes of a patch before compression. Above, blocks travel.
pub const PATCH_BYTES_MAX: usize = 1 << 20;

/// Blocks that are written at a time.
const WRITTEN: usize = 16;

/// Differences, from the lowest to the highest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    /// Where a run of lines begins, and its bytes. A run is in one block.
    runs: Vec<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Patch {
    /// Adds what differs in the block of this number. Blocks come in their order, and both have one length.
    ///
    /// # Errors
    /// The patch would be too long.
    pub fn push(&mut self, number: usize, before: &[u8], after: &[u8]) -> Result<(), BadTable> {
        let block = (number * BLOCK_BYTES) as u64;
        let lines = before.chunks(LINE).zip(after.chunks(LINE)).enumerate();
        let mut last = None;
        for (line, (_, after)) in lines.filter(|(_, (before, after))| before != after) {
            match self.runs.last_mut() {
                Some((_, run)) if last == Some(line) => run.extend_from_slice(after),
                _ => self.runs.push((block + (line * LINE) as u64, after.to_vec())),
            }
            last = Some(line + 1);
            self.bytes += after.len() + 8;
        }
        if self.bytes > PATCH_BYTES_MAX { Err(BadTable::Long(self.bytes, PATCH_BYTES_MAX)) } else { Ok(()) }
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let (mut body, mut end) = (Vec::new(), 0);
        coding::push_number(&mut body, self.runs.len() as u64);
        for (at, run) in &self.runs {
            coding::push_number(&mut body, at - end);
            coding::push_number(&mut body, run.len() as u64);
            body.extend_from_slice(run);
            end = at + run.len() as u64;
        }
        coding::frame(Kind::Patch, &body)
    }

    /// Decodes the patch of this name.
    ///
    /// # Errors
    /// It is another one, or none.
    pub fn decode(digest: Digest, bytes: &[u8]) -> Result<Self, BadTable> {
        digest.check(bytes)?;
        let body = coding::body(Kind::Patch, bytes, PATCH_BYTES_MAX)?;
        let mut body = Body::new(&body);
        let (mut patch, mut end) = (Patch::default(), 0u64);
        for _ in 0..body.number()? {
            let (gap, len) = (body.number()?, body.number()?);
            let at = end.checked_add(gap).filter(|at| *at < (BLOCKS_MAX * BLOCK_BYTES) as u64);
            let at = at.ok_or(BadTable::Contradiction("a run of lines is behind all blocks"))?;
            let room = BLOCK_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let run = body.bytes(len, room)?;
            if run.is_empty() {
                return Err(BadTable::Contradiction("a run of lines is empty"));
            }
            patch.bytes += run.len() + 8;
            patch.runs.push((at, run.to_vec()));
            end = at + len;
        }
        body.end()?;
        Ok(patch)
    }

    /// Where runs of lines begin in the file, and their bytes. What is secret in a file is blank in them.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.runs.iter().map(|(at, run)| (*at, &run[..]))
    }

    /// Makes the new blocks and their list of those before, which are in this folder, and writes them there.
    ///
    /// # Errors
    /// The blocks before are not here, the result is not the list of this name, or it cannot be written: in words.
    pub fn apply(&self, store: &Store, before: Digest, after: Digest) -> Result<Vec<u8>, String> {
        let io = |error: std::io::Error| format!("{}: {error}", store.folder().display());
        let read = |digest| store.read(digest).map_err(io)?.ok_or_else(|| "the blocks before are not here".to_owned());
        let mut list = Blocks::decode(before, &read(before)?).map_err(|error| error.to_string())?;
        let blocks: Vec<_> = self.runs.chunk_by(|(one, _), (other, _)| block_of(*one) == block_of(*other)).collect();
        for some in blocks.chunks(WRITTEN) {
            let mut made = Vec::with_capacity(some.len());
            for runs in some {
                let number = block_of(runs[0].0);
                let digest = list.digests.get_mut(number).ok_or("a block of the patch is behind the file")?;
                let mut block = read(*digest)?;
                for (at, run) in *runs {
                    let from = (at % BLOCK_BYTES as u64) as usize;
                    let to = block.get_mut(from..from + run.len()).ok_or("lines of the patch are behind the file")?;
                    to.copy_from_slice(run);
                }
                *digest = Digest::of(&block);
                made.push((*digest, block));
            }
            // Each write waits for the disk: together they wait once.
            std::thread::scope(|scope| {
                let write = |(digest, block): &(Digest, Vec<u8>)| store.write(*digest, block).map(drop);
                let writes: Vec<_> = made.iter().map(|made| scope.spawn(move || write(made))).collect();
                let panicked = |_| Err(std::io::Error::other("a thread has ended"));
                writes.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
            })
            .map_err(io)?;
        }
        let bytes = list.encode().map_err(|error| error.to_string())?;
        after.check(&bytes).map_err(|error| error.to_string())?;
        store.write(after, &bytes).map_err(io)?;
        Ok(bytes)
    }
}

fn block_of(at: u64) -> usize {
    (at / BLOCK_BYTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in a folder, block by block.
    fn listed(store: &Store, file: &[u8]) -> Digest {
        let mut list = Blocks::default();
        for block in file.chunks(BLOCK_BYTES) {
            store.write(list.push(block), block).unwrap();
        }
        let bytes = list.encode().unwrap();
        store.write(Digest::of(&bytes), &bytes).unwrap();
        Digest::of(&bytes)
    }

    #[test]
    fn a_patch_makes_the_new_blocks_of_those_before() {
        let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [here, there] = [&folder, &other].map(|folder| Store::open(folder.path()).unwrap());
        let before: Vec<u8> = (0..3 * BLOCK_BYTES + 100).map(|at| (at / 7) as u8).collect();
        let mut after = before.clone();
        // Two lines side by side, on both sides of a block's end, in the third block, and in the last line, which is short.
        for at in [64, 130, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 5, 3 * BLOCK_BYTES + 99] {
            after[at] ^= 1;
        }
        let (from, to) = (listed(&here, &before), listed(&there, &after));
        let mut patch = Patch::default();
        for (number, (before, after)) in before.chunks(BLOCK_BYTES).zip(after.chunks(BLOCK_BYTES)).enumerate() {
            patch.push(number, before, after).unwrap();
        }
        assert_eq!(patch.runs.iter().map(|(_, run)| run.len()).collect::<Vec<_>>(), [128, 64, 64, 64, 36]);
        let bytes = patch.encode();
        let patch = Patch::decode(Digest::of(&bytes), &bytes).unwrap();
        assert_eq!(patch.apply(&here, from, to), Ok(there.read(to).unwrap().unwrap()));
        let list = Blocks::decode(to, &here.read(to).unwrap().unwrap()).unwrap();
        let blocks = list.digests.iter().map(|digest| here.read(*digest).unwrap().unwrap());
        assert_eq!(blocks.collect::<Vec<_>>().concat(), after);

        // Another file after it, none before it, and one that is too short.
        assert!(patch.apply(&here, from, from).is_err());
        assert_eq!(patch.apply(&there, from, to), Err("the blocks before are not here".to_owned()));
        for short in [&before[..BLOCK_BYTES + 10], &before[..2 * BLOCK_BYTES]] {
            let short = listed(&here, short);
            assert!(patch.apply(&here, short, to).unwrap_err().ends_with("behind the file"));
        }
    }

    #[test]
    fn patches_are_bounded_and_damaged_ones_are_refused() {
        let mut patch = Patch::default();
        let (zero, one) = (vec![0; BLOCK_BYTES], vec![1; BLOCK_BYTES]);
        let pushed = (0..32).map(|number| patch.push(number, &zero, &one)).take_while(Result::is_ok).count();
        assert_eq!(pushed, 14);
        let decode = |numbers: &[u64], bytes: &[u8]| {
            let mut body = Vec::new();
            numbers.iter().for_each(|number| coding::push_number(&mut body, *number));
            body.extend_from_slice(bytes);
            let frame = coding::frame(Kind::Patch, &body);
            Patch::decode(Digest::of(&frame), &frame)
        };
        assert!(decode(&[1, 5, 2], b"ab").is_ok());
        assert_eq!(decode(&[1, 5, 3], b"ab"), Err(BadTable::Cut));
        assert!(matches!(decode(&[1, 5, 2], b"abc"), Err(BadTable::Contradiction(_))));
        assert!(matches!(decode(&[1, 5, 0], b""), Err(BadTable::Contradiction(_))));
        assert!(matches!(decode(&[1, u64::MAX, 1], b"a"), Err(BadTable::Contradiction(_))));
        assert!(matches!(decode(&[1, BLOCK_BYTES as u64 - 1, 2], b"ab"), Err(BadTable::Long(..))), "of two blocks");
        let frame = coding::frame(Kind::Delta, b"");
        assert!(matches!(Patch::decode(Digest::of(&frame), &frame), Err(BadTable::Kind(_))));
        assert!(matches!(Patch::decode(Digest::of(b""), &frame), Err(BadTable::Digest { .. })));
    }
}
