//! Answers Interests for /example/hello until Ctrl-C.
//!
//! `cargo run -p byname-client --example hello_producer`

use std::time::Duration;

use byname_client::Client;
use byname_wire::Interest;
use byname_wire::data::DataBuilder;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Greets whoever asks.
pub fn produce(client: &mut Client) -> Result<(), Error> {
    let mut count = 0;
    let hello = move |interest: &Interest<'_>| {
        count += 1;
        let greeting = format!("hello, number {count}");
        Some(DataBuilder::new(interest.name.to_name()).freshness_ms(100).content(greeting.into_bytes()))
    };
    Ok(client.produce(&"/example/hello".parse()?, hello)?)
}

fn main() -> Result<(), Error> {
    let mut client = Client::of_environment()?;
    produce(&mut client)?;
    Ok(client.run(Duration::MAX)?)
}
