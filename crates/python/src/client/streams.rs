//! What goes on until it is closed: prefixes, published objects, and objects on their way.

use std::sync::{Arc, Mutex, PoisonError};

use byname_client::{AsyncClient, AsyncFetching, AsyncPublication};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::bridge::future;
use super::errors::part_error;
use super::packets::Request;

/// Something that is read item by item, and can be closed while a task waits for the next one.
pub(super) struct Stream<T> {
    source: AsyncMutex<Option<T>>,
    closing: Notify,
}

impl<T> Stream<T> {
    pub(super) fn new(source: T) -> Arc<Self> {
        Arc::new(Stream { source: AsyncMutex::new(Some(source)), closing: Notify::new() })
    }

    /// The next item. `None`: there are no more, or this is closed.
    pub(super) async fn next<I>(&self, next: impl AsyncFnOnce(&mut T) -> Option<I>) -> Option<I> {
        let mut source = self.source.lock().await;
        let open = source.as_mut()?;
        let item = tokio::select! {
            item = next(open) => item,
            () = self.closing.notified() => None,
        };
        if item.is_none() {
            *source = None;
        }
        item
    }

    pub(super) fn close(&self) {
        match self.source.try_lock() {
            Ok(mut source) => *source = None,
            // A task that waits for an item closes.
            Err(_) => self.closing.notify_one(),
        }
    }
}

/// The Interests below a prefix.
#[pyclass(frozen, module = "byname._byname")]
pub struct Producer {
    client: AsyncClient,
    stream: Arc<Stream<byname_client::Producer>>,
}

impl Producer {
    pub(super) fn new(client: AsyncClient, producer: byname_client::Producer) -> Self {
        Producer { client, stream: Stream::new(producer) }
    }
}

#[pymethods]
impl Producer {
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (client, stream) = (self.client.clone(), self.stream.clone());
        future(py, async move {
            let request = stream.next(async |producer| producer.next().await).await;
            Ok(request.map(|request| Request { client, request }))
        })
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// A part of an object: its number and its bytes.
pub(super) struct Part(u64, Vec<u8>);

impl<'py> IntoPyObject<'py> for Part {
    type Target = pyo3::types::PyTuple;
    type Output = Bound<'py, Self::Target>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        (self.0, PyBytes::new(py, &self.1)).into_pyobject(py)
    }
}

/// Where parts come from.
pub(super) enum Source {
    /// The object is one packet.
    Single(Option<Vec<u8>>),
    Segments(AsyncFetching),
}

impl Source {
    pub(super) async fn next(&mut self) -> Option<PyResult<Part>> {
        match self {
            Source::Single(content) => content.take().map(|content| Ok(Part(0, content))),
            Source::Segments(fetching) => {
                let chunk = fetching.next().await?;
                Some(
                    chunk
                        .map(|chunk| Part(chunk.segment, chunk.content().to_vec()))
                        .map_err(|error| part_error(&error)),
                )
            }
        }
    }

    /// All bytes.
    pub(super) async fn whole(mut self) -> PyResult<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(part) = self.next().await {
            whole.append(&mut part?.1);
        }
        Ok(whole)
    }
}

/// An object on its way.
#[pyclass(frozen, module = "byname._byname")]
pub struct Parts {
    #[pyo3(get)]
    name: String,
    stream: Arc<Stream<Source>>,
}

impl Parts {
    pub(super) fn new(name: String, source: Source) -> Self {
        Parts { name, stream: Stream::new(source) }
    }
}

#[pymethods]
impl Parts {
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stream = self.stream.clone();
        future(py, async move { stream.next(async |source| source.next().await).await.transpose() })
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// A published object.
#[pyclass(frozen, module = "byname._byname")]
pub struct Publication {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    size: u64,
    #[pyo3(get)]
    sha256: String,
    publication: Mutex<Option<AsyncPublication>>,
}

impl Publication {
    pub(super) fn new(size: u64, sha256: String, publication: AsyncPublication) -> Self {
        let name = publication.versioned_name().to_string();
        Publication { name, size, sha256, publication: Mutex::new(Some(publication)) }
    }
}

#[pymethods]
impl Publication {
    fn close(&self) {
        let publication = self.publication.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(publication);
    }
}
