//! Trust schemas in LightVerSec, in text and in their binary form [python-ndn, "Light VerSec", version 0x00011000].
//!
//! A schema is a tree of names. An edge is one component: a value, or a *pattern* that takes any value within its
//! constraints. A node says which nodes the certificates of its signers match. A packet and its signer share the values
//! of patterns with names, so that `/#site/"article"/author/_ <= #author` ties an article to its author.
//!
//! [`Schema::compile`] yields the same bytes as the compilers of python-ndn. What differs:
//!
//! - The constraints of a pattern also hold where the packet's name has given the pattern its value, and at each place of
//!   a pattern without a name. python-ndn and ndnd check them only at the first place. So this module refuses more.
//! - A constraint on a pattern that a rule's name does not have is an error. python-ndn drops it.
//! - Schemas with cycles are accepted: the validator limits the length of chains.
//!
//! Limits: [`NODES_MAX`] nodes, and names of 128 components. A comparison visits each node at most once for a packet's
//! name, and once again for each node that it matches.

mod binary;
mod compile;
mod matching;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use byname_wire::DecodeError;
use byname_wire::name::COMPONENTS_MAX;
use thiserror::Error;

/// Most nodes of a schema.
pub const NODES_MAX: usize = 65_536;
/// Most bytes of a schema's file.
const BYTES_MAX: u64 = 4 << 20;
/// The supported version of the binary form.
const VERSION: u64 = 0x0001_1000;

/// Why a schema cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum SchemaError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("line {line}: expected {expected}, found {found}")]
    Syntax { line: usize, expected: &'static str, found: String },
    #[error("line {line}: \"{text}\" is not a name component: {problem}")]
    Component { line: usize, text: String, problem: String },
    #[error("rule {rule} refers to rule {to}, which does not exist")]
    NoRule { rule: String, to: String },
    #[error("rule {rule} refers to {to}: rules whose names begin with #_ cannot be referred to")]
    Temporary { rule: String, to: String },
    #[error("rules refer to each other in a circle: {0}")]
    Circle(String),
    #[error("rule {rule} has a constraint on {pattern}, which is not in its name")]
    NoPattern { rule: String, pattern: String },
    #[error("rule {rule}: {pattern} has no value that a constraint could use, because its name begins with _")]
    NoValue { rule: String, pattern: String },
    #[error("the schema has too many {what}: more than {max}")]
    TooMany { what: &'static str, max: usize },
    #[error("the function {0} is not known; byname has $eq and $eq_type")]
    Function(String),
    #[error("the binary schema is malformed: {0}")]
    Decode(#[from] DecodeError),
    #[error("the binary schema is malformed: {0}")]
    Malformed(&'static str),
}

/// A trust schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    start: usize,
    /// Patterns up to this number have names, and keep their values.
    named_patterns: u64,
    nodes: Vec<Node>,
    /// Names of patterns.
    symbols: Vec<(u64, String)>,
}

/// A node of the tree: the names that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    parent: Option<usize>,
    /// The rules whose names end here.
    rules: Vec<String>,
    values: Vec<ValueEdge>,
    patterns: Vec<PatternEdge>,
    /// Nodes that certificates of signers match.
    signers: Vec<usize>,
}

/// An edge for one component.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ValueEdge {
    to: usize,
    /// The encoded component.
    value: Vec<u8>,
}

/// An edge for any component that satisfies all constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PatternEdge {
    to: usize,
    pattern: u64,
    /// Each is satisfied by any of its choices.
    constraints: Vec<Vec<Choice>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    Operand(Operand),
    Call { function: Function, operands: Vec<Operand> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    /// An encoded component.
    Value(Vec<u8>),
    /// The value of a pattern.
    Pattern(u64),
}

/// The functions of python-ndn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    /// The component equals all operands.
    Equal,
    /// The component has the type of all operands.
    EqualType,
}

impl Function {
    const ALL: [Function; 2] = [Function::Equal, Function::EqualType];

    fn name(self) -> &'static str {
        match self {
            Function::Equal => "$eq",
            Function::EqualType => "$eq_type",
        }
    }

    fn from_name(name: &str) -> Result<Self, SchemaError> {
        let found = Function::ALL.into_iter().find(|function| function.name() == name);
        found.ok_or_else(|| SchemaError::Function(name.to_owned()))
    }
}

impl Schema {
    /// Compiles a schema from its text.
    ///
    /// # Errors
    /// If the text is not a schema, or is larger than the limits.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        compile::compile(text::parse(text)?)?.checked()
    }

    /// Decodes the binary form.
    ///
    /// # Errors
    /// If the bytes are not a schema, or one that breaks a rule of the format.
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        binary::decode(bytes)?.checked()
    }

    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        binary::encode(self)
    }

    /// Reads a schema's file, which has either form.
    ///
    /// # Errors
    /// If the file cannot be read, or is no schema.
    pub fn load(path: &Path) -> Result<Self, SchemaError> {
        let mut bytes = Vec::new();
        let fail = |source| SchemaError::Read { path: path.display().to_string(), source };
        std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(fail)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(SchemaError::TooMany { what: "bytes", max: BYTES_MAX as usize });
        }
        // No text begins like this: the element Version has four bytes.
        if bytes.starts_with(&[0x61, 4]) {
            return Schema::decode(&bytes);
        }
        let not_text = || SchemaError::Malformed("it is neither text nor binary");
        Schema::compile(std::str::from_utf8(&bytes).map_err(|_| not_text())?)
    }

    /// The rules that a name matches.
    pub fn rules_of(&self, name: byname_wire::NameRef<'_>) -> BTreeSet<&str> {
        self.nodes_of(name).into_iter().flat_map(|node| &self.nodes[node].rules).map(String::as_str).collect()
    }

    /// Whether any rule has this component in its name, as a value.
    pub fn has_component(&self, component: byname_wire::Component<'_>) -> bool {
        let mut encoded = Vec::new();
        component.push(&mut encoded);
        self.nodes.iter().flat_map(|node| &node.values).any(|edge| edge.value == encoded)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node. A schema has at least one.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Checks what the format demands: all edges and signers lead to nodes, and the nodes are a tree.
    fn checked(self) -> Result<Self, SchemaError> {
        use SchemaError::Malformed;
        let count = self.nodes.len();
        if self.start >= count || self.nodes[self.start].parent.is_some() {
            return Err(Malformed("its first node does not exist, or has a parent"));
        }
        let mut depths = vec![None; count];
        depths[self.start] = Some(0);
        // In the order of the walk, so that parents have their depths before their children.
        let mut open = vec![self.start];
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            let depth = depths[at].expect("set before it was pushed") + 1;
            let edges = node.values.iter().map(|edge| edge.to).chain(node.patterns.iter().map(|edge| edge.to));
            for to in edges {
                if to >= count || self.nodes[to].parent != Some(at) {
                    return Err(Malformed("an edge leads to no node, or to one with another parent"));
                }
                // Two edges to one node would make it possible to visit a node more than once.
                if depths[to].replace(depth).is_some() {
                    return Err(Malformed("two edges lead to one node"));
                }
                if depth > COMPONENTS_MAX {
                    return Err(SchemaError::TooMany { what: "components in a name", max: COMPONENTS_MAX });
                }
                open.push(to);
            }
        }
        if self.nodes.iter().any(|node| node.signers.iter().any(|&signer| signer >= count)) {
            return Err(Malformed("a signer is no node"));
        }
        Ok(self)
    }
}
