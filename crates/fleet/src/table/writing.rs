//! Writes many chunks at a time: each waits for the disk, and a disk carries out many writes in the time of one.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::Digest;
use super::store::Store;

/// Chunks that are written at a time.
const AT_ONCE: usize = 8;

/// Chunks on their way to a folder.
pub struct Writing {
    chunks: SyncSender<(Digest, Vec<u8>)>,
    threads: Vec<JoinHandle<io::Result<New>>>,
}

/// Chunks that the folder did not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct New {
    /// Number of chunks.
    pub chunks: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Writing {
    /// Writes to this folder.
    ///
    /// # Errors
    /// The system refuses threads.
    pub fn begin(store: &Store) -> io::Result<Self> {
        let (send, chunks) = sync_channel(AT_ONCE);
        let chunks = Arc::new(Mutex::new(chunks));
        let thread = |_| {
            let (store, chunks) = (store.clone(), chunks.clone());
            std::thread::Builder::new().name("write".to_owned()).spawn(move || write_all(&store, &chunks))
        };
        Ok(Writing { chunks: send, threads: (0..AT_ONCE).map(thread).collect::<io::Result<_>>()? })
    }

    /// Writes a chunk, later. If that is not possible any more, [`Writing::end`] says why.
    pub fn write(&self, digest: Digest, bytes: Vec<u8>) {
        // All threads have failed if this does.
        let _ = self.chunks.send((digest, bytes));
    }

    /// Waits until all are there.
    ///
    /// # Errors
    /// A chunk cannot be written.
    pub fn end(self) -> io::Result<New> {
        drop(self.chunks);
        let mut all = New::default();
        let ended = self.threads.into_iter().map(JoinHandle::join);
        for new in ended.map(|new| new.unwrap_or_else(|_| Err(io::Error::other("a thread has ended")))) {
            let New { chunks, bytes } = new?;
            all.chunks += chunks;
            all.bytes += bytes;
        }
        Ok(all)
    }
}

fn write_all(store: &Store, chunks: &Mutex<Receiver<(Digest, Vec<u8>)>>) -> io::Result<New> {
    let mut new = New::default();
    loop {
        // The lock is free again when a chunk is here.
        let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((digest, bytes)) = next else { return Ok(new) };
        if store.write(digest, &bytes)? {
            new.chunks += 1;
            new.bytes += bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_chunks_are_there_or_it_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("chunks")).unwrap();
        let chunks: Vec<_> = (0..100u32).map(|number| number.to_be_bytes().to_vec()).collect();
        store.write(Digest::of(&chunks[7]), &chunks[7]).unwrap();
        let write = || {
            let writing = Writing::begin(&store).unwrap();
            chunks.iter().for_each(|bytes| writing.write(Digest::of(bytes), bytes.clone()));
            writing.end()
        };
        assert_eq!(write().unwrap(), New { chunks: 99, bytes: 396 });
        assert_eq!(store.digests().unwrap(), chunks.iter().map(|bytes| Digest::of(bytes)).collect());
        assert_eq!(write().unwrap(), New::default());
        std::fs::remove_dir_all(store.folder()).unwrap();
        assert_eq!(write().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
