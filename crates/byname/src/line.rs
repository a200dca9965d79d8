//! The command line: options that go with many commands, and `byname help`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::{Cli, Connection};

/// Commands that ask no router.
const ASK_NOBODY: [&str; 13] = [
    "run",
    "check",
    "default-config",
    "key",
    "keygen",
    "table",
    "trees",
    "demo",
    "fleet",
    "switch",
    "switch-controller",
    "completions",
    "man",
];

/// A part of one of these commands that asks one.
const ASKING_PART: (&str, &str) = ("fleet", "serve");

/// The whole command line. Each command that asks a router has `--transport`.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let transport = command.get_arguments().find(|arg| arg.get_id() == "transport").cloned();
    let Some(transport) = transport.map(|transport| transport.global(true)) else { return command };
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let asking = names.into_iter().filter(|name| !ASK_NOBODY.contains(&name.as_str()));
    let command = asking.fold(command, |command, name| command.mut_subcommand(name, |sub| sub.arg(transport.clone())));
    let (name, part) = ASKING_PART;
    command.mut_subcommand(name, |sub| sub.mut_subcommand(part, |part| part.arg(transport)))
}

/// Parses a command line that is [`in_usual_order`].
pub fn parse(line: &[OsString]) -> clap::error::Result<(Cli, Connection)> {
    let matches = command().try_get_matches_from(line)?;
    let connection = Connection { transport: transport(&matches) };
    if let Some((name, _)) = matches.subcommand().filter(|(name, _)| ASK_NOBODY.contains(name))
        && connection.transport.is_some()
        && matches.subcommand().and_then(|(_, sub)| sub.subcommand_name()).map(|part| (name, part)) != Some(ASKING_PART)
    {
        let message = format!("byname {name} asks no router: it has no --transport");
        return Err(command().error(ErrorKind::UnknownArgument, message));
    }
    Ok((Cli::from_arg_matches(&matches)?, connection))
}

/// The address of the router, wherever on the line it is.
fn transport(matches: &ArgMatches) -> Option<String> {
    let here = matches.try_get_one::<String>("transport").ok().flatten().cloned();
    matches.subcommand().and_then(|(_, sub)| transport(sub)).or(here)
}

/// Moves `--json` to the end and `--watch` to the beginning, where they are understood; turns `help COMMAND` into
/// `COMMAND --help`.
pub fn in_usual_order(mut line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_some_and(|word| word == "help") {
        line.remove(1);
        line.push("--help".into());
        return line;
    }
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    let rest = line.split_off(end);
    let is_watch =
        |word: &OsString| word.to_str().is_some_and(|word| word == "--watch" || word.starts_with("--watch="));
    let watch: Vec<OsString> = line.iter().filter(|word| is_watch(word)).cloned().collect();
    let json = line.iter().any(|word| word == "--json");
    line.retain(|word| word != "--json" && !is_watch(word));
    line.splice(1.min(line.len())..1.min(line.len()), watch);
    line.extend(json.then(|| "--json".into()));
    line.extend(rest);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_may_be_anywhere() {
        for (line, expected) in [
            ("byname --json status", "byname status --json"),
            ("byname route --json list /a", "byname route list /a --json"),
            ("byname status --watch", "byname --watch status"),
            ("byname face list --watch=5 --json", "byname --watch=5 face list --json"),
            ("byname help route", "byname route --help"),
            ("byname help", "byname --help"),
            ("byname help route add", "byname route add --help"),
            ("byname peek -- --json", "byname peek -- --json"),
            ("byname", "byname"),
        ] {
            assert_eq!(in_usual_order(words(line)), words(expected));
        }
    }

    #[test]
    fn a_router_is_named_only_where_one_is_asked() {
        let transport = |line: &str| parse(&words(line)).map(|(_, connection)| connection.transport);
        for line in [
            "byname --transport tcp://h status",
            "byname status --transport tcp://h",
            "byname face show 5 --transport tcp://h",
            "byname ping /a --transport tcp://h",
            "byname fleet serve --transport tcp://h",
        ] {
            assert_eq!(transport(line).unwrap().as_deref(), Some("tcp://h"), "{line}");
        }
        assert_eq!(transport("byname status").unwrap(), None);
        for line in [
            "byname run --transport tcp://h",
            "byname --transport tcp://h check",
            "byname run --json",
            "byname fleet status --transport tcp://h",
        ] {
            assert!(transport(line).is_err(), "{line}");
        }
        let names: Vec<String> = command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        assert!(ASK_NOBODY.iter().all(|name| names.iter().any(|known| known == name)));
    }
}
