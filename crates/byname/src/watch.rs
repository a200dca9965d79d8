//! `--watch`: repeats a command that shows something.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::error::ErrorKind;

use crate::{Command, Connection, line};

/// Clears a terminal, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Repeats the command of a line until Ctrl-C, or until it fails.
pub fn run(words: &[OsString], pause: Duration, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = None;
    loop {
        let (cli, _) = line::parse(words)?;
        let Some(Command::Manage(command)) = cli.command.filter(shows) else {
            crate::usage_error(ErrorKind::ArgumentConflict, "--watch repeats management commands that show something");
        };
        let client = match &mut client {
            Some(client) => client,
            none => none.insert(connection.connect()?),
        };
        if std::io::stdout().is_terminal() {
            write!(std::io::stdout(), "{CLEAR}")?;
        }
        command.run(client)?;
        std::thread::sleep(pause);
    }
}

fn shows(command: &Command) -> bool {
    matches!(command, Command::Manage(command) if command.only_shows())
}
