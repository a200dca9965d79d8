//! The key of a client, and whom it trusts, from files.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use byname_trust::schema::{Schema, SchemaError};
use byname_trust::validator::{Domain, Limits};
use byname_trust::{Certificate, CertificateError, Revocations, Rule, Signer, Validator, read_private_key};
use byname_wire::Name;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A private key from a file: PKCS#8, in DER or PEM.
pub(super) fn private_key(path: &Path) -> PyResult<Vec<u8>> {
    read_private_key(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => invalid(path, &error.to_string()),
        _ => unreadable(path, &error),
    })
}

/// A signer with a private key in PKCS#8.
pub(super) fn signer(key_name: Name, pkcs8: &[u8]) -> PyResult<Signer> {
    Signer::from_pkcs8(key_name, pkcs8).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A validator that trusts what these certificates vouch for. None: there are no certificates.
pub(super) fn validator(anchors: &[impl AsRef<Path>], schema: Option<&Path>) -> PyResult<Option<Validator>> {
    if anchors.is_empty() {
        return match schema {
            None => Ok(None),
            Some(_) => Err(PyValueError::new_err("`schema` says who may sign what; it needs `anchors`, too")),
        };
    }
    let rule = match schema {
        None => Rule::Hierarchical,
        Some(path) => Rule::Schema(Arc::new(Schema::load(path).map_err(|error| match error {
            SchemaError::Read { source, .. } => unreadable(path, &source),
            other => invalid(path, &other.to_string()),
        })?)),
    };
    let load = |path: &Path| {
        Certificate::load(path).map_err(|error| match error {
            CertificateError::Read { source, .. } => unreadable(path, &source),
            other => invalid(path, &other.to_string()),
        })
    };
    let anchors = anchors.iter().map(|path| load(path.as_ref())).collect::<PyResult<_>>()?;
    let domain = Domain { anchors, rule };
    Ok(Some(Validator::new(vec![domain], Revocations::default(), Limits::default())))
}

fn invalid(path: &Path, problem: &str) -> PyErr {
    PyValueError::new_err(format!("{}: {problem}", path.display()))
}

/// An OSError, such as FileNotFoundError.
fn unreadable(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => pyo3::exceptions::PyOSError::new_err((number, error.to_string(), path.to_owned())),
        None => invalid(path, &error.to_string()),
    }
}
