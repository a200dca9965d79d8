//! Entries as words, on the command line and in files. Without clap, which takes longer for a line than the router.

use byname_gribi::convert;
use byname_gribi::proto::operation::{Entry, Kind};
use byname_gribi::proto::{FlatEntry, NextHop, PrefixEntry, TagsEntry};

/// The kinds of entries, for errors.
const KINDS: &str = "next-hop, group, prefix, flat or tags";

/// An operation: the verb, and the entry.
pub fn operation(words: &[&str]) -> Result<(Kind, Entry), String> {
    let (verb, rest) = words.split_first().ok_or("the line is empty")?;
    let kind = match *verb {
        "add" => Kind::Add,
        "replace" => Kind::Replace,
        "delete" => Kind::Delete,
        other => return Err(format!("'{other}' is not add, replace or delete")),
    };
    Ok((kind, entry(kind, rest)?))
}

/// An entry. To delete it, its key is enough.
pub fn entry(kind: Kind, words: &[&str]) -> Result<Entry, String> {
    let (what, rest) = words.split_first().ok_or_else(|| format!("what? {KINDS}"))?;
    let is_deleted = kind == Kind::Delete;
    let (flags, unnamed): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| *what != "prefix" || !["--no-inherit", "--capture"].contains(flag)) {
        return Err(format!("{what} has no option {flag}"));
    }
    let key = unnamed.first().ok_or_else(|| format!("the key of the {what} is missing"))?;
    let values = &unnamed[1..];
    let count_max = match *what {
        "group" => usize::MAX,
        _ => 1,
    };
    if values.is_empty() && !is_deleted {
        let missing = match *what {
            "next-hop" => "the face URI",
            "group" => "a next-hop",
            _ => "the group",
        };
        return Err(format!("{missing} is missing"));
    }
    if values.len() > count_max {
        return Err(format!("'{}' is too much", values[count_max]));
    }
    let group = || values.first().map_or(Ok(0), |value| number("the group", value));
    Ok(match *what {
        "next-hop" => {
            let uri = values.first().map(|uri| (*uri).to_owned()).unwrap_or_default();
            Entry::NextHop(NextHop { index: number("the index", key)?, uri })
        }
        "group" => {
            let members = values.iter().map(|value| member(value)).collect::<Result<Vec<_>, _>>()?;
            Entry::NextHopGroup(convert::group(number("the id", key)?, &members))
        }
        "prefix" => Entry::Prefix(PrefixEntry {
            name: (*key).to_owned(),
            next_hop_group: group()?,
            no_inherit: flags.contains(&"--no-inherit"),
            capture: flags.contains(&"--capture"),
        }),
        "flat" => Entry::Flat(FlatEntry { name: (*key).to_owned(), next_hop_group: group()? }),
        "tags" => {
            let tag = key.split(',').map(|tag| tag.trim().to_owned()).collect();
            Entry::Tags(TagsEntry { tag, next_hop_group: group()? })
        }
        other => return Err(format!("'{other}' is no kind of entry: {KINDS}")),
    })
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} must be a number, and is '{text}'"))
}

/// A member of a group: INDEX, or INDEX:COST.
fn member(text: &str) -> Result<(u64, u64), String> {
    let (index, cost) = text.split_once(':').unwrap_or((text, "0"));
    Ok((number("the index of a next-hop", index)?, number("a cost", cost)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(Kind, Entry), String> {
        operation(&line.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn lines_are_understood() {
        let hop = NextHop { index: 1, uri: "udp4://192.0.2.1:6363".into() };
        assert_eq!(of("add next-hop 1 udp4://192.0.2.1:6363"), Ok((Kind::Add, Entry::NextHop(hop))));
        let group = convert::group(7, &[(1, 10), (2, 0)]);
        assert_eq!(of("replace group 7 1:10 2"), Ok((Kind::Replace, Entry::NextHopGroup(group))));
        let prefix = PrefixEntry { name: "/a".into(), next_hop_group: 7, no_inherit: false, capture: true };
        assert_eq!(of("add prefix --capture /a 7"), Ok((Kind::Add, Entry::Prefix(prefix))));
        let flat = FlatEntry { name: "/o/x".into(), next_hop_group: 0 };
        assert_eq!(of("delete flat /o/x"), Ok((Kind::Delete, Entry::Flat(flat))));
        let tags = TagsEntry { tag: vec!["a".into(), "b".into()], next_hop_group: 7 };
        assert_eq!(of("add tags a,b 7"), Ok((Kind::Add, Entry::Tags(tags))));
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, why) in [
            ("make prefix /a 7", "'make' is not add, replace or delete"),
            ("add", "what? next-hop, group, prefix, flat or tags"),
            ("add route /a 7", "'route' is no kind of entry"),
            ("add prefix", "the key of the prefix is missing"),
            ("add prefix /a", "the group is missing"),
            ("add prefix /a seven", "the group must be a number, and is 'seven'"),
            ("add prefix /a 7 8", "'8' is too much"),
            ("add flat /a 7 --capture", "flat has no option --capture"),
            ("add group 7", "a next-hop is missing"),
            ("add group 7 1:x", "a cost must be a number"),
            ("add next-hop 1", "the face URI is missing"),
        ] {
            let error = of(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
