//! Hears the messages whose tags include some tags.
//!
//! `cargo run -p byname-client --example tag_subscriber concert classical`

use std::time::Duration;

use byname_client::Client;
use byname_wire::Descriptor;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Subscribes to these tags, and returns the first message that has them all.
pub fn hear(client: &mut Client, tags: &[String], wait: Duration) -> Result<Option<String>, Error> {
    client.advertise(&[Descriptor::of(tags)?])?;
    let message = client.messages(wait)?.into_iter().next();
    Ok(message.map(|message| String::from_utf8_lossy(&message.payload).into_owned()))
}

fn main() -> Result<(), Error> {
    let tags: Vec<String> = std::env::args().skip(1).collect();
    let mut client = Client::of_environment()?;
    loop {
        if let Some(message) = hear(&mut client, &tags, Duration::from_secs(60))? {
            println!("{message}");
        }
    }
}
