//! Packets as objects.

use byname_client::{AsyncClient, DataPacket, session};
use byname_wire::Name;
use byname_wire::data::DataBuilder;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::bridge::future;
use super::errors::ended_error;
use super::{ms, name, seconds};

/// A Data packet.
#[pyclass(frozen, module = "byname")]
pub struct Data(pub(super) DataPacket);

#[pymethods]
impl Data {
    #[getter]
    fn name(&self) -> String {
        self.0.data().name.to_string()
    }

    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.data().content)
    }

    #[getter]
    fn content_type(&self) -> u64 {
        self.0.data().content_type
    }

    #[getter]
    fn freshness(&self) -> f64 {
        seconds(self.0.data().freshness_ms)
    }

    #[getter]
    fn final_block(&self) -> Option<String> {
        let component = self.0.data().final_block?;
        // As a name of one component, without the slash.
        let as_name = Name::default().join(component).to_string();
        Some(as_name.trim_start_matches('/').to_owned())
    }

    #[getter]
    fn packet<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.data().wire)
    }

    fn __repr__(&self) -> String {
        let data = self.0.data();
        format!("<byname.Data {} of {} bytes>", data.name, data.content.len())
    }
}

/// An Interest that this program may answer.
#[pyclass(frozen, module = "byname", name = "Interest")]
pub struct Request {
    pub(super) client: AsyncClient,
    pub(super) request: session::Request,
}

#[pymethods]
impl Request {
    #[getter]
    fn name(&self) -> String {
        self.request.interest().name.to_string()
    }

    #[getter]
    fn prefix(&self) -> String {
        self.request.prefix().to_string()
    }

    #[getter]
    fn can_be_prefix(&self) -> bool {
        self.request.interest().can_be_prefix
    }

    #[getter]
    fn must_be_fresh(&self) -> bool {
        self.request.interest().must_be_fresh
    }

    #[getter]
    fn lifetime(&self) -> f64 {
        seconds(self.request.interest().lifetime_or_default_ms())
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let interest = self.request.interest();
        interest.application_parameters.map(|parameters| PyBytes::new(py, parameters))
    }

    #[pyo3(signature = (content = Vec::new(), *, name = None, freshness = 0.0, content_type = 0))]
    fn reply<'py>(
        &self,
        py: Python<'py>,
        content: Vec<u8>,
        name: Option<&str>,
        freshness: f64,
        content_type: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let name = match name {
            Some(uri) => self::name(uri)?,
            None => self.request.interest().name.to_name(),
        };
        let data = DataBuilder::new(name).content(content).content_type(content_type);
        let data = data.freshness_ms(ms("freshness", freshness)?);
        let (client, request) = (self.client.clone(), self.request.clone());
        future(py, async move { client.reply(request, data).await.map_err(ended_error) })
    }

    fn __repr__(&self) -> String {
        format!("<byname.Interest {}>", self.request.interest().name)
    }
}
