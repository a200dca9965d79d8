//! The sets of tags that are subsets of a set.

use std::sync::Mutex;

use byname_lookup::table::{self, TagOptions, TagReader};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::writer;
use crate::errors::{Problem, wrong_type};
use crate::keys;
use crate::numbers::{self, Values};
use crate::readers::Readers;

/// The tags of one set.
type Tags = Vec<Vec<u8>>;

/// Sets of tags, each with a value.
#[pyclass(frozen, module = "byname")]
pub struct TagTable {
    table: Mutex<table::TagTable<u32>>,
    readers: Readers<TagReader<u32>>,
}

fn tags(set: &Bound<'_, PyAny>) -> PyResult<Tags> {
    if set.is_instance_of::<PyString>() || set.is_instance_of::<PyBytes>() {
        return Err(wrong_type("a set of tags is a list of text or bytes, not one text".to_owned()));
    }
    set.try_iter()?.map(|tag| keys::text(&tag?)).collect()
}

fn sets(all: &Bound<'_, PyAny>) -> PyResult<Vec<Tags>> {
    if all.is_instance_of::<PyString>() || all.is_instance_of::<PyBytes>() {
        return Err(wrong_type("this takes many sets of tags, as a list of lists".to_owned()));
    }
    all.try_iter()?.map(|set| tags(&set?)).collect()
}

#[pymethods]
impl TagTable {
    #[new]
    #[pyo3(signature = (*, sets_max = 1 << 28, steps_max = 1 << 20))]
    fn new(py: Python<'_>, sets_max: usize, steps_max: u32) -> PyResult<Self> {
        let options = TagOptions { sets_max, steps_max, ..TagOptions::default() };
        let table = py.detach(|| table::TagTable::with_options(&options).map_err(Problem::from))?;
        let readers = Readers::new(table.reader());
        Ok(TagTable { table: Mutex::new(table), readers })
    }

    fn insert(&self, set: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let (tags, value) = (tags(set)?, numbers::value(value)?);
        Ok(set.py().detach(|| writer(&self.table)?.insert(tags, value).map_err(Problem::from))?)
    }

    fn remove(&self, set: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let tags = tags(set)?;
        Ok(set.py().detach(|| writer(&self.table)?.remove(tags).map_err(Problem::from))?)
    }

    fn insert_all(&self, sets_of: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let sets = sets(sets_of)?;
        let values = Values::of(values, sets.len())?;
        let changes = || sets.iter().zip(values.iter().map(Some));
        Ok(sets_of.py().detach(|| writer(&self.table)?.apply(changes()).map_err(Problem::from))?)
    }

    fn remove_all(&self, sets_of: &Bound<'_, PyAny>) -> PyResult<()> {
        let sets = sets(sets_of)?;
        let changes = || sets.iter().map(|set| (set, None));
        Ok(sets_of.py().detach(|| writer(&self.table)?.apply(changes()).map_err(Problem::from))?)
    }

    fn subsets(&self, set: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let tags = tags(set)?;
        Ok(set.py().detach(|| self.readers.with(|reader| reader.subsets(tags)).map_err(Problem::from))?)
    }

    fn largest(&self, set: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        let tags = tags(set)?;
        Ok(set.py().detach(|| self.readers.with(|reader| reader.largest(tags)).map_err(Problem::from))?)
    }

    fn find<'py>(&self, sets_of: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, sets) = (sets_of.py(), sets(sets_of)?);
        let (values, offsets) = py.detach(|| {
            let mut found = Vec::new();
            self.readers.with(|reader| reader.subsets_all(&sets, &mut found))?;
            let mut offsets = vec![0i64];
            let mut values = Vec::new();
            for of_set in found {
                values.extend(of_set.into_iter().map(i64::from));
                offsets.push(values.len() as i64);
            }
            Ok::<_, Problem>((values, offsets))
        })?;
        Ok((numbers::array(py, "i8", &values)?, numbers::array(py, "i8", &offsets)?))
    }

    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.memory_bytes()))?)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| Ok::<_, Problem>(writer(&self.table)?.len()))?)
    }
}
