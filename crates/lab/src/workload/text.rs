//! Lists and traces: files of lines, plain or compressed with xz.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use lzma_rust2::XzReader;

/// Maximum size of an unpacked file, in bytes: several times the largest list.
const BYTES_MAX: u64 = 1 << 30;

/// Reads a whole file. A file that ends in `.xz` is unpacked.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = File::open(path).with_context(|| super::cannot_read(path))?;
    let mut bytes = Vec::new();
    let reader = BufReader::new(file);
    let read = if path.extension().is_some_and(|extension| extension == "xz") {
        XzReader::new(reader, true).take(BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        reader.take(BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len() as u64 <= BYTES_MAX, "{} is larger than 1 GiB", path.display());
    Ok(bytes)
}

/// The lines of a file, without line ends. Empty lines and lines that are not UTF-8 are skipped, because real lists
/// contain some.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = str::from_utf8(line).ok()?.trim_end_matches('\r');
        (!line.is_empty()).then_some(line)
    })
}
