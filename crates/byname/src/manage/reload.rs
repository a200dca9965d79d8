//! `byname reload`.

use std::time::Duration;

use byname_control::mgmt::tlv::{ConfigChange, ControlParameters, Element, ReloadReport, reload_flags};
use serde::Serialize;

use super::print;
use crate::exit;
use byname_client::Link;
use byname_client::management::{ManagementError, slow_command};

/// Time for a reload with large tables and silent peers.
const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments of `byname reload`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The router reads the file that it was started with. It applies the changes whole, or not at all. Changes \
                  that need a restart are named, and refused unless --partial leaves them out.\n\nExample:\n  \
                  byname reload --dry-run\n  byname reload --confirm-within 60s && byname reload --confirm"
)]
pub struct ReloadArgs {
    /// Tell what would change, and change nothing
    #[arg(long, conflicts_with = "confirm_within")]
    dry_run: bool,
    /// Leave out what needs a restart
    #[arg(long)]
    partial: bool,
    /// Undo the reload after this time, unless `byname reload --confirm` confirms it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    confirm_within: Option<Duration>,
    /// Confirm the last reload
    #[arg(long, conflicts_with_all = ["dry_run", "partial", "confirm_within"])]
    confirm: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A change. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Change {
    setting: String,
    change: String,
    /// Why it needs a restart.
    restart: Option<String>,
}

/// Outcome of a reload. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Whether the file is good, and what it changes was applied or could be.
    ok: bool,
    changes: Vec<Change>,
    /// Number of changes that are not listed.
    left_out: u64,
    /// Warnings, or the reason of a refusal.
    text: String,
}

/// Runs `byname reload`.
pub fn run(args: ReloadArgs, client: &mut Link) -> anyhow::Result<()> {
    let flag = |set, bit| if set { bit } else { 0 };
    let parameters = match args.confirm {
        true => ControlParameters::default(),
        false => ControlParameters {
            flags: Some(flag(args.dry_run, reload_flags::DRY_RUN) | flag(args.partial, reload_flags::PARTIAL)),
            expiration_period_ms: args.confirm_within.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            ..ControlParameters::default()
        },
    };
    let verb = if args.confirm { "confirm" } else { "reload" };
    let response = slow_command(client, "config", verb, &parameters, PATIENCE)?;
    let malformed = |error| ManagementError::Malformed { command: format!("config/{verb}"), error };
    let has_report = !response.body.is_empty() && !args.confirm;
    let report = match has_report {
        // A refusal without a report has empty parameters.
        true => ReloadReport::decode(&response.body).or_else(|error| match response.code {
            200 => Err(malformed(error)),
            _ => Ok(ReloadReport::default()),
        })?,
        false => ReloadReport::default(),
    };
    let change = |ConfigChange { setting, text, restart }| Change { setting, change: text, restart };
    let outcome = Outcome {
        ok: response.code == 200,
        changes: report.changes.into_iter().map(change).collect(),
        left_out: report.left_out.unwrap_or(0),
        text: if args.confirm && response.code == 200 { String::new() } else { response.text.clone() },
    };
    print(args.json, &outcome, || outcome.lines(&args))?;
    if outcome.ok {
        return Ok(());
    }
    let code = if response.code == 400 { exit::USAGE } else { exit::FAILED };
    Err(exit::Failure::new(code, format!("nothing has changed: {}", response.text)).into())
}

impl Outcome {
    fn lines(&self, args: &ReloadArgs) -> String {
        let mut text = String::new();
        for Change { setting, change, restart } in &self.changes {
            text.push_str(&format!("{setting}: {change}"));
            text.extend(restart.as_ref().map(|why| format!(" (needs a restart: {why})")));
            text.push('\n');
        }
        if self.left_out > 0 {
            text.push_str(&format!("and {} more\n", self.left_out));
        }
        if !self.ok {
            return text;
        }
        text.extend(self.text.lines().map(|warning| format!("warning: {warning}\n")));
        let is_empty = self.changes.is_empty();
        text.push_str(match (args.confirm, args.dry_run, args.confirm_within) {
            (true, ..) => "confirmed\n",
            (_, true, _) if is_empty => "nothing would change\n",
            (_, true, _) => "a dry run: nothing has changed\n",
            (_, _, Some(_)) => "reloaded; `byname reload --confirm` confirms it\n",
            _ if is_empty => "reloaded: no setting has changed\n",
            _ => "reloaded\n",
        });
        text
    }
}
