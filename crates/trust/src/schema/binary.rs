//! The binary form of schemas [python-ndn, "Light VerSec", "Binary Format"].

use byname_wire::NameRef;
use byname_wire::tlv::{self, DecodeError, Reader, Tlv, push_nested, push_nni, push_tlv};

use super::{Choice, Function, NODES_MAX, Node, Operand, PatternEdge, Schema, SchemaError, VERSION, ValueEdge};

const COMPONENT_VALUE: u64 = 0x21;
const PATTERN_TAG: u64 = 0x23;
const NODE_ID: u64 = 0x25;
const FUNCTION_ID: u64 = 0x27;
const IDENTIFIER: u64 = 0x29;
const FUNCTION_CALL: u64 = 0x31;
const FUNCTION_ARGUMENT: u64 = 0x33;
const CONSTRAINT_OPTION: u64 = 0x41;
const CONSTRAINT: u64 = 0x43;
const VALUE_EDGE: u64 = 0x51;
const PATTERN_EDGE: u64 = 0x53;
const KEY_NODE_ID: u64 = 0x55;
const PARENT_ID: u64 = 0x57;
const VERSION_TYPE: u64 = 0x61;
const NODE: u64 = 0x63;
const TAG_SYMBOL: u64 = 0x67;
const NAMED_PATTERN_COUNT: u64 = 0x69;

/// Calls `take` with each element. It returns false for types that it does not know: critical ones are an error.
fn each(value: &[u8], mut take: impl FnMut(&Tlv<'_>) -> Result<bool, SchemaError>) -> Result<(), SchemaError> {
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        if !take(&tlv)? && tlv::is_critical(tlv.typ) {
            return Err(DecodeError::UnexpectedCritical(tlv.typ).into());
        }
    }
    Ok(())
}

fn number(tlv: &Tlv<'_>) -> Result<u64, SchemaError> {
    Ok(tlv::decode_nni(tlv.typ, tlv.value)?)
}

fn index(tlv: &Tlv<'_>) -> Result<usize, SchemaError> {
    Ok(usize::try_from(number(tlv)?).map_err(|_| DecodeError::BadValue(tlv.typ))?)
}

fn text(tlv: &Tlv<'_>) -> Result<String, SchemaError> {
    Ok(String::from_utf8(tlv.value.to_vec()).map_err(|_| DecodeError::BadValue(tlv.typ))?)
}

/// One encoded component.
fn component(tlv: &Tlv<'_>) -> Result<Vec<u8>, SchemaError> {
    let name = NameRef::new(tlv.value)?;
    if name.len() == 1 { Ok(tlv.value.to_vec()) } else { Err(DecodeError::BadValue(tlv.typ).into()) }
}

fn missing<T>(value: Option<T>, typ: u64) -> Result<T, SchemaError> {
    Ok(value.ok_or(DecodeError::Missing(typ))?)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Schema, SchemaError> {
    let (mut version, mut start, mut named_patterns) = (None, None, None);
    let (mut nodes, mut symbols) = (Vec::new(), Vec::new());
    each(bytes, |tlv| {
        match tlv.typ {
            VERSION_TYPE => version = Some(number(tlv)?),
            NODE_ID => start = Some(index(tlv)?),
            NAMED_PATTERN_COUNT => named_patterns = Some(number(tlv)?),
            NODE => {
                if nodes.len() == NODES_MAX {
                    return Err(SchemaError::TooMany { what: "nodes", max: NODES_MAX });
                }
                nodes.push(decode_node(tlv.value, nodes.len())?);
            }
            TAG_SYMBOL => symbols.push(decode_symbol(tlv.value)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if version != Some(VERSION) {
        return Err(SchemaError::Malformed("its version is not 0x00011000"));
    }
    let (start, named_patterns) = (missing(start, NODE_ID)?, missing(named_patterns, NAMED_PATTERN_COUNT)?);
    Ok(Schema { start, named_patterns, nodes, symbols })
}

fn decode_node(value: &[u8], expected_id: usize) -> Result<Node, SchemaError> {
    let (mut node, mut id) = (Node::default(), None);
    each(value, |tlv| {
        match tlv.typ {
            NODE_ID => id = Some(index(tlv)?),
            PARENT_ID => node.parent = Some(index(tlv)?),
            IDENTIFIER => node.rules.push(text(tlv)?),
            VALUE_EDGE => node.values.push(decode_value_edge(tlv.value)?),
            PATTERN_EDGE => node.patterns.push(decode_pattern_edge(tlv.value)?),
            KEY_NODE_ID => node.signers.push(index(tlv)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if id != Some(expected_id) {
        return Err(SchemaError::Malformed("the id of a node is not its place"));
    }
    Ok(node)
}

fn decode_value_edge(value: &[u8]) -> Result<ValueEdge, SchemaError> {
    let (mut to, mut found) = (None, None);
    each(value, |tlv| {
        match tlv.typ {
            NODE_ID => to = Some(index(tlv)?),
            COMPONENT_VALUE => found = Some(component(tlv)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(ValueEdge { to: missing(to, NODE_ID)?, value: missing(found, COMPONENT_VALUE)? })
}

fn decode_pattern_edge(value: &[u8]) -> Result<PatternEdge, SchemaError> {
    let (mut to, mut pattern, mut constraints) = (None, None, Vec::new());
    each(value, |tlv| {
        match tlv.typ {
            NODE_ID => to = Some(index(tlv)?),
            PATTERN_TAG => pattern = Some(number(tlv)?),
            CONSTRAINT => {
                let mut choices = Vec::new();
                each(tlv.value, |tlv| {
                    if tlv.typ == CONSTRAINT_OPTION {
                        choices.push(decode_choice(tlv.value)?);
                    }
                    Ok(tlv.typ == CONSTRAINT_OPTION)
                })?;
                constraints.push(choices);
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(PatternEdge { to: missing(to, NODE_ID)?, pattern: missing(pattern, PATTERN_TAG)?, constraints })
}

fn decode_choice(value: &[u8]) -> Result<Choice, SchemaError> {
    let mut found = Vec::new();
    each(value, |tlv| {
        found.push(match tlv.typ {
            COMPONENT_VALUE => Choice::Operand(Operand::Value(component(tlv)?)),
            PATTERN_TAG => Choice::Operand(Operand::Pattern(number(tlv)?)),
            FUNCTION_CALL => decode_call(tlv.value)?,
            _ => return Ok(false),
        });
        Ok(true)
    })?;
    let one = found.pop().filter(|_| found.is_empty());
    one.ok_or(SchemaError::Malformed("an option of a constraint has not exactly one value"))
}

fn decode_call(value: &[u8]) -> Result<Choice, SchemaError> {
    let (mut function, mut operands) = (None, Vec::new());
    each(value, |tlv| {
        match tlv.typ {
            FUNCTION_ID => function = Some(Function::from_name(&text(tlv)?)?),
            FUNCTION_ARGUMENT => match decode_choice(tlv.value)? {
                Choice::Operand(operand) => operands.push(operand),
                Choice::Call { .. } => return Err(SchemaError::Malformed("a function is an argument of another")),
            },
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Choice::Call { function: missing(function, FUNCTION_ID)?, operands })
}

fn decode_symbol(value: &[u8]) -> Result<(u64, String), SchemaError> {
    let (mut pattern, mut name) = (None, None);
    each(value, |tlv| {
        match tlv.typ {
            PATTERN_TAG => pattern = Some(number(tlv)?),
            IDENTIFIER => name = Some(text(tlv)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((missing(pattern, PATTERN_TAG)?, missing(name, IDENTIFIER)?))
}

pub(super) fn encode(schema: &Schema) -> Vec<u8> {
    let mut out = Vec::new();
    push_nni(&mut out, VERSION_TYPE, VERSION);
    push_nni(&mut out, NODE_ID, schema.start as u64);
    push_nni(&mut out, NAMED_PATTERN_COUNT, schema.named_patterns);
    for (id, node) in schema.nodes.iter().enumerate() {
        push_nested(&mut out, NODE, |out| encode_node(out, id, node));
    }
    for (pattern, name) in &schema.symbols {
        push_nested(&mut out, TAG_SYMBOL, |out| {
            push_nni(out, PATTERN_TAG, *pattern);
            push_tlv(out, IDENTIFIER, name.as_bytes());
        });
    }
    out
}

fn encode_node(out: &mut Vec<u8>, id: usize, node: &Node) {
    push_nni(out, NODE_ID, id as u64);
    if let Some(parent) = node.parent {
        push_nni(out, PARENT_ID, parent as u64);
    }
    node.rules.iter().for_each(|rule| push_tlv(out, IDENTIFIER, rule.as_bytes()));
    for edge in &node.values {
        push_nested(out, VALUE_EDGE, |out| {
            push_nni(out, NODE_ID, edge.to as u64);
            push_tlv(out, COMPONENT_VALUE, &edge.value);
        });
    }
    for edge in &node.patterns {
        push_nested(out, PATTERN_EDGE, |out| {
            push_nni(out, NODE_ID, edge.to as u64);
            push_nni(out, PATTERN_TAG, edge.pattern);
            for choices in &edge.constraints {
                push_nested(out, CONSTRAINT, |out| {
                    choices
                        .iter()
                        .for_each(|choice| push_nested(out, CONSTRAINT_OPTION, |out| encode_choice(out, choice)));
                });
            }
        });
    }
    node.signers.iter().for_each(|&signer| push_nni(out, KEY_NODE_ID, signer as u64));
}

fn encode_choice(out: &mut Vec<u8>, choice: &Choice) {
    match choice {
        Choice::Operand(operand) => encode_operand(out, operand),
        Choice::Call { function, operands } => push_nested(out, FUNCTION_CALL, |out| {
            push_tlv(out, FUNCTION_ID, function.name().as_bytes());
            for operand in operands {
                push_nested(out, FUNCTION_ARGUMENT, |out| encode_operand(out, operand));
            }
        }),
    }
}

fn encode_operand(out: &mut Vec<u8>, operand: &Operand) {
    match operand {
        Operand::Value(value) => push_tlv(out, COMPONENT_VALUE, value),
        Operand::Pattern(pattern) => push_nni(out, PATTERN_TAG, *pattern),
    }
}
