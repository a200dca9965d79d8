//! Changes of flat names in a running router.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_client::Link;
use byname_client::management::{ManagementError, command, dataset};
use byname_control::mgmt::tlv::{ControlParameters, FlatChange, decode_list};
use byname_wire::{Component, Name};
use clap::Subcommand;
use serde::Serialize;

use super::{flat_name, opened};
use crate::Connection;
use crate::exit::{self, Failure};
use crate::in_flight::{Done, InFlight, Request};
use crate::manage::{print, text};
use crate::table::REPORTED;
use crate::table::rules::each_line;
use crate::tools::parse_name;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lead a flat name of a running forwarder to a label
    #[command(visible_alias = "alter", after_help = "Example:\n  byname flat add /objects report.pdf /upstream/1")]
    Add {
        #[command(flatten)]
        which: Which,
        /// The name whose route it follows
        #[arg(value_parser = parse_name)]
        label: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a flat name of a running forwarder unknown, whatever its table says
    Remove {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo the changes of a flat name: it is as in the forwarder's table again
    Reset {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change many flat names of a running forwarder: lines with a flat name and a label, or - for none
    Load {
        /// Prefix of the namespace
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// The names, or - for standard input
        #[arg(value_name = "NAMES")]
        names: PathBuf,
        /// Names are bytes in hexadecimal digits
        #[arg(long)]
        hex: bool,
    },
    /// List the flat names of a running forwarder that commands have changed
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A flat name.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Prefix of the namespace
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// The flat name
    #[arg(value_name = "NAME")]
    name: String,
    /// The name is bytes in hexadecimal digits
    #[arg(long)]
    hex: bool,
}

impl Which {
    fn name(&self) -> anyhow::Result<Name> {
        joined(&self.prefix, &self.name, self.hex)
    }
}

fn joined(prefix: &Name, text: &str, hex: bool) -> anyhow::Result<Name> {
    Ok(prefix.clone().join(Component::generic(&flat_name(text, hex)?)))
}

/// What `--json` prints: a flat name, and the name whose route it follows.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    /// `None`: it counts as unknown.
    label: Option<String>,
}

impl Shown {
    fn new(name: &Name, label: Option<&Name>) -> Self {
        Shown { name: name.to_string(), label: label.map(ToString::to_string) }
    }
}

/// What `reset --json` prints.
#[derive(Debug, Serialize)]
struct Reset {
    name: String,
}

/// Carries out a command.
pub fn run(asked: Command, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    match asked {
        Command::Add { which, label, json } => set(&mut client, &which.name()?, Some(label), json)?,
        Command::Remove { which, json } => set(&mut client, &which.name()?, None, json)?,
        Command::Reset { which, json } => {
            let name = which.name()?;
            command(&mut client, "flat", "reset", &about(&name))?;
            print(json, &Reset { name: name.to_string() }, || format!("flat-reset name={name}\n"))?;
        }
        Command::Load { prefix, names, hex } => load(client, &prefix, &names, hex)?,
        Command::List { json } => {
            let content = dataset(&mut client, "flat", "list", None)?;
            let changes: Vec<FlatChange> = decode_list(&content).context("the router's list of flat names")?;
            let shown: Vec<_> = changes.iter().map(|one| Shown::new(&one.name, one.label.as_ref())).collect();
            print(json, &shown, || text::columns(&shown.iter().map(Shown::items).collect::<Vec<_>>()))?;
        }
    }
    Ok(exit::OK)
}

impl Shown {
    fn items(&self) -> Vec<(&'static str, String)> {
        vec![("name", self.name.clone()), ("label", self.label.clone().unwrap_or_else(|| "-".to_owned()))]
    }
}

fn about(name: &Name) -> ControlParameters {
    ControlParameters { name: Some(name.clone()), ..ControlParameters::default() }
}

fn set(client: &mut Link, name: &Name, label: Option<Name>, json: bool) -> anyhow::Result<()> {
    let shown = Shown::new(name, label.as_ref());
    command(client, "flat", "set", &ControlParameters { label, ..about(name) }).map_err(explained)?;
    let verb = if shown.label.is_some() { "set" } else { "removed" };
    print(json, &shown, || format!("flat-{verb} {}\n", text::line(&shown.items())))
}

/// Says what to do about a refusal.
fn explained(error: ManagementError) -> anyhow::Error {
    match &error {
        ManagementError::Refused { code: 404, .. } => {
            let message =
                "this is no name of a flat namespace of the router; `[[flat]]` in its configuration makes one";
            Failure::new(exit::NOT_FOUND, message).into()
        }
        _ => error.into(),
    }
}

/// A change that is sent while others are in flight.
struct Edit {
    name: Name,
    label: Option<Name>,
}

impl Request for Edit {
    type About = Name;

    fn about(&self) -> Name {
        self.name.clone()
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn command(&self) -> (&'static str, &'static str) {
        ("flat", "set")
    }

    fn parameters(&self) -> ControlParameters {
        ControlParameters { label: self.label.clone(), ..about(&self.name) }
    }
}

/// Changes the names of a file, which is read whole before. The first failure ends it.
fn load(mut client: Link, prefix: &Name, path: &Path, hex: bool) -> anyhow::Result<()> {
    let mut edits = Vec::new();
    each_line(&mut opened(path)?, path, &mut |_, text| {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(label), None) = (words.next(), words.next(), words.next()) else {
            anyhow::bail!("a line has a flat name and a label, or - for none: report.pdf /upstream/1");
        };
        let label = if label == "-" { None } else { Some(parse_name(label).map_err(anyhow::Error::msg)?) };
        edits.push(Edit { name: joined(prefix, name, hex)?, label });
        Ok(())
    })?;
    let mut in_flight = InFlight::new(client.is_local());
    let mut done = 0;
    for (edit, number) in edits.into_iter().zip(1..) {
        while !in_flight.has_room() || in_flight.changes(&edit) {
            take_answers(&mut client, &mut in_flight, &mut done)?;
        }
        in_flight.push(&mut client, edit, number)?;
    }
    while !in_flight.is_empty() {
        take_answers(&mut client, &mut in_flight, &mut done)?;
    }
    writeln!(io::stdout(), "{done} flat names changed")?;
    Ok(())
}

/// Waits for some answers.
fn take_answers(client: &mut Link, in_flight: &mut InFlight<Edit>, done: &mut usize) -> anyhow::Result<()> {
    in_flight.receive(client)?;
    while let Some(Done { request, answer, .. }) = in_flight.next_done() {
        let before = *done;
        answer.map_err(explained).with_context(|| format!("{}, after {before} others", request.name))?;
        *done += 1;
        if done.is_multiple_of(REPORTED) {
            eprintln!("{done} names changed");
        }
    }
    Ok(())
}
