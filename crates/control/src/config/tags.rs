//! `[tags]`: descriptors, and the trees that descriptors and locators use.

use std::path::PathBuf;
use std::sync::Arc;

use byname_face::FaceUri;
use byname_lookup::BuildError;
use byname_lookup::file::Opening;
use byname_lookup::tagset::rare_tag::{self, BulkTags, RareTag};
use byname_lookup::tagset::trie::{self, TagTrie};
use byname_wire::{Name, TreeId};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use thiserror::Error as ThisError;

use super::rights::{RightSigner, RightsError};
use super::{Config, Finding, initial, value};
use crate::fib_writer::TagFibEngine;
use crate::security::Signer;
use crate::tags::bulk::{self, TagFib};
use crate::tags::plan::{Place, Plan, PlanError};
use crate::tags::{NeighborKeys, TagLimits};

/// `[tags]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tags {
    /// Most descriptors in total.
    #[serde(deserialize_with = "value::at_least_1")]
    pub descriptors_max: usize,
    /// Most descriptors of one application.
    #[serde(deserialize_with = "value::at_least_1")]
    pub descriptors_per_face_max: usize,
    /// Most descriptors of one neighbour.
    #[serde(deserialize_with = "value::at_least_1")]
    pub descriptors_per_neighbor_max: usize,
    /// Whether neighbours are not told of descriptors that another one covers.
    pub aggregate: bool,
    /// Engine for the subsets of a packet's tags.
    pub engine: TagEngineKind,
    /// File of sets of tags below those that are advertised. Empty: none.
    pub bulk: PathBuf,
    /// Most steps in the search for the subsets of one packet's tags.
    #[serde(deserialize_with = "value::at_least_1")]
    pub steps_max: usize,
    /// File with the network's graph, the same on all routers. Empty: this router alone.
    pub graph: PathBuf,
    /// Name of this router in the graph.
    pub node: String,
    /// The trees, the same on all routers.
    #[serde(rename = "tree")]
    pub trees: Vec<Tree>,
    /// Name of this router's own key, for neighbours with certificates. Empty: none.
    #[serde(deserialize_with = "value::name_or_none")]
    pub key_name: Name,
    /// File with that private key, in PKCS#8.
    pub key_file: PathBuf,
    /// Whether to accept neighbours without keys, identified by their address only.
    pub allow_unsigned_neighbors: bool,
    /// Faces and keys of neighbours.
    #[serde(rename = "neighbor")]
    pub neighbors: Vec<Neighbor>,
}

impl Default for Tags {
    fn default() -> Self {
        Tags {
            descriptors_max: 16_000_000,
            descriptors_per_face_max: 65_536,
            descriptors_per_neighbor_max: 4_000_000,
            aggregate: false,
            engine: TagEngineKind::default(),
            bulk: PathBuf::new(),
            steps_max: 16_384,
            graph: PathBuf::new(),
            node: String::new(),
            trees: Vec::new(),
            key_name: Name::default(),
            key_file: PathBuf::new(),
            allow_unsigned_neighbors: false,
            neighbors: Vec::new(),
        }
    }
}

impl Tags {
    /// An empty FIB of descriptors, which hashes tags with `secret`.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn build_engine(&self, secret: u64) -> Result<TagFibEngine, BuildError> {
        Ok(match self.engine {
            TagEngineKind::RareTag => Box::new(RareTag::new(secret, &self.rare_tag())?),
            TagEngineKind::Trie => {
                let rare_tag::Options { descriptors_max, steps_max, .. } = self.rare_tag();
                let options = trie::Options { descriptors_max, steps_max, ..trie::Options::default() };
                Box::new(TagTrie::new(&options)?)
            }
        })
    }

    fn rare_tag(&self) -> rare_tag::Options {
        let steps_max = u32::try_from(self.steps_max).unwrap_or(u32::MAX);
        rare_tag::Options { descriptors_max: self.descriptors_max, steps_max, ..rare_tag::Options::default() }
    }
}

/// Engines available for the FIB of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagEngineKind {
    /// [`RareTag`].
    #[default]
    RareTag,
    /// [`TagTrie`].
    Trie,
}

/// `[[tags.tree]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// A number that no other tree has or ever had.
    #[serde(deserialize_with = "tree_id")]
    pub id: TreeId,
    /// Root node of the tree.
    pub root: String,
}

/// `[[tags.neighbor]]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// Name of the neighbour in the graph.
    pub node: String,
    /// URI of the face to it.
    #[serde(deserialize_with = "initial::remote")]
    pub face: FaceUri,
    /// Name of a key that both routers share. Empty: none.
    #[serde(default, deserialize_with = "value::name_or_none")]
    pub hmac_key: Name,
    /// File with that key.
    #[serde(default)]
    pub hmac_secret_file: Option<PathBuf>,
    /// File with the certificate of the neighbour's own key.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
}

impl Neighbor {
    /// Signer of the neighbour's messages. `None` if it has no key.
    fn signer(&self) -> Result<Option<RightSigner>, String> {
        match (!self.hmac_key.as_ref().is_empty(), &self.hmac_secret_file, &self.certificate) {
            (false, None, None) => Ok(None),
            (true, Some(secret_file), None) => {
                Ok(Some(RightSigner::Hmac { key_name: self.hmac_key.clone(), secret_file: secret_file.clone() }))
            }
            (false, None, Some(certificate)) => Ok(Some(RightSigner::Certificate(certificate.clone()))),
            _ => Err(format!(
                "the [[tags.neighbor]] {} needs either hmac_key = \"/name\" with hmac_secret_file = \"FILE\", or \
                 certificate = \"FILE\"",
                self.node
            )),
        }
    }
}

fn tree_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TreeId, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let id = u32::try_from(number).map(TreeId);
    id.map_err(|_| D::Error::custom(format!("{number} is not the number of a tree; write 0 to {}", u32::MAX)))
}

/// A place on a tree, and how to reach its neighbours.
#[derive(Clone)]
pub struct ConfiguredPlace {
    /// The place.
    pub place: Place,
    /// Its neighbours, in the order of `place.neighbors`. `None` if the configuration has no face for one.
    pub neighbors: Vec<Option<ConfiguredNeighbor>>,
}

/// Face and keys of a neighbour.
#[derive(Clone)]
pub struct ConfiguredNeighbor {
    /// The face to it.
    pub face: FaceUri,
    /// `None`: its messages are accepted without a signature.
    pub keys: Option<Arc<NeighborKeys>>,
}

/// Why a router's places on its trees cannot be determined.
#[derive(Debug, ThisError)]
pub enum PlacesError {
    /// The graph or a name is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A key of a neighbour or of this router cannot be used.
    #[error(transparent)]
    Key(#[from] RightsError),
}

impl Config {
    /// The file of sets of tags below those that are advertised.
    pub fn tag_table(&self) -> Option<PathBuf> {
        let bulk = &self.tags.bulk;
        (!bulk.as_os_str().is_empty()).then(|| self.folder.join(bulk))
    }

    /// The FIB of descriptors, with the file if there is one. It hashes tags that are advertised with `secret`.
    ///
    /// # Errors
    /// If there is no memory, or the file cannot be used.
    pub fn build_tag_fib(&self, secret: u64) -> Result<TagFib, BuildError> {
        let Some(path) = self.tag_table() else { return Ok(self.tags.build_engine(secret)?.into()) };
        bulk::open(&path, Opening::default(), secret, &self.tags.rare_tag())
            .map_err(|error| BuildError::File { reason: error.to_string() })
    }

    /// Whether the file of sets of tags can be opened.
    pub fn tag_table_findings(&self) -> Option<Finding> {
        let path = self.tag_table()?;
        let error = BulkTags::examine(&path).err()?;
        Some(Finding::fatal("tags.bulk", format!("{}: {error}", path.display())))
    }

    /// Reads the graph named in `[tags]`, and finds this router's place on each tree.
    ///
    /// # Errors
    /// If the graph, a name or a key cannot be used.
    pub fn places(&self) -> Result<Vec<ConfiguredPlace>, PlacesError> {
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
        let neighbors = tags.neighbors.iter().map(|neighbor| {
            let keys = self.neighbor_keys(neighbor)?.map(Arc::new);
            Ok((plan.node(&neighbor.node)?, ConfiguredNeighbor { face: neighbor.face.clone(), keys }))
        });
        let neighbors = neighbors.collect::<Result<Vec<_>, PlacesError>>()?;
        let neighbor_of = |node| neighbors.iter().find(|(of, _)| *of == node).map(|(_, neighbor)| neighbor.clone());
        let places = plan.places(node)?.into_iter();
        Ok(places
            .map(|place| ConfiguredPlace {
                neighbors: place.neighbors.iter().map(|(_, node)| neighbor_of(*node)).collect(),
                place,
            })
            .collect())
    }

    /// Reads the keys with which a neighbour and this router sign their messages. `None` if the neighbour has none.
    fn neighbor_keys(&self, neighbor: &Neighbor) -> Result<Option<NeighborKeys>, PlacesError> {
        // `check_tags` has reported an invalid neighbour before.
        let Ok(Some(signer)) = neighbor.signer() else { return Ok(None) };
        let trusted = self.trusted_signer(&signer)?;
        let own = match &signer {
            RightSigner::Hmac { key_name, secret_file } => Signer::hmac(key_name.clone(), &self.secret(secret_file)?),
            _ => self.signer(&self.tags.key_name, &self.tags.key_file)?,
        };
        Ok(Some(NeighborKeys { signer: own, trusted }))
    }

    /// Limits on the number of descriptors.
    pub fn tag_limits(&self) -> TagLimits {
        TagLimits {
            descriptors_max: self.tags.descriptors_max,
            descriptors_per_face_max: self.tags.descriptors_per_face_max,
            descriptors_per_neighbor_max: self.tags.descriptors_per_neighbor_max,
            aggregate: self.tags.aggregate,
        }
    }

    /// Checks `[tags]`, without reading files.
    pub(super) fn check_tags(&self) -> Result<(), String> {
        let tags = &self.tags;
        if self.tag_table().is_some() && tags.engine != TagEngineKind::RareTag {
            return Err(
                "[tags] bulk: only the engine \"rare-tag\" has such files: set `engine = \"rare-tag\"`".to_owned()
            );
        }
        let alone = tags.graph.as_os_str().is_empty();
        if alone && !(tags.trees.is_empty() && tags.neighbors.is_empty() && tags.node.is_empty()) {
            return Err("[tags] has trees, neighbors or a node, but no graph: set `graph`".to_owned());
        }
        if !alone && tags.trees.is_empty() {
            return Err("[tags] has a graph but no tree: add a [[tags.tree]] with `id` and `root`".to_owned());
        }
        for neighbor in &tags.neighbors {
            match neighbor.signer()? {
                None if !tags.allow_unsigned_neighbors => {
                    return Err(format!(
                        "the [[tags.neighbor]] {} has no key, and anybody who forges its address could speak for it: add \
                         hmac_key and hmac_secret_file, or certificate, or write allow_unsigned_neighbors = true in [tags]",
                        neighbor.node
                    ));
                }
                Some(RightSigner::Certificate(_))
                    if tags.key_name.as_ref().is_empty() || tags.key_file.as_os_str().is_empty() =>
                {
                    return Err(format!(
                        "the [[tags.neighbor]] {} has a certificate, but this router has no key of its own to sign with: \
                         add key_name = \"/name/KEY/1\" and key_file = \"FILE\" to [tags]",
                        neighbor.node
                    ));
                }
                _ => {}
            }
        }
        let mut ids: Vec<_> = tags.trees.iter().map(|tree| tree.id).collect();
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two [[tags.tree]] have the id {}", pair[0].0)),
            None => Ok(()),
        }
    }
}
