//! Applications in a network that loses, doubles and delays packets, in virtual time.

use std::time::Duration;

use byname_client::fetch::{Discovery, FetchOptions, Object};
use byname_client::management::RegisterOptions;
use byname_client::publish::{Content, Publication, PublishOptions};
use byname_client::session::{Event, FetchId, Session, SessionOptions};
use byname_client::simulated::{Application, Behavior};
use byname_client::{Now, Outbox};
use byname_embed::{AppId, Faults, Forwarder, Network, NodeId};
use byname_wire::Name;

const NAME: &str = "/example/file";

fn name() -> Name {
    NAME.parse().expect("a literal name")
}

fn content() -> Vec<u8> {
    (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Publishes a file.
struct Publisher(Publication);

impl Publisher {
    fn new(seed: u64) -> Self {
        let options = PublishOptions { segment_bytes: 2000, version: Some(seed), ..PublishOptions::default() };
        Publisher(Publication::new(&name(), Content::of_bytes(content()), options))
    }
}

impl Behavior for Publisher {
    fn begin(&mut self, session: &mut Session, now: Now, outbox: &mut Outbox) {
        session.produce(name(), RegisterOptions::default(), now, outbox);
    }

    fn on_event(&mut self, event: Event, session: &mut Session, _: Now, outbox: &mut Outbox) {
        if let Event::Request(request) = event
            && let Ok(Some(packet)) = self.0.answer(&request.interest(), session.signer())
        {
            session.reply_with(&request, packet, outbox).expect("segments are small");
        }
    }
}

/// Finds the file and fetches it.
#[derive(Default)]
struct Reader {
    fetch: Option<FetchId>,
    bytes: Vec<u8>,
    error: Option<String>,
    is_done: bool,
}

impl Behavior for Reader {
    fn begin(&mut self, session: &mut Session, now: Now, outbox: &mut Outbox) {
        session.find(name(), Discovery::Auto, Duration::from_secs(1), now, outbox);
    }

    fn on_event(&mut self, event: Event, session: &mut Session, now: Now, outbox: &mut Outbox) {
        match event {
            Event::Found { result: Ok(Object::Segmented(object)), .. } => {
                self.fetch = Some(session.fetch(object, FetchOptions::default(), now, outbox));
            }
            // Nobody had heard of the file: asked again.
            Event::Found { .. } => self.begin(session, now, outbox),
            _ => {}
        }
    }

    fn step(&mut self, session: &mut Session, now: Now, _: &mut Outbox) {
        let Some(id) = self.fetch else { return };
        loop {
            match session.take_chunk(id, now) {
                Ok(Some(chunk)) => self.bytes.extend_from_slice(chunk.content()),
                Ok(None) => break,
                Err(error) => {
                    self.fetch = None;
                    self.error = Some(error.to_string());
                    return;
                }
            }
        }
        self.is_done = session.is_fetched(id);
    }
}

/// Three routers in a line with a publisher at one end and a reader at the other.
fn line(seed: u64, faults: Faults) -> (Network, [NodeId; 3], AppId) {
    let mut net = Network::new(seed);
    let nodes = [(); 3].map(|()| net.add(Forwarder::builder().registrations()).expect("memory"));
    let [near, middle, far] = nodes;
    let (to_middle, _) = net.link(near, middle, faults);
    let (to_far, _) = net.link(middle, far, faults);
    net.forwarder(near).set_route(&name(), &[(to_middle, 0)]).expect("one route");
    net.forwarder(middle).set_route(&name(), &[(to_far, 0)]).expect("one route");
    net.attach(far, Application::new(SessionOptions::default(), Publisher::new(seed)));
    let (reader, _) = net.attach(near, Application::new(SessionOptions::default(), Reader::default()));
    (net, nodes, reader)
}

fn reader(net: &Network, id: AppId) -> &Reader {
    net.app::<Application<Reader>>(id).behavior()
}

#[test]
fn a_file_arrives_whole_over_links_with_faults() {
    for seed in 0..6 {
        // Nothing is damaged: routers keep what they cannot check, and answer with it again.
        let faults = Faults { loss: 0.05, duplicates: 0.05, jitter: Duration::from_millis(seed), ..Faults::NONE };
        let (mut net, _, id) = line(seed, faults);
        net.run_for(Duration::from_secs(600));
        let reader = reader(&net, id);
        assert!(reader.is_done, "seed {seed}: {} bytes, {:?}", reader.bytes.len(), reader.error);
        assert!(reader.bytes == content(), "seed {seed}: other bytes");
    }
}

#[test]
fn a_cut_link_stops_a_file_and_a_healed_one_lets_it_go_on() {
    let (mut net, [near, ..], id) = line(9, Faults { delay: Duration::from_millis(50), ..Faults::NONE });
    net.run_for(Duration::from_millis(400));
    let to_middle = net.forwarder(near).route(&name())[0].face;
    assert!(net.set_faults(near, to_middle, Faults::CUT));
    net.run_for(Duration::from_millis(200));
    let before = reader(&net, id).bytes.len();
    assert!(before < content().len());
    net.run_for(Duration::from_secs(3));
    assert_eq!(reader(&net, id).bytes.len(), before);
    assert!(net.set_faults(near, to_middle, Faults::NONE));
    net.run_for(Duration::from_secs(60));
    assert!(reader(&net, id).bytes == content() && reader(&net, id).is_done);
}
