//! The longest prefix that has a rule.

use std::path::PathBuf;
use std::sync::Mutex;

use byname_lookup::table::{self, Matching, PrefixOptions, PrefixReader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::{NOTHING, STRIDE, opening, writer};
use crate::errors::Problem;
use crate::keys::{self, Keys, NameKey, Syntax};
use crate::numbers::{self, Values};
use crate::readers::Readers;

/// Rules for prefixes, each with a value.
#[pyclass(frozen, module = "byname")]
pub struct PrefixTable {
    syntax: Syntax,
    table: Mutex<table::PrefixTable<u32>>,
    readers: Readers<PrefixReader<u32>>,
}

impl PrefixTable {
    fn over(table: table::PrefixTable<u32>, syntax: Syntax) -> Self {
        let readers = Readers::new(table.reader());
        PrefixTable { syntax, table: Mutex::new(table), readers }
    }

    /// Calls the table with one key, without the interpreter.
    fn with_key<T: Send>(
        &self,
        key: &Bound<'_, PyAny>,
        call: impl FnOnce(NameKey<'_>) -> Result<T, Problem> + Send,
    ) -> PyResult<T> {
        let bytes = keys::text(key)?;
        Ok(key.py().detach(|| {
            let key = self.syntax.key(&bytes).map_err(|reason| Problem::Key { place: None, reason })?;
            call(key)
        })?)
    }

    /// Looks up many keys. Returns their values, and the depths of their rules.
    fn look_up(&self, keys: &Keys) -> Result<(Vec<i64>, Vec<i32>), Problem> {
        let (mut values, mut depths) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        let mut found = Vec::new();
        self.readers.with(|reader| {
            for start in (0..keys.len()).step_by(STRIDE) {
                let some = self.syntax.keys(keys, start..keys.len().min(start + STRIDE))?;
                reader.get_all(&some, &mut found).map_err(|_| first_invalid(&some, start))?;
                values.extend(found.iter().map(|rule| rule.map_or(NOTHING, |rule| rule.value.into())));
                depths.extend(found.iter().map(|rule| rule.map_or(NOTHING as i32, |rule| rule.depth as i32)));
            }
            Ok((values, depths))
        })
    }

    fn change(&self, keys: &Keys, values: impl Iterator<Item = Option<u32>>) -> Result<(), Problem> {
        let names = self.names(keys)?;
        Ok(writer(&self.table)?.apply(names.into_iter().zip(values))?)
    }

    fn names<'a>(&self, keys: &'a Keys) -> Result<Vec<NameKey<'a>>, Problem> {
        names(self.syntax, keys)
    }
}

/// All keys of a call, none over the limits.
fn names(syntax: Syntax, keys: &Keys) -> Result<Vec<NameKey<'_>>, Problem> {
    let names = syntax.keys(keys, 0..keys.len())?;
    let invalid = |(place, key): (usize, &NameKey<'_>)| Some((place, key.check().err()?));
    match names.iter().enumerate().find_map(invalid) {
        Some((place, error)) => Err(Problem::Key { place: Some(place), reason: error.to_string() }),
        None => Ok(names),
    }
}

/// The first key that is over the limits.
fn first_invalid(keys: &[NameKey<'_>], start: usize) -> Problem {
    let invalid = |(i, key): (usize, &NameKey<'_>)| Some((i, key.check().err()?));
    let (place, reason) = match keys.iter().enumerate().find_map(invalid) {
        Some((i, error)) => (Some(start + i), error.to_string()),
        None => (None, "a key is over the limits".to_owned()),
    };
    Problem::Key { place, reason }
}

/// Keys of names are text.
fn texts(keys: &Bound<'_, PyAny>, offsets: Option<&Bound<'_, PyAny>>) -> PyResult<Keys> {
    let keys = Keys::of(keys, offsets)?;
    if keys.are_ids() {
        return Err(crate::errors::wrong_type("keys of this table are text or bytes, not integers".to_owned()));
    }
    Ok(keys)
}

fn options(matching: &str, rules_max: usize) -> PyResult<PrefixOptions> {
    let matching = match matching {
        "fast" => Matching::Fast,
        "exact" => Matching::Exact,
        "many-values" => Matching::ManyValues,
        _ => {
            let message = format!("'{matching}' is no matching; it is one of fast, exact, many-values");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(PrefixOptions { matching, rules_max, ..PrefixOptions::default() })
}

#[pymethods]
impl PrefixTable {
    #[new]
    #[pyo3(signature = (*, syntax = "path", matching = "fast", rules_max = 1 << 28))]
    fn new(py: Python<'_>, syntax: &str, matching: &str, rules_max: usize) -> PyResult<Self> {
        let (syntax, options) = (Syntax::of(syntax)?, options(matching, rules_max)?);
        let table = py.detach(|| table::PrefixTable::with_options(&options).map_err(Problem::from))?;
        Ok(PrefixTable::over(table, syntax))
    }

    #[staticmethod]
    #[pyo3(signature = (keys, values, *, offsets = None, syntax = "path", rules_max = 1 << 28))]
    fn from_rules(
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        offsets: Option<&Bound<'_, PyAny>>,
        syntax: &str,
        rules_max: usize,
    ) -> PyResult<Self> {
        let (syntax, options) = (Syntax::of(syntax)?, options("fast", rules_max)?);
        let keys_of = texts(keys, offsets)?;
        let values = Values::of(values, keys_of.len())?;
        let table = keys.py().detach(|| {
            let rules = names(syntax, &keys_of)?.into_iter().zip(values.iter());
            table::PrefixTable::from_rules(&options, rules).map_err(Problem::from)
        })?;
        Ok(PrefixTable::over(table, syntax))
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, syntax = "path", checked = true, copied = false, rules_max = 1 << 28))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        syntax: &str,
        checked: bool,
        copied: bool,
        rules_max: usize,
    ) -> PyResult<Self> {
        let (syntax, options) = (Syntax::of(syntax)?, options("fast", rules_max)?);
        let opening = opening(checked, copied);
        let table = py.detach(|| table::PrefixTable::open(&path, opening, &options).map_err(Problem::from))?;
        Ok(PrefixTable::over(table, syntax))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| writer(&self.table)?.save(&path).map_err(Problem::from))?)
    }

    fn get(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(u32, usize)>> {
        let found = self.with_key(key, |key| Ok(self.readers.with(|reader| reader.get(key))?))?;
        Ok(found.map(|rule| (rule.value, rule.depth)))
    }

    fn rule(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.with_key(key, |key| Ok(writer(&self.table)?.rule(key)?))
    }

    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let value = numbers::value(value)?;
        self.with_key(key, |key| Ok(writer(&self.table)?.insert(key, value)?))
    }

    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.with_key(key, |key| Ok(writer(&self.table)?.remove(key)?))
    }

    #[pyo3(signature = (keys, values, *, offsets = None))]
    fn insert_all(
        &self,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        offsets: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = keys.py();
        let keys = texts(keys, offsets)?;
        let values = Values::of(values, keys.len())?;
        Ok(py.detach(|| self.change(&keys, values.iter().map(Some)))?)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn remove_all(&self, keys: &Bound<'_, PyAny>, offsets: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = keys.py();
        let keys = texts(keys, offsets)?;
        Ok(py.detach(|| self.change(&keys, std::iter::repeat(None)))?)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn find<'py>(&self, keys: &Bound<'py, PyAny>, offsets: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let keys = texts(keys, offsets)?;
        let (values, _) = py.detach(|| self.look_up(&keys))?;
        numbers::array(py, "i8", &values)
    }

    #[pyo3(signature = (keys, *, offsets = None))]
    fn find_with_depths<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        offsets: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = keys.py();
        let keys = texts(keys, offsets)?;
        let (values, depths) = py.detach(|| self.look_up(&keys))?;
        Ok((numbers::array(py, "i8", &values)?, numbers::array(py, "i4", &depths)?))
    }

    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.memory_bytes()))?)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.len()))?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.rule(key)?.is_some())
    }
}
