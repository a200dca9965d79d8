//! Lines for `docs/records`, in the form of those of `byname-lab`: see the README there.

use std::io::Write;
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};

/// Appends a line with these measurements to the file that `BYNAME_TEST_RECORD` names, if it names one.
pub fn record(parameters: Value, measured: Value) {
    let Some(path) = std::env::var_os("BYNAME_TEST_RECORD") else { return };
    let mut line = surroundings();
    line["parameters"] = parameters;
    for (field, value) in measured.as_object().expect("an object") {
        line[field] = value.clone();
    }
    let mut file = std::fs::File::options().create(true).append(true).open(path).expect("a file");
    writeln!(file, "{line}").expect("written");
}

fn surroundings() -> Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (cpuinfo, load) = (read("/proc/cpuinfo"), read("/proc/loadavg"));
    let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let running = load.split(' ').nth(3).and_then(|field| field.split('/').next()).and_then(|n| n.parse::<u64>().ok());
    json!({
        "experiment": "restart",
        "date": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        "cpu": cpu.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map(usize::from).unwrap_or(0),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "commit": git(&["rev-parse", "--short=12", "HEAD"]),
        "clean": git(&["status", "--porcelain"]).map(|changes| changes.is_empty()),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "command": std::env::args().collect::<Vec<_>>().join(" "),
        "load_average": load.split(' ').next().and_then(|field| field.parse::<f64>().ok()),
        // This thread is one of them.
        "others_running": running.map(|running| running.saturating_sub(1)),
        "quick": false,
    })
}
