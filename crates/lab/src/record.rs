//! Records of measurements: JSON lines with what is needed to judge them later.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde::Serialize;

/// Where and on what a measurement was made.
#[derive(Serialize, Clone)]
pub struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    commit: String,
}

impl Machine {
    /// This machine, and the commit checked out here.
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown");
        let git = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
        Machine {
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            commit: git.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    experiment: &'a str,
    #[serde(flatten)]
    machine: &'a Machine,
    #[serde(flatten)]
    measured: &'a T,
}

/// The file that an experiment's records are appended to, or standard output.
pub struct Recorder {
    experiment: &'static str,
    machine: Machine,
    file: File,
    /// Also print each record as JSON.
    json: bool,
}

impl Recorder {
    /// Opens `lab-results/EXPERIMENT.jsonl`.
    pub fn new(experiment: &'static str, json: bool) -> anyhow::Result<Self> {
        let path = PathBuf::from("lab-results").join(format!("{experiment}.jsonl"));
        fs::create_dir_all("lab-results").context("cannot make the folder lab-results here")?;
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Recorder { experiment, machine: Machine::here(), file, json })
    }

    /// Appends one record.
    pub fn add(&mut self, measured: &impl Serialize) -> anyhow::Result<()> {
        let line = Line { experiment: self.experiment, machine: &self.machine, measured };
        let line = serde_json::to_string(&line)?;
        if self.json {
            println!("{line}");
        }
        writeln!(self.file, "{line}").context("cannot write the record")
    }
}
