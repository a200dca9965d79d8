//! Applications of the crate `byname-client` beside a router: its examples, and what a router that ends does to them.

#[path = "../../client/examples/async_hello.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod async_hello;
#[path = "../../client/examples/chat.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod chat;
mod common;
#[path = "../../client/examples/fetch_file.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod fetch_file;
#[path = "../../client/examples/hello_consumer.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod hello_consumer;
#[path = "../../client/examples/hello_producer.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod hello_producer;
#[path = "../../client/examples/tag_subscriber.rs"]
#[allow(dead_code, reason = "a test calls its part, and not main")]
mod tag_subscriber;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use byname_client::fetch::{Discovery, FetchError, FetchOptions};
use byname_client::management::RegisterOptions;
use byname_client::publish::{Content, Publication, PublishOptions};
use byname_client::tags::FanOutLimit;
use byname_client::{AsyncClient, Client, ClientOptions, Transport, interest, nack_words};
use byname_trust::validator::{Domain, Limits};
use byname_trust::{Certificate, KeyType, NewKey, Revocations, Rule, Signer, Terms, Validator, issue};
use byname_wire::data::DataBuilder;
use byname_wire::{Descriptor, NackReason, Name};
use common::Router;

const PATIENCE: Duration = Duration::from_secs(30);
fn options(transport: Transport) -> ClientOptions {
    ClientOptions::new(vec![transport])
}

fn connect(router: &Router) -> Client {
    Client::connect(options(Transport::Unix(router.socket()))).expect("a connection")
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a test's own name")
}

/// Runs a client in a thread while `call` works. Returns what `call` returns.
fn beside<T>(client: &mut Client, call: impl FnOnce() -> T) -> T {
    let is_over = client.interrupt_flag();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| client.run(PATIENCE).expect("a connection"));
        let result = call();
        is_over.store(true, Ordering::Relaxed);
        running.join().expect("no panic");
        is_over.store(false, Ordering::Relaxed);
        result
    })
}

/// The transports of a router that all clients have.
fn transports(router: &Router) -> Vec<Transport> {
    let (tcp, websocket) = (router.port, router.websocket_port);
    let uris =
        [format!("tcp://127.0.0.1:{tcp}"), format!("udp://127.0.0.1:{tcp}"), format!("ws://127.0.0.1:{websocket}")];
    let over_ip = uris.into_iter().map(|uri| uri.parse().expect("a transport"));
    std::iter::once(Transport::Unix(router.socket())).chain(over_ip).collect()
}

#[test]
fn the_hello_examples_greet_over_every_transport() {
    let router = Router::start();
    let mut producer = connect(&router);
    hello_producer::produce(&mut producer).expect("registered");
    beside(&mut producer, || {
        for transport in transports(&router) {
            let mut consumer = Client::connect(options(transport)).expect("a connection");
            let greeting = hello_consumer::greeting(&mut consumer).expect("a greeting");
            assert!(greeting.starts_with("hello, number "), "{greeting}");
        }
    });
}

#[test]
fn a_file_is_published_and_fetched_whole() {
    let router = Router::start();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let publication =
        Publication::new(&name("/demo/file"), Content::of_bytes(bytes.clone()), PublishOptions::default());
    let sha256 = publication.sha256().to_owned();
    let mut producer = connect(&router);
    producer.publish(publication, RegisterOptions::default()).expect("registered");
    beside(&mut producer, || {
        let mut consumer = connect(&router);
        let file = router.path("fetched");
        let fetched = fetch_file::fetch(&mut consumer, "/demo/file", &file).expect("a file");
        assert!(fetched == sha256 && std::fs::read(&file).expect("a file") == bytes);
        assert!(consumer.fetch(&name("/demo/file"), 3_000_000).expect("an object") == bytes);
        let error = consumer.fetch(&name("/demo/file"), 2_999_999).expect_err("a limit");
        assert!(matches!(error, FetchError::TooLarge { bytes_max: 2_999_999, .. }), "{error}");
        let error = consumer.fetch(&name("/demo/none"), 10).expect_err("there is none");
        assert!(matches!(error, FetchError::NotFound { .. }), "{error}");
    });
}

#[test]
fn three_people_chat_and_all_hear_all() {
    let router = Router::start();
    router.ok("strategy set /example/chat /localhost/nfd/strategy/multicast");
    let content = AtomicUsize::new(0);
    // Each member has heard both others, and answers them until they have, too.
    let chat = |(who, line): (&str, &str)| {
        let mut member = chat::Member::join(connect(&router), who).expect("a member");
        member.say(line).expect("said");
        let (mut heard, end) = (Vec::new(), Instant::now() + PATIENCE);
        while content.load(Ordering::Relaxed) < 3 {
            assert!(Instant::now() < end, "{who} has heard {heard:?}");
            let new = member.hear(Duration::from_millis(20)).expect("a connection");
            content.fetch_add(usize::from(heard.len() < 2 && heard.len() + new.len() >= 2), Ordering::Relaxed);
            heard.extend(new);
        }
        heard.sort();
        heard
    };
    std::thread::scope(|scope| {
        let members = [("alice", "hi"), ("bob", "hello"), ("carol", "good day")];
        let [alice, _, carol] = members
            .map(|member| {
                let chat = &chat;
                scope.spawn(move || chat(member))
            })
            .map(|thread| thread.join().expect("no panic"));
        assert_eq!(alice, ["/example/bob: hello", "/example/carol: good day"]);
        assert_eq!(carol, ["/example/alice: hi", "/example/bob: hello"]);
    });
}

#[test]
fn a_subscriber_hears_what_has_its_tags() {
    let router = Router::start();
    let (mut subscriber, mut sender) = (connect(&router), connect(&router));
    let wanted = ["concert".to_owned(), "classical".to_owned()];
    assert_eq!(tag_subscriber::hear(&mut subscriber, &wanted, Duration::from_millis(1)).expect("advertised"), None);
    let here = sender.addresses().expect("addresses")[0];
    for (tags, payload) in [(&["jazz", "concert"][..], "no"), (&["classical", "ninth", "concert"], "yes")] {
        let tags = Descriptor::of(tags).expect("tags");
        sender.send_to_tags(&tags, FanOutLimit::All, here, payload.as_bytes()).expect("sent");
    }
    let heard = tag_subscriber::hear(&mut subscriber, &wanted, PATIENCE).expect("a connection");
    assert_eq!(heard.as_deref(), Some("yes"));
}

#[test]
fn a_client_outlives_its_router() {
    let router = Router::start();
    let (mut producer, mut consumer) = (connect(&router), connect(&router));
    producer
        .produce(&name("/lasting"), |interest| {
            Some(DataBuilder::new(interest.name.to_name()).content(b"here".to_vec()))
        })
        .expect("registered");
    beside(&mut producer, || {
        let ask = |consumer: &mut Client, number: u32| {
            let name = name("/lasting").join_number(byname_wire::name::component_type::SEQUENCE_NUM, number.into());
            consumer.express(&interest(&name).lifetime_ms(500), 20).map(|data| data.data().content.to_vec())
        };
        assert_eq!(ask(&mut consumer, 1).expect("an answer"), b"here");
        let _router = router.start_again();
        let end = Instant::now() + PATIENCE;
        // The consumer may be back before the producer: then there is no route yet.
        while ask(&mut consumer, 2).is_err() {
            assert!(Instant::now() < end, "nobody answers");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

const SECRET: &[u8] = b"a secret that the producer and the router share";

/// A router that accepts registrations over every transport. One that comes over UDP may be from another host.
fn router_for_all() -> (Router, tempfile::NamedTempFile) {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), SECRET).expect("written");
    let router = Router::start_with(&format!(
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"faces\", \"rib\"]\n\
         [[authorization]]\nfrom = \"network\"\nmodules = [\"rib\"]\n\
         hmac_key = \"/net/alice/KEY/1\"\nhmac_secret_file = \"{}\"\n",
        secret.path().display()
    ));
    (router, secret)
}

/// The options of a producer over this transport, and its prefix.
fn producer_over(transport: Transport) -> (ClientOptions, Name) {
    let at = match transport {
        Transport::Unix(_) => "unix",
        Transport::Tcp(_) => "tcp",
        Transport::Udp(_) => "udp",
        Transport::WebSocket(..) => "websocket",
        Transport::SecureWebSocket(..) => "wss",
    };
    let mut options = options(transport);
    options.session.signer = Signer::hmac(name("/net/alice/KEY/1"), SECRET);
    options.session.refresh = Duration::from_secs(1);
    (options, name(&format!("/net/alice/{at}")))
}

/// Waits until each of these prefixes is served.
fn await_all(router: &Router, prefixes: &[Name], round: u64) {
    let mut consumer = connect(router);
    for prefix in prefixes {
        let end = Instant::now() + PATIENCE;
        for number in 0.. {
            let asked = prefix.join_number(byname_wire::name::component_type::SEQUENCE_NUM, round << 32 | number);
            match consumer.express(&interest(&asked).lifetime_ms(500), 1) {
                Ok(_) => break,
                Err(error) => assert!(Instant::now() < end, "{prefix} is not back: {error}\n{}", router.log()),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_producer_is_back_after_a_restart_over_every_transport() {
    let (router, _secret) = router_for_all();
    let producers: Vec<_> = transports(&router).into_iter().map(producer_over).collect();
    let prefixes: Vec<Name> = producers.iter().map(|(_, prefix)| prefix.clone()).collect();
    let mut router = Some(router);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (options, prefix) in producers {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut client = Client::connect(options).expect("a connection");
                let answer = |interest: &byname_wire::Interest<'_>| Some(DataBuilder::new(interest.name.to_name()));
                client.produce(&prefix, answer).expect("registered");
                while !is_over.load(Ordering::Relaxed) {
                    client.run(Duration::from_millis(100)).expect("it goes on");
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            await_all(router.as_ref().expect("a router"), &prefixes, 0);
            for round in 1..3 {
                let ended = router.take().expect("a router");
                let started = router.insert(ended.restart("-TERM"));
                await_all(started, &prefixes, round);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn an_async_producer_is_back_after_a_restart_over_every_transport() {
    let (router, _secret) = router_for_all();
    let producers: Vec<_> = transports(&router).into_iter().map(producer_over).collect();
    let prefixes: Vec<Name> = producers.iter().map(|(_, prefix)| prefix.clone()).collect();
    let (end, is_over) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for (options, prefix) in producers {
                tokio::spawn(serve(options, prefix));
            }
            let _ = is_over.await;
        });
    });
    await_all(&router, &prefixes, 0);
    let router = router.restart("-TERM");
    await_all(&router, &prefixes, 1);
    drop(end);
    serving.join().expect("no panic");
}

/// Answers all Interests below a prefix.
async fn serve(options: ClientOptions, prefix: Name) {
    let client = AsyncClient::connect(options).await.expect("a connection");
    let mut producer = client.produce(&prefix, RegisterOptions::default()).await.expect("registered");
    while let Some(request) = producer.next().await {
        let data = DataBuilder::new(request.interest().name.to_name());
        producer.reply(request, data).await.expect("it goes on");
    }
}

/// Waits until a file has so many bytes.
fn await_bytes(path: &std::path::Path, bytes: u64) {
    let end = Instant::now() + PATIENCE;
    while std::fs::metadata(path).map_or(0, |metadata| metadata.len()) < bytes {
        assert!(Instant::now() < end, "too slow");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_transfer_to_a_file_and_its_publication_outlive_the_router() {
    let router = Router::start();
    let bytes: Vec<u8> = (0..20_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let publication = Publication::new(&name("/demo/file"), Content::of_bytes(bytes), PublishOptions::default());
    let sha256 = publication.sha256().to_owned();
    let mut producer = connect(&router);
    producer.publish(publication, RegisterOptions::default()).expect("registered");
    let slowly = || FetchOptions { window_max: 1, ..FetchOptions::default() };
    let (file, part) = (router.path("file"), router.path("file.part"));
    let transport = Transport::Unix(router.socket());
    beside(&mut producer, || {
        let fetch = |outage_max: Duration| {
            let mut options = options(transport.clone());
            options.session.outage_max = outage_max;
            let mut consumer = Client::connect(options).expect("a connection");
            consumer.fetch_file(&name("/demo/file"), &file, slowly())
        };
        // One that does not wait for the router keeps what it has.
        let router = std::thread::scope(|scope| {
            let fetching = scope.spawn(|| fetch(Duration::ZERO));
            await_bytes(&part, 1_000_000);
            let router = router.start_again();
            let error = fetching.join().expect("no panic").expect_err("the router is gone");
            assert!(error.to_string().contains("no connection to a router"), "{error}");
            router
        });
        let kept = std::fs::metadata(&part).expect("a part").len();
        assert!((1_000_000..20_000_000).contains(&kept), "{kept}");
        // The next one goes on from there, and waits for the router. It begins when the producer is back.
        let found = || {
            let mut client = Client::connect(options(transport.clone())).expect("a connection");
            client.find(&name("/demo/file"), Discovery::Auto, Duration::from_secs(1)).is_ok()
        };
        let end = Instant::now() + PATIENCE;
        while !found() {
            assert!(Instant::now() < end, "the producer is not back");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::scope(|scope| {
            let fetching = scope.spawn(|| fetch(PATIENCE));
            await_bytes(&part, kept + 1_000_000);
            let router = router.start_again();
            let fetched = fetching.join().expect("no panic").expect("a file");
            assert!(fetched == sha256, "{}", router.log());
        });
    });
}

#[test]
fn an_async_transfer_and_its_publication_outlive_the_router() {
    let router = Router::start();
    let bytes: Vec<u8> = (0..20_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let publication =
        Publication::new(&name("/demo/file"), Content::of_bytes(bytes.clone()), PublishOptions::default());
    let (sender, arrived) = std::sync::mpsc::channel();
    let transport = Transport::Unix(router.socket());
    let fetching = std::thread::spawn(|| block_on(fetch_own(transport, publication, sender)));
    while arrived.recv_timeout(PATIENCE).expect("a segment") < 1_000_000 {}
    let _router = router.start_again();
    assert!(fetching.join().expect("no panic") == bytes);
}

/// Publishes an object and fetches it slowly. Tells how many bytes there are.
async fn fetch_own(transport: Transport, publication: Publication, told: std::sync::mpsc::Sender<usize>) -> Vec<u8> {
    let connect = || AsyncClient::connect(options(transport.clone()));
    let (here, there) = (connect().await.expect("a connection"), connect().await.expect("a connection"));
    let published = there.publish(publication, RegisterOptions::default()).await.expect("registered");
    let options = FetchOptions { window_max: 1, ..FetchOptions::default() };
    let mut fetching = here.fetch_segments(published.versioned_name(), options).await.expect("it goes on");
    let mut fetched = Vec::new();
    while let Some(chunk) = fetching.next().await {
        fetched.extend_from_slice(chunk.expect("a segment").content());
        let _ = told.send(fetched.len());
    }
    fetched
}

/// Runs a future on a runtime of one thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it takes too long") })
}

#[test]
fn the_async_example_greets_over_every_transport() {
    let router = Router::start();
    block_on(async {
        let producing = AsyncClient::connect(options(Transport::Unix(router.socket()))).await.expect("a connection");
        for transport in transports(&router) {
            let consuming = AsyncClient::connect(options(transport)).await.expect("a connection");
            assert_eq!(async_hello::greeting(&producing, &consuming).await.expect("a greeting"), "hello");
        }
    });
}

#[test]
fn an_async_client_fetches_joins_and_hears() {
    let router = Router::start();
    router.ok("strategy set /group /localhost/nfd/strategy/multicast");
    let bytes: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
    let publication =
        Publication::new(&name("/demo/file"), Content::of_bytes(bytes.clone()), PublishOptions::default());
    let mut producer = connect(&router);
    producer.publish(publication, RegisterOptions::default()).expect("registered");
    beside(&mut producer, || {
        block_on(async {
            let connect = || AsyncClient::connect(options(Transport::Unix(router.socket())));
            let (first, second) = (connect().await.expect("a connection"), connect().await.expect("a connection"));
            assert!(first.fetch(&name("/demo/file"), 2_000_000).await.expect("an object") == bytes);
            let error = first.fetch(&name("/demo/file"), 1_000_000).await.expect_err("a limit");
            assert!(error.to_string().contains("larger than 1000000 bytes"), "{error}");
            let alice = first.join(&name("/group"), &name("/alice"), Default::default()).await.expect("a group");
            let mut bob = second.join(&name("/group"), &name("/bob"), Default::default()).await.expect("a group");
            assert_eq!(alice.publish().await, Ok(1));
            let updates = bob.updates().await.expect("news");
            assert_eq!((&updates[0].node, updates[0].boot, updates[0].last), (&name("/alice"), alice.boot(), 1));
        });
    });
}

#[test]
fn an_async_client_publishes_until_it_is_closed() {
    let router = Router::start();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
    let publication =
        |at: &str| Publication::new(&name(at), Content::of_bytes(bytes.clone()), PublishOptions::default());
    block_on(async {
        let connect = || AsyncClient::connect(options(Transport::Unix(router.socket())));
        let (here, there) = (connect().await.expect("a connection"), connect().await.expect("a connection"));
        let one = there.publish(publication("/demo/one"), RegisterOptions::default()).await.expect("registered");
        let _other = there.publish(publication("/demo/other"), RegisterOptions::default()).await.expect("registered");
        assert!(name("/demo/one").as_ref().is_prefix_of(&one.versioned_name().as_ref()));
        for at in ["/demo/one", "/demo/other"] {
            assert!(here.fetch(&name(at), 100_000).await.expect("an object") == bytes);
        }
        // Names below the objects that no cache has. The router may need a moment to forget the prefix.
        let until_refused = async |at: &str| loop {
            let asked = interest(&name(at)).lifetime_ms(100);
            let error = here.express(asked, 1).await.expect_err("nobody has this");
            if error.to_string().contains("no route") {
                return;
            }
        };
        drop(one);
        until_refused("/demo/one/x").await;

        let waiting = there.clone();
        let fetching = tokio::spawn(async move { waiting.fetch(&name("/demo/one"), 100_000).await });
        there.close().await.expect("it was open");
        assert!(fetching.await.expect("no panic").is_err());
        assert!(there.close().await.is_err(), "it is closed");
        until_refused("/demo/other/x").await;
    });
}

#[test]
fn what_a_producer_cannot_answer_is_told_and_a_panic_leaves_a_client_that_works() {
    let router = Router::start();
    let (mut producer, mut consumer) = (connect(&router), connect(&router));
    let answer = |interest: &byname_wire::Interest<'_>| {
        let last = interest.name.component(-1).map(|last| last.value.to_vec()).unwrap_or_default();
        assert!(last != b"panic", "a defect of the application");
        let bytes = if last == b"large" { 9000 } else { 10 };
        Some(DataBuilder::new(interest.name.to_name()).content(vec![0; bytes]))
    };
    producer.produce(&name("/app"), answer).expect("registered");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![7; 20_000]).expect("written");
    let content = Content::of_file(file.path()).expect("a file");
    producer
        .publish(Publication::new(&name("/file"), content, PublishOptions::default()), RegisterOptions::default())
        .expect("registered");
    file.as_file().set_len(100).expect("a shorter file");
    let mut ask = |producer: &mut Client, uri: &str, can_be_prefix| {
        let asked = interest(&name(uri)).can_be_prefix(can_be_prefix).lifetime_ms(300);
        let flag = producer.interrupt_flag();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let answer = consumer.express(&asked, 1);
                flag.store(true, Ordering::Relaxed);
                answer
            });
            let run = std::panic::AssertUnwindSafe(|| producer.run(PATIENCE).expect("a connection"));
            let ran = std::panic::catch_unwind(run);
            let answer = asking.join().expect("no panic");
            flag.store(false, Ordering::Relaxed);
            (answer.is_ok(), ran.is_ok())
        })
    };
    assert_eq!(ask(&mut producer, "/app/small", false), (true, true));
    assert_eq!(ask(&mut producer, "/app/large", false), (false, true));
    assert_eq!(ask(&mut producer, "/file", true), (false, true));
    let failures: Vec<String> = producer.take_failures().iter().map(ToString::to_string).collect();
    assert_eq!((failures.len(), producer.counters().failures), (2, 2), "{failures:?}");
    assert!(failures[0].starts_with("no answer to /app/large: the packet has 9"), "{failures:?}");
    assert!(failures[1].contains("cannot read segment 0"), "{failures:?}");
    assert!(producer.take_failures().is_empty());
    let published = producer.publication(&name("/file")).expect("published").counters();
    assert_eq!((published.interests, published.answered, published.failed), (1, 0, 1));

    assert_eq!(ask(&mut producer, "/app/panic", false), (false, false));
    assert_eq!(ask(&mut producer, "/app/other", false), (true, true));
}

#[test]
fn an_async_client_sends_by_tags_commands_refuses_and_fetches_a_file() {
    let router = Router::start();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let publication =
        Publication::new(&name("/demo/file"), Content::of_bytes(bytes.clone()), PublishOptions::default());
    let sha256 = publication.sha256().to_owned();
    block_on(async {
        let connect = || AsyncClient::connect(options(Transport::Unix(router.socket())));
        let (here, there) = (connect().await.expect("a connection"), connect().await.expect("a connection"));
        let tags = Descriptor::of(["concert", "jazz"]).expect("tags");
        let wanted = Descriptor::of(["concert"]).expect("tags");
        there.advertise(std::slice::from_ref(&wanted)).await.expect("advertised");
        let mut heard = there.messages().await.expect("it goes on");
        let mut answered = here.messages().await.expect("it goes on");
        let source = here.addresses().await.expect("addresses")[0];
        let answering = there.addresses().await.expect("addresses")[0];
        here.send_to_tags(&tags, FanOutLimit::All, source, b"who?").await.expect("sent");
        let message = heard.recv().await.expect("a message");
        assert_eq!((&message.payload[..], message.by_tags, message.source), (&b"who?"[..], true, Some(source)));
        there.send_to(source, answering, b"me").await.expect("sent");
        let message = answered.recv().await.expect("an answer");
        assert_eq!((&message.payload[..], message.by_tags), (&b"me"[..], false));
        let error = here.send_to(answering, source, &[0; 9000]).await.expect_err("a limit");
        assert!(matches!(error, byname_client::CallError::TooLarge(_)), "{error}");
        // What is withdrawn is not delivered any more: the next message that arrives is one to the address.
        there.withdraw(&[wanted]).await.expect("withdrawn");
        here.send_to_tags(&tags, FanOutLimit::All, source, b"no").await.expect("sent");
        here.send_to(answering, source, b"yes").await.expect("sent");
        assert_eq!(heard.recv().await.expect("a message").payload, b"yes");

        let response = here.command("tags", "advertise", b"nonsense").await.expect("an answer");
        assert_eq!(response.code, 400, "{}", response.text);

        let mut producer = there.produce(&name("/refusing"), RegisterOptions::default()).await.expect("registered");
        let asking = {
            let here = here.clone();
            tokio::spawn(async move { here.express(interest(&name("/refusing/x")), 1).await })
        };
        let request = producer.next().await.expect("an Interest");
        there.refuse(request, NackReason::Congestion).await.expect("it goes on");
        let error = asking.await.expect("no panic").expect_err("a Nack");
        assert!(error.to_string().contains("refused"), "{error}");
        let asking = {
            let here = here.clone();
            tokio::spawn(async move { here.express(interest(&name("/refusing/large")).lifetime_ms(300), 1).await })
        };
        let request = producer.next().await.expect("an Interest");
        let large = DataBuilder::new(request.interest().name.to_name()).content(vec![0; 9000]);
        producer.reply(request, large).await.expect("it goes on");
        assert!(asking.await.expect("no panic").is_err());
        let failures = there.take_failures().await.expect("it goes on");
        assert_eq!((failures.len(), there.counters().await.expect("it goes on").failures), (1, 1));
        assert!(failures[0].to_string().starts_with("no answer to /refusing/large: the packet has 9"));

        let _published = there.publish(publication, RegisterOptions::default()).await.expect("registered");
        let file = router.path("fetched");
        // A transfer that ends early, at a limit, is resumed.
        let limited = FetchOptions { bytes_max: 1_000_000, ..FetchOptions::default() };
        let error = here.fetch_file(&name("/demo/file"), &file, limited).await.expect_err("a limit");
        assert!(matches!(error, byname_client::CallError::Fetch(FetchError::TooLarge { .. })), "{error}");
        assert_eq!(std::fs::metadata(router.path("fetched.part")).expect("a part").len(), 1_000_000);
        let fetched = here.fetch_file(&name("/demo/file"), &file, FetchOptions::default()).await.expect("a file");
        assert!(fetched == sha256 && std::fs::read(&file).expect("a file") == bytes);
        let nowhere = router.path("none").join("file");
        let error = here.fetch_file(&name("/demo/file"), &nowhere, FetchOptions::default()).await.expect_err("none");
        assert!(matches!(error, byname_client::CallError::File(_)), "{error}");
    });
}

#[test]
fn an_async_producer_that_is_behind_refuses_what_it_has_no_room_for() {
    const ROOM: usize = 2048;
    let router = Router::start();
    block_on(async {
        let connect = || AsyncClient::connect(options(Transport::Unix(router.socket())));
        let (here, there) = (connect().await.expect("a connection"), connect().await.expect("a connection"));
        let mut producer = there.produce(&name("/slow"), RegisterOptions::default()).await.expect("registered");
        let mut asking = tokio::task::JoinSet::new();
        for n in 0..ROOM + 10 {
            let (here, asked) = (here.clone(), interest(&name(&format!("/slow/{n}"))).lifetime_ms(60_000));
            asking.spawn(async move { here.express(asked, 1).await });
        }
        for _ in 0..10 {
            let error = asking.join_next().await.expect("it asks").expect("no panic").expect_err("no room");
            assert!(error.to_string().contains(nack_words(NackReason::Congestion)), "{error}");
        }
        for _ in 0..ROOM {
            let request = producer.next().await.expect("an Interest");
            let name = request.interest().name.to_name();
            producer.reply(request, DataBuilder::new(name)).await.expect("it goes on");
        }
        while let Some(answer) = asking.join_next().await {
            answer.expect("no panic").expect("the others are answered");
        }
        assert_eq!(there.counters().await.expect("it goes on").requests_dropped, 10);
    });
}

/// The options of a client with a key of its own below an anchor, which trusts all keys below the anchor.
fn trusting(router: &Router, who: &str, root: &NewKey) -> (ClientOptions, Name) {
    let day = Duration::from_secs(86_400);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let certificate = |key: &NewKey| {
        let terms =
            Terms { issuer: byname_wire::Component::generic(b"test"), version: 1, valid: (now - day, now + day) };
        let packet = issue(key.name(), key.spki(), root.signer(), terms).expect("a certificate");
        Certificate::decode(&packet).expect("a certificate")
    };
    let key = NewKey::generate(&name(who), KeyType::Ed25519).expect("a key");
    let domain = Domain { anchors: vec![certificate(root)], rule: Rule::Hierarchical };
    let validator = Validator::new(vec![domain], Revocations::default(), Limits::default());
    let mut options = options(Transport::Unix(router.socket()));
    // The test has no server of certificates, so each has those of all.
    options.session.validator = Some(validator);
    options.session.signer = Signer::from_pkcs8(key.name().clone(), key.pkcs8()).expect("a signer");
    CERTIFICATES.lock().expect("no panic").push(certificate(&key));
    (options, key.name().clone())
}

static CERTIFICATES: std::sync::Mutex<Vec<Certificate>> = std::sync::Mutex::new(Vec::new());

/// The same, with the certificates of all.
fn knowing_all(options: ClientOptions) -> ClientOptions {
    let certificates = CERTIFICATES.lock().expect("no panic").clone();
    let mut options = options;
    options.session.validator = options.session.validator.map(|validator| validator.with_certificates(certificates));
    options
}

#[test]
fn a_producer_answers_signed_interests_of_those_whom_it_trusts() {
    let router = Router::start();
    let (root, other) = (
        NewKey::generate(&name("/net"), KeyType::Ed25519).expect("a key"),
        NewKey::generate(&name("/net"), KeyType::Ed25519).expect("a key"),
    );
    let (door, _) = trusting(&router, "/net/door", &root);
    let (alice, alice_key) = trusting(&router, "/net/alice", &root);
    let (mallory, _) = trusting(&router, "/net/mallory", &other);
    let mut producer = Client::connect(knowing_all(door)).expect("a connection");
    producer
        .produce_signed(&name("/net/door"), |interest, key| {
            Some(DataBuilder::new(interest.name.to_name()).content(key.to_string().into_bytes()))
        })
        .expect("registered");
    let open = || interest(&name("/net/door/open")).application_parameters(b"now".to_vec()).lifetime_ms(500);
    beside(&mut producer, || {
        let mut alice = Client::connect(knowing_all(alice)).expect("a connection");
        let opened = alice.express_signed(&open(), 2).expect("an answer");
        assert_eq!(opened.data().content, alice_key.to_string().as_bytes());
        assert!(alice.express(&open(), 1).is_err(), "it is not signed");
        block_on(async {
            let mallory = AsyncClient::connect(mallory).await.expect("a connection");
            assert!(mallory.express_signed(open(), 1).await.is_err(), "by another anchor's key");
        });
    });
    let failures: Vec<String> = producer.take_failures().iter().map(ToString::to_string).collect();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].contains("it is not signed"), "{failures:?}");

    // The same, asynchronously, and the other way around.
    let (alice, door) = (trusting(&router, "/net/alice", &root).0, trusting(&router, "/net/bell", &root));
    let (alice, (bell, bell_key)) = (knowing_all(alice), (knowing_all(door.0), door.1));
    block_on(async {
        let (alice, bell) = (AsyncClient::connect(alice).await, AsyncClient::connect(bell).await);
        let (alice, bell) = (alice.expect("a connection"), bell.expect("a connection"));
        let mut producer = alice.produce(&name("/net/alice"), RegisterOptions::default()).await.expect("registered");
        let ringing = tokio::spawn(async move {
            let signed = bell.express_signed(interest(&name("/net/alice/ring")), 1).await;
            (signed, bell.express(interest(&name("/net/alice/ring")).lifetime_ms(100), 1).await)
        });
        let request = producer.next().await.expect("an Interest");
        let (request, key) = alice.check(request).await.expect("trusted");
        assert_eq!(key, bell_key);
        let data = DataBuilder::new(request.interest().name.to_name());
        producer.reply(request, data).await.expect("it goes on");
        let request = producer.next().await.expect("an Interest");
        let error = alice.check(request).await.expect_err("it is not signed");
        assert!(error.to_string().contains("it is not signed"), "{error}");
        let (signed, plain) = ringing.await.expect("no panic");
        assert!(signed.is_ok() && plain.is_err(), "{signed:?}");
    });
}
