//! Lookups a second in Rust, on the tables and keys of `tests/speed.py`, which runs this program and compares.
//!
//! Prints a JSON object: what is looked up, and million lookups a second in the best of several rounds.

use std::time::{Duration, Instant};

use byname_lookup::table::{FlatOptions, FlatTable, PrefixOptions, PrefixTable, TableError};

/// Keys of each table, and lookups of each round.
const KEYS: u64 = 1_000_000;
/// Keys are looked up in steps of this prime, so that neighbours of a table are not.
const STEP: u64 = 7919;
const ROUNDS: usize = 7;
/// Spreads ids over 64 bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

fn main() -> Result<(), TableError> {
    let ids: Vec<u64> = order().map(id).collect();
    let bytes: Vec<[u8; 8]> = ids.iter().map(|id| id.to_le_bytes()).collect();
    let paths: Vec<String> = order().map(|i| format!("{}/x/y", path(i))).collect();

    let options = FlatOptions { value_bits: 8, ..FlatOptions::default() };
    let flat = FlatTable::load(&options, (0..KEYS).map(|i| (id(i), (i % 251) as u32)), &mut |_| {})?;
    let rules = (0..KEYS).map(|i| (path(i), (i % 251) as u32));
    let prefix = PrefixTable::<u32>::from_rules(&PrefixOptions::default(), rules)?;
    let (mut flat, mut prefix) = (flat.reader(), prefix.reader());

    let (mut found, mut rules) = (Vec::new(), Vec::new());
    let of_ids = best(|| flat.get_all(&ids, &mut found));
    let of_bytes = best(|| flat.get_all(&bytes, &mut found));
    let of_paths = best(|| prefix.get_all(&paths, &mut rules).expect("paths of two components are keys"));
    let right = |value: Option<u32>, i: u64| assert_eq!(value, Some((i % 251) as u32));
    found.iter().zip(order()).for_each(|(value, i)| right(*value, i));
    rules.iter().zip(order()).for_each(|(rule, i)| right(rule.map(|rule| rule.value), i));
    println!(r#"{{"ids": {of_ids:.2}, "ids as bytes": {of_bytes:.2}, "paths": {of_paths:.2}}}"#);
    Ok(())
}

fn id(i: u64) -> u64 {
    i.wrapping_mul(SPREAD)
}

fn path(i: u64) -> String {
    format!("/{}/{i}", i % 1000)
}

/// Numbers of the keys, in the order of lookups.
fn order() -> impl Iterator<Item = u64> {
    (0..KEYS).map(|i| i * STEP % KEYS)
}

/// Million lookups a second in the best round.
fn best(mut round: impl FnMut()) -> f64 {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        shortest = shortest.min(start.elapsed());
    }
    KEYS as f64 / shortest.as_secs_f64() / 1e6
}
