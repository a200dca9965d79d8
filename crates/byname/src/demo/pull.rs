//! The music server of [TagNet §1]: the first request goes by descriptor, and all others go by locator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use byname_wire::digest::sha256;

use super::network::Network;
use super::{ask_until, set, tags};
use byname_client::Client;
use byname_client::tags::FanOutLimit;

const OFFERED: [&str; 2] = ["concert", "classical"];
const WANTED: [&str; 5] = ["classical", "Beethoven", "ninth", "concert", "360bps"];
const CHUNK_BYTES: usize = 4000;
const CHUNKS: usize = 64;

/// Shows a player that fetches a song.
pub fn run(network: &Network) -> anyhow::Result<()> {
    let song: Vec<u8> = (0..CHUNKS * CHUNK_BYTES).map(|i| (i * i / 7) as u8).collect();
    let mut server = network.application("zurich")?;
    server.advertise(&[tags(&OFFERED)?])?;
    println!("In zurich a music server advertises {}.", set(&OFFERED));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&mut server, &song, &is_over));
        let played = play(network);
        is_over.store(true, Ordering::Relaxed);
        let served = serving.join().map_err(|_| anyhow::anyhow!("the server has failed"))??;
        let fetched = played?;
        anyhow::ensure!(sha256(&[&fetched]) == sha256(&[&song]), "the song is not the server's");
        println!("The player has the complete song, {} bytes.", fetched.len());
        println!("The server answered {} requests, {} of them by tags.", served.0 + served.1, served.0);
        Ok(())
    })
}

/// Answers requests for chunks, which are decimal numbers. Counts the requests by tags and by locator.
fn serve(server: &mut Client, song: &[u8], is_over: &AtomicBool) -> anyhow::Result<(u32, u32)> {
    let here = *server.addresses()?.first().context("no tree")?;
    let (mut by_tags, mut by_locator) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        for message in server.messages(Duration::from_millis(50))? {
            let number: Option<usize> = std::str::from_utf8(&message.payload).ok().and_then(|text| text.parse().ok());
            let chunk = number.and_then(|number| song.chunks(CHUNK_BYTES).nth(number));
            let (Some(number), Some(chunk), Some(player)) = (number, chunk, message.source) else { continue };
            *if message.by_tags { &mut by_tags } else { &mut by_locator } += 1;
            let answer = [&(number as u32).to_be_bytes()[..], chunk].concat();
            server.send_to(player, here, &answer)?;
        }
    }
    Ok((by_tags, by_locator))
}

fn play(network: &Network) -> anyhow::Result<Vec<u8>> {
    let mut player = network.application("geneva")?;
    let here = *player.addresses()?.first().context("no tree")?;
    println!("In geneva a player with the address {here} asks for {}, from one server (k = 1).", set(&WANTED));
    let song = tags(&WANTED)?;
    let chunk_of = |payload: &[u8], number: usize| {
        let (head, chunk) = payload.split_at_checked(4)?;
        (head == (number as u32).to_be_bytes()).then(|| chunk.to_vec())
    };
    let (mut fetched, server) = ask_until(
        &mut player,
        |player| player.send_to_tags(&song, FanOutLimit::One, here, b"0"),
        |message| Some((chunk_of(&message.payload, 0)?, message.source?)),
    )?;
    println!("The first {} bytes came from {server}, the server's address.", fetched.len());
    println!("The player asks for the other {} parts by this address: no router looks at tags again.", CHUNKS - 1);
    for number in 1..CHUNKS {
        let chunk = ask_until(
            &mut player,
            |player| player.send_to(server, here, number.to_string().as_bytes()),
            |message| chunk_of(&message.payload, number),
        )?;
        fetched.extend(chunk);
    }
    Ok(fetched)
}
