//! A producer that sends to all who want to hear of one of its packet's tags.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use byname_wire::Descriptor;

use super::network::Network;
use super::{PATIENCE, set, tags};
use crate::client::application::{Application, FanOutLimit};

const NEWS_TAGS: [&str; 4] = ["classical", "concert", "Beethoven", "tonight"];

struct Listener {
    name: &'static str,
    application: Application,
    wants: Descriptor,
    heard: Vec<String>,
}

impl Listener {
    fn new(network: &Network, name: &'static str, router: &'static str, wants: &[&str]) -> anyhow::Result<Listener> {
        let mut application = network.application(router)?;
        application.advertise(&[tags(wants)?])?;
        println!("In {router} {name} wants to hear of {}.", set(wants));
        Ok(Listener { name, application, wants: tags(wants)?, heard: Vec::new() })
    }

    /// Whether it has heard this.
    fn knows(&self, news: &str) -> bool {
        self.heard.iter().any(|heard| heard == news)
    }

    fn listen(&mut self, wait: Duration) -> anyhow::Result<()> {
        for message in self.application.receive(wait)? {
            let news = String::from_utf8_lossy(&message.payload).into_owned();
            // The producer repeats itself.
            if !self.knows(&news) {
                println!("  {} hears: {news}", self.name);
                self.heard.push(news);
            }
        }
        Ok(())
    }
}

/// Shows news that reaches those who want it, as long as they do.
pub fn run(network: &Network) -> anyhow::Result<()> {
    let mut listeners = [
        Listener::new(network, "Clara", "lugano", &["concert", "classical"])?,
        Listener::new(network, "Robert", "zurich", &["Beethoven"])?,
        Listener::new(network, "Billie", "zurich", &["concert", "jazz"])?,
    ];
    let mut producer = network.application("geneva")?;
    println!("In geneva a producer sends news to {}, to all (no limit):", set(&NEWS_TAGS));
    let news = "Beethoven's ninth, tonight at eight";
    tell(&mut producer, &mut listeners, news, &["Clara", "Robert"])?;
    println!("Billie hears nothing: nobody said jazz.");
    let [clara, ..] = &mut listeners;
    clara.application.withdraw(std::slice::from_ref(&clara.wants))?;
    println!("Clara has heard enough, and withdraws what she advertised. More news:");
    tell(&mut producer, &mut listeners, "and the tenth, tomorrow", &["Robert"])
}

/// Sends news until all of `names` have heard it, and sees to it that nobody else does.
fn tell(producer: &mut Application, listeners: &mut [Listener], news: &str, names: &[&str]) -> anyhow::Result<()> {
    let here = *producer.addresses()?.first().context("no tree")?;
    let to = tags(&NEWS_TAGS)?;
    let end = Instant::now() + PATIENCE;
    // Advertisements travel for a moment, and nobody tells the producer of them.
    while listeners.iter().any(|listener| names.contains(&listener.name) && !listener.knows(news)) {
        ensure!(Instant::now() < end, "the news did not arrive within {} s", PATIENCE.as_secs());
        producer.send_to_tags(&to, FanOutLimit::All, here, news.as_bytes())?;
        listeners.iter_mut().try_for_each(|listener| listener.listen(Duration::from_millis(100)))?;
    }
    listeners.iter_mut().try_for_each(|listener| listener.listen(Duration::from_millis(200)))?;
    let uninvited = listeners.iter().find(|listener| listener.knows(news) && !names.contains(&listener.name));
    ensure!(uninvited.is_none(), "the news came to somebody who did not ask for it");
    Ok(())
}
