//! Lists of edges.

use std::collections::HashMap;

use super::{Graph, ReadError, Topology};

pub(super) fn read(text: &str) -> Result<Topology, ReadError> {
    let mut nodes = Nodes::default();
    let mut edges = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(['#', '%']) {
            continue;
        }
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(a), Some(b), None) => edges.push((nodes.number(a), nodes.number(b))),
            _ => return Err(ReadError::Syntax { line: i + 1, what: "an edge is two names" }),
        }
    }
    let graph = Graph::new(nodes.names.len(), &edges)?;
    Ok(Topology { graph, names: nodes.names })
}

/// Nodes, in the order of their first mention.
#[derive(Default)]
struct Nodes<'a> {
    numbers: HashMap<&'a str, u32>,
    names: Vec<String>,
}

impl<'a> Nodes<'a> {
    fn number(&mut self, name: &'a str) -> u32 {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name.to_owned());
            // Numbers beyond 2^32 are not used, because no graph has so many nodes.
            (self.names.len() - 1) as u32
        })
    }
}
