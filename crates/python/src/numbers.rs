//! Arrays of numbers: from any that NumPy understands, and to NumPy's.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::{Value, exception, invalid_key, wrong_type};

/// An array of 64-bit ids, from one of any integers.
pub fn ids<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if let Some(lowest) = lowest(array)?.filter(|lowest| *lowest < 0) {
        return Err(invalid_key(None, &format!("an integer key is 0 to 2^64 - 1, and one here is {lowest}")));
    }
    array.call_method1("astype", ("<u8",))
}

/// The lowest number of an array of signed integers that has any.
fn lowest(array: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let is_signed = array.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "i";
    if is_signed && array.len()? > 0 { array.call_method0("min")?.extract().map(Some) } else { Ok(None) }
}

/// Values of a table.
pub struct Values(PyBackedBytes);

impl Values {
    /// As many values as there are keys, from an array, a list, or one number for all.
    pub fn of(values: &Bound<'_, PyAny>, count: usize) -> PyResult<Values> {
        let numpy = values.py().import("numpy")?;
        let mut array = numpy.call_method1("asarray", (values,))?;
        if array.getattr("ndim")?.extract::<usize>()? == 0 {
            array = numpy.call_method1("broadcast_to", (array, (count,)))?;
        }
        let (dimensions, kind) = shape(&array)?;
        let len = if dimensions == 1 { array.len()? } else { 0 };
        if dimensions == 1 && len != count {
            return Err(PyValueError::new_err(format!("there are {len} values for {count} keys")));
        }
        // A list without numbers has NumPy's default type.
        let is_empty = dimensions == 1 && count == 0;
        if dimensions != 1 || !(is_empty || "ui".contains(&kind)) {
            let dtype = array.getattr("dtype")?;
            return Err(wrong_type(format!(
                "values are integers of 0 to 2^32 - 1 in one dimension, not {dtype} in {dimensions}"
            )));
        }
        if count > 0 {
            for end in ["min", "max"] {
                let value = array.call_method0(end)?;
                if value.extract::<u32>().is_err() {
                    let value = value.call_method0("item")?;
                    let message = format!("values are 0 to 2^32 - 1, and one here is {value}");
                    let value = value.extract::<u64>().map_or(Value::Nothing, Value::Number);
                    return Err(exception("InvalidValue", message, vec![("value", value)]));
                }
            }
        }
        let bytes = array.call_method1("astype", ("<u4",))?.call_method0("tobytes")?;
        Ok(Values(bytes.cast_into::<PyBytes>()?.into()))
    }

    /// The values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + Clone {
        self.0.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value))
    }
}

/// One value.
pub fn value(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract::<u32>().map_err(|error| match value.extract::<i128>() {
        Ok(number) => {
            let attribute = u64::try_from(number).map_or(Value::Nothing, Value::Number);
            exception("InvalidValue", format!("values are 0 to 2^32 - 1, not {number}"), vec![("value", attribute)])
        }
        Err(_) => error,
    })
}

/// Number of dimensions, and the letter of the type.
fn shape(array: &Bound<'_, PyAny>) -> PyResult<(usize, String)> {
    Ok((array.getattr("ndim")?.extract()?, array.getattr("dtype")?.getattr("kind")?.extract()?))
}

/// Places in a buffer.
pub fn offsets(offsets: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let array = offsets.py().import("numpy")?.call_method1("asarray", (offsets,))?;
    let (dimensions, kind) = shape(&array)?;
    if dimensions != 1 || !"ui".contains(&kind) {
        let dtype = array.getattr("dtype")?;
        return Err(wrong_type(format!("`offsets` are integers in one dimension, not {dtype} in {dimensions}")));
    }
    let bytes = array.call_method1("astype", ("<i8",))?.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    let numbers = bytes.as_bytes().as_chunks().0.iter().map(|number| i64::from_le_bytes(*number));
    let numbers = numbers.map(|number| usize::try_from(number).ok()).collect::<Option<Vec<_>>>();
    numbers.ok_or_else(|| PyValueError::new_err("`offsets` has numbers below 0 or above 2^63"))
}

/// The bytes of a buffer.
pub fn bytes(buffer: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = buffer.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    let copied = PyBuffer::<u8>::get(buffer).and_then(|bytes| bytes.to_vec(buffer.py()));
    let copied =
        copied.map_err(|_| wrong_type("with `offsets`, the keys are one buffer of bytes (uint8)".to_owned()))?;
    Ok(PyBytes::new(buffer.py(), &copied).into())
}

/// A NumPy array of these numbers. `dtype` is NumPy's word for their type.
pub fn array<'py, T: Element>(py: Python<'py>, dtype: &str, numbers: &[T]) -> PyResult<Bound<'py, PyAny>> {
    let array = py.import("numpy")?.call_method1("empty", (numbers.len(), dtype))?;
    PyBuffer::<T>::get(&array)?.copy_from_slice(py, numbers)?;
    Ok(array)
}
