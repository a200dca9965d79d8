//! A hundred routers in one thread: a ring with random chords, one producer, and a consumer at every tenth router. Links
//! lose two percent of all packets, and one link is cut while they fetch.
//!
//! `cargo run --release -p byname-embed --example hundred_routers [SEED]`

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use byname_embed::{Consumer, FaceId, Faults, Forwarder, Network, NodeId, Producer};
use byname_wire::Name;
use rand::RngExt;

const ROUTERS: usize = 100;
const CHORDS: usize = 50;
const NAMES: usize = 200;

/// A router's neighbours: the face to each.
type Links = Vec<Vec<(usize, FaceId)>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run(std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?)
}

fn run(seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let mut net = Network::new(seed);
    let routers = (0..ROUTERS)
        .map(|_| net.add(Forwarder::builder().pit_entries_max(1000).cs_packets_max(100)))
        .collect::<Result<Vec<NodeId>, _>>()?;

    let faults = Faults { loss: 0.02, jitter: Duration::from_millis(1), ..Faults::NONE };
    let mut links: Links = vec![Vec::new(); ROUTERS];
    let ring = (0..ROUTERS).map(|router| (router, (router + 1) % ROUTERS));
    let chords: Vec<_> = (0..CHORDS)
        .map(|_| (net.random().random_range(0..ROUTERS), net.random().random_range(0..ROUTERS)))
        .filter(|(a, b)| a != b)
        .collect();
    for (a, b) in ring.chain(chords) {
        let (face_a, face_b) = net.link(routers[a], routers[b], faults);
        links[a].push((b, face_a));
        links[b].push((a, face_b));
    }

    let prefix: Name = "/demo".parse()?;
    let (producer, face) = net.attach(routers[0], Producer::new(|name| name.to_string().into_bytes()));
    net.forwarder(routers[0]).set_route(&prefix, &[(face, 0)])?;
    let hops = distances(&links);
    for router in 1..ROUTERS {
        // Each nexthop costs the hops that are left behind it. The strategy tries the next one when one fails.
        let nexthops: Vec<_> = links[router].iter().map(|&(next, face)| (face, hops[next])).collect();
        net.forwarder(routers[router]).set_route(&prefix, &nexthops)?;
    }

    let mut consumers = Vec::new();
    for router in (5..ROUTERS).step_by(10) {
        let names = (0..NAMES).map(|i| format!("/demo/{}", i % 150).parse()).collect::<Result<Vec<Name>, _>>()?;
        consumers.push(net.attach(routers[router], Consumer::new(names, router as u64)).0);
    }
    net.run_for(Duration::from_millis(200));
    let cut = links[1].iter().find(|(next, _)| *next == 0).ok_or("router 1 has a link to router 0")?.1;
    net.set_faults(routers[1], cut, Faults::CUT);
    net.run_for(Duration::from_secs(120));

    let fetched: Vec<_> = consumers.iter().map(|&consumer| net.app::<Consumer>(consumer).fetched().clone()).collect();
    let (names, interests): (usize, usize) =
        fetched.iter().fold((0, 0), |(n, i), fetched| (n + fetched.names, i + fetched.interests));
    println!("{ROUTERS} routers, {} links, seed {seed}", links.iter().map(Vec::len).sum::<usize>() / 2);
    println!("{} consumers fetched {names} names with {interests} Interests", consumers.len());
    println!("the producer answered {}; content stores answered the rest", net.app::<Producer>(producer).interests());
    println!("two minutes of their time took {:.2} s of ours", started.elapsed().as_secs_f64());
    if let Some(left) = consumers.iter().find(|&&consumer| !net.app::<Consumer>(consumer).is_done()) {
        return Err(format!("consumer {} still waits", left.0).into());
    }
    Ok(())
}

/// Hops from each router to router 0.
fn distances(links: &Links) -> Vec<u64> {
    let mut hops = vec![u64::MAX; links.len()];
    hops[0] = 0;
    let mut next = VecDeque::from([0]);
    while let Some(router) = next.pop_front() {
        for &(other, _) in &links[router] {
            if hops[other] == u64::MAX {
                hops[other] = hops[router] + 1;
                next.push_back(other);
            }
        }
    }
    hops
}

#[test]
fn every_consumer_gets_all_names() {
    run(3).expect("no consumer waits in the end");
}
