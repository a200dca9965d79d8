//! Asks for /example/hello.
//!
//! `cargo run -p byname-client --example hello_consumer`

use byname_client::{Client, interest};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The greeting of the producer.
pub fn greeting(client: &mut Client) -> Result<String, Error> {
    let interest = interest(&"/example/hello".parse()?).must_be_fresh(true);
    let data = client.express(&interest, 3)?;
    Ok(String::from_utf8_lossy(data.data().content).into_owned())
}

fn main() -> Result<(), Error> {
    println!("{}", greeting(&mut Client::of_environment()?)?);
    Ok(())
}
