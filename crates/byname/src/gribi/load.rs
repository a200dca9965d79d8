//! `byname gribi load`: many operations in one session, without waiting for results in between.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use byname_gribi::client::{Client, Session, Target};
use byname_gribi::core::Persistence;
use byname_gribi::proto::Operation;
use byname_gribi::proto::result::Status;
use clap::Args;

use super::{ServerArgs, line};
use crate::batch::lines::{Lines, words};
use crate::exit::{self, Failure};

/// Operations in one request.
const REQUEST: usize = 512;
/// Operations without their last result.
const WINDOW: usize = 32_768;
/// Most failures that are shown one by one.
const SHOWN_MAX: u64 = 20;

/// Options of `byname gribi load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The file (-: standard input)
    file: PathBuf,
    /// Stay when all is done, until Ctrl-C; everything is removed then
    #[arg(long)]
    stay: bool,
}

struct Load {
    session: Session,
    /// Lines of operations without their last result, by their ids.
    open: HashMap<u64, u64>,
    done: u64,
    failed: u64,
}

/// Carries out the operations of a file. Failures do not end it.
pub async fn run(server: &ServerArgs, args: &LoadArgs, target: &Target) -> anyhow::Result<u8> {
    let (input, name): (Box<dyn Read>, String) = if args.file == Path::new("-") {
        (Box::new(io::stdin()), "standard input".to_owned())
    } else {
        let opened = File::open(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
        (Box::new(opened), args.file.display().to_string())
    };
    let client = Client::connect(target).await?;
    let persistence = if args.stay { Persistence::Delete } else { Persistence::Preserve };
    let session = server.session(&client, persistence).await?;
    let mut load = Load { session, open: HashMap::new(), done: 0, failed: 0 };
    let begun = Instant::now();
    let mut lines = Lines::new(input);
    let mut request: Vec<Operation> = Vec::with_capacity(REQUEST);
    while let Some((number, line)) = lines.next().with_context(|| format!("cannot read {name}"))? {
        let at = |why: String| Failure::new(exit::USAGE, format!("{name}, line {number}: {why}"));
        let understood = line.and_then(|line| words(line, parse)).map_err(|bad| at(bad.to_string()))?;
        if let Some((kind, entry)) = understood.map_err(at)? {
            let operation = load.session.operation(kind, entry);
            load.open.insert(operation.id, number);
            request.push(operation);
        }
        // The writer of the lines may wait for what has been sent.
        if request.len() >= REQUEST || !lines.is_ready() {
            load.session.send(std::mem::take(&mut request)).await?;
            load.take_ready();
            while load.open.len() > WINDOW {
                load.take_one().await?;
            }
        }
    }
    load.session.send(request).await?;
    while !load.open.is_empty() {
        load.take_one().await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let Load { session, done, failed, .. } = load;
    println!(
        "{done} operations programmed, {failed} failed, in {seconds:.2} s ({:.0} acknowledged a second)",
        (done + failed) as f64 / seconds.max(1e-9)
    );
    if args.stay {
        tokio_stays().await;
    }
    drop(session);
    Ok(if failed == 0 { exit::OK } else { exit::FAILED })
}

/// Waits for ever: a signal ends the process, and its session.
async fn tokio_stays() {
    std::future::pending::<()>().await;
}

/// An operation. `None`: a remark, or an empty line.
fn parse(
    words: &[&str],
) -> Result<Option<(byname_gribi::proto::operation::Kind, byname_gribi::proto::operation::Entry)>, String> {
    if words.is_empty() { Ok(None) } else { line::operation(words).map(Some) }
}

impl Load {
    fn take_ready(&mut self) {
        while let Some(result) = self.session.ready() {
            self.take(&result);
        }
    }

    async fn take_one(&mut self) -> anyhow::Result<()> {
        let result = self.session.result().await?;
        self.take(&result);
        Ok(())
    }

    fn take(&mut self, result: &byname_gribi::proto::Result) {
        match result.status() {
            Status::RibProgrammed | Status::Unspecified => {}
            Status::FibProgrammed => {
                self.done += 1;
                self.open.remove(&result.id);
            }
            Status::Failed | Status::FibFailed => {
                self.failed += 1;
                let line = self.open.remove(&result.id).unwrap_or(0);
                if self.failed <= SHOWN_MAX {
                    let _ = writeln!(io::stderr(), "line {line}: {}", result.error);
                }
            }
        }
    }
}
