//! Reads a whole table row by row: from its chunks, and from the deltas after its manifest. All rows are never in memory at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::chunk::Part;
use super::content::State;
use super::delta::Delta;
use super::manifest::Manifest;
use super::{BadTable, Digest};

/// Chunks that are decoded ahead.
const AHEAD: usize = 4;

/// What deltas say, all of them together: new values, and keys that go.
pub type Changes = BTreeMap<Box<[u8]>, Option<Arc<[u8]>>>;

/// Takes the key and the value of a row.
pub type EachRow<'a, E> = dyn FnMut(&[u8], &[u8]) -> Result<(), E> + 'a;

/// The changes between two states, by the deltas with these numbers.
///
/// # Errors
/// A delta is missing, or is not the one that follows: in words.
pub fn changes<'d>(from: &State, to: &State, delta: impl Fn(u64) -> Option<&'d [u8]>) -> Result<Changes, String> {
    let (mut state, mut changes) = (from.digest, Changes::new());
    for sequence in from.sequence + 1..=to.sequence {
        let missing = || format!("delta {sequence} is missing, or is not the one that follows");
        let delta = Delta::decode(delta(sequence).ok_or_else(missing)?).map_err(|error| error.to_string())?;
        if delta.epoch != to.epoch || delta.before != state {
            return Err(missing());
        }
        state = delta.after;
        changes.extend(delta.changes);
    }
    if state != to.digest {
        return Err("its deltas do not lead to the state that its head says".to_owned());
    }
    Ok(changes)
}

/// Calls `each` with the key and the value of each row, in the order of keys. A thread reads chunks by `read` and decodes them, some
/// ahead. `bad` makes an error of words.
///
/// # Errors
/// Those of `read` and `each`, or a chunk is damaged, or is not the one that the manifest means.
pub fn each<E: Send>(
    manifest: &Manifest,
    changes: &Changes,
    read: &(dyn Fn(Digest) -> Result<Vec<u8>, E> + Sync),
    bad: &(dyn Fn(String) -> E + Sync),
    each: &mut EachRow<'_, E>,
) -> Result<(), E> {
    let mut changes = changes.iter().peekable();
    std::thread::scope(|scope| {
        let (send, parts) = sync_channel(AHEAD);
        let decode = move || decode_all(manifest, read, bad, &send);
        let thread = std::thread::Builder::new().name("chunks".to_owned()).spawn_scoped(scope, decode);
        thread.map_err(|error| bad(format!("cannot start a thread: {error}")))?;
        for part in parts {
            for (key, value) in part?.rows() {
                while let Some((new, value)) = changes.next_if(|(new, _)| new[..] < *key) {
                    value.as_ref().map_or(Ok(()), |value| each(new, value))?;
                }
                match changes.next_if(|(changed, _)| changed[..] == *key) {
                    Some((_, Some(value))) => each(key, value)?,
                    Some((_, None)) => {}
                    None => each(key, value)?,
                }
            }
        }
        changes.try_for_each(|(key, value)| value.as_ref().map_or(Ok(()), |value| each(key, value)))
    })
}

/// Sends the rows of each chunk, and the first error.
fn decode_all<E>(
    manifest: &Manifest,
    read: &dyn Fn(Digest) -> Result<Vec<u8>, E>,
    bad: &dyn Fn(String) -> E,
    parts: &SyncSender<Result<Part, E>>,
) {
    let mut last: Box<[u8]> = Box::default();
    for (number, listed) in manifest.chunks.iter().enumerate() {
        let damaged = |error: BadTable| bad(format!("chunk {}: {error}", listed.digest));
        let part = read(listed.digest).and_then(|bytes| {
            let part = Part::decode(listed.digest, &bytes).map_err(damaged)?;
            if part.len() != listed.rows {
                return Err(bad(format!("chunk {} has another number of rows than its manifest says", listed.digest)));
            }
            if part.first() != &*listed.first || (number > 0 && *last >= *listed.first) {
                return Err(bad(format!("chunk {} does not follow the one before", listed.digest)));
            }
            last = part.last().into();
            Ok(part)
        });
        let failed = part.is_err();
        // Whoever wanted more may have failed.
        if parts.send(part).is_err() || failed {
            return;
        }
    }
}
