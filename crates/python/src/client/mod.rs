//! The client of `byname-client` for asyncio. The classes of `byname.client` are around this one.

pub mod bridge;
mod errors;
pub mod groups;
pub mod packets;
pub mod streams;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use byname_client::fetch::{Discovery, FetchOptions, Object, check_single};
use byname_client::management::RegisterOptions;
use byname_client::publish::{Content, Publication, PublishOptions};
use byname_client::{AsyncClient, CallError, ClientOptions, Transport};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Name, uri::UriError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use self::bridge::future;
use self::errors::{call_error, connect_error, ended_error, part_error};
use self::packets::Data;
use self::streams::{Parts, Producer, Source};
use crate::errors::{Value, exception};

/// Longest time that an argument may name: 365 days.
const SECONDS_MAX: f64 = 31_536_000.0;

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

/// A time in seconds as milliseconds.
fn ms(what: &str, seconds: f64) -> PyResult<u64> {
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok((seconds * 1000.0).round() as u64);
    }
    Err(PyValueError::new_err(format!("`{what}` is 0 to {SECONDS_MAX} seconds, not {seconds}")))
}

/// The name of a URI.
fn name(uri: &str) -> PyResult<Name> {
    uri.parse().map_err(|error: UriError| PyValueError::new_err(format!("'{uri}' is no name: {error}")))
}

fn discovery(word: &str) -> PyResult<Discovery> {
    let found = Discovery::ALL.into_iter().find(|how| how.word() == word);
    found.ok_or_else(|| {
        let words = Discovery::ALL.map(Discovery::word).join(", ");
        PyValueError::new_err(format!("'{word}' is no way to find an object; it is one of {words}"))
    })
}

/// A client, and its connection.
#[pyclass(frozen, module = "byname._byname")]
pub struct Connection(AsyncClient);

/// Finds an object.
async fn open(client: AsyncClient, name: Name, how: Discovery, options: FetchOptions) -> PyResult<(Name, Source)> {
    let call = |error| call_error(&error);
    match client.find(&name, how).await.map_err(call)? {
        Object::Segmented(object) => {
            let fetching = client.fetch_segments(&object, options).await.map_err(ended_error)?;
            Ok((object, Source::Segments(fetching)))
        }
        Object::Single(packet) => {
            check_single(&packet).map_err(|error| part_error(&error))?;
            let data = packet.data();
            if data.content.len() as u64 > options.bytes_max {
                let bytes_max = Value::Number(options.bytes_max);
                let message = format!("{} is larger than {} bytes", data.name, options.bytes_max);
                return Err(exception("TooLarge", message, vec![("bytes_max", bytes_max)]));
            }
            Ok((data.name.to_name(), Source::Single(Some(data.content.to_vec()))))
        }
    }
}

fn fetch_options(bytes_max: u64, lifetime: f64, tries: u32) -> PyResult<FetchOptions> {
    let lifetime = Duration::from_millis(ms("lifetime", lifetime)?);
    let segments_max = bytes_max.saturating_add(1);
    Ok(FetchOptions { lifetime, tries, bytes_max, segments_max, ..FetchOptions::default() })
}

#[pymethods]
impl Connection {
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each says something else about the connection")]
    fn open<'py>(
        py: Python<'py>,
        routers: Vec<String>,
        reconnect: bool,
        key_name: Option<String>,
        private_key: Option<Vec<u8>>,
        key_file: Option<PathBuf>,
        anchors: Vec<PathBuf>,
        schema: Option<PathBuf>,
        outage: f64,
        refresh: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let transport =
            |uri: &String| uri.parse::<Transport>().map_err(|error| PyValueError::new_err(error.to_string()));
        let mut options = match routers.is_empty() {
            true => ClientOptions::of_environment().map_err(|error| PyValueError::new_err(error.to_string()))?,
            false => ClientOptions::new(routers.iter().map(transport).collect::<PyResult<_>>()?),
        };
        if !reconnect {
            options.reconnect = None;
        }
        if let Some(key_name) = key_name {
            let pkcs8 = match key_file {
                Some(path) => trust::private_key(&path)?,
                None => private_key.unwrap_or_default(),
            };
            options.session.signer = trust::signer(name(&key_name)?, &pkcs8)?;
        }
        let is_endless = outage == f64::INFINITY;
        options.session.outage_max =
            if is_endless { Duration::MAX } else { Duration::from_millis(ms("outage", outage)?) };
        options.session.refresh = Duration::from_millis(ms("refresh", refresh)?);
        options.session.validator = trust::validator(&anchors, schema.as_deref())?;
        future(py, async move {
            let client = AsyncClient::connect(options).await;
            client.map(Connection).map_err(|error| connect_error(&error))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "each is an element of the packet")]
    fn express<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        can_be_prefix: bool,
        must_be_fresh: bool,
        lifetime: f64,
        hop_limit: Option<u8>,
        parameters: Option<Vec<u8>>,
        forwarding_hint: Vec<String>,
        tries: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        if tries == 0 {
            return Err(PyValueError::new_err("`tries` is at least 1"));
        }
        let mut interest = InterestBuilder::new(self::name(name)?, rand::random())
            .can_be_prefix(can_be_prefix)
            .must_be_fresh(must_be_fresh)
            .lifetime_ms(ms("lifetime", lifetime)?)
            .forwarding_hint(forwarding_hint.iter().map(|hint| self::name(hint)).collect::<PyResult<_>>()?);
        if let Some(hops) = hop_limit {
            interest = interest.hop_limit(hops);
        }
        if let Some(parameters) = parameters {
            interest = interest.application_parameters(parameters);
        }
        let client = self.0.clone();
        future(py, async move {
            let answer = client.express(interest, tries).await;
            answer.map(Data).map_err(|error| call_error(&error))
        })
    }

    fn produce<'py>(&self, py: Python<'py>, prefix: &str, announce: bool) -> PyResult<Bound<'py, PyAny>> {
        let (client, prefix) = (self.0.clone(), name(prefix)?);
        future(py, async move {
            let producer = client.produce(&prefix, RegisterOptions { announce }).await;
            producer.map(|producer| Producer::new(client, producer)).map_err(|error| call_error(&error))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "each says something else about the object")]
    fn publish<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        content: Option<Vec<u8>>,
        file: Option<PathBuf>,
        segment_bytes: u64,
        freshness: f64,
        version: Option<u64>,
        announce: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        /// A packet has 8,800 bytes, and its name and signature need some.
        const SEGMENT_BYTES_MAX: u64 = 8600;
        if !(1..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            let message = format!("`segment_bytes` is 1 to {SEGMENT_BYTES_MAX}, not {segment_bytes}");
            return Err(PyValueError::new_err(message));
        }
        let freshness = Duration::from_millis(ms("freshness", freshness)?);
        let options = PublishOptions { segment_bytes, freshness, version };
        let (client, name) = (self.0.clone(), self::name(name)?);
        future(py, async move {
            // The whole content is hashed.
            let read = move || match file {
                Some(path) => Content::of_file(&path),
                None => Ok(Content::of_bytes(content.unwrap_or_default())),
            };
            let content = tokio::task::spawn_blocking(read).await;
            let content = content.map_err(|error| PyOSError::new_err(error.to_string()))??;
            let publication = Publication::new(&name, content, options);
            let (size, sha256) = (publication.bytes(), publication.sha256().to_owned());
            let published = client.publish(publication, RegisterOptions { announce }).await;
            published
                .map(|published| streams::Publication::new(size, sha256, published))
                .map_err(|error: CallError| call_error(&error))
        })
    }

    fn fetch<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        bytes_max: u64,
        discovery: &str,
        lifetime: f64,
        tries: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.source(name, discovery, fetch_options(bytes_max, lifetime, tries)?)?;
        future(py, async move {
            let (_, source) = opened.await?;
            Ok(Bytes(source.whole().await?))
        })
    }

    fn fetch_file<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        path: PathBuf,
        bytes_max: u64,
        lifetime: f64,
        tries: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (client, name) = (self.0.clone(), self::name(name)?);
        let options = fetch_options(bytes_max, lifetime, tries)?;
        future(py, async move { client.fetch_file(&name, &path, options).await.map_err(|error| call_error(&error)) })
    }

    fn parts<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        bytes_max: u64,
        discovery: &str,
        lifetime: f64,
        tries: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opened = self.source(name, discovery, fetch_options(bytes_max, lifetime, tries)?)?;
        future(py, async move {
            let (name, source) = opened.await?;
            Ok(Parts::new(name.to_string(), source))
        })
    }

    fn peers(&self) -> groups::Peers {
        groups::Peers(self.0.clone())
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.clone();
        future(py, async move {
            // A client that has ended is closed.
            let _ = client.close().await;
            Ok(())
        })
    }
}

impl Connection {
    /// Begins to fetch an object, when the result is awaited.
    fn source(
        &self,
        name: &str,
        discovery: &str,
        options: FetchOptions,
    ) -> PyResult<impl Future<Output = PyResult<(Name, Source)>> + use<>> {
        Ok(open(self.0.clone(), self::name(name)?, self::discovery(discovery)?, options))
    }
}

/// Bytes, and not a list of numbers.
struct Bytes(Vec<u8>);

impl<'py> IntoPyObject<'py> for Bytes {
    type Target = pyo3::types::PyBytes;
    type Output = Bound<'py, Self::Target>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(pyo3::types::PyBytes::new(py, &self.0))
    }
}
