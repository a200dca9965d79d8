//! What packages install beside the program: manual pages and completions.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn byname(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_byname")).args(arguments).stdin(Stdio::null()).output();
    output.expect("byname")
}

fn page(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man");
    assert!(byname(&["man", pages.to_str().expect("text")]).status.success());
    let main = page(&pages, "byname.1");
    for command in ["run", "route", "strategy", "put", "switch\\-controller", "man"] {
        assert!(main.contains(&format!("byname\\-{command}(1)")), "{command} in {main}");
    }
    assert!(main.contains("\\-\\-keep\\-going"), "{main}");
    let add = page(&pages, "byname-route-add.1");
    assert!(add.contains("\\-\\-no\\-inherit") && add.contains("Examples:"), "{add}");
    assert!(!byname(&["man", "/dev/null/man"]).status.success());
}

#[test]
fn shells_accept_the_completions() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let output = byname(&["completions", shell]);
        let script = String::from_utf8(output.stdout).expect("text");
        for word in ["keep-going", "no-inherit", "switch-controller"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
        let file = folder.path().join(shell);
        std::fs::write(&file, script).expect("written");
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr)),
            Err(error) => println!("skipped: {shell} does not check its completions: {error}"),
        }
    }
    assert_eq!(byname(&["completions", "nonsense"]).status.code(), Some(2));
}
