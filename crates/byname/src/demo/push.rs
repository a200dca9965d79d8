//! A producer whose packets reach all listeners that want a subset of the packet's tags.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use byname_wire::Descriptor;

use super::network::Network;
use super::{PATIENCE, set, tags};
use byname_client::Client;
use byname_client::tags::FanOutLimit;

const NEWS_TAGS: [&str; 4] = ["classical", "concert", "Beethoven", "tonight"];

struct Listener {
    name: &'static str,
    application: Client,
    wants: Descriptor,
    heard: Vec<String>,
}

impl Listener {
    fn new(network: &Network, name: &'static str, router: &'static str, wants: &[&str]) -> anyhow::Result<Listener> {
        let mut application = network.application(router)?;
        application.advertise(&[tags(wants)?])?;
        println!("In {router} {name} wants news with the tags {}.", set(wants));
        Ok(Listener { name, application, wants: tags(wants)?, heard: Vec::new() })
    }

    /// Whether it has heard this.
    fn knows(&self, news: &str) -> bool {
        self.heard.iter().any(|heard| heard == news)
    }

    fn listen(&mut self, wait: Duration) -> anyhow::Result<()> {
        for message in self.application.messages(wait)? {
            let news = String::from_utf8_lossy(&message.payload).into_owned();
            // The producer repeats its news.
            if !self.knows(&news) {
                println!("  {} hears: {news}", self.name);
                self.heard.push(news);
            }
        }
        Ok(())
    }
}

/// Shows news that reaches its listeners until they withdraw.
pub fn run(network: &Network) -> anyhow::Result<()> {
    let mut listeners = [
        Listener::new(network, "Clara", "lugano", &["concert", "classical"])?,
        Listener::new(network, "Robert", "zurich", &["Beethoven"])?,
        Listener::new(network, "Billie", "zurich", &["concert", "jazz"])?,
    ];
    let mut producer = network.application("geneva")?;
    println!("In geneva a producer sends news with the tags {}, to all who want it:", set(&NEWS_TAGS));
    let news = "Beethoven's ninth, tonight at eight";
    tell(&mut producer, &mut listeners, news, &["Clara", "Robert"])?;
    println!("Billie hears nothing: the news does not have the tag jazz.");
    let [clara, ..] = &mut listeners;
    clara.application.withdraw(std::slice::from_ref(&clara.wants))?;
    println!("Clara has heard enough and withdraws her tags. More news:");
    tell(&mut producer, &mut listeners, "and the tenth, tomorrow", &["Robert"])
}

/// Sends news until all of `names` have heard it, and checks that no other listener hears it.
fn tell(producer: &mut Client, listeners: &mut [Listener], news: &str, names: &[&str]) -> anyhow::Result<()> {
    let here = *producer.addresses()?.first().context("no tree")?;
    let to = tags(&NEWS_TAGS)?;
    let end = Instant::now() + PATIENCE;
    // Advertisements take a moment to spread, and the producer does not hear of them.
    while listeners.iter().any(|listener| names.contains(&listener.name) && !listener.knows(news)) {
        ensure!(Instant::now() < end, "the news did not arrive within {} s", PATIENCE.as_secs());
        producer.send_to_tags(&to, FanOutLimit::All, here, news.as_bytes())?;
        listeners.iter_mut().try_for_each(|listener| listener.listen(Duration::from_millis(100)))?;
    }
    listeners.iter_mut().try_for_each(|listener| listener.listen(Duration::from_millis(200)))?;
    let uninvited = listeners.iter().find(|listener| listener.knows(news) && !names.contains(&listener.name));
    ensure!(uninvited.is_none(), "the news reached a listener that did not want it");
    Ok(())
}
