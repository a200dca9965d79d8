//! Tells the program its version and the commit that it is built from, where there is a Git checkout.

#[path = "../build_commit.rs"]
mod build_commit;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let full = match build_commit::commit(9) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=BYNAME_VERSION={full}");
    println!("cargo::rerun-if-changed=build.rs");
}
