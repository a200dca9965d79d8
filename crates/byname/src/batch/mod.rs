//! `byname -f FILE`: many management commands from a file or from standard input, as `nfdc -f` carries them out.
//!
//! Each line is a command in byname's syntax or nfdc's. Route changes are sent without waiting for answers, up to a
//! limit (`crate::in_flight`). All other commands wait for the commands before them. Two changes of the same route are never in
//! flight together. So the result is as if each command had waited for the one before, with one exception: when a
//! route change fails, some commands after it have been sent already. The report then names their lines.
//!
//! Differs from the same commands one by one: `route remove` does not look first whether the route exists, so removing
//! a route that is not there succeeds, as in nfdc.

mod direct;
pub mod lines;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Context;
use clap::Parser;
use clap::error::ErrorKind;

use crate::exit::{self, Failure};
use crate::in_flight::{Done, InFlight};
use crate::manage::face_uri::FaceSelector;
use crate::manage::{self, face, route};
use crate::{Connection, nfdc_words};
use byname_client::Link;
use direct::{Change, OfFace, route_change};
use lines::{BadLine, Lines, words};

/// Most face URIs to remember. When there are more, all are forgotten and asked for again.
const URIS_MAX: usize = 4096;

/// A line of a batch.
#[derive(Debug, Parser)]
#[command(name = "byname", disable_help_flag = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: manage::Command,
}

/// Runs `byname -f`.
pub fn run(file: &Path, keep_going: bool, connection: &Connection) -> anyhow::Result<u8> {
    let is_standard_input = file == Path::new("-");
    let (input, name): (Box<dyn Read>, String) = if is_standard_input {
        (Box::new(io::stdin()), "standard input".to_owned())
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        (Box::new(opened), file.display().to_string())
    };
    let client = connection.connect()?;
    let mut batch = Batch {
        in_flight: InFlight::new(client.is_local()),
        client,
        faces: HashMap::new(),
        out: BufWriter::new(io::stdout()),
        name,
        keep_going,
        commands: 0,
        failures: Failures::default(),
    };
    batch.carry_out_all(Lines::new(input))?;
    batch.report();
    Ok(batch.failures.code)
}

/// The failures so far.
#[derive(Default)]
struct Failures {
    count: u64,
    /// Line of the last one.
    line: u64,
    /// Exit code of the first one.
    code: u8,
    /// Last line that had been sent when the batch stopped.
    sent_up_to: Option<u64>,
}

struct Batch {
    client: Link,
    in_flight: InFlight<OfFace>,
    /// Ids of faces by URI. A route may be added to one face, and removed from several.
    faces: HashMap<String, Vec<u64>>,
    out: BufWriter<io::Stdout>,
    /// The batch in messages.
    name: String,
    keep_going: bool,
    commands: u64,
    failures: Failures,
}

impl Batch {
    fn carry_out_all(&mut self, mut lines: Lines<impl Read>) -> anyhow::Result<()> {
        while !self.stops() {
            if !lines.is_ready() {
                // The writer of the lines may wait for these answers before it sends the next line.
                if !self.is_quiet()? {
                    break;
                }
            }
            let next = lines.next().with_context(|| format!("cannot read {}", self.name))?;
            let Some((number, line)) = next else { break };
            self.carry_out(number, line).with_context(|| format!("{}, line {number}", self.name))?;
        }
        self.is_quiet().map(drop)
    }

    fn carry_out(&mut self, number: u64, line: Result<&str, BadLine>) -> anyhow::Result<()> {
        let bad = |bad: BadLine| Failure::new(exit::USAGE, bad.to_string());
        let parsed = match line.and_then(|line| words(line, parse)).map_err(bad).and_then(|parsed| parsed) {
            Ok(Command::Nothing) => return Ok(()),
            Ok(Command::Change(change)) => return self.change(number, change),
            other => other,
        };
        if !self.is_quiet()? {
            return Ok(());
        }
        self.commands += 1;
        // The command may create and destroy faces.
        self.faces.clear();
        let done = match parsed {
            Ok(Command::Other(command)) => command.run(&mut self.client),
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.into()),
        };
        self.note(number, done)
    }

    /// Waits until nothing is in flight and all output is written. Returns whether the batch goes on then.
    fn is_quiet(&mut self) -> anyhow::Result<bool> {
        self.await_answers()?;
        self.out.flush()?;
        Ok(!self.stops())
    }

    /// Sends a route change.
    fn change(&mut self, number: u64, change: Change) -> anyhow::Result<()> {
        let faces = match change.nexthop() {
            FaceSelector::Id(id) => vec![*id],
            FaceSelector::Uri(uri) => match self.faces.get(uri).cloned() {
                Some(faces) => faces,
                None if !self.is_quiet()? => return Ok(()),
                None => match self.resolve(&change, uri) {
                    Ok(faces) => faces,
                    Err(error) => {
                        self.commands += 1;
                        return self.note(number, Err(error));
                    }
                },
            },
        };
        let faces = match change {
            // If several faces have this URI, the router takes the first one for a new route.
            Change::Add(_) => &faces[..faces.len().min(1)],
            Change::Remove(_) => &faces[..],
        };
        self.commands += 1;
        for &face_id in faces {
            let request = OfFace { change: change.clone(), face_id };
            if self.in_flight.changes(&request) {
                self.await_answers()?;
            }
            while !self.in_flight.has_room() {
                self.in_flight.receive(&mut self.client)?;
                self.take_answers()?;
            }
            if self.stops() {
                return Ok(());
            }
            self.in_flight.push(&mut self.client, request, number)?;
        }
        Ok(())
    }

    /// Asks the router for the faces with a URI. To add a route, creates the face if there is none.
    fn resolve(&mut self, change: &Change, uri: &str) -> anyhow::Result<Vec<u64>> {
        let faces = match change {
            Change::Add(_) => vec![face::create_for_route(&mut self.client, uri, true)?],
            Change::Remove(args) => {
                face::find(&mut self.client, &args.nexthop)?.iter().map(|face| face.face_id).collect()
            }
        };
        if self.faces.len() >= URIS_MAX {
            self.faces.clear();
        }
        self.faces.insert(uri.to_owned(), faces.clone());
        Ok(faces)
    }

    /// Waits for the answers to all commands in flight.
    fn await_answers(&mut self) -> anyhow::Result<()> {
        while !self.in_flight.is_empty() {
            self.in_flight.receive(&mut self.client).map_err(|lost| self.unfinished(lost))?;
            self.take_answers()?;
        }
        Ok(())
    }

    fn take_answers(&mut self) -> anyhow::Result<()> {
        while let Some(Done { request: OfFace { change, face_id }, line, answer }) = self.in_flight.next_done() {
            match (change, answer) {
                (Change::Add(args), Ok(answer)) => {
                    self.out.write_all(route::added_line(&args.added(face_id, &answer)).as_bytes())?;
                }
                (Change::Remove(args), Ok(_)) => self.out.write_all(args.removed(face_id).line().as_bytes())?,
                (Change::Add(args), Err(error)) => self.note(line, Err(args.failure(face_id, error)))?,
                (Change::Remove(_), Err(error)) => self.note(line, Err(error.into()))?,
            }
        }
        Ok(())
    }

    /// Counts and reports the failure of a line.
    ///
    /// # Errors
    /// The error is not about this line alone: the connection or the output has failed.
    fn note(&mut self, line: u64, done: anyhow::Result<()>) -> anyhow::Result<()> {
        let Err(error) = done else { return Ok(()) };
        let code = exit::code_of(&error);
        if code == exit::NO_FORWARDER || crate::is_broken_pipe(&error) {
            return Err(error);
        }
        self.out.flush()?;
        let _ = writeln!(io::stderr(), "{}:{line}: error: {}", self.name, exit::message_of(&error));
        if self.failures.count == 0 {
            self.failures.code = code;
            self.failures.sent_up_to = self.in_flight.lines().map(|(_, last)| last).filter(|_| !self.keep_going);
        }
        // A line may have several commands, one for each face.
        if self.failures.line != line {
            self.failures.count += 1;
            self.failures.line = line;
        }
        Ok(())
    }

    /// Whether a failure ends the batch.
    fn stops(&self) -> bool {
        self.failures.count > 0 && !self.keep_going
    }

    fn unfinished(&self, lost: byname_client::ConnectionLost) -> anyhow::Error {
        let lines = self.in_flight.lines().map(|(first, last)| format!("no answer to lines {first} to {last}"));
        anyhow::Error::new(lost).context(lines.unwrap_or_default())
    }

    /// Says what a failure means for the rest of the batch.
    fn report(&self) {
        let Failures { count, line, sent_up_to, .. } = self.failures;
        let said = match (count, sent_up_to) {
            (0, _) => return,
            _ if self.keep_going => format!("{count} of {} commands failed", self.commands),
            (_, Some(last)) if last > line => format!(
                "stopped; commands up to line {last} had been sent before this failed, and were carried out unless they \
                 are listed"
            ),
            _ => "stopped; nothing after this line was carried out".to_owned(),
        };
        let _ = writeln!(io::stderr(), "{}: {said}", self.name);
    }
}

/// What a line says.
enum Command {
    /// The line is empty, or a remark.
    Nothing,
    Change(Change),
    Other(manage::Command),
}

fn parse(words: &[&str]) -> Result<Command, Failure> {
    match (words, route_change(words)) {
        ([], _) => Ok(Command::Nothing),
        (_, Some(change)) => Ok(Command::Change(change)),
        _ => parsed_by_clap(words).map(Command::Other),
    }
}

/// The command on a line of any kind. Its errors are clap's, on one line.
fn parsed_by_clap(words: &[&str]) -> Result<manage::Command, Failure> {
    let line = ["byname"].iter().chain(words).map(Into::into).collect();
    let parsed = Line::try_parse_from(nfdc_words::rewrite(line)).map_err(|error| {
        let message = match error.kind() {
            ErrorKind::InvalidSubcommand => format!("'{}' is not a management command", words.join(" ")),
            // Without the usage that follows.
            _ => {
                let text = error.to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                text.split("\n\n").next().unwrap_or_default().replace('\n', " ")
            }
        };
        Failure::new(exit::USAGE, message)
    })?;
    Ok(parsed.command)
}
