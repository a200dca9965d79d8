//! Compares names with a schema.

use std::collections::BTreeMap;

use byname_wire::name::component_type;
use byname_wire::{Component, NameRef};

use super::{Choice, Function, Operand, PatternEdge, Schema};

/// Most components that a KeyLocator may lack of its certificate's name.
const LOCATOR_LACKS_MAX: usize = 2;

/// Values of patterns with names.
type Values<'n> = BTreeMap<u64, &'n [u8]>;

/// The encoded components of a name, without an implicit digest.
fn components(name: NameRef<'_>) -> Vec<Vec<u8>> {
    let encode = |component: Component<'_>| {
        let mut out = Vec::with_capacity(component.value.len() + 4);
        component.push(&mut out);
        out
    };
    let is_digest = |component: &Component<'_>| component.typ == component_type::IMPLICIT_SHA256_DIGEST;
    let without = usize::from(name.component(-1).as_ref().is_some_and(is_digest));
    name.prefix(name.len() - without).components().map(encode).collect()
}

impl Schema {
    /// Whether a key with this certificate may sign a packet with this name.
    pub fn permits(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> bool {
        self.relates(packet, certificate, |signers, node| signers.contains(&node))
    }

    /// Whether the locator may be the beginning of a permitted certificate's name.
    pub fn may_permit(&self, packet: NameRef<'_>, locator: NameRef<'_>) -> bool {
        self.relates(packet, locator, |signers, node| signers.iter().any(|&signer| self.is_at_or_below(signer, node)))
    }

    /// The nodes that a name leads to.
    pub(super) fn nodes_of(&self, name: NameRef<'_>) -> Vec<usize> {
        let (name, mut nodes) = (components(name), Vec::new());
        self.walk(self.start, &name, &mut Values::new(), &mut |node, _| {
            nodes.push(node);
            false
        });
        nodes
    }

    /// Whether a node of the packet and a node of the key relate so. `relation` gets the signers of the packet's node,
    /// and the key's node.
    fn relates(&self, packet: NameRef<'_>, key: NameRef<'_>, relation: impl Fn(&[usize], usize) -> bool) -> bool {
        let (packet, key) = (components(packet), components(key));
        // An empty name matches nothing, as in python-ndn.
        if packet.is_empty() || key.is_empty() {
            return false;
        }
        self.walk(self.start, &packet, &mut Values::new(), &mut |node, values| {
            let signers = &self.nodes[node].signers;
            !signers.is_empty() && {
                let mut values = values.clone();
                self.walk(self.start, &key, &mut values, &mut |node, _| relation(signers, node))
            }
        })
    }

    /// Visits all nodes that the rest of a name leads to, until `visit` returns true. Returns whether it did. As deep as
    /// the tree, which [`Schema::checked`] limits.
    fn walk<'n>(
        &self,
        node: usize,
        rest: &'n [Vec<u8>],
        values: &mut Values<'n>,
        visit: &mut dyn FnMut(usize, &Values<'n>) -> bool,
    ) -> bool {
        let Some((component, rest)) = rest.split_first() else { return visit(node, values) };
        let edges = &self.nodes[node];
        if let Some(edge) = edges.values.iter().find(|edge| edge.value == *component)
            && self.walk(edge.to, rest, values, visit)
        {
            return true;
        }
        edges.patterns.iter().any(|edge| {
            let known = values.get(&edge.pattern);
            if known.is_some_and(|value| *value != component) || !satisfies(component, edge, values) {
                return false;
            }
            let is_new = known.is_none() && edge.pattern <= self.named_patterns;
            if is_new {
                values.insert(edge.pattern, component);
            }
            let found = self.walk(edge.to, rest, values, visit);
            if is_new {
                values.remove(&edge.pattern);
            }
            found
        })
    }

    /// Whether a certificate at `node` may have a locator at `above`: that locator lacks nothing, the version, or the
    /// issuer and the version.
    fn is_at_or_below(&self, node: usize, above: usize) -> bool {
        let path = std::iter::successors(Some(node), |&at| self.nodes.get(at)?.parent);
        path.take(LOCATOR_LACKS_MAX + 1).any(|at| at == above)
    }
}

fn satisfies(component: &[u8], edge: &PatternEdge, values: &Values<'_>) -> bool {
    let value = |operand: &Operand| match operand {
        Operand::Value(value) => Some(value.clone()),
        Operand::Pattern(pattern) => values.get(pattern).map(|value| value.to_vec()),
    };
    let holds = |choice: &Choice| match choice {
        Choice::Operand(operand) => value(operand).is_some_and(|value| value == component),
        Choice::Call { function, operands } => operands.iter().all(|operand| {
            value(operand).is_some_and(|value| match function {
                Function::Equal => value == component,
                Function::EqualType => typ(&value) == typ(component),
            })
        }),
    };
    edge.constraints.iter().all(|choices| choices.iter().any(holds))
}

/// The type of an encoded component.
fn typ(component: &[u8]) -> Option<u64> {
    byname_wire::tlv::decode_number(component).ok().map(|(typ, _)| typ)
}
