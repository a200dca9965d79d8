//! `byname trees`: the spanning trees of a network, as routers compute them from the same file.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use byname_control::tags::plan::{Place, Plan};
use byname_wire::TreeId;
use clap::Args;

use crate::exit;

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
}

/// Prints all labels, or one router's configuration.
pub fn run(args: TreesArgs) -> anyhow::Result<u8> {
    let usage = |error: byname_control::tags::plan::PlanError| exit::Failure::new(exit::USAGE, error.to_string());
    let mut plan = Plan::read(&args.graph).map_err(usage)?;
    for (root, id) in args.roots.iter().zip(1..) {
        plan.add_tree(TreeId(id), root).map_err(usage)?;
    }
    let mut out = std::io::stdout().lock();
    match &args.node {
        Some(name) => {
            let node = plan.node(name).map_err(usage)?;
            out.write_all(configuration(&args, &plan, node)?.as_bytes())?;
        }
        None => {
            writeln!(out, "{:<6} {:<14} {:<24} neighbors", "tree", "label", "node")?;
            for node in 0..plan.nodes() {
                // A node that a tree does not reach has no label there.
                for place in plan.places(node).into_iter().flatten() {
                    let neighbors = names(&plan, &place).join(", ");
                    let label = place.label.to_string();
                    writeln!(out, "{:<6} {label:<14} {:<24} {neighbors}", place.tree.0, plan.name(node))?;
                }
            }
        }
    }
    Ok(exit::OK)
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
