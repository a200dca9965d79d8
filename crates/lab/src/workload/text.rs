//! Lists and traces: files of lines, plain or compressed by xz.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use lzma_rust2::XzReader;

/// What a file may unpack to: several times the largest list there is.
const OCTETS_MAX: u64 = 1 << 30;

/// Reads a whole file; one that ends in `.xz` is unpacked.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut octets = Vec::new();
    let reader = BufReader::new(file);
    let read = if path.extension().is_some_and(|extension| extension == "xz") {
        XzReader::new(reader, true).take(OCTETS_MAX + 1).read_to_end(&mut octets)
    } else {
        reader.take(OCTETS_MAX + 1).read_to_end(&mut octets)
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(octets.len() as u64 <= OCTETS_MAX, "{} is larger than 1 GiB", path.display());
    Ok(octets)
}

/// The lines of a file, without their ends; empty ones and those that are not UTF-8 are left out,
/// as real lists have some.
pub fn lines(octets: &[u8]) -> impl Iterator<Item = &str> {
    octets.split(|&octet| octet == b'\n').filter_map(|line| {
        let line = str::from_utf8(line).ok()?.trim_end_matches('\r');
        (!line.is_empty()).then_some(line)
    })
}
