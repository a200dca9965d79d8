//! GraphML, as in the Topology Zoo: nodes with labels, and edges.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, bail, ensure};
use byname_lookup::locator::{Graph, Topology};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Reads a graph. Elements that are not nodes, edges or labels are skipped.
///
/// # Errors
/// If the text is no XML, or an edge ends at no node.
pub fn read(text: &str) -> anyhow::Result<Topology> {
    let mut reader = Reader::from_str(text);
    let mut found = Found::default();
    loop {
        match reader.read_event().with_context(|| format!("byte {}", reader.error_position()))? {
            Event::Start(element) => found.start(&element)?,
            Event::Empty(element) => {
                found.start(&element)?;
                found.end(element.local_name().as_ref());
            }
            Event::Text(text) => found.text(&text.xml10_content()),
            Event::End(element) => found.end(element.local_name().as_ref()),
            Event::Eof => break,
            _ => {}
        }
    }
    found.topology()
}

#[derive(Default)]
struct Found {
    /// Ids of the kinds of data that are labels of nodes.
    label_keys: HashSet<String>,
    by_id: HashMap<String, u32>,
    names: Vec<String>,
    edges: Vec<(String, String)>,
    /// Whether the reader is in a node, and in a label of it.
    in_node: bool,
    in_label: bool,
}

impl Found {
    fn start(&mut self, element: &BytesStart<'_>) -> anyhow::Result<()> {
        match element.local_name().as_ref() {
            "key" => {
                let is_label = attribute(element, "for")?.as_deref() == Some("node")
                    && attribute(element, "attr.name")?.is_some_and(|name| name.eq_ignore_ascii_case("label"));
                if is_label {
                    self.label_keys.extend(attribute(element, "id")?);
                }
            }
            "node" => {
                let id = attribute(element, "id")?.context("a node has an id")?;
                let number = u32::try_from(self.names.len())?;
                ensure!(self.by_id.insert(id.clone(), number).is_none(), "there are two nodes {id:?}");
                self.names.push(id);
                self.in_node = true;
            }
            "edge" => {
                let ends = (attribute(element, "source")?, attribute(element, "target")?);
                let (Some(source), Some(target)) = ends else { bail!("an edge has a source and a target") };
                self.edges.push((source, target));
            }
            "data" if self.in_node => {
                self.in_label = attribute(element, "key")?.is_some_and(|key| self.label_keys.contains(&key));
                if let Some(name) = self.names.last_mut().filter(|_| self.in_label) {
                    name.clear();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some(name) = self.names.last_mut().filter(|_| self.in_label) {
            name.push_str(text);
        }
    }

    fn end(&mut self, element: &str) {
        match element {
            "node" => self.in_node = false,
            "data" => self.in_label = false,
            _ => {}
        }
    }

    fn topology(self) -> anyhow::Result<Topology> {
        let node = |id: &str| self.by_id.get(id).copied().with_context(|| format!("there is no node {id:?}"));
        let edges = self.edges.iter().map(|(a, b)| Ok((node(a)?, node(b)?)));
        let edges = edges.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Topology { graph: Graph::new(self.names.len(), &edges)?, names: self.names })
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> anyhow::Result<Option<String>> {
    let found = element.try_get_attribute(name)?;
    Ok(found
        .map(|found| found.normalized_value(XmlVersion::Implicit1_0).map(|value| value.into_owned()))
        .transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<?xml version="1.0" encoding="utf-8"?>
        <graphml xmlns="http://graphml.graphdrawing.org/xmlns">
          <key attr.name="label" attr.type="string" for="node" id="d33" />
          <key attr.name="LinkLabel" attr.type="string" for="edge" id="d36" />
          <graph edgedefault="undirected">
            <data key="d0">a network</data>
            <node id="0"><data key="d29">1.0</data><data key="d33">Geneva</data></node>
            <node id="1"><data key="d33">Zurich</data></node>
            <node id="n2"/>
            <edge source="0" target="1"><data key="d36">fast</data></edge>
            <edge source="n2" target="1"/>
          </graph>
        </graphml>"#;

    #[test]
    fn nodes_labels_and_edges_are_read() {
        let Topology { graph, names } = read(TEXT).expect("a graph");
        assert_eq!(names, ["Geneva", "Zurich", "n2"]);
        assert_eq!((graph.edges(), graph.neighbors(1)), (2, &[0, 2][..]));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "<graphml><graph><node/></graph></graphml>",
            "<graphml><node id='1'/><node id='1'/></graphml>",
            "<graphml><node id='1'/><edge source='1' target='2'/></graphml>",
            "<graphml><edge source='1'/></graphml>",
            "<a></b>",
            "<graphml><node id='1'",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        // Depth costs nothing: no part of this recurses.
        let deep = "<a>".repeat(100_000) + &"</a>".repeat(100_000);
        assert_eq!(read(&deep).expect("no nodes").graph.nodes(), 0);
        // Entities that stand for others are not expanded.
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bb\">]><graphml><node id=\"&b;\"/></graphml>";
        assert!(read(bomb).is_err());
    }
}
