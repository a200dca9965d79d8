//! The sets of tags within a set. No crate is known that finds them, so the rival is what one writes in an hour: a map
//! from the rarest tag of each set to the sets.

use std::collections::{HashMap, HashSet};

use anyhow::bail;
use byname_lookup::table::{TagReader, TagTable};

use super::keys::Packed;
use super::{Answer, Asker, Subject, value};

pub const LIBRARIES: [&str; 2] = ["byname", "std-hashmap"];

pub fn build<'k>(library: &str, sets: &'k Packed) -> anyhow::Result<Box<dyn Subject<&'k [&'k str]> + 'k>> {
    Ok(match library {
        "byname" => {
            let mut table = TagTable::new()?;
            let sets_with_values = sets.iter().enumerate().map(|(i, set)| (set.split('|'), Some(value(i))));
            table.apply(sets_with_values)?;
            Box::new(Byname { sets, table })
        }
        "std-hashmap" => Box::new(ByRarestTag::new(sets)),
        _ => bail!("no library is called '{library}'"),
    })
}

/// The numbers of sets within, by a map of all.
pub fn right(sets: &Packed, questions: &[&[&str]]) -> Vec<Answer> {
    let map = ByRarestTag::new(sets);
    questions.iter().map(|question| Some(map.within(question))).collect()
}

struct Byname<'k> {
    sets: &'k Packed,
    table: TagTable<u32>,
}

impl<'k> Subject<&'k [&'k str]> for Byname<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k [&'k str]> + '_> {
        Box::new(Reading { reader: self.table.reader(), found: Vec::new() })
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        self.table.apply(keys.iter().map(|&i| (self.sets.get(i).split('|'), (!remove).then(|| value(i)))))?;
        Ok(true)
    }
}

struct Reading {
    reader: TagReader<u32>,
    found: Vec<Vec<u32>>,
}

impl<'k> Asker<&'k [&'k str]> for Reading {
    fn ask(&mut self, questions: &[&'k [&'k str]], answers: &mut Vec<Answer>) {
        let one = |tags: &&[&str]| self.reader.subsets(tags.iter()).ok().map(|found| found.len() as u32);
        answers.extend(questions.iter().map(one));
    }

    fn ask_together(&mut self, questions: &[&'k [&'k str]], answers: &mut Vec<Answer>) -> bool {
        let sets: Vec<Vec<&str>> = questions.iter().map(|tags| tags.to_vec()).collect();
        let asked = self.reader.subsets_all(&sets, &mut self.found);
        answers.extend(self.found.iter().map(|found| Some(found.len() as u32)));
        asked.is_ok()
    }
}

/// A set's tags, and its value.
type Member<'k> = (Box<[&'k str]>, u32);

struct ByRarestTag<'k> {
    sets: &'k Packed,
    counts: HashMap<&'k str, u32>,
    members: HashMap<&'k str, Vec<Member<'k>>>,
}

impl<'k> ByRarestTag<'k> {
    fn new(sets: &'k Packed) -> Self {
        let mut counts = HashMap::new();
        sets.iter().flat_map(|set| set.split('|')).for_each(|tag| *counts.entry(tag).or_default() += 1);
        let mut map = ByRarestTag { sets, counts, members: HashMap::new() };
        (0..sets.len()).for_each(|i| map.put(i, false));
        map
    }

    fn put(&mut self, i: usize, remove: bool) {
        let tags: Box<[&str]> = self.sets.get(i).split('|').collect();
        let Some(rarest) = tags.iter().min_by_key(|tag| self.counts[*tag]) else { return };
        let members = self.members.entry(rarest).or_default();
        if remove {
            members.retain(|(other, _)| *other != tags);
        } else {
            members.push((tags, value(i)));
        }
    }

    fn within(&self, question: &[&str]) -> u32 {
        let asked: HashSet<&str> = question.iter().copied().collect();
        let members = question.iter().filter_map(|tag| self.members.get(tag)).flatten();
        members.filter(|(tags, _)| tags.iter().all(|tag| asked.contains(tag))).count() as u32
    }
}

impl<'k> Asker<&'k [&'k str]> for &ByRarestTag<'k> {
    fn ask(&mut self, questions: &[&'k [&'k str]], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| Some(self.within(question))));
    }
}

impl<'k> Subject<&'k [&'k str]> for ByRarestTag<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k [&'k str]> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        keys.iter().for_each(|&i| self.put(i, remove));
        Ok(true)
    }
}
