//! A number for exactly this key.

use std::collections::HashMap;

use anyhow::bail;
use byname_lookup::table::{FlatOptions, FlatReader, FlatTable, Unknown};
use dsi_progress_logger::no_logging;
use sux::bits::BitFieldVec;
use sux::func::VFunc;

use super::keys::Packed;
use super::map::Map;
use super::{Answer, Asker, Subject, value};

pub const LIBRARIES: [&str; 7] =
    ["byname", "byname-checked", "byname-exact", "std-hashmap", "hashbrown", "fst", "sux-vfunc"];

/// Bits of a value.
const BITS: u32 = 16;

pub fn build<'k>(library: &str, keys: &'k Packed) -> anyhow::Result<Box<dyn Subject<&'k str> + 'k>> {
    let pairs = || keys.iter().enumerate().map(|(i, key)| (key, value(i)));
    let byname = |unknown| {
        let options = FlatOptions { value_bits: BITS, unknown, ..FlatOptions::default() };
        let table = FlatTable::load(&options, pairs(), &mut |_| {})?;
        anyhow::Ok(Box::new(Byname { keys, table }))
    };
    Ok(match library {
        "byname" => byname(Unknown::Anything)?,
        "byname-checked" => byname(Unknown::Refused { check_bits: 16 })?,
        "byname-exact" => byname(Unknown::Exact)?,
        // A value takes as much room as one of 16 bits, because keys are aligned.
        "std-hashmap" => {
            let map: HashMap<Box<str>, u32> = pairs().map(|(key, value)| (key.into(), value)).collect();
            Box::new(Whole { keys, map })
        }
        "hashbrown" => {
            let map: hashbrown::HashMap<Box<str>, u32> = pairs().map(|(key, value)| (key.into(), value)).collect();
            Box::new(Whole { keys, map })
        }
        // Keys are sorted, as it wants them.
        "fst" => Box::new(Fst(fst::Map::from_iter(pairs().map(|(key, value)| (key, u64::from(value))))?)),
        "sux-vfunc" => {
            let (names, values): (Vec<&str>, Vec<u64>) = pairs().map(|(key, value)| (key, u64::from(value))).unzip();
            Box::new(Vfunc(Function::try_par_new(&names, &values, no_logging![])?))
        }
        _ => bail!("no library is called '{library}'"),
    })
}

/// The values of keys, by a map of all.
pub fn right(keys: &Packed, questions: &[&str]) -> Vec<Answer> {
    let all: HashMap<&str, usize> = keys.iter().zip(0..).collect();
    questions.iter().map(|question| all.get(question).map(|key| value(*key))).collect()
}

struct Byname<'k> {
    keys: &'k Packed,
    table: FlatTable,
}

impl<'k> Subject<&'k str> for Byname<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self.table.reader())
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        self.table.apply(keys.iter().map(|&i| (self.keys.get(i), (!remove).then(|| value(i)))))?;
        Ok(true)
    }
}

impl Asker<&str> for FlatReader {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| self.get(*question)));
    }

    fn ask_together(&mut self, questions: &[&str], answers: &mut Vec<Answer>) -> bool {
        self.get_all(questions, answers);
        true
    }
}

/// A map of whole keys.
struct Whole<'k, M> {
    keys: &'k Packed,
    map: M,
}

impl<M: Map + Sync> Asker<&str> for &Whole<'_, M> {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| self.map.find(question)));
    }
}

impl<'k, M: Map + Sync> Subject<&'k str> for Whole<'k, M> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        self.map.change(self.keys, keys, remove);
        Ok(true)
    }
}

/// A static map.
struct Fst(fst::Map<Vec<u8>>);

impl Asker<&str> for &Fst {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| self.0.get(question).map(|value| value as u32)));
    }
}

impl<'k> Subject<&'k str> for Fst {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }
}

/// Values with as many bits as the largest needs.
type Function = VFunc<str, BitFieldVec<Box<[u64]>>>;

/// A static function: unknown keys get anything.
struct Vfunc(Function);

impl Asker<&str> for &Vfunc {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| Some(self.0.get(*question) as u32)));
    }
}

impl<'k> Subject<&'k str> for Vfunc {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }
}
