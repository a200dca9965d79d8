//! Other places with chunks: folders, and object stores.
//!
//! An object store has each chunk under its SHA-256 in hexadecimal, below the path of the store's URL. What is read is checked
//! like what comes from the network: an object store is as little trusted.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::{ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutPayload, path};
use thiserror::Error;
use tokio_stream::StreamExt as _;
use url::Url;

use super::Digest;
use super::store::{FILE_BYTES_MAX, Store};

/// An answer of an object store may take so long. Somebody else may have the chunk.
const ANSWER: Duration = Duration::from_secs(20);
/// Variables of the environment with what a store needs to know begin with these, such as `AWS_ACCESS_KEY_ID`, `AWS_REGION` and
/// `AWS_ENDPOINT_URL`.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// A place with chunks.
#[derive(Debug, Clone)]
pub enum Source {
    /// A folder.
    Folder(Store),
    /// An object store.
    Objects(Objects),
}

/// An object store, or a part of one.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    below: path::Path,
    /// For words. Without user, password and query.
    url: String,
    /// User and password as they are in the URL, which errors of the store may have.
    secret: Option<String>,
}

/// The reason why a place has no chunks for anybody, or cannot be used.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A folder cannot be made, read or written.
    #[error("{0}: {1}")]
    Folder(String, io::Error),
    /// It is no address of a place.
    #[error("{0} is neither a folder nor the URL of an object store: {1}")]
    Url(String, String),
    /// The store refuses, or does not answer.
    #[error("{0}: {1}")]
    Store(String, String),
}

impl FromStr for Source {
    type Err = SourceError;

    /// A folder, or a URL: `s3://BUCKET/PATH`, `gs://…`, `az://…`, `http://…`, `https://…` or `file:///PATH`.
    fn from_str(text: &str) -> Result<Self, SourceError> {
        let folder = |path: &Path| {
            let opened = Store::open(path).map_err(|error| SourceError::Folder(text.to_owned(), error))?;
            Ok(Source::Folder(opened))
        };
        if !text.contains("://") {
            return folder(Path::new(text));
        }
        let url: Url =
            text.parse().map_err(|error: url::ParseError| SourceError::Url(text.to_owned(), error.to_string()))?;
        if url.scheme() == "file" {
            let path = url
                .to_file_path()
                .map_err(|()| SourceError::Url(text.to_owned(), "a folder of this host is file:///PATH".to_owned()))?;
            return folder(&path);
        }
        Objects::open(&url).map(Source::Objects)
    }
}

impl Source {
    /// A chunk or manifest. `None` if it is not there, or damaged.
    ///
    /// # Errors
    /// The place cannot be asked.
    pub async fn read(&self, digest: Digest) -> Result<Option<Vec<u8>>, SourceError> {
        match self {
            Source::Folder(store) => {
                store.read(digest).map_err(|error| SourceError::Folder(store.folder().display().to_string(), error))
            }
            Source::Objects(objects) => objects.read(digest).await,
        }
    }

    /// Writes a chunk or manifest, if it is not there. Returns whether it was written.
    ///
    /// # Errors
    /// The place does not take it.
    pub async fn write(&self, digest: Digest, bytes: &[u8]) -> Result<bool, SourceError> {
        match self {
            Source::Folder(store) => {
                let written = store.write(digest, bytes);
                written.map_err(|error| SourceError::Folder(store.folder().display().to_string(), error))
            }
            Source::Objects(objects) => objects.write(digest, bytes).await,
        }
    }
}

impl Objects {
    /// The store at a URL, with what variables of the environment say of it.
    fn open(url: &Url) -> Result<Self, SourceError> {
        // The first of a process counts, and all here are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut public = url.clone();
        public.set_query(None);
        // Only what some URLs can have at all.
        let _ = (public.set_password(None), public.set_username(""));
        let known = std::env::vars().filter(|(key, _)| VARIABLES.iter().any(|begin| key.starts_with(begin)));
        let (scheme, _) =
            ObjectStoreScheme::parse(url).map_err(|error| SourceError::Url(public.to_string(), error.to_string()))?;
        // Chunks are checked and are no secret for those who can read the store.
        let plain = (scheme == ObjectStoreScheme::Http && url.scheme() == "http")
            .then(|| ("allow_http".to_owned(), "true".to_owned()));
        let (store, below) = object_store::parse_url_opts(url, known.chain(plain))
            .map_err(|error| SourceError::Url(public.to_string(), error.to_string()))?;
        let secret = (!url.username().is_empty() || url.password().is_some())
            .then(|| url[url::Position::BeforeUsername..url::Position::BeforeHost].to_owned());
        Ok(Objects { store: store.into(), below, url: public.to_string(), secret })
    }

    fn place(&self, digest: Digest) -> path::Path {
        self.below.clone().join(digest.to_string())
    }

    fn error(&self, why: impl fmt::Display) -> SourceError {
        let mut text = why.to_string();
        if let Some(secret) = &self.secret {
            text = text.replace(secret.as_str(), "");
        }
        SourceError::Store(self.url.clone(), text)
    }

    async fn in_time<T>(&self, call: impl Future<Output = object_store::Result<T>>) -> Result<Option<T>, SourceError> {
        match tokio::time::timeout(ANSWER, call).await {
            Err(_) => Err(self.error(format_args!("no answer within {} s", ANSWER.as_secs()))),
            Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(self.error(error)),
            Ok(Ok(value)) => Ok(Some(value)),
        }
    }

    /// As [`Source::read`].
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn read(&self, digest: Digest) -> Result<Option<Vec<u8>>, SourceError> {
        let place = self.place(digest);
        let Some(found) = self.in_time(self.store.get(&place)).await? else { return Ok(None) };
        if found.meta.size > FILE_BYTES_MAX as u64 {
            return Err(self.error(format_args!("{digest} has {} bytes, more than {FILE_BYTES_MAX}", found.meta.size)));
        }
        // The size is what the store says: what it sends may be more.
        let mut stream = found.into_stream();
        let mut bytes = Vec::new();
        while let Some(part) = self.in_time(async { stream.next().await.transpose() }).await?.flatten() {
            if bytes.len() + part.len() > FILE_BYTES_MAX {
                return Err(self.error(format_args!("{digest} has more than {FILE_BYTES_MAX} bytes")));
            }
            bytes.extend_from_slice(&part);
        }
        if digest.check(&bytes).is_err() {
            tracing::warn!("{}: {digest} is damaged there", self.url);
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    async fn write(&self, digest: Digest, bytes: &[u8]) -> Result<bool, SourceError> {
        let place = self.place(digest);
        if self.in_time(self.store.head(&place)).await?.is_some_and(|meta| meta.size == bytes.len() as u64) {
            return Ok(false);
        }
        let put = self.store.put(&place, PutPayload::from(bytes.to_vec()));
        match self.in_time(put).await? {
            Some(_) => Ok(true),
            None => Err(self.error("there is no such place in the store")),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Folder(store) => store.folder().display().fmt(f),
            Source::Objects(objects) => f.write_str(&objects.url),
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}
