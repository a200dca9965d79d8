//! Accepts nfdc's syntax, which names arguments by words: `route add prefix /a nexthop 300 cost 5`.
//!
//! This module rewrites the command line before clap sees it, so that both syntaxes give the same command. It drops
//! words that name positional arguments and puts their values in order. It turns words that name options into
//! `--option`. It only changes the management commands that nfdc has.

use std::ffi::OsString;

/// nfdc's names for the arguments of one command.
struct Command {
    noun: &'static str,
    verb: &'static str,
    /// Positional arguments, in order.
    positional: &'static [&'static str],
    /// Options with a value.
    options: &'static [&'static str],
    /// Options without a value.
    switches: &'static [&'static str],
}

const FACE_OPTIONS: &[&str] = &[
    "local",
    "mtu",
    "reliability",
    "congestion-marking",
    "congestion-marking-interval",
    "default-congestion-threshold",
];

const COMMANDS: &[Command] = &[
    Command { noun: "face", verb: "list", positional: &["remote"], options: &["local", "scheme"], switches: &[] },
    Command { noun: "face", verb: "show", positional: &["id"], options: &[], switches: &[] },
    Command {
        noun: "face",
        verb: "create",
        positional: &["remote", "persistency"],
        options: FACE_OPTIONS,
        switches: &[],
    },
    Command { noun: "face", verb: "move", positional: &["face", "thread"], options: &[], switches: &[] },
    Command { noun: "face", verb: "destroy", positional: &["face"], options: &[], switches: &[] },
    Command { noun: "route", verb: "list", positional: &["prefix"], options: &["nexthop", "origin"], switches: &[] },
    Command { noun: "route", verb: "show", positional: &["prefix"], options: &[], switches: &[] },
    Command {
        noun: "route",
        verb: "add",
        positional: &["prefix", "nexthop"],
        options: &["origin", "cost", "expires"],
        switches: &["no-inherit", "capture"],
    },
    Command { noun: "route", verb: "remove", positional: &["prefix", "nexthop"], options: &["origin"], switches: &[] },
    Command { noun: "cs", verb: "config", positional: &[], options: &["capacity", "admit", "serve"], switches: &[] },
    Command { noun: "cs", verb: "erase", positional: &["prefix", "count"], options: &[], switches: &[] },
    Command { noun: "strategy", verb: "show", positional: &["prefix"], options: &[], switches: &[] },
    Command { noun: "strategy", verb: "set", positional: &["prefix", "strategy"], options: &[], switches: &[] },
    Command { noun: "strategy", verb: "unset", positional: &["prefix"], options: &[], switches: &[] },
];

/// Rewrites a whole command line, program name included.
pub fn rewrite(line: Vec<OsString>) -> Vec<OsString> {
    let Some((at, command)) = find(&line) else { return line };
    let mut out: Vec<OsString> = line[..at].to_vec();
    let mut named: Vec<Option<OsString>> = vec![None; command.positional.len()];
    let mut unnamed = Vec::new();
    let mut words = line[at..].iter().cloned();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        if let Some(index) = command.positional.iter().position(|&name| name == text)
            && named[index].is_none()
        {
            match words.next() {
                Some(value) => named[index] = Some(value),
                None => unnamed.push(word),
            }
        } else if command.switches.contains(&text) {
            out.push(format!("--{text}").into());
        } else if command.options.contains(&text) {
            out.push(format!("--{text}").into());
            out.extend(words.next());
        } else if text.starts_with("--") && !text.contains('=') && command.takes_value(&text[2..]) {
            // An option in byname's own syntax: its value is not a positional argument.
            out.push(word);
            out.extend(words.next());
        } else if text.starts_with('-') {
            out.push(word);
        } else {
            unnamed.push(word);
        }
    }
    let mut unnamed = unnamed.into_iter();
    let mut positional: Vec<OsString> = named.into_iter().map_while(|value| value.or_else(|| unnamed.next())).collect();
    positional.extend(unnamed);
    out.extend(positional);
    out
}

impl Command {
    fn takes_value(&self, option: &str) -> bool {
        option == "transport" || self.options.contains(&option) || self.positional.contains(&option)
    }
}

/// Returns the command on this line, and the index of its first argument.
fn find(line: &[OsString]) -> Option<(usize, &'static Command)> {
    let mut at = 1;
    // Skip options of `byname` itself.
    while let Some(option) = line.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with("--")) {
        at += if option == "--transport" { 2 } else { 1 };
    }
    let (noun, verb) = (line.get(at)?.to_str()?, line.get(at + 1)?.to_str()?);
    let command = COMMANDS.iter().find(|command| (command.noun, command.verb) == (noun, verb))?;
    Some((at + 2, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = rewrite(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_become_positions_and_flags() {
        for (line, expected) in [
            ("byname route add prefix /a nexthop 300 cost 5", "byname route add --cost 5 /a 300"),
            ("byname route add nexthop 300 prefix /a", "byname route add /a 300"),
            ("byname route add /a nexthop 300", "byname route add /a 300"),
            ("byname route add nexthop 300 /a", "byname route add /a 300"),
            ("byname route add /a 300 no-inherit capture", "byname route add --no-inherit --capture /a 300"),
            ("byname route add --cost 5 /a 300", "byname route add --cost 5 /a 300"),
            (
                "byname face create remote udp://h persistency permanent mtu 1400",
                "byname face create --mtu 1400 udp://h permanent",
            ),
            ("byname face create udp://h permanent", "byname face create udp://h permanent"),
            ("byname --transport tcp://h face show id 5", "byname --transport tcp://h face show 5"),
            ("byname face destroy 7 --json --transport x", "byname face destroy --json --transport x 7"),
            ("byname strategy set prefix / strategy /s", "byname strategy set / /s"),
            ("byname cs erase prefix /a count 3", "byname cs erase /a 3"),
            ("byname cs config admit off capacity 5", "byname cs config --admit off --capacity 5"),
            ("byname route list nexthop 5 origin static", "byname route list --nexthop 5 --origin static"),
        ] {
            assert_eq!(rewritten(line), expected);
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in ["byname", "byname run prefix", "byname ping /prefix", "byname face", "byname route add /a 5 junk"]
        {
            assert_eq!(rewritten(line), line);
        }
        // Invalid lines stay invalid, so that clap reports them.
        assert_eq!(rewritten("byname face show id"), "byname face show id");
        assert_eq!(rewritten("byname route add cost"), "byname route add --cost");
    }
}
