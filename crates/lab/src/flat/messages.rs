//! Size of the messages that carry a change to remote query halves, and the entropy of the change [Concise, Table 2].

use byname_lookup::flat::message::{Sender, Sent};
use byname_lookup::{BuildError, Change, EntryId};
use byname_wire::{Digest, NameHashKey};

use super::engine::{Setup, Subject};
use super::updates::{Sample, other};

/// Size limit of a message, in bytes: fits any network.
const MESSAGE_BYTES: usize = 1400;
/// Number of changes of each kind.
const CHANGES: usize = 4096;

/// Mean cost of a change of one kind.
pub struct PerChange {
    /// Bytes of all messages per change, including those for rebuilt parts.
    pub bytes: f64,
    /// Entropy of a change that is sent as words, in bits.
    pub entropy_bits: f64,
}

/// Applies additions, and then changes of action, and measures the messages after each batch. At the end the table is
/// as before. Returns `None` if the engine has no feed.
///
/// # Errors
/// If the engine refuses a change.
pub fn per_change(
    subject: &mut Subject,
    setup: &Setup<'_>,
    batch: usize,
    seed: u64,
) -> Result<Option<[PerChange; 2]>, BuildError> {
    let mut sender = Sender::new(NameHashKey::new([seed, !seed]), MESSAGE_BYTES);
    if subject.feed().is_none() {
        return Ok(None);
    }
    let of = |sample: Sample| -> Vec<(Digest, EntryId)> {
        sample.digests(setup.hasher).into_iter().zip(sample.actions).take(CHANGES).collect()
    };
    let (unseen, stable) = (of(Sample::unseen(setup)), of(Sample::stable(setup, seed)));
    let adds: Vec<_> = unseen.iter().map(|&(name, action)| Change::Set(name, action)).collect();
    let alters: Vec<_> = stable.iter().map(|&(name, action)| Change::Set(name, other(action))).collect();
    let back = stable.iter().map(|&(name, action)| Change::Set(name, action));
    let back: Vec<_> = back.chain(unseen.iter().map(|&(name, _)| Change::Remove(name))).collect();
    // The clock may have stopped an earlier writer halfway. This undoes its changes.
    let fresh = Sample::fresh(setup).digests(setup.hasher).into_iter().map(Change::Remove);
    let left: Vec<_> = fresh.chain(back.iter().cloned()).collect();
    for some in left.chunks(batch) {
        subject.apply(some)?;
        subject.reclaim();
    }
    if let Some(feed) = subject.feed() {
        feed.feed_whole(&mut sender, &mut |_| ());
    }
    let mut told = |changes: &[Change<Digest>]| -> Result<PerChange, BuildError> {
        let mut all = Sent::default();
        for some in changes.chunks(batch) {
            subject.apply(some)?;
            subject.reclaim();
            let sent = subject.feed().map_or_else(Sent::default, |feed| feed.feed(&mut sender, &mut |_| ()));
            all.changes += sent.changes;
            all.change_bytes += sent.change_bytes;
            all.block_bytes += sent.block_bytes;
            all.entropy_bits += sent.entropy_bits;
        }
        let bytes = (all.change_bytes + all.block_bytes) as f64 / changes.len() as f64;
        Ok(PerChange { bytes, entropy_bits: all.entropy_bits / all.changes.max(1) as f64 })
    };
    let per_change = [told(&adds)?, told(&alters)?];
    told(&back)?;
    Ok(Some(per_change))
}
