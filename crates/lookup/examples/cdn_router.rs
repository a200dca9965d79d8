//! Leads paths of a content network to clusters. The table is built once, saved, and mapped by every process that routes.
//!
//! `cargo run -p byname-lookup --example cdn_router`

use std::error::Error;

use byname_lookup::file::Opening;
use byname_lookup::table::{PrefixOptions, PrefixTable};

/// Customers, each with folders that may be at another cluster.
fn rules() -> impl Iterator<Item = (String, String)> {
    (0..10_000).flat_map(|customer| {
        let cluster = |n: usize| format!("cluster-{}", n % 300);
        let root = (format!("/customer{customer:05}"), cluster(customer));
        let folders = (0..3)
            .map(move |folder| (format!("/customer{customer:05}/folder{folder}"), cluster(customer * 7 + folder)));
        std::iter::once(root).chain(folders)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("cdn-{}.table", std::process::id()));
    let options = PrefixOptions::default();

    // These rules come in canonical order. Otherwise, `from_rules` sorts them.
    let mut built = PrefixTable::from_sorted(&options, rules, &mut |rules| println!("{rules} rules"))?;
    built.save(&file)?;

    // In another process: nothing is built again, and all processes share the file's memory.
    let mut table = PrefixTable::<String>::open(&file, Opening::default(), &options)?;
    println!("{} rules in {} bytes", table.len(), table.memory_bytes());
    let requests = ["/customer00042/index.html", "/customer00042/folder1/film/7", "/stranger/x"];
    let mut reader = table.reader();
    let mut found = Vec::new();
    reader.get_all(&requests, &mut found)?;
    for (request, found) in requests.iter().zip(&found) {
        println!("{request} -> {}", found.as_ref().map_or("nowhere", |rule| rule.value.as_str()));
    }
    assert_eq!(found[1].as_ref().map(|rule| &*rule.value), Some("cluster-295"));

    // A customer moves. The change stays in this process, until the table is saved again.
    table.insert("/customer00042", "cluster-new".to_owned())?;
    assert_eq!(reader.get(requests[0])?.map(|rule| rule.value), Some("cluster-new".to_owned()));
    std::fs::remove_file(&file)?;
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example is right");
}
