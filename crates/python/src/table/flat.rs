//! A number for exactly this key.

use std::path::PathBuf;
use std::sync::Mutex;

use byname_lookup::table::{self, FlatOptions, Unknown};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{NOTHING, STRIDE, opening, writer};
use crate::errors::Problem;
use crate::keys::{self, Keys};
use crate::numbers::{self, Values};
use crate::readers::Readers;

/// Keys of any bytes, or integers, each with a value.
#[pyclass(frozen, module = "byname")]
pub struct FlatTable {
    table: Mutex<table::FlatTable>,
    readers: Readers<table::FlatReader>,
}

impl FlatTable {
    fn over(table: table::FlatTable) -> Self {
        let readers = Readers::new(table.reader());
        FlatTable { table: Mutex::new(table), readers }
    }
}

/// A file of a table, for lookups.
#[pyclass(frozen, module = "byname")]
pub struct FlatReader {
    readers: Readers<table::FlatReader>,
}

/// Checksums where the caller does not say how long.
const CHECK_BITS: u32 = 16;

fn options(value_bits: u32, unknown: &str, check_bits: Option<u32>, keys_max: usize) -> PyResult<FlatOptions> {
    let unknown = match (unknown, check_bits) {
        ("refused", bits) => Unknown::Refused { check_bits: bits.unwrap_or(CHECK_BITS) },
        ("anything", None) => Unknown::Anything,
        ("exact", None) => Unknown::Exact,
        ("anything" | "exact", Some(_)) => {
            return Err(PyValueError::new_err("`check_bits` goes with unknown=\"refused\" only"));
        }
        _ => {
            let message = format!("'{unknown}' is no answer for unknown keys; it is one of anything, refused, exact");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(FlatOptions { value_bits, unknown, keys_max, ..FlatOptions::default() })
}

fn look_up(readers: &Readers<table::FlatReader>, keys: &Keys) -> Vec<i64> {
    let (mut values, mut found) = (Vec::with_capacity(keys.len()), Vec::new());
    let mut take = |found: &[Option<u32>]| values.extend(found.iter().map(|value| value.map_or(NOTHING, i64::from)));
    readers.with(|reader| match keys.as_ids() {
        Some(ids) => {
            for some in ids.chunks(STRIDE) {
                reader.get_all(some, &mut found);
                take(&found);
            }
        }
        None => {
            let mut some = Vec::with_capacity(STRIDE.min(keys.len()));
            for start in (0..keys.len()).step_by(STRIDE) {
                some.clear();
                some.extend((start..keys.len().min(start + STRIDE)).map(|i| keys.key(i)));
                reader.get_all(&some, &mut found);
                take(&found);
            }
        }
    });
    values
}

fn find<'py>(
    readers: &Readers<table::FlatReader>,
    keys: &Bound<'py, PyAny>,
    offsets: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let keys = Keys::of(keys, offsets)?;
    let values = py.detach(|| look_up(readers, &keys));
    numbers::array(py, "i8", &values)
}

fn get(readers: &Readers<table::FlatReader>, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    let (bytes, _) = keys::one(key)?;
    Ok(readers.with(|reader| reader.get(bytes)))
}

#[pymethods]
impl FlatTable {
    #[new]
    #[pyo3(signature = (*, value_bits = 32, unknown = "anything", check_bits = None, keys_max = 1 << 32))]
    fn new(py: Python<'_>, value_bits: u32, unknown: &str, check_bits: Option<u32>, keys_max: usize) -> PyResult<Self> {
        let options = options(value_bits, unknown, check_bits, keys_max)?;
        let table = py.detach(|| table::FlatTable::with_options(&options).map_err(Problem::from))?;
        Ok(FlatTable::over(table))
    }

    #[staticmethod]
    #[pyo3(signature = (
        keys, values, *, offsets = None, value_bits = 32, unknown = "anything", check_bits = None, keys_max = 1 << 32
    ))]
    fn load(
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        offsets: Option<&Bound<'_, PyAny>>,
        value_bits: u32,
        unknown: &str,
        check_bits: Option<u32>,
        keys_max: usize,
    ) -> PyResult<Self> {
        let options = options(value_bits, unknown, check_bits, keys_max)?;
        let py = keys.py();
        let keys = Keys::of(keys, offsets)?;
        let values = Values::of(values, keys.len())?;
        let load = || table::FlatTable::load(&options, keys.iter().zip(values.iter()), &mut |_| {});
        let table = py.detach(|| load().map_err(Problem::from))?;
        Ok(FlatTable::over(table))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| writer(&self.table)?.save(&path).map_err(Problem::from))?)
    }

    fn get(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        get(&self.readers, key)
    }

    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let ((key_bytes, _), value) = (keys::one(key)?, numbers::value(value)?);
        Ok(key.py().detach(|| writer(&self.table)?.insert(key_bytes, value).map_err(Problem::from))?)
    }

    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key_bytes, _) = keys::one(key)?;
        Ok(key.py().detach(|| writer(&self.table)?.remove(key_bytes).map_err(Problem::from))?)
    }

    #[pyo3(signature = (keys, values, *, offsets = None))]
    fn insert_all(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        offsets: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = keys.py();
        let keys = Keys::of(keys, offsets)?;
        let values = Values::of(values, keys.len())?;
        let changes = || keys.iter().zip(values.iter().map(Some));
        Ok(py.detach(|| writer(&self.table)?.apply(changes()).map_err(Problem::from))?)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn remove_all(&self, keys: &Bound<'_, PyAny>, offsets: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = keys.py();
        let keys = Keys::of(keys, offsets)?;
        let changes = || keys.iter().map(|key| (key, None));
        Ok(py.detach(|| writer(&self.table)?.apply(changes()).map_err(Problem::from))?)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn find<'py>(&self, keys: &Bound<'py, PyAny>, offsets: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        find(&self.readers, keys, offsets)
    }

    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.memory_bytes()))?)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.len()))?)
    }
}

#[pymethods]
impl FlatReader {
    #[staticmethod]
    #[pyo3(signature = (path, *, checked = true, copied = false))]
    fn open(py: Python<'_>, path: PathBuf, checked: bool, copied: bool) -> PyResult<Self> {
        let opening = opening(checked, copied);
        let reader = py.detach(|| table::FlatReader::open(&path, opening).map_err(Problem::from))?;
        Ok(FlatReader { readers: Readers::new(reader) })
    }

    fn get(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        get(&self.readers, key)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn find<'py>(&self, keys: &Bound<'py, PyAny>, offsets: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        find(&self.readers, keys, offsets)
    }
}
