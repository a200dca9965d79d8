//! Ordinary texts, and texts that strangers might write.

use super::*;

const GML: &str = r#"# a comment
Creator "by hand"
graph [
  directed 0
  label "the network"
  edge [ source 7 target -2 LinkSpeed 1.5E3 note "a ] in a string" ]
  node [ id 7 label "Köln" graphics [ x -7.4 Line [ point [ y 1 ] ] ] ]
  node [
    label "Lyon" id -2 ]
  node [ id 3 ]
  edge [ target 7 source -2 ]
]
"#;

#[test]
fn gml_has_nodes_with_labels_and_edges_in_any_order() {
    let topology = Topology::from_gml(GML).expect("a graph");
    assert_eq!(topology.names, ["Köln", "Lyon", "3"]);
    assert_eq!((topology.graph.edges(), topology.graph.neighbors(1)), (1, &[0][..]));
    let bare = Topology::from_gml("graph[node[id 1]node[id 2]edge[source 1 target 2]]").expect("no space is needed");
    assert_eq!((bare.graph.nodes(), bare.graph.edges()), (2, 1));
    assert_eq!(Topology::from_gml("graph []").expect("an empty graph").graph.nodes(), 0);
}

#[test]
fn what_is_no_gml_is_refused_with_its_line() {
    let syntax = |line, what| Err(ReadError::Syntax { line, what });
    for (text, expected) in [
        ("", syntax(1, "a text has one graph")),
        ("graph []\ngraph []\n", syntax(3, "a text has one graph")),
        ("graph 1", syntax(1, "a graph is a list")),
        ("graph [\nnode [ id 1 ]", syntax(2, "a list does not end")),
        ("graph [ node [ label \"a\" ] ]", syntax(1, "a node has an id")),
        ("graph [ node [ id 1.5 ] ]", syntax(1, "an id is an integer")),
        ("graph [ node [ id 99999999999999999999 ] ]", syntax(1, "an id is an integer")),
        ("graph [ node [ id 1 label ] ]", syntax(1, "a label is a string or a number")),
        ("graph [ node [ id ] ]", syntax(1, "an id is an integer")),
        ("graph [ edge [ source 1 ] ]", syntax(1, "an edge has a source and a target")),
        ("graph [\n\n5 6 ]", syntax(3, "a key is a word")),
        ("graph [ x ]", syntax(1, "a key has no value")),
        ("graph [ x [ ", syntax(1, "a key has no value")),
        ("graph [ x \"y ]", syntax(1, "a string does not end")),
        ("]", syntax(1, "a key is a word")),
        ("graph [\nnode [ id 1 ]\nedge [ source 1 target 2 ] ]", Err(ReadError::NoSuchNode { line: 3, id: 2 })),
        ("graph [ node [ id 1 ]\nnode [ id 1 ] ]", Err(ReadError::SecondNode { line: 2, id: 1 })),
    ] {
        assert_eq!(Topology::from_gml(text), expected, "{text}");
    }
}

#[test]
fn every_beginning_of_a_gml_text_is_refused_and_no_depth_of_brackets_hurts() {
    let end = GML.trim_end().len();
    for at in (0..end).filter(|&at| GML.is_char_boundary(at)) {
        assert!(Topology::from_gml(&GML[..at]).is_err(), "{at}");
    }
    let deep = 1_000_000;
    let nested = format!("graph [ x {}1{} ]", "[ x ".repeat(deep), " ]".repeat(deep));
    assert_eq!(Topology::from_gml(&nested).map(|topology| topology.graph.nodes()), Ok(0));
}

#[test]
fn edge_lists_have_two_names_a_line() {
    let text = "# from to\n1 2\n\n 2\t10,\r\n% more\n2,1\nLyon Köln";
    let topology = Topology::from_edge_list(text).expect("four edges");
    assert_eq!(topology.names, ["1", "2", "10", "Lyon", "Köln"]);
    assert_eq!((topology.graph.nodes(), topology.graph.edges()), (5, 3));
    assert_eq!(topology.graph.neighbors(1), [0, 2]);
    for (text, line) in [("1 2\n3", 2), ("1 2 3", 1)] {
        let expected = Err(ReadError::Syntax { line, what: "an edge is two names" });
        assert_eq!(Topology::from_edge_list(text), expected);
    }
    assert_eq!(Topology::from_edge_list("").map(|topology| topology.graph.nodes()), Ok(0));
}
