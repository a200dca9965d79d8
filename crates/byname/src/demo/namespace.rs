//! Network namespaces. One lives as long as a process in it, which waits for the end of its input: also if this process is
//! killed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::PATIENCE;

/// A network namespace.
pub struct Namespace(Child);

impl Namespace {
    /// Creates a namespace.
    pub fn new() -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut namespace = Namespace(command.spawn().context("cannot run `unshare` (package util-linux)")?);
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let (own, end, process) = (of("self"), Instant::now() + PATIENCE, namespace.process());
        // An ended process has no namespace.
        while of(&process).is_none_or(|its| Some(its) == own) {
            if namespace.0.try_wait()?.is_some() || Instant::now() > end {
                bail!("the system gives no network namespace; that needs root");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(namespace)
    }

    /// The process that keeps it.
    pub fn process(&self) -> String {
        self.0.id().to_string()
    }

    /// A command to run in this namespace.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process(), "--net", "--"]).args(line.split_whitespace()).stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed. Returns its output.
    pub fn run(&self, line: &str) -> anyhow::Result<String> {
        let done = self.command(line).output().with_context(|| format!("cannot run {line}"))?;
        if !done.status.success() {
            bail!("{line}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
