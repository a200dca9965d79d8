//! A part of build scripts: the commit of this workspace's Git checkout.
//!
//! There is none without Git. There is none in a source archive, even if it lies inside another project's checkout.

use std::env;
use std::path::Path;
use std::process::Command;

/// The first `digits` digits of the commit. Cargo runs the build script again when HEAD moves.
pub fn commit(digits: usize) -> Option<String> {
    let workspace = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("../..").canonicalize().ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != workspace {
        return None;
    }
    // Each commit and checkout appends to this log.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", &format!("--short={digits}"), "HEAD"])
}

/// Runs Git and returns its output, or `None` if Git fails.
pub fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
