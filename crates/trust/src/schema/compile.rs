//! Compiles parsed rules to a tree.
//!
//! The order of rules, patterns, edges and nodes is that of python-ndn's compiler, so that the same text yields the same
//! bytes:
//!
//! 1. Rules that others refer to come first; within one round of a topological sort, in the reverse order of their names.
//! 2. Patterns with names are numbered from 1 in that order. Those without a name, `_` and `_x`, are numbered from -1
//!    downwards.
//! 3. References are replaced by the names of their rules. A rule with several definitions, or with several sets of
//!    constraints, makes several *chains*.
//! 4. Chains with the same beginnings share nodes. Edges are in the order of their values, and of their patterns and
//!    constraints written as text.

use std::collections::{BTreeMap, BTreeSet};

use byname_wire::name::COMPONENTS_MAX;
use data_encoding::HEXLOWER;

use super::text::{Definition, Part, Term, Written};
use super::{Choice, NODES_MAX, Node, Operand, PatternEdge, Schema, SchemaError, ValueEdge};

/// Most chains of all rules.
const CHAINS_MAX: usize = 16_384;

/// A component of a chain's name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Value(Vec<u8>),
    /// Positive: a pattern with a name.
    Pattern(i64),
}

/// A constraint with numbers for patterns. Patterns of the same name without a value have several numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    patterns: Vec<i64>,
    choices: Vec<Choice>,
}

#[derive(Debug, Clone)]
struct Chain {
    rule: String,
    name: Vec<Step>,
    constraints: Vec<Bound>,
    signers: Vec<String>,
}

pub(super) fn compile(mut rules: Vec<Definition>) -> Result<Schema, SchemaError> {
    let mut temporary = 0;
    for rule in rules.iter_mut().filter(|rule| rule.rule.starts_with("#_")) {
        temporary += 1;
        rule.rule += &format!("#{temporary}");
    }
    let order = order(&rules)?;
    let place = |rule: &Definition| order.iter().position(|name| *name == rule.rule);
    rules.sort_by_key(place);
    let mut numbers = Numbers::default();
    let mut chains: BTreeMap<String, Vec<Chain>> = BTreeMap::new();
    for rule in rules {
        let made = numbers.bind(rule, &chains)?;
        if chains.values().map(Vec::len).sum::<usize>() + made.len() > CHAINS_MAX {
            return Err(SchemaError::TooMany { what: "combinations of rules", max: CHAINS_MAX });
        }
        chains.entry(made[0].rule.clone()).or_default().extend(made);
    }
    let chains: Vec<Chain> = chains.into_values().flatten().collect();
    let named_patterns = numbers.named.len() as u64;
    let mut tree = Tree { nodes: Vec::new(), signers: Vec::new(), ends: BTreeMap::new(), last_pattern: named_patterns };
    let all: Vec<&Chain> = chains.iter().collect();
    tree.grow(0, &all, None, &mut BTreeSet::new())?;
    let nodes = tree.with_signers()?;
    let mut symbols: Vec<(u64, String)> = numbers.named.into_iter().map(|(name, n)| (n as u64, name)).collect();
    symbols.sort();
    Ok(Schema { start: 0, named_patterns, nodes, symbols })
}

/// The names of all rules: rules that are referred to before those that refer to them.
fn order(rules: &[Definition]) -> Result<Vec<String>, SchemaError> {
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.rule.as_str()).collect();
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut used: BTreeMap<&str, usize> = names.iter().map(|name| (*name, 0)).collect();
    for rule in rules {
        for to in rule.name.iter().filter_map(|part| if let Part::Rule(to) = part { Some(to.as_str()) } else { None }) {
            let (rule, owned) = (rule.rule.as_str(), |text: &str| text.to_owned());
            if to.starts_with("#_") {
                return Err(SchemaError::Temporary { rule: owned(rule), to: owned(to) });
            }
            match used.get_mut(to) {
                Some(count) => *count += 1,
                None => return Err(SchemaError::NoRule { rule: owned(rule), to: owned(to) }),
            }
            uses.entry(rule).or_default().push(to);
        }
    }
    let mut order = Vec::new();
    while order.len() < names.len() {
        let free: Vec<&str> = used.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
        if free.is_empty() {
            let circle: Vec<&str> = used.into_keys().collect();
            return Err(SchemaError::Circle(circle.join(", ")));
        }
        for name in free {
            used.remove(name);
            for to in uses.get(name).into_iter().flatten() {
                *used.get_mut(to).expect("it is used, so it was not free") -= 1;
            }
            order.push(name.to_owned());
        }
    }
    order.reverse();
    Ok(order)
}

/// The numbers of patterns.
#[derive(Default)]
struct Numbers {
    named: BTreeMap<String, i64>,
    /// Patterns without a name, so far.
    nameless: i64,
}

impl Numbers {
    /// The chains of one definition. `known` has those of all rules that it refers to.
    fn bind(&mut self, rule: Definition, known: &BTreeMap<String, Vec<Chain>>) -> Result<Vec<Chain>, SchemaError> {
        let mut nameless: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        let mut parts = Vec::new();
        for part in &rule.name {
            parts.push(match part {
                Part::Value(value) => Ok(Step::Value(value.clone())),
                Part::Rule(to) => Err(to),
                Part::Pattern(pattern) if pattern.starts_with('_') => {
                    self.nameless -= 1;
                    nameless.entry(pattern).or_default().push(self.nameless);
                    Ok(Step::Pattern(self.nameless))
                }
                Part::Pattern(pattern) => {
                    let next = self.named.len() as i64 + 1;
                    Ok(Step::Pattern(*self.named.entry(pattern.clone()).or_insert(next)))
                }
            });
        }
        let mut sets = Vec::new();
        for set in &rule.sets {
            let mut bound = Vec::new();
            for constraint in set {
                let patterns = match nameless.get(constraint.pattern.as_str()) {
                    Some(numbers) => numbers.clone(),
                    None => vec![self.number(&rule.rule, &constraint.pattern)?],
                };
                let choices = constraint.choices.iter().map(|choice| self.choice(&rule.rule, choice));
                bound.push(Bound { patterns, choices: choices.collect::<Result<_, _>>()? });
            }
            sets.push(bound);
        }
        if sets.is_empty() {
            sets.push(Vec::new());
        }
        let mut signers = rule.signers.clone();
        signers.sort();
        let begin =
            |constraints| Chain { rule: rule.rule.clone(), name: Vec::new(), constraints, signers: signers.clone() };
        let mut chains: Vec<Chain> = sets.into_iter().map(begin).collect();
        for part in parts {
            match part {
                Ok(step) => chains.iter_mut().for_each(|chain| chain.name.push(step.clone())),
                Err(to) => chains = extended(&chains, known.get(to).map_or(&[], Vec::as_slice))?,
            }
        }
        chains.iter().try_for_each(|chain| self.check(chain))?;
        Ok(chains)
    }

    /// Every constraint must have a pattern in the chain's name, and every name must fit.
    fn check(&self, chain: &Chain) -> Result<(), SchemaError> {
        if chain.name.len() > COMPONENTS_MAX {
            return Err(SchemaError::TooMany { what: "components in a name", max: COMPONENTS_MAX });
        }
        for bound in &chain.constraints {
            if !bound.patterns.iter().any(|number| chain.name.contains(&Step::Pattern(*number))) {
                let of = |(name, number): (&String, &i64)| bound.patterns.contains(number).then(|| name.clone());
                let pattern = self.named.iter().find_map(of).unwrap_or_else(|| "a pattern without a name".to_owned());
                return Err(SchemaError::NoPattern { rule: chain.rule.clone(), pattern });
            }
        }
        Ok(())
    }

    fn number(&self, rule: &str, pattern: &str) -> Result<i64, SchemaError> {
        let missing = || SchemaError::NoPattern { rule: rule.to_owned(), pattern: pattern.to_owned() };
        self.named.get(pattern).copied().ok_or_else(missing)
    }

    fn operand(&self, rule: &str, term: &Term) -> Result<Operand, SchemaError> {
        Ok(match term {
            Term::Value(value) => Operand::Value(value.clone()),
            Term::Pattern(pattern) if pattern.starts_with('_') => {
                return Err(SchemaError::NoValue { rule: rule.to_owned(), pattern: pattern.clone() });
            }
            Term::Pattern(pattern) => Operand::Pattern(self.number(rule, pattern)? as u64),
        })
    }

    fn choice(&self, rule: &str, written: &Written) -> Result<Choice, SchemaError> {
        Ok(match written {
            Written::Term(term) => Choice::Operand(self.operand(rule, term)?),
            Written::Call { function, arguments } => {
                let operands = arguments.iter().map(|term| self.operand(rule, term)).collect::<Result<_, _>>()?;
                Choice::Call { function: *function, operands }
            }
        })
    }
}

/// Each of these chains, followed by each of those of the rule that it refers to.
fn extended(chains: &[Chain], by: &[Chain]) -> Result<Vec<Chain>, SchemaError> {
    if chains.len() * by.len() > CHAINS_MAX {
        return Err(SchemaError::TooMany { what: "combinations of rules", max: CHAINS_MAX });
    }
    let mut longer = Vec::with_capacity(chains.len() * by.len());
    for (referred, chain) in by.iter().flat_map(|referred| chains.iter().map(move |chain| (referred, chain))) {
        if chain.name.len() + referred.name.len() > COMPONENTS_MAX {
            return Err(SchemaError::TooMany { what: "components in a name", max: COMPONENTS_MAX });
        }
        let mut next = chain.clone();
        next.name.extend_from_slice(&referred.name);
        next.constraints.extend_from_slice(&referred.constraints);
        longer.push(next);
    }
    Ok(longer)
}

struct Tree {
    nodes: Vec<Node>,
    /// The rules of each node's signers.
    signers: Vec<Vec<String>>,
    /// The nodes where each rule's chains end.
    ends: BTreeMap<String, Vec<usize>>,
    /// The number of the last pattern edge without a name.
    last_pattern: u64,
}

impl Tree {
    /// Adds the node that these chains share after `depth` components, and all nodes below it.
    fn grow(
        &mut self,
        depth: usize,
        chains: &[&Chain],
        parent: Option<usize>,
        seen: &mut BTreeSet<i64>,
    ) -> Result<usize, SchemaError> {
        let id = self.nodes.len();
        if id == NODES_MAX {
            return Err(SchemaError::TooMany { what: "nodes", max: NODES_MAX });
        }
        let (ending, going_on): (Vec<&Chain>, Vec<&Chain>) = chains.iter().partition(|chain| chain.name.len() == depth);
        let rules = ending.iter().map(|chain| chain.rule.clone()).collect();
        self.nodes.push(Node { parent, rules, ..Node::default() });
        self.signers.push(ending.iter().flat_map(|chain| chain.signers.clone()).collect());
        for chain in ending {
            self.ends.entry(chain.rule.clone()).or_default().push(id);
        }
        let (mut by_value, mut by_pattern) = (BTreeMap::<&[u8], Vec<&Chain>>::new(), BTreeMap::new());
        for chain in going_on {
            match &chain.name[depth] {
                Step::Value(value) => by_value.entry(value.as_slice()).or_default().push(chain),
                Step::Pattern(number) => {
                    let constraints = constraints_of(chain, *number, seen);
                    let text = edge_text(*number, &constraints);
                    let (_, _, chains) =
                        by_pattern.entry(text).or_insert_with(|| (*number, constraints, Vec::<&Chain>::new()));
                    chains.push(chain);
                }
            }
        }
        for (value, chains) in by_value {
            let to = self.grow(depth + 1, &chains, Some(id), seen)?;
            self.nodes[id].values.push(ValueEdge { to, value: value.to_vec() });
        }
        for (number, constraints, chains) in by_pattern.into_values() {
            let pattern = u64::try_from(number).unwrap_or_else(|_| {
                self.last_pattern += 1;
                self.last_pattern
            });
            let is_new = seen.insert(number);
            let to = self.grow(depth + 1, &chains, Some(id), seen)?;
            if is_new {
                seen.remove(&number);
            }
            self.nodes[id].patterns.push(PatternEdge { to, pattern, constraints });
        }
        Ok(id)
    }

    /// The nodes, with the nodes of their signers in place of rules.
    fn with_signers(mut self) -> Result<Vec<Node>, SchemaError> {
        for (node, rules) in self.nodes.iter_mut().zip(self.signers) {
            for to in rules {
                let missing = || SchemaError::NoRule { rule: node.rules.join(", "), to: to.clone() };
                node.signers.extend(self.ends.get(&to).ok_or_else(missing)?);
            }
            node.signers.sort_unstable();
        }
        Ok(self.nodes)
    }
}

/// The constraints on a pattern. At a further place of a pattern with a name, its value is known already.
fn constraints_of(chain: &Chain, number: i64, seen: &BTreeSet<i64>) -> Vec<Vec<Choice>> {
    if number > 0 && seen.contains(&number) {
        return Vec::new();
    }
    let of = |bound: &&Bound| bound.patterns.contains(&number);
    chain.constraints.iter().filter(of).map(|bound| bound.choices.clone()).collect()
}

/// A pattern and its constraints in the form by which python-ndn sorts edges.
fn edge_text(number: i64, constraints: &[Vec<Choice>]) -> String {
    let operand = |operand: &Operand| match operand {
        Operand::Value(value) => format!("v={}", HEXLOWER.encode(value)),
        Operand::Pattern(pattern) => format!("t={pattern}"),
    };
    let choice = |choice: &Choice| match choice {
        Choice::Operand(one) => operand(one),
        Choice::Call { function, operands } => {
            format!("{}({})", function.name(), operands.iter().map(operand).collect::<String>())
        }
    };
    let set = |choices: &Vec<Choice>| {
        let choices: String = choices.iter().map(|one| choice(one) + ",").collect();
        format!("{{{choices}}}")
    };
    format!("{number}:{}", constraints.iter().map(set).collect::<String>())
}
