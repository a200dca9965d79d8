//! Files that scripts write, and that are kept in the tree so that nobody needs to run these: each is what its script
//! writes now.

use std::path::Path;
use std::process::Command;

/// The scripts. With `--check` they write nothing, and fail if a file differs.
const SCRIPTS: [&str; 2] = ["docs/pictures/draw.py", "packaging/monitoring/dashboard.py"];

#[test]
fn pictures_and_dashboards_are_those_of_their_scripts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for script in SCRIPTS {
        let Ok(output) = Command::new("python3").arg(root.join(script)).arg("--check").output() else {
            return println!("skipped: there is no python3 for {script}");
        };
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
