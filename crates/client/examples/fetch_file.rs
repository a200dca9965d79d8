//! Fetches a file that `byname put`, ndnputchunks or `ndnd put` publishes. An interrupted transfer resumes.
//!
//! `cargo run -p byname-client --example fetch_file /demo/song song.ogg`

use std::path::Path;

use byname_client::Client;
use byname_client::fetch::FetchOptions;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Fetches an object of at most 1 GB into a file. Returns its SHA-256.
pub fn fetch(client: &mut Client, name: &str, file: &Path) -> Result<String, Error> {
    let options = FetchOptions { bytes_max: 1_000_000_000, ..FetchOptions::default() };
    Ok(client.fetch_file(&name.parse()?, file, options)?)
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = &arguments[..] else { return Err("usage: fetch_file NAME FILE".into()) };
    println!("{}", fetch(&mut Client::of_environment()?, name, Path::new(file))?);
    Ok(())
}
