//! Records of measurements: JSON lines with everything that is needed to judge them later.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context as _;
use serde::Serialize;

/// Fields that every line has, whatever was measured.
pub const FIELDS: [&str; 15] = [
    "experiment",
    "date",
    "cpu",
    "cores",
    "kernel",
    "commit",
    "clean",
    "profile",
    "opt_level",
    "rustflags",
    "command",
    "load_average",
    "others_running",
    "quick",
    "parameters",
];

/// The machine of a measurement, the build, and what else ran.
#[derive(Serialize, Clone)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    /// Commit that the lab was built from; `null` if it was built outside a checkout.
    commit: Option<&'static str>,
    /// Whether that checkout had no changes beside the commit.
    clean: Option<bool>,
    /// Cargo's profile: `release` or `debug`.
    profile: &'static str,
    opt_level: &'static str,
    /// Further flags of the compiler: a guided build, or one for a single processor.
    rustflags: &'static str,
    /// The command line.
    command: String,
    /// The system's load of the last minute when the command started.
    load_average: Option<f64>,
    /// Other threads that ran or could run at that moment.
    others_running: Option<u32>,
}

impl Machine {
    /// This machine, now.
    fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown");
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let mut load = load.split_whitespace();
        let load_average = load.next().and_then(|minute| minute.parse().ok());
        // The fourth field is `running/all`. This thread runs, too.
        let running: Option<u32> = load.nth(2).and_then(|threads| threads.split('/').next()?.parse().ok());
        Machine {
            cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            commit: Some(env!("BYNAME_LAB_COMMIT")).filter(|commit| !commit.is_empty()),
            clean: env!("BYNAME_LAB_CLEAN").parse().ok(),
            profile: env!("BYNAME_LAB_PROFILE"),
            opt_level: env!("BYNAME_LAB_OPT_LEVEL"),
            rustflags: env!("BYNAME_LAB_RUSTFLAGS"),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            load_average,
            others_running: running.map(|running| running.saturating_sub(1)),
        }
    }
}

/// Processor, commit, build and date, in a line for plots.
pub fn provenance() -> String {
    let machine = Machine::here();
    let commit = machine.commit.unwrap_or("unknown");
    let dirty = if machine.clean == Some(false) { " (dirty)" } else { "" };
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let day = date.split('T').next().unwrap_or_default();
    format!("{}, commit {commit}{dirty}, {} build, {day}", machine.cpu, machine.profile)
}

#[derive(Serialize)]
struct Line<'a, P, T> {
    experiment: &'a str,
    date: String,
    #[serde(flatten)]
    machine: &'a Machine,
    /// Whether sizes and times were those of `--quick`, which show that it works and not how fast.
    quick: bool,
    parameters: &'a P,
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
    quick: bool,
}

impl Recorder {
    /// Opens `lab-results/EXPERIMENT.jsonl`.
    pub fn new(experiment: &'static str, json: bool) -> anyhow::Result<Self> {
        let path = PathBuf::from("lab-results").join(format!("{experiment}.jsonl"));
        fs::create_dir_all("lab-results").context("cannot make the folder lab-results here")?;
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Recorder { experiment, machine: Machine::here(), file, json, quick: false })
    }

    /// Marks all records as those of a quick run.
    pub fn mark_quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }

    /// Appends one record: what was asked for, and what was found.
    pub fn add(&mut self, parameters: &impl Serialize, measured: &impl Serialize) -> anyhow::Result<()> {
        let (experiment, machine, quick) = (self.experiment, &self.machine, self.quick);
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let line = Line { experiment, date, machine, quick, parameters, measured };
        let line = serde_json::to_string(&line)?;
        if self.json {
            println!("{line}");
        }
        writeln!(self.file, "{line}").context("cannot write the record")
    }
}
