//! What query halves elsewhere are sent for a change: octets, beside what it tells
//! [Concise, Table 2].

use byname_lookup::flat::message::{Sender, Sent};
use byname_lookup::{BuildError, Change, EntryId};
use byname_wire::{Digest, NameHashKey};

use super::engine::{Setup, Subject};
use super::updates::{Sample, other};

/// Octets of a message that fits any network.
const MESSAGE_OCTETS: usize = 1400;
/// Changes of each kind.
const CHANGES: usize = 4096;

/// What was sent for changes of one kind.
pub struct PerChange {
    /// Octets of all messages, with those of parts that were made anew.
    pub octets: f64,
    /// What changes that are told by their words tell at least.
    pub entropy_bits: f64,
}

/// What is sent for additions, and for names that get another action, after each batch of so many.
/// In the end the table is as before. `None`: the engine has nothing to tell.
///
/// # Errors
/// If the engine refuses a change.
pub fn per_change(
    subject: &mut Subject,
    setup: &Setup<'_>,
    batch: usize,
    seed: u64,
) -> Result<Option<[PerChange; 2]>, BuildError> {
    let mut sender = Sender::new(NameHashKey::new([seed, !seed]), MESSAGE_OCTETS);
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
    // A writer that was stopped by the clock has left some names in the table, and others changed.
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
            all.change_octets += sent.change_octets;
            all.block_octets += sent.block_octets;
            all.entropy_bits += sent.entropy_bits;
        }
        let octets = (all.change_octets + all.block_octets) as f64 / changes.len() as f64;
        Ok(PerChange { octets, entropy_bits: all.entropy_bits / all.changes.max(1) as f64 })
    };
    let per_change = [told(&adds)?, told(&alters)?];
    told(&back)?;
    Ok(Some(per_change))
}
