//! Messages as what the [core](crate::core) knows, and back.

use byname_mgmt::route_flags::{CAPTURE, CHILD_INHERIT};
use byname_wire::tagset::TAGS_MAX;
use byname_wire::{Name, NameRef};

use crate::core::{Ack, Entry, Key, Listed, NextHopUse, Operation, Params, Persistence, Status, Verb};
use crate::proto::{self, entry, operation, result, session_parameters};

/// Longest tag, in bytes.
const TAG_BYTES_MAX: usize = 255;

/// A number of 128 bits.
pub fn number(halves: proto::Uint128) -> u128 {
    u128::from(halves.high) << 64 | u128::from(halves.low)
}

/// The halves of a number of 128 bits.
pub fn halves(number: u128) -> proto::Uint128 {
    proto::Uint128 { high: (number >> 64) as u64, low: number as u64 }
}

/// Parameters of a session.
///
/// # Errors
/// A value that this version does not know.
pub fn params(message: &proto::SessionParameters) -> Result<Params, String> {
    let unknown = |what: &str, value: i32| format!("this server knows no {what} {value}");
    Ok(Params {
        persistence: match session_parameters::Persistence::try_from(message.persistence) {
            Ok(session_parameters::Persistence::Delete) => Persistence::Delete,
            Ok(session_parameters::Persistence::Preserve) => Persistence::Preserve,
            Err(_) => return Err(unknown("persistence", message.persistence)),
        },
        ack: match session_parameters::Ack::try_from(message.ack) {
            Ok(session_parameters::Ack::Rib) => Ack::Rib,
            Ok(session_parameters::Ack::RibAndFib) => Ack::RibAndFib,
            Err(_) => return Err(unknown("ack", message.ack)),
        },
    })
}

/// Parameters of a session as a message.
pub fn params_message(params: Params) -> proto::SessionParameters {
    let persistence = match params.persistence {
        Persistence::Delete => session_parameters::Persistence::Delete,
        Persistence::Preserve => session_parameters::Persistence::Preserve,
    };
    let ack = match params.ack {
        Ack::Rib => session_parameters::Ack::Rib,
        Ack::RibAndFib => session_parameters::Ack::RibAndFib,
    };
    proto::SessionParameters { persistence: persistence.into(), ack: ack.into() }
}

/// An operation.
///
/// # Errors
/// It is none, in words.
pub fn operation(message: proto::Operation) -> Result<Operation, String> {
    let verb = match operation::Kind::try_from(message.kind) {
        Ok(operation::Kind::Add) => Verb::Add,
        Ok(operation::Kind::Replace) => Verb::Replace,
        Ok(operation::Kind::Delete) => Verb::Delete,
        _ => return Err("the operation has no kind: ADD, REPLACE or DELETE".to_owned()),
    };
    let entry = message.entry.ok_or("the operation has no entry that this server knows")?;
    let entry = match entry {
        operation::Entry::NextHop(hop) => Entry::NextHop { index: hop.index, uri: hop.uri },
        operation::Entry::NextHopGroup(group) => {
            let members = group.next_hop.iter().map(|member| (member.index, member.cost)).collect();
            Entry::Group { id: group.id, members }
        }
        operation::Entry::Prefix(prefix) => {
            let inherit = if prefix.no_inherit { 0 } else { CHILD_INHERIT };
            let flags = inherit | if prefix.capture { CAPTURE } else { 0 };
            Entry::Route { key: Key::Prefix(name(&prefix.name)?.into()), group: prefix.next_hop_group, flags }
        }
        operation::Entry::Flat(flat) => {
            let name = name(&flat.name)?;
            if name.as_ref().len() < 2 {
                return Err(format!("{} is no name in a namespace", flat.name));
            }
            Entry::Route { key: Key::Flat(name.into()), group: flat.next_hop_group, flags: 0 }
        }
        operation::Entry::Tags(entry) => {
            let key = Key::Tags(tags(entry.tag)?.into());
            Entry::Route { key, group: entry.next_hop_group, flags: 0 }
        }
    };
    let election_id = message.election_id.map_or(0, number);
    Ok(Operation { id: message.id, verb, entry, election_id })
}

fn name(uri: &str) -> Result<Name, String> {
    if !uri.starts_with('/') && !uri.starts_with("ndn:") {
        return Err(format!("'{}' is no name: it begins with /", short(uri)));
    }
    let name: Name = uri.parse().map_err(|error| format!("'{}' is no name: {error}", short(uri)))?;
    // Names of management, and the server's own labels.
    let is_own =
        |own: &str| own.parse::<Name>().is_ok_and(|own: Name| NameRef::is_prefix_of(&own.as_ref(), &name.as_ref()));
    match ["/localhost/nfd", "/localhop/nfd", LABELS].into_iter().find(|own| is_own(own)) {
        Some(own) => Err(format!("names below {own} belong to the router")),
        None => Ok(name),
    }
}

/// Labels of groups are below this name. It has the scope of the host, so that no packet with it comes from elsewhere.
pub(crate) const LABELS: &str = "/localhost/byname/gribi";

fn tags(mut tags: Vec<String>) -> Result<Vec<String>, String> {
    tags.sort_unstable();
    tags.dedup();
    if tags.is_empty() || tags.len() > TAGS_MAX {
        return Err(format!("there are 1 to {TAGS_MAX} tags in an entry, and {} here", tags.len()));
    }
    match tags.iter().find(|tag| tag.is_empty() || tag.len() > TAG_BYTES_MAX) {
        Some(tag) => Err(format!("a tag has 1 to {TAG_BYTES_MAX} bytes, and one here {}", tag.len())),
        None => Ok(tags),
    }
}

/// The beginning of a text that a stranger has sent.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The result of an operation as a message.
pub fn result(id: u64, status: Status, timestamp_ns: i64) -> proto::Result {
    let (status, error) = match status {
        Status::Failed(why) => (result::Status::Failed, why.as_ref().to_owned()),
        Status::RibProgrammed => (result::Status::RibProgrammed, String::new()),
        Status::FibProgrammed => (result::Status::FibProgrammed, String::new()),
        Status::FibFailed(why) => (result::Status::FibFailed, why.as_ref().to_owned()),
    };
    proto::Result { id, status: status.into(), timestamp_ns, error }
}

/// An entry of a list as a message.
pub fn listed(listed: Listed) -> proto::Entry {
    let (entry, is_there) = match listed {
        Listed::NextHop(NextHopUse { index, uri }) => {
            (entry::Entry::NextHop(proto::NextHop { index, uri: uri.as_ref().to_owned() }), true)
        }
        Listed::Group(id, members) => (entry::Entry::NextHopGroup(group(id, &members)), true),
        Listed::Route(key, next_hop_group, flags, is_there) => {
            let entry = match key {
                Key::Prefix(name) => entry::Entry::Prefix(proto::PrefixEntry {
                    name: name.to_string(),
                    next_hop_group,
                    no_inherit: flags & CHILD_INHERIT == 0,
                    capture: flags & CAPTURE != 0,
                }),
                Key::Flat(name) => entry::Entry::Flat(proto::FlatEntry { name: name.to_string(), next_hop_group }),
                Key::Tags(tags) => entry::Entry::Tags(proto::TagsEntry { tag: tags.to_vec(), next_hop_group }),
                // Not listed.
                Key::Label(id) => entry::Entry::NextHopGroup(group(id, &[])),
            };
            (entry, is_there)
        }
    };
    let fib_status = if is_there { entry::FibStatus::Programmed } else { entry::FibStatus::NotProgrammed };
    proto::Entry { entry: Some(entry), fib_status: fib_status.into() }
}

/// A group as a message.
pub fn group(id: u64, members: &[(u64, u64)]) -> proto::NextHopGroup {
    let member = |(index, cost): &(u64, u64)| proto::next_hop_group::Member { index: *index, cost: *cost };
    proto::NextHopGroup { id, next_hop: members.iter().map(member).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entry: operation::Entry) -> Result<Operation, String> {
        operation(proto::Operation { id: 1, kind: 1, entry: Some(entry), election_id: Some(halves(7)) })
    }

    #[test]
    fn numbers_have_two_halves() {
        for value in [0, 1, u128::from(u64::MAX), u128::from(u64::MAX) + 1, u128::MAX] {
            assert_eq!(number(halves(value)), value);
        }
        assert_eq!(halves(1 << 64), proto::Uint128 { high: 1, low: 0 });
    }

    #[test]
    fn entries_are_understood_or_refused_with_a_reason() {
        let prefix = |name: &str| {
            let entry =
                proto::PrefixEntry { name: name.to_owned(), next_hop_group: 3, no_inherit: true, capture: true };
            of(operation::Entry::Prefix(entry))
        };
        let expected = Entry::Route {
            key: Key::Prefix(std::sync::Arc::new("/a/b".parse().expect("a name"))),
            group: 3,
            flags: CAPTURE,
        };
        assert_eq!(prefix("/a/b").map(|operation| operation.entry), Ok(expected));
        for (bad, why) in [
            ("", "begins with /"),
            ("a", "begins with /"),
            ("/%zz", "no name"),
            ("/localhost/nfd/rib", "belong to the router"),
            ("/localhost/byname/gribi/7", "belong to the router"),
        ] {
            let error = prefix(bad).expect_err(bad);
            assert!(error.contains(why), "{bad}: {error}");
        }
        let long = format!("/{}", "x".repeat(100_000));
        assert!(prefix(&long).expect_err("too long").len() < 300);
        let flat = |name: &str| of(operation::Entry::Flat(proto::FlatEntry { name: name.into(), next_hop_group: 3 }));
        assert!(flat("/o").is_err() && flat("/o/x").is_ok());
        let tags = |tag: &[&str]| {
            let tag = tag.iter().map(|tag| (*tag).to_owned()).collect();
            of(operation::Entry::Tags(proto::TagsEntry { tag, next_hop_group: 3 }))
        };
        assert_eq!(tags(&["b", "a", "b"]), tags(&["a", "b"]), "a set");
        assert!(tags(&[]).is_err() && tags(&[""]).is_err() && tags(&["x".repeat(256).as_str()]).is_err());
        assert!(operation(proto::Operation { kind: 1, ..proto::Operation::default() }).is_err());
        let none = operation::Entry::NextHop(proto::NextHop { index: 1, uri: "udp4://192.0.2.1:6363".into() });
        let no_kind = proto::Operation { entry: Some(none), ..proto::Operation::default() };
        assert!(operation(no_kind).expect_err("no kind").contains("kind"));
    }
}
