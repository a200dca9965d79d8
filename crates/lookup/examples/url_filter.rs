//! Filters URLs by a block list that changes while several threads ask.
//!
//! `cargo run -p byname-lookup --example url_filter -- URL...` asks about URLs. Without any, it asks about its own.

use std::error::Error;
use std::thread;

use byname_lookup::table::{PrefixTable, Url};
use byname_wire::url::UrlScheme;

/// The verdict of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verdict {
    Block,
    Allow,
}

/// A site with everything below it, a host, or a folder. The longest rule decides.
const RULES: [(&str, Verdict); 4] = [
    ("ads.example", Verdict::Block),
    ("video.example/", Verdict::Allow),
    ("tracker.video.example", Verdict::Block),
    ("video.example/live/ads", Verdict::Block),
];

/// Hosts label by label from the top: a rule for a site covers its hosts.
fn key(url: &str) -> Url<'_> {
    Url(UrlScheme::Tld, url)
}

fn main() -> Result<(), Box<dyn Error>> {
    filter(std::env::args().skip(1).collect())
}

fn filter(mut asked: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut filter = PrefixTable::new()?;
    filter.extend(RULES.map(|(url, verdict)| (key(url), verdict)))?;

    if asked.is_empty() {
        let own =
            ["http://www.ads.example/banner.gif", "https://video.example/films/1", "https://video.example/live/ads/7"];
        asked.extend(own.map(String::from));
    }
    // Each thread has a reader of its own.
    let answers = thread::scope(|scope| {
        let asking: Vec<_> = asked
            .iter()
            .map(|url| {
                let mut reader = filter.reader();
                scope.spawn(move || reader.get(key(url)))
            })
            .collect();
        asking.into_iter().map(|thread| thread.join().expect("lookups do not panic")).collect::<Vec<_>>()
    });
    for (url, answer) in asked.iter().zip(answers) {
        match answer? {
            Some(rule) => println!("{:?}  {url}  (by a rule of {} components)", rule.value, rule.depth),
            None => println!("no rule  {url}"),
        }
    }

    // The list changes. Readers see it from now on.
    let mut reader = filter.reader();
    filter.insert(key("films.example"), Verdict::Block)?;
    let found = reader.get(key("https://www.films.example/"))?;
    assert_eq!(found.map(|rule| rule.value), Some(Verdict::Block));
    Ok(())
}

#[test]
fn it_runs() {
    filter(Vec::new()).expect("the example is right");
}
