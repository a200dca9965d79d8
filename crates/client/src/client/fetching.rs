//! Objects, fetched by the blocking client.

use std::path::Path;
use std::time::Duration;

use byname_wire::Name;
use thiserror::Error;

use super::Client;
use crate::fetch::resume::{FileError, PartFile};
use crate::fetch::segments::single;
use crate::fetch::{Chunk, Discovery, FetchCounters, FetchError, FetchOptions, Object};
use crate::link::ExchangeError;
use crate::session::{Event, FetchId};

/// Lifetime of each question about an object.
const FIND_LIFETIME: Duration = Duration::from_secs(1);

impl Client {
    /// Finds the newest version of an object. `lifetime` is that of each question.
    ///
    /// # Errors
    /// There is none, or it is not trusted.
    pub fn find(&mut self, name: &Name, how: Discovery, lifetime: Duration) -> Result<Object, ExchangeError> {
        let id = self.with(|session, now, outbox| session.find(name.clone(), how, lifetime, now, outbox));
        self.dispatch();
        self.wait_for(|event| match event {
            Event::Found { id: found, result } if found == id => Ok(result),
            other => Err(other),
        })?
    }

    /// Begins to fetch the segments below a name, which has a version. Each of them comes out of the iterator, in order.
    pub fn fetch_segments(&mut self, object: &Name, options: FetchOptions) -> Fetching<'_> {
        let id = self.with(|session, now, outbox| session.fetch(object.clone(), options, now, outbox));
        Fetching { client: self, id, is_over: false }
    }

    /// Fetches the newest version of an object into memory, if it has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The object cannot be had, is not trusted, or is too large.
    pub fn fetch(&mut self, name: &Name, bytes_max: u64) -> Result<Vec<u8>, FetchError> {
        // Segments without content would never reach the limit of bytes.
        let options = FetchOptions { bytes_max, segments_max: bytes_max.saturating_add(1), ..FetchOptions::default() };
        let not_found = |error| FetchError::NotFound { name: name.clone(), error };
        let object = match self.find(name, Discovery::Auto, FIND_LIFETIME).map_err(not_found)? {
            Object::Segmented(object) => object,
            Object::Single(packet) => return single(&packet, &options).map(<[u8]>::to_vec),
        };
        let mut bytes = Vec::new();
        for chunk in self.fetch_segments(&object, options) {
            bytes.extend_from_slice(chunk?.content());
        }
        Ok(bytes)
    }

    /// Fetches the newest version of an object into a file. An interrupted transfer resumes from `FILE.part`. Returns
    /// the SHA-256 of the file, in hexadecimal.
    ///
    /// # Errors
    /// The object cannot be had or is not trusted, or the file cannot be written. What has arrived is kept for the next
    /// attempt.
    pub fn fetch_file(&mut self, name: &Name, path: &Path, options: FetchOptions) -> Result<String, FetchFileError> {
        let not_found = |error| FetchError::NotFound { name: name.clone(), error };
        let object = self.find(name, Discovery::Auto, FIND_LIFETIME).map_err(not_found)?;
        let on_file = |error| FileError { path: path.to_owned(), error };
        let mut file = PartFile::open(path, &object.name().to_string()).map_err(on_file)?;
        let object = match object {
            Object::Segmented(object) => object,
            Object::Single(packet) => {
                // A single packet is never resumed: it is here completely or not at all.
                if file.segments() == 0 {
                    file.append(single(&packet, &options)?).map_err(on_file)?;
                }
                return Ok(file.finish().map_err(on_file)?);
            }
        };
        let options = FetchOptions { first: file.segments(), last: file.last(), ..options };
        for chunk in self.fetch_segments(&object, options) {
            match chunk {
                Ok(chunk) => file.append_chunk(&chunk).map_err(on_file)?,
                Err(error) => {
                    file.save().map_err(on_file)?;
                    return Err(error.into());
                }
            }
        }
        Ok(file.finish().map_err(on_file)?)
    }
}

/// The reason why an object was not fetched into a file.
#[derive(Debug, Error)]
pub enum FetchFileError {
    /// The object cannot be had, or is not trusted.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// An object on its way: an iterator over its segments, in order. After an error there are no more.
pub struct Fetching<'a> {
    client: &'a mut Client,
    id: FetchId,
    is_over: bool,
}

impl Fetching<'_> {
    /// Numbers so far.
    pub fn counters(&self) -> FetchCounters {
        self.client.session.fetch_counters(self.id)
    }

    /// Waits for the next segment.
    fn wait(&mut self) -> Result<Option<Chunk>, FetchError> {
        loop {
            let now = self.client.clock.now();
            if let Some(chunk) = self.client.session.take_chunk(self.id, now)? {
                return Ok(Some(chunk));
            }
            if self.client.session.is_fetched(self.id) {
                return Ok(None);
            }
            if self.client.interrupted() {
                return Err(FetchError::Interrupted);
            }
            self.client.step(Duration::MAX)?;
        }
    }
}

impl Iterator for Fetching<'_> {
    type Item = Result<Chunk, FetchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.wait().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.client.session.end_fetch(self.id);
    }
}
