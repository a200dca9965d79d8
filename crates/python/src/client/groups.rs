//! Groups that synchronize (State Vector Sync), and messages by tags and locators.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use byname_client::sync::{SyncOptions, Update as Publications, publication_name};
use byname_client::tags::{FanOutLimit, Message as Received};
use byname_client::{AsyncClient, AsyncGroup, Member};
use byname_wire::tagnet::{Address, AddressError};
use byname_wire::{Descriptor, Name};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::mpsc::Receiver;

use super::bridge::future;
use super::errors::{call_error, ended_error};
use super::streams::Stream;
use super::{ms, name};

/// Publications of a member of a group.
#[pyclass(frozen, module = "byname")]
pub struct Update {
    group: Name,
    of: Publications,
}

#[pymethods]
impl Update {
    #[getter]
    fn node(&self) -> String {
        self.of.node.to_string()
    }

    #[getter]
    fn boot(&self) -> u64 {
        self.of.boot
    }

    #[getter]
    fn first(&self) -> u64 {
        self.of.first
    }

    #[getter]
    fn last(&self) -> u64 {
        self.of.last
    }

    fn name(&self, number: u64) -> String {
        publication_name(&self.of.node, &self.group, self.of.boot, number).to_string()
    }

    fn __repr__(&self) -> String {
        format!("<byname.Update {} {} to {}>", self.of.node, self.of.first, self.of.last)
    }
}

/// A group that this program is a member of.
#[pyclass(frozen, module = "byname._byname")]
pub struct Group {
    group: Name,
    node: Name,
    member: Member,
    stream: Arc<Stream<AsyncGroup>>,
}

#[pymethods]
impl Group {
    #[getter]
    fn boot(&self) -> u64 {
        self.member.boot()
    }

    fn name(&self, number: u64) -> String {
        publication_name(&self.node, &self.group, self.member.boot(), number).to_string()
    }

    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (group, stream) = (self.group.clone(), self.stream.clone());
        future(py, async move {
            let updates = stream.next(async |group| group.updates().await).await;
            let of_group = |of| Update { group: group.clone(), of };
            Ok(updates.map(|updates| updates.into_iter().map(of_group).collect::<Vec<_>>()))
        })
    }

    fn publish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let member = self.member.clone();
        future(py, async move { member.publish().await.map_err(ended_error) })
    }

    fn close(&self) {
        self.stream.close();
    }
}

/// A message by tags, or to this program's address.
#[pyclass(frozen, module = "byname")]
pub struct Message {
    client: AsyncClient,
    of: Received,
}

#[pymethods]
impl Message {
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.of.payload)
    }

    #[getter]
    fn source(&self) -> Option<String> {
        self.of.source.map(|source| source.to_string())
    }

    #[getter]
    fn by_tags(&self) -> bool {
        self.of.by_tags
    }

    #[pyo3(signature = (payload, *, source = None))]
    fn reply<'py>(&self, py: Python<'py>, payload: Vec<u8>, source: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        let destination = self.of.source.ok_or_else(|| PyValueError::new_err("the sender told no address"))?;
        send(py, self.client.clone(), destination, payload, source.map(address).transpose()?)
    }

    fn __repr__(&self) -> String {
        format!("<byname.Message of {} bytes>", self.of.payload.len())
    }
}

/// The messages that arrive.
#[pyclass(frozen, module = "byname._byname")]
pub struct Messages {
    client: AsyncClient,
    stream: Arc<Stream<Receiver<Received>>>,
}

#[pymethods]
impl Messages {
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (client, stream) = (self.client.clone(), self.stream.clone());
        future(py, async move {
            let message = stream.next(async |messages| messages.recv().await).await;
            Ok(message.map(|of| Message { client, of }))
        })
    }

    fn close(&self) {
        self.stream.close();
    }
}

fn address(text: &str) -> PyResult<Address> {
    text.parse().map_err(|error: AddressError| PyValueError::new_err(error.to_string()))
}

fn descriptors(sets_of: &[Vec<String>]) -> PyResult<Vec<Descriptor>> {
    sets_of.iter().map(|tags| descriptor(tags)).collect()
}

fn descriptor(tags: &[String]) -> PyResult<Descriptor> {
    Descriptor::of(tags).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// One of this program's addresses, on the tree of `tree` if that is given.
async fn own_address(client: &AsyncClient, tree: Option<Address>) -> PyResult<Address> {
    let own = client.addresses().await.map_err(|error| call_error(&error))?;
    let fits = |own: &Address| tree.is_none_or(|of| of.locator.tree == own.locator.tree);
    own.into_iter().find(fits).ok_or_else(|| PyValueError::new_err("the router has no address for this on its trees"))
}

fn send<'py>(
    py: Python<'py>,
    client: AsyncClient,
    destination: Address,
    payload: Vec<u8>,
    source: Option<Address>,
) -> PyResult<Bound<'py, PyAny>> {
    future(py, async move {
        let source = match source {
            Some(source) => source,
            None => own_address(&client, Some(destination)).await?,
        };
        client.send_to(destination, source, &payload).await.map_err(|error| call_error(&error))
    })
}

/// Groups and messages of a connection.
#[pyclass(frozen, module = "byname._byname")]
pub struct Peers(pub(super) AsyncClient);

#[pymethods]
impl Peers {
    fn join<'py>(
        &self,
        py: Python<'py>,
        group: &str,
        node: &str,
        period: f64,
        suppression: f64,
        boot: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (client, group, node) = (self.0.clone(), name(group)?, name(node)?);
        let period = Duration::from_millis(ms("period", period)?);
        let suppression = Duration::from_millis(ms("suppression", suppression)?);
        let options = SyncOptions { period, suppression, boot, ..SyncOptions::default() };
        future(py, async move {
            let joined = client.join(&group, &node, options).await.map_err(ended_error)?;
            let member = joined.member();
            Ok(Group { group, node, member, stream: Stream::new(joined) })
        })
    }

    fn advertise<'py>(&self, py: Python<'py>, sets_of: Vec<Vec<String>>) -> PyResult<Bound<'py, PyAny>> {
        let (client, descriptors) = (self.0.clone(), descriptors(&sets_of)?);
        future(py, async move { client.advertise(&descriptors).await.map_err(|error| call_error(&error)) })
    }

    fn withdraw<'py>(&self, py: Python<'py>, sets_of: Vec<Vec<String>>) -> PyResult<Bound<'py, PyAny>> {
        let (client, descriptors) = (self.0.clone(), descriptors(&sets_of)?);
        future(py, async move { client.withdraw(&descriptors).await.map_err(|error| call_error(&error)) })
    }

    fn addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.clone();
        future(py, async move {
            let own = client.addresses().await.map_err(|error| call_error(&error))?;
            Ok(own.iter().map(ToString::to_string).collect::<Vec<_>>())
        })
    }

    fn send_to_tags<'py>(
        &self,
        py: Python<'py>,
        tags: Vec<String>,
        payload: Vec<u8>,
        limit: Option<u16>,
        source: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = match limit.map(NonZeroU16::new) {
            None => FanOutLimit::All,
            Some(Some(limit)) => FanOutLimit::Some(limit),
            Some(None) => return Err(PyValueError::new_err("`limit` is at least 1")),
        };
        let (client, descriptor, source) = (self.0.clone(), descriptor(&tags)?, source.map(address).transpose()?);
        future(py, async move {
            let source = match source {
                Some(source) => source,
                None => own_address(&client, None).await?,
            };
            let sent = client.send_to_tags(&descriptor, limit, source, &payload).await;
            sent.map_err(|error| call_error(&error))
        })
    }

    fn send_to<'py>(
        &self,
        py: Python<'py>,
        destination: &str,
        payload: Vec<u8>,
        source: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        send(py, self.0.clone(), address(destination)?, payload, source.map(address).transpose()?)
    }

    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let client = self.0.clone();
        future(py, async move {
            let messages = client.messages().await.map_err(ended_error)?;
            Ok(Messages { client, stream: Stream::new(messages) })
        })
    }
}
