//! Makes chunks of rows as they come: one thread cuts, and some encode and write.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::WriteError;
use crate::table::Digest;
use crate::table::chunk::{Cutter, Part};
use crate::table::manifest::Listed;
use crate::table::store::Store;
use crate::table::stream;
use crate::value::RowCheck;

/// Chunks that are encoded and written at a time. Most of them wait for the disk.
const AT_ONCE: usize = 16;

/// Takes the key and the value of a row.
pub type EachRow<'a> = stream::EachRow<'a, WriteError>;

/// Chunks on their way to a folder, in the order of their rows.
pub(super) struct Stream {
    store: Store,
    parts: mpsc::Receiver<Part>,
    cutting: Option<JoinHandle<Result<(), WriteError>>>,
    under_way: VecDeque<JoinHandle<Result<Written, WriteError>>>,
    /// Chunks that were not there before.
    new: Vec<Digest>,
}

struct Written {
    listed: Listed,
    bytes: u64,
    is_new: bool,
}

/// What comes next.
pub(super) enum Next {
    /// A chunk is in the folder.
    Chunk {
        /// What a manifest says of it.
        listed: Listed,
        /// Its length.
        bytes: u64,
    },
    /// Nothing yet.
    Pause,
    /// All are there.
    End,
}

impl Stream {
    /// Cuts the rows that `rows` passes on, and writes their chunks to this folder.
    pub(super) fn begin(
        store: &Store,
        mut check: RowCheck,
        rows: impl FnOnce(&mut EachRow<'_>) -> Result<(), WriteError> + Send + 'static,
    ) -> Self {
        let (send, parts) = mpsc::channel(AT_ONCE);
        // Nobody receives any more if something else has failed.
        let send = move |part| send.blocking_send(part).map_err(|_| WriteError::Ended);
        let cutting = spawn_blocking(move || {
            let mut cutter = Cutter::default();
            rows(&mut |key, value| {
                check.row(key, value)?;
                cutter.push(key, value).map_or(Ok(()), &send)
            })?;
            cutter.end().map_or(Ok(()), &send)
        });
        let (store, cutting) = (store.clone(), Some(cutting));
        Stream { store, parts, cutting, under_way: VecDeque::new(), new: Vec::new() }
    }

    /// The next chunk, or [`Next::Pause`] after so long without one.
    pub(super) async fn next(&mut self, pause: Duration) -> Result<Next, WriteError> {
        let pause = tokio::time::sleep(pause);
        tokio::pin!(pause);
        loop {
            let (is_open, has_room) = (self.cutting.is_some(), self.under_way.len() < AT_ONCE);
            if !is_open && self.under_way.is_empty() {
                return Ok(Next::End);
            }
            let first = async {
                match self.under_way.front_mut() {
                    Some(first) => first.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                written = first => {
                    self.under_way.pop_front();
                    let Written { listed, bytes, is_new } = written.unwrap_or(Err(WriteError::Ended))?;
                    if is_new {
                        self.new.push(listed.digest);
                    }
                    return Ok(Next::Chunk { listed, bytes });
                }
                part = self.parts.recv(), if is_open && has_room => match part {
                    Some(part) => {
                        let store = self.store.clone();
                        self.under_way.push_back(spawn_blocking(move || write(&store, &part)));
                    }
                    None => {
                        let Some(cutting) = self.cutting.take() else { continue };
                        cutting.await.unwrap_or(Err(WriteError::Ended))?;
                    }
                },
                () = &mut pause => return Ok(Next::Pause),
            }
        }
    }

    /// Ends, and removes the chunks that are new.
    pub(super) async fn undo(mut self, store: &Store) {
        self.parts.close();
        while let Some(written) = self.under_way.pop_front() {
            if let Ok(Ok(Written { listed, is_new: true, .. })) = written.await {
                self.new.push(listed.digest);
            }
        }
        self.new.iter().for_each(|digest| store.remove(*digest));
    }
}

fn write(store: &Store, part: &Part) -> Result<Written, WriteError> {
    let chunk = part.encode();
    let written = store.write(chunk.digest, &chunk.bytes);
    let is_new = written.map_err(|error| WriteError::Folder { folder: store.folder().display().to_string(), error })?;
    let bytes = chunk.bytes.len() as u64;
    Ok(Written { listed: Listed { digest: chunk.digest, first: chunk.first, rows: chunk.rows }, bytes, is_new })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use byname_wire::Name;

    use super::*;
    use crate::block_on;
    use crate::table::Rows;
    use crate::table::chunk::chunks;
    use crate::value::{Route, TableForm, Value};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn rows() -> Rows {
        let route = Route { group: "west".parse().unwrap(), inherit: true, capture: false };
        let value: Arc<[u8]> = route.encode().into();
        let name = |n: u32| format!("/example/{n}").parse::<Name>().unwrap();
        (0..100_000).map(|n| (name(n).value().into(), value.clone())).collect()
    }

    #[test]
    fn chunks_are_those_of_the_rows_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let (store, rows) = (Store::open(folder.path()).unwrap(), rows());
        let expected: Vec<_> =
            chunks(&rows).map(|chunk| (chunk.digest, chunk.rows, chunk.bytes.len() as u64)).collect();
        let pass = move |each: &mut EachRow<'_>| rows.iter().try_for_each(|(key, value)| each(key, value));
        let all = async {
            let mut stream = Stream::begin(&store, TableForm::routes().check().unwrap(), pass);
            let mut all = Vec::new();
            while let Next::Chunk { listed, bytes } = stream.next(PATIENCE).await.unwrap() {
                all.push((listed.digest, listed.rows, bytes));
            }
            all
        };
        let all = block_on(all).unwrap();
        assert!(all.len() > 5, "{}", all.len());
        assert_eq!(all, expected);
        assert_eq!(store.digests().unwrap(), all.iter().map(|(digest, ..)| *digest).collect());
    }

    #[test]
    fn new_chunks_go_again_if_a_row_fails() {
        let folder = tempfile::tempdir().unwrap();
        let (store, rows) = (Store::open(folder.path()).unwrap(), rows());
        // Another table has this one.
        let known = chunks(&rows).nth(3).unwrap();
        store.write(known.digest, &known.bytes).unwrap();
        let pass = move |each: &mut EachRow<'_>| {
            rows.iter().try_for_each(|(key, value)| each(key, value))?;
            // A name that is cut off.
            each(b"\x08\x05abc", b"{}")
        };
        let failed = async {
            let mut stream = Stream::begin(&store, TableForm::routes().check().unwrap(), pass);
            let error = loop {
                match stream.next(PATIENCE).await {
                    Ok(Next::Chunk { .. }) => {}
                    Ok(_) => panic!("it ends without an error"),
                    Err(error) => break error,
                }
            };
            stream.undo(&store).await;
            error
        };
        let failed = block_on(failed).unwrap();
        assert!(matches!(failed, WriteError::Row(_)), "{failed}");
        assert_eq!(store.digests().unwrap(), BTreeSet::from([known.digest]));
    }
}
