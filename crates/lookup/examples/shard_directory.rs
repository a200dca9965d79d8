//! A directory from ids to the shards that have them: a few bits for each id, in one cache line.
//!
//! `cargo run --release -p byname-lookup --example shard_directory -- 10000000`

use std::error::Error;
use std::time::Instant;

use byname_lookup::table::{FlatOptions, FlatTable, Unknown};

/// Where an id is at first.
fn shard(id: u64) -> u32 {
    (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u32
}

fn main() -> Result<(), Box<dyn Error>> {
    directory(std::env::args().nth(1).map_or(Ok(100_000), |number| number.parse())?)
}

fn directory(ids: u64) -> Result<(), Box<dyn Error>> {
    // 256 shards. An id that is not in the directory is refused, except for one in 65,536.
    let options = FlatOptions { value_bits: 8, unknown: Unknown::Refused { check_bits: 16 }, ..FlatOptions::default() };
    let begun = Instant::now();
    let mut directory =
        FlatTable::load(&options, (0..ids).map(|id| (id, shard(id))), &mut |read| println!("{read} ids"))?;
    let bits = directory.memory_bytes() as f64 * 8.0 / ids as f64;
    println!("built in {:?}, {bits:.1} bits an id", begun.elapsed());

    // Bursts overlap the reads of memory.
    let mut reader = directory.reader();
    let asked: Vec<u64> = (0..ids).step_by(7).collect();
    let mut found = Vec::new();
    let begun = Instant::now();
    reader.get_all(&asked, &mut found);
    println!("{} lookups in {:?}", asked.len(), begun.elapsed());
    assert!(asked.iter().zip(&found).all(|(id, found)| *found == Some(shard(*id))));

    // An id moves, one comes and one goes.
    directory.apply([(3, Some(200)), (ids + 1, Some(9)), (4, None)])?;
    assert_eq!((reader.get(3u64), reader.get(ids + 1)), (Some(200), Some(9)));
    Ok(())
}

#[test]
fn it_runs() {
    directory(10_000).expect("the example is right");
}
