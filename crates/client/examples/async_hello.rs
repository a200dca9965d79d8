//! A producer and a consumer in one program, on tokio.
//!
//! `cargo run -p byname-client --features tokio --example async_hello`

use byname_client::management::RegisterOptions;
use byname_client::{AsyncClient, ClientOptions, interest};
use byname_wire::Name;
use byname_wire::data::DataBuilder;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Starts a producer, and asks it.
pub async fn greeting(producing: &AsyncClient, consuming: &AsyncClient) -> Result<String, Error> {
    let name: Name = "/example/async/hello".parse()?;
    let mut producer = producing.produce(&name, RegisterOptions::default()).await?;
    let serving = tokio::spawn(async move {
        while let Some(request) = producer.next().await {
            let data = DataBuilder::new(request.interest().name.to_name()).content(b"hello".to_vec());
            producer.reply(request, data).await?;
        }
        Ok::<(), byname_client::Ended>(())
    });
    let data = consuming.express(interest(&name), 3).await?;
    serving.abort();
    Ok(String::from_utf8_lossy(data.data().content).into_owned())
}

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let producing = AsyncClient::connect(ClientOptions::of_environment()?).await?;
        let consuming = AsyncClient::connect(ClientOptions::of_environment()?).await?;
        println!("{}", greeting(&producing, &consuming).await?);
        Ok(())
    })
}
