//! `byname trees`: the spanning trees of a network, as routers compute them from the same file.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use byname_control::tags::plan::{Place, Plan};
use byname_wire::TreeId;
use clap::Args;
use serde::Serialize;

use crate::exit;
use crate::manage::table::{self, Column, Table};

/// Options of `byname trees`.
#[derive(Debug, Args)]
pub struct TreesArgs {
    /// The network graph: GML, or lines with the names of two nodes
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// Root node of a tree; repeat it for more trees (their ids count from 1)
    #[arg(long = "root", value_name = "NODE", required = true)]
    roots: Vec<String>,
    /// Print the configuration of this router instead of all labels
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Print JSON: the labels and neighbours of all nodes, or of this one
    #[arg(long)]
    json: bool,
}

/// A node's place on a tree. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct NodePlace {
    tree: u64,
    label: String,
    node: String,
    neighbors: Vec<String>,
}

/// Prints all labels, or one router's configuration.
pub fn run(args: TreesArgs) -> anyhow::Result<u8> {
    let usage = |error: byname_control::tags::plan::PlanError| exit::Failure::new(exit::USAGE, error.to_string());
    let mut plan = Plan::read(&args.graph).map_err(usage)?;
    for (root, id) in args.roots.iter().zip(1..) {
        plan.add_tree(TreeId(id), root).map_err(usage)?;
    }
    let node = args.node.as_ref().map(|name| plan.node(name)).transpose().map_err(usage)?;
    let mut out = std::io::stdout().lock();
    match node {
        _ if args.json => {
            let nodes = node.map_or(0..plan.nodes(), |node| node..node + 1);
            writeln!(out, "{}", serde_json::to_string_pretty(&places(&plan, nodes))?)?;
        }
        Some(node) => out.write_all(configuration(&args, &plan, node)?.as_bytes())?,
        None => {
            let columns =
                [Column::Number("TREE"), Column::Word("LABEL"), Column::Text("NODE"), Column::Text("NEIGHBORS")];
            let row =
                |place: NodePlace| vec![place.tree.to_string(), place.label, place.node, place.neighbors.join(", ")];
            let rows = places(&plan, 0..plan.nodes()).into_iter().map(row);
            out.write_all(
                Table::new(&columns).rows(rows).text(table::terminal_width().unwrap_or(usize::MAX)).as_bytes(),
            )?;
        }
    }
    Ok(exit::OK)
}

/// The places of these nodes. A node that a tree does not reach has none there.
fn places(plan: &Plan, nodes: std::ops::Range<usize>) -> Vec<NodePlace> {
    let of = |node: usize| {
        let places = plan.places(node).into_iter().flatten();
        places.map(move |place| NodePlace {
            tree: place.tree.0.into(),
            label: place.label.to_string(),
            node: plan.name(node).to_owned(),
            neighbors: names(plan, &place).into_iter().map(str::to_owned).collect(),
        })
    };
    nodes.flat_map(of).collect()
}

/// The `[tags]` section of a router's configuration, without the addresses of its neighbours.
fn configuration(args: &TreesArgs, plan: &Plan, node: usize) -> anyhow::Result<String> {
    let places = plan.places(node).context("no configuration")?;
    let graph = args.graph.display().to_string();
    let mut text = format!("[tags]\ngraph = {graph:?}\nnode = {:?}\n", plan.name(node));
    for (root, id) in args.roots.iter().zip(1..) {
        text.push_str(&format!("\n[[tags.tree]]\nid = {id}\nroot = {root:?}\n"));
    }
    let mut neighbors: Vec<&str> = places.iter().flat_map(|place| names(plan, place)).collect();
    neighbors.sort_unstable();
    neighbors.dedup();
    for neighbor in neighbors {
        text.push_str(&format!(
            "\n[[tags.neighbor]]\nnode = {neighbor:?}\nface = \"udp4://ADDRESS:6363\"  # of {neighbor}\n\
             hmac_key = \"/NAME\"  # the same at both ends\n\
             hmac_secret_file = \"FILE\"  # the same; `openssl rand -base64 32` makes one\n"
        ));
    }
    Ok(text)
}

fn names<'p>(plan: &'p Plan, place: &Place) -> Vec<&'p str> {
    place.neighbors.iter().map(|(_, node)| plan.name(*node)).collect()
}
