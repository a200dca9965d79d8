//! Tells the lab which commit it is built from, and how: its records say so.

#[path = "../build_commit.rs"]
mod build_commit;

use std::env;

use build_commit::{commit, git};

fn main() {
    let commit = commit(12);
    let status = commit.as_ref().and_then(|_| git(&["status", "--porcelain", "--untracked-files=no"]));
    let clean = status.map(|changes| changes.is_empty());
    // Separated by the unit separator, which no flag contains.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\x1f', " ");
    set("COMMIT", &commit.unwrap_or_default());
    set("CLEAN", &clean.map_or_else(String::new, |clean| clean.to_string()));
    set("PROFILE", &env::var("PROFILE").unwrap_or_default());
    set("OPT_LEVEL", &env::var("OPT_LEVEL").unwrap_or_default());
    set("RUSTFLAGS", &flags);
    // An edit may make the checkout differ from its commit.
    for path in ["../../crates", "../../Cargo.toml", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn set(name: &str, value: &str) {
    println!("cargo::rustc-env=BYNAME_LAB_{name}={value}");
}
