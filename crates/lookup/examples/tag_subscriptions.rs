//! Subscriptions by tags: a message reaches everybody whose tags are all among the message's.
//!
//! `cargo run -p byname-lookup --example tag_subscriptions -- TAG...` sends one message. Without tags, it sends its own.

use std::error::Error;

use byname_lookup::table::TagTable;

const SUBSCRIPTIONS: [(&str, &[&str]); 5] = [
    ("alice", &["concert", "classical"]),
    ("bob", &["concert", "berlin"]),
    ("carol", &["news"]),
    ("dave", &["concert", "classical", "berlin", "tonight"]),
    ("erin", &[]),
];

fn main() -> Result<(), Box<dyn Error>> {
    send(std::env::args().skip(1).collect())
}

fn send(mut message: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut table = TagTable::new()?;
    table.apply(SUBSCRIPTIONS.map(|(who, tags)| (tags, Some(who))))?;

    if message.is_empty() {
        message.extend(["classical", "beethoven", "concert", "berlin"].map(String::from));
    }
    let mut reader = table.reader();
    let mut reached = reader.subsets(&message)?;
    reached.sort();
    println!("{message:?} reaches {reached:?}");
    println!("the most specific subscription is of {:?}", reader.largest(&message)?);

    // Many messages at once: reads of memory overlap.
    let messages = [vec!["news", "sport"], vec!["concert", "jazz", "berlin"]];
    let mut all = Vec::new();
    reader.subsets_all(&messages, &mut all)?;
    assert!(all[0].contains(&"carol") && all[1].contains(&"bob"));

    table.remove(["news"])?;
    assert_eq!(reader.subsets(["news"])?, ["erin"]);
    Ok(())
}

#[test]
fn it_runs() {
    send(Vec::new()).expect("the example is right");
}
