//! NDN traffic during a demonstration: a consumer fetches Data by name over the same faces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, Interest, Name};

use super::network::Network;
use byname_client::management::{RegisterOptions, register};
use byname_client::{Fields, Link};

const PREFIX: &str = "/demo/counter";
/// Minimum number of Data to fetch, even if the demonstration is short.
const FETCHED_MIN: u64 = 50;
/// Pause between two Interests.
const PAUSE: Duration = Duration::from_millis(1);
/// Time limit of an answer, and number of tries: the network may lose packets, as with datagrams.
const LIFETIME: Duration = Duration::from_secs(1);
const TRIES: u32 = 10;

/// Runs a demonstration while a consumer at the first router fetches from a producer at the last.
pub fn beside(network: &Network, demonstration: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let prefix: Name = PREFIX.parse()?;
    network.route_to_last(&prefix)?;
    let (first, last) = network.ends();
    let (mut consumer, mut producer) = (network.client(first)?, network.client(last)?);
    register(&mut producer, &prefix, RegisterOptions::default())?;
    println!(
        "Meanwhile a consumer in {first} fetches {PREFIX}/0, /1, /2 ... from {last} by name, over the same faces."
    );
    let (is_over, is_fetched) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&mut producer, &is_fetched));
        let fetching = scope.spawn(|| fetch(&mut consumer, &prefix, &is_over));
        let shown = demonstration();
        is_over.store(true, Ordering::Relaxed);
        let fetched = fetching.join();
        is_fetched.store(true, Ordering::Relaxed);
        let served = serving.join();
        shown?;
        served.map_err(|_| anyhow::anyhow!("the producer has failed"))??;
        let fetched = fetched.map_err(|_| anyhow::anyhow!("the consumer has failed"))??;
        println!("Meanwhile {fetched} Data came by name, none missing.");
        Ok(())
    })
}

/// Answers every Interest with the last component of its name.
fn serve(producer: &mut Link, is_fetched: &AtomicBool) -> anyhow::Result<()> {
    while !is_fetched.load(Ordering::Relaxed) {
        producer.receive(Duration::from_millis(50), |incoming, outbox| {
            let Ok(interest) = Interest::decode(incoming.packet) else { return };
            let number = interest.name.component(-1).map(|last| last.value.to_vec());
            let data = DataBuilder::new(interest.name.to_name()).content(number.unwrap_or_default());
            outbox.push(&data.encode(), Fields { pit_token: incoming.pit_token, ..Fields::default() });
        })?;
    }
    Ok(())
}

/// Fetches Data one after the other. Returns their number.
fn fetch(consumer: &mut Link, prefix: &Name, is_over: &AtomicBool) -> anyhow::Result<u64> {
    let mut fetched = 0;
    while fetched < FETCHED_MIN || !is_over.load(Ordering::Relaxed) {
        let number = fetched.to_string();
        let name = prefix.join(Component::generic(number.as_bytes()));
        let interest = InterestBuilder::new(name, rand::random()).lifetime_ms(LIFETIME.as_millis() as u64);
        let answer = consumer.exchange(&interest.encode(), TRIES).context("no answer by name")?;
        ensure!(answer.data().content == number.as_bytes(), "{PREFIX}/{number} has the content of other Data");
        fetched += 1;
        std::thread::sleep(PAUSE);
    }
    Ok(fetched)
}
