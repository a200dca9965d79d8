//! Answers the questions of operators: datasets below `/localhost/nlsr/byname`, as JSON.

use std::collections::VecDeque;

use byname_routing::Router;
use byname_trust::Certificate;
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Interest, Name, NameRef};

use super::application::unix_ms;
use super::faces::Faces;
use crate::manage::routing::report::{self, Explained, Status};

/// Bytes of content in a segment.
const SEGMENT_BYTES: usize = 7_000;
/// Datasets that are kept until their segments are fetched.
const KEPT_MAX: usize = 8;
/// FreshnessPeriod of a segment. The next question gets a new answer.
const FRESHNESS_MS: u64 = 100;

/// Datasets that were asked for lately.
#[derive(Debug, Default)]
pub struct Answers {
    /// Their names with version, and their contents.
    kept: VecDeque<(Name, Vec<u8>)>,
}

impl Answers {
    /// The answer to an Interest. `None`: it is no such question.
    pub fn answer(
        &mut self,
        interest: &Interest<'_>,
        core: &Router,
        faces: &Faces,
        certificate: Option<&Certificate>,
        (routes, is_settled): (usize, bool),
    ) -> Option<Vec<u8>> {
        let questions = report::questions();
        if !questions.as_ref().is_prefix_of(&interest.name) {
            return None;
        }
        let last = interest.name.component(-1)?;
        if last.typ == component_type::SEGMENT {
            let base = interest.name.prefix(interest.name.len() - 1);
            let (name, content) = self.kept.iter().find(|(name, _)| name.as_ref() == base)?;
            return Some(segment(name, content, last.number()?));
        }
        let mut words = interest.name.components().skip(questions.as_ref().len());
        let (what, of) = (words.next()?, words.next());
        let json = match (what.value, of) {
            (b"status", None) => {
                let certificate = certificate.map(|of| (of.name.to_string(), of.not_after_ms));
                serde_json::to_vec(&Status::of(&core.status(), certificate, routes, is_settled))
            }
            (b"neighbors", None) => serde_json::to_vec(&report::neighbors(&core.status(), |face| faces.uri(face))),
            (b"routers", None) => serde_json::to_vec(&report::routers(&core.status())),
            (b"trees", None) => serde_json::to_vec(&report::trees(core.places(), core.tree_changes())),
            (b"prefixes", Some(after)) => {
                let after = NameRef::new(after.value).ok()?;
                let after = Some(after).filter(|after| !after.is_empty());
                serde_json::to_vec(&report::page(&core.prefixes(after, report::PAGE)))
            }
            (b"explain", Some(name)) => {
                serde_json::to_vec(&Explained::of(&core.explain(NameRef::new(name.value).ok()?)))
            }
            _ => return None,
        };
        // Only maps with odd keys have no JSON, and there are none.
        let content = json.ok()?;
        let name = interest.name.to_name().join_number(component_type::VERSION, unix_ms());
        let first = segment(&name, &content, 0);
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((name, content));
        Some(first)
    }
}

/// A segment of a dataset. One beyond the end is empty.
fn segment(name: &Name, content: &[u8], number: u64) -> Vec<u8> {
    let last = (content.len().max(1) - 1) / SEGMENT_BYTES;
    let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(SEGMENT_BYTES).min(content.len());
    let part = &content[at..content.len().min(at.saturating_add(SEGMENT_BYTES))];
    let last = Name::default().join_number(component_type::SEGMENT, last as u64);
    let data = DataBuilder::new(name.join_number(component_type::SEGMENT, number)).content(part.to_vec());
    let data = data.freshness_ms(FRESHNESS_MS);
    data.final_block(last.as_ref().component(0).expect("it has one component")).encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use byname_wire::Data;

    #[test]
    fn segments_are_the_content() {
        let content: Vec<u8> = (0..3 * SEGMENT_BYTES - 1).map(|n| n as u8).collect();
        let name: Name = "/a".parse().expect("a name");
        let mut whole = Vec::new();
        for number in 0..3 {
            let wire = segment(&name, &content, number);
            let data = Data::decode(&wire).expect("Data");
            assert_eq!(data.final_block.and_then(|last| last.number()), Some(2));
            whole.extend_from_slice(data.content);
        }
        assert_eq!(whole, content);
        for (content, number) in [(&content[..], u64::MAX), (&[], 0)] {
            assert!(Data::decode(&segment(&name, content, number)).expect("Data").content.is_empty());
        }
    }
}
