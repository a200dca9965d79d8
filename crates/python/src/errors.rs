//! Errors as exceptions of `byname.errors`, with their values as attributes.

use byname_lookup::BuildError;
use byname_lookup::file::FileError;
use byname_lookup::table::{KeyError, TableError};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An attribute of an exception.
pub enum Value {
    Number(u64),
    Seconds(f64),
    Text(String),
    Nothing,
}

/// Makes an exception of `byname.errors`.
pub fn exception(class: &str, message: String, values: Vec<(&str, Value)>) -> PyErr {
    Python::attach(|py| {
        let make = || {
            let class = py.import("byname.errors")?.getattr(class)?;
            let attributes = PyDict::new(py);
            for (name, value) in values {
                match value {
                    Value::Number(number) => attributes.set_item(name, number)?,
                    Value::Seconds(seconds) => attributes.set_item(name, seconds)?,
                    Value::Text(text) => attributes.set_item(name, text)?,
                    Value::Nothing => attributes.set_item(name, py.None())?,
                }
            }
            class.call((message,), Some(&attributes))
        };
        make().map_or_else(|error| error, PyErr::from_value)
    })
}

/// What a call on a table can end with. Made without the interpreter, and turned into an exception with it.
pub enum Problem {
    /// A key that no table has, with its place among the keys of the call.
    Key { place: Option<usize>, reason: String },
    /// The table refuses.
    Table(TableError),
    /// A call on this table panicked before, so its state is unknown.
    Poisoned,
}

impl From<TableError> for Problem {
    fn from(error: TableError) -> Self {
        Problem::Table(error)
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        Problem::Key { place: None, reason: error.to_string() }
    }
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> PyErr {
        match problem {
            Problem::Key { place, reason } => invalid_key(place, &reason),
            Problem::Table(error) => table_error(&error),
            Problem::Poisoned => PyRuntimeError::new_err("an earlier call on this table failed inside; make it anew"),
        }
    }
}

/// The exception for a key that no table has.
pub fn invalid_key(place: Option<usize>, reason: &str) -> PyErr {
    let message = place.map_or_else(|| reason.to_owned(), |place| format!("key {place}: {reason}"));
    let place = place.map_or(Value::Nothing, |place| Value::Number(place as u64));
    exception("InvalidKey", message, vec![("place", place)])
}

/// The exception for arguments of a type or shape that does not fit.
pub fn wrong_type(message: String) -> PyErr {
    PyTypeError::new_err(message)
}

fn table_error(error: &TableError) -> PyErr {
    let message = error.to_string();
    let number = |name, number| vec![(name, Value::Number(number))];
    match error {
        TableError::Key(_) => invalid_key(None, &message),
        TableError::Build(BuildError::Full { rules }) => exception("TableFull", message, number("size", *rules as u64)),
        TableError::Values { values_max } => exception("TableFull", message, number("size", *values_max as u64)),
        TableError::Build(BuildError::EntryOutOfRange { entry, .. }) => {
            exception("InvalidValue", message, number("value", u64::from(*entry)))
        }
        TableError::Bits { value_bits, .. } => {
            exception("InvalidValue", message, number("value", u64::from(*value_bits)))
        }
        TableError::Build(BuildError::TooDeep { .. }) => invalid_key(None, &message),
        TableError::File(FileError::Io { path, source }) => {
            let path = Value::Text(path.to_string_lossy().into_owned());
            let number = source.raw_os_error().and_then(|number| u64::try_from(number).ok());
            exception(
                "InvalidFile",
                message,
                vec![("path", path), ("errno", number.map_or(Value::Nothing, Value::Number))],
            )
        }
        TableError::File(_) | TableError::NoFile => exception("InvalidFile", message, Vec::new()),
        TableError::Effort { steps } => exception("SearchTooLong", message, number("steps", u64::from(*steps))),
        TableError::Build(_) | TableError::Random { .. } => exception("TableError", message, Vec::new()),
    }
}
