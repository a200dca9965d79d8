//! The longest prefix of a path.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use byname_lookup::table::{Found, Matching, PrefixOptions, PrefixReader, PrefixTable};
use fst::raw::{Fst, Output};
use patricia_tree::StringPatriciaMap;

use super::keys::Packed;
use super::map::Map;
use super::{Answer, Asker, Subject, value};

pub const LIBRARIES: [&str; 8] =
    ["byname-bulk", "byname", "byname-exact", "std-hashmap", "hashbrown", "patricia_tree", "fst", "matchit"];

pub fn build<'k>(library: &str, keys: &'k Packed) -> anyhow::Result<Box<dyn Subject<&'k str> + 'k>> {
    let rules = || keys.iter().enumerate().map(|(i, key)| (key, value(i)));
    Ok(match library {
        "byname-bulk" => Box::new(Byname { keys, table: PrefixTable::from_rules(&PrefixOptions::default(), rules())? }),
        "byname" | "byname-exact" => {
            let matching = if library == "byname" { Matching::Fast } else { Matching::Exact };
            let mut table = PrefixTable::with_options(&PrefixOptions { matching, ..PrefixOptions::default() })?;
            table.extend(rules())?;
            Box::new(Byname { keys, table })
        }
        "std-hashmap" => {
            let map: HashMap<Box<str>, u32> = rules().map(|(key, value)| (key.into(), value)).collect();
            Box::new(LongestFirst { keys, map })
        }
        "hashbrown" => {
            let map: hashbrown::HashMap<Box<str>, u32> = rules().map(|(key, value)| (key.into(), value)).collect();
            Box::new(LongestFirst { keys, map })
        }
        "patricia_tree" => {
            // Its keys are prefixes by bytes: a slash at the end makes them prefixes by components.
            let tree = rules().map(|(key, value)| (format!("{key}/"), value)).collect();
            Box::new(Patricia { keys, tree })
        }
        // Keys are sorted, as it wants them.
        "fst" => Box::new(Transducer(Fst::from_iter_map(rules().map(|(key, value)| (key, u64::from(value))))?)),
        "matchit" => {
            let mut router = matchit::Router::new();
            for (key, value) in rules() {
                router.insert(route(key), value).with_context(|| format!("matchit refuses {key}"))?;
            }
            Box::new(Matchit { keys, router })
        }
        _ => bail!("no library is called '{library}'"),
    })
}

struct Byname<'k> {
    keys: &'k Packed,
    table: PrefixTable<u32>,
}

impl<'k> Subject<&'k str> for Byname<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(Reading { reader: self.table.reader(), found: Vec::new() })
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        self.table.apply(keys.iter().map(|&i| (self.keys.get(i), (!remove).then(|| value(i)))))?;
        Ok(true)
    }
}

struct Reading {
    reader: PrefixReader<u32>,
    found: Vec<Option<Found<u32>>>,
}

impl Asker<&str> for Reading {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        let one = |question: &&str| self.reader.get(*question).ok().flatten().map(|found| found.value);
        answers.extend(questions.iter().map(one));
    }

    fn ask_together(&mut self, questions: &[&str], answers: &mut Vec<Answer>) -> bool {
        // A key over the limits would leave answers out, which the lab counts as wrong.
        let asked = self.reader.get_all(questions, &mut self.found);
        answers.extend(self.found.iter().map(|found| found.as_ref().map(|found| found.value)));
        asked.is_ok()
    }
}

/// A map of whole keys, asked for each prefix, longest first.
struct LongestFirst<'k, M> {
    keys: &'k Packed,
    map: M,
}

impl<M: Map + Sync> Asker<&str> for &LongestFirst<'_, M> {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        let find = |question: &&str| {
            let mut rest = *question;
            loop {
                if let Some(value) = self.map.find(rest) {
                    return Some(value);
                }
                rest = &rest[..rest.rfind('/')?];
            }
        };
        answers.extend(questions.iter().map(find));
    }
}

impl<'k, M: Map + Sync> Subject<&'k str> for LongestFirst<'k, M> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        self.map.change(self.keys, keys, remove);
        Ok(true)
    }
}

struct Patricia<'k> {
    keys: &'k Packed,
    tree: StringPatriciaMap<u32>,
}

impl Asker<&str> for &Patricia<'_> {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        // Questions end below their key, so the slash behind it is in them.
        let find = |question: &&str| self.tree.get_longest_common_prefix(*question).map(|(_, value)| *value);
        answers.extend(questions.iter().map(find));
    }
}

impl<'k> Subject<&'k str> for Patricia<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        for &i in keys {
            let key = format!("{}/", self.keys.get(i));
            if remove {
                self.tree.remove(key)
            } else {
                self.tree.insert(key, value(i))
            };
        }
        Ok(true)
    }
}

/// A static map. The longest prefix is the last final state on the way.
struct Transducer(Fst<Vec<u8>>);

impl Asker<&str> for &Transducer {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        let find = |question: &&str| {
            let (mut node, mut output, mut found) = (self.0.root(), Output::zero(), None);
            for &byte in question.as_bytes() {
                if byte == b'/' && node.is_final() {
                    found = Some(output.cat(node.final_output()).value() as u32);
                }
                let Some(at) = node.find_input(byte) else { return found };
                let step = node.transition(at);
                output = output.cat(step.out);
                node = self.0.node(step.addr);
            }
            if node.is_final() { Some(output.cat(node.final_output()).value() as u32) } else { found }
        };
        answers.extend(questions.iter().map(find));
    }
}

impl<'k> Subject<&'k str> for Transducer {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }
}

struct Matchit<'k> {
    keys: &'k Packed,
    router: matchit::Router<u32>,
}

/// The route that covers all below a key. Braces are escaped.
fn route(key: &str) -> String {
    format!("{}/{{*rest}}", key.replace('{', "{{").replace('}', "}}"))
}

impl Asker<&str> for &Matchit<'_> {
    fn ask(&mut self, questions: &[&str], answers: &mut Vec<Answer>) {
        answers.extend(questions.iter().map(|question| self.router.at(question).ok().map(|found| *found.value)));
    }
}

impl<'k> Subject<&'k str> for Matchit<'k> {
    fn asker(&self) -> Box<dyn Asker<&'k str> + '_> {
        Box::new(self)
    }

    fn change(&mut self, keys: &[usize], remove: bool) -> anyhow::Result<bool> {
        for &i in keys {
            let route = route(self.keys.get(i));
            if remove {
                self.router.remove(route);
            } else {
                self.router.insert(route, value(i)).context("matchit refuses a key that it had")?;
            }
        }
        Ok(true)
    }
}
