//! `[tags]`: descriptors, and the trees that they and locators use.

use std::path::PathBuf;

use byname_face::FaceUri;
use byname_lookup::BuildError;
use byname_lookup::tagset::rare_tag::{self, RareTag};
use byname_wire::TreeId;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Config, initial, value};
use crate::fib_writer::TagFibEngine;
use crate::tags::TagLimits;
use crate::tags::plan::{Place, Plan, PlanError};

/// `[tags]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tags {
    /// Most descriptors in all.
    #[serde(deserialize_with = "value::at_least_1")]
    pub descriptors_max: usize,
    /// Most descriptors of one application.
    #[serde(deserialize_with = "value::at_least_1")]
    pub descriptors_per_face_max: usize,
    /// Most steps of the search for a packet's subsets.
    #[serde(deserialize_with = "value::at_least_1")]
    pub steps_max: usize,
    /// The network, the same for all routers; empty: this router alone.
    pub graph: PathBuf,
    /// This router's name there.
    pub node: String,
    /// Trees, the same for all routers.
    #[serde(rename = "tree")]
    pub trees: Vec<Tree>,
    /// How to reach other routers.
    #[serde(rename = "neighbor")]
    pub neighbors: Vec<Neighbor>,
}

impl Default for Tags {
    fn default() -> Self {
        Tags {
            descriptors_max: 16_000_000,
            descriptors_per_face_max: 65_536,
            steps_max: 16_384,
            graph: PathBuf::new(),
            node: String::new(),
            trees: Vec::new(),
            neighbors: Vec::new(),
        }
    }
}

impl Tags {
    /// An empty FIB of descriptors, which mixes tags under `secret`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn engine(&self, secret: u64) -> Result<TagFibEngine, BuildError> {
        let options = rare_tag::Options {
            descriptors_max: self.descriptors_max,
            steps_max: u32::try_from(self.steps_max).unwrap_or(u32::MAX),
            ..rare_tag::Options::default()
        };
        Ok(Box::new(RareTag::new(secret, &options)?))
    }
}

/// `[[tags.tree]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// A number that no other tree has, or had.
    #[serde(deserialize_with = "tree_id")]
    pub id: TreeId,
    /// The node that it begins at.
    pub root: String,
}

/// `[[tags.neighbor]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// The router's name in the graph.
    pub node: String,
    /// How to reach it.
    #[serde(deserialize_with = "initial::remote")]
    pub face: FaceUri,
}

fn tree_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TreeId, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let id = u32::try_from(number).map(TreeId);
    id.map_err(|_| D::Error::custom(format!("{number} is no number of a tree; write 0 to {}", u32::MAX)))
}

/// A place on a tree, and how to reach the neighbours there that the configuration has faces for.
pub struct ConfiguredPlace {
    /// The place.
    pub place: Place,
    /// Of its neighbours, by their place in `place.neighbors`.
    pub faces: Vec<Option<FaceUri>>,
}

impl Config {
    /// Reads the graph that `[tags]` names, and finds this router's place on each tree.
    ///
    /// # Errors
    /// What the file or the names in the configuration lack.
    pub fn places(&self) -> Result<Vec<ConfiguredPlace>, PlanError> {
        let tags = &self.tags;
        let (plan, node) = if tags.graph.as_os_str().is_empty() {
            (Plan::alone(), 0)
        } else {
            let mut plan = Plan::read(&self.folder.join(&tags.graph))?;
            for tree in &tags.trees {
                plan.add_tree(tree.id, &tree.root)?;
            }
            let node = plan.node(&tags.node)?;
            (plan, node)
        };
        let faces = tags.neighbors.iter().map(|neighbor| Ok((plan.node(&neighbor.node)?, &neighbor.face)));
        let faces = faces.collect::<Result<Vec<_>, PlanError>>()?;
        let face_of = |node| faces.iter().find(|(of, _)| *of == node).map(|(_, face)| (*face).clone());
        let places = plan.places(node)?.into_iter();
        Ok(places
            .map(|place| ConfiguredPlace {
                faces: place.neighbors.iter().map(|(_, node)| face_of(*node)).collect(),
                place,
            })
            .collect())
    }

    /// How many descriptors there may be.
    pub fn tag_limits(&self) -> TagLimits {
        TagLimits {
            descriptors_max: self.tags.descriptors_max,
            descriptors_per_face_max: self.tags.descriptors_per_face_max,
        }
    }

    /// What is wrong with `[tags]` by itself.
    pub(super) fn check_tags(&self) -> Result<(), String> {
        let tags = &self.tags;
        let alone = tags.graph.as_os_str().is_empty();
        if alone && !(tags.trees.is_empty() && tags.neighbors.is_empty() && tags.node.is_empty()) {
            return Err(
                "[tags] has trees, neighbors or a node, but no network that they are of: set `graph`".to_owned()
            );
        }
        if !alone && tags.trees.is_empty() {
            return Err("[tags] has a graph but no tree: add a [[tags.tree]] with `id` and `root`".to_owned());
        }
        let mut ids: Vec<_> = tags.trees.iter().map(|tree| tree.id).collect();
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two [[tags.tree]] have the id {}", pair[0].0)),
            None => Ok(()),
        }
    }
}
