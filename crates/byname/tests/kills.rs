//! A router that is killed at random moments of a storm of registrations, again and again. After each restart, every
//! acknowledged route is there, and none that was removed is.
//!
//! `BYNAME_TEST_KILLS` sets the number of kills, and `BYNAME_TEST_SEED` another schedule. At the end, the test prints a
//! line for docs/records.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use byname_control::mgmt::tlv::{ControlParameters, ControlResponse, Element, origin};
use byname_control::security::Signer;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::element_len;
use byname_wire::{Component, Data, LpPacket, Name};
use common::Router;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Commands in flight.
const WINDOW: usize = 64;
/// Routes are at this many names, each with two origins.
const NAMES: u32 = 150;
/// Longest storm before the kill.
const STORM_MAX: Duration = Duration::from_millis(60);

/// Name and origin of a route.
type Key = (u32, u64);
/// Its cost; `None`: there is no such route.
type Value = Option<u64>;

/// What the router has acknowledged, and what it may have done besides.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<Key, u64>,
    /// Commands without an answer, by name.
    in_flight: HashMap<Vec<u8>, (Key, Value)>,
}

impl Model {
    fn answered(&mut self, name: &[u8]) {
        let (key, value) = self.in_flight.remove(name).expect("an answer to a command of this storm");
        match value {
            Some(cost) => self.acknowledged.insert(key, cost),
            None => self.acknowledged.remove(&key),
        };
    }

    /// Compares with the routes after a restart, and goes on from these.
    fn check(&mut self, there: BTreeMap<Key, u64>, what: &str) {
        let mut possible: BTreeMap<Key, BTreeSet<Value>> = BTreeMap::new();
        for (key, value) in self.in_flight.values() {
            possible.entry(*key).or_default().insert(*value);
        }
        let keys: BTreeSet<Key> = there.keys().chain(self.acknowledged.keys()).copied().collect();
        for key in keys {
            let (is, acknowledged) = (there.get(&key).copied(), self.acknowledged.get(&key).copied());
            let may_be = possible.get(&key).is_some_and(|values| values.contains(&is));
            assert!(is == acknowledged || may_be, "{what}: {key:?} is {is:?}, acknowledged was {acknowledged:?}");
        }
        self.acknowledged = there;
        self.in_flight.clear();
    }
}

fn prefix(number: u32) -> Name {
    format!("/storm/{number}").parse().expect("a name")
}

fn command(face: u64, (number, origin): Key, cost: Value) -> (Name, Vec<u8>) {
    let verb = if cost.is_some() { "register" } else { "unregister" };
    let parameters = ControlParameters {
        name: Some(prefix(number)),
        face_id: Some(face),
        origin: Some(origin),
        cost,
        ..ControlParameters::default()
    };
    let name: Name = format!("/localhost/nfd/rib/{verb}").parse().expect("a name");
    let name = name.join(Component::generic(&parameters.encode()));
    let unix_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let wire = Signer::digest().sign_command(&InterestBuilder::new(name, rand::random()), unix_ms).expect("signed");
    (byname_wire::Interest::decode(&wire).expect("a command").name.to_name(), wire)
}

/// Sends commands until the connection ends, which is when the router is killed.
fn storm(mut socket: UnixStream, face: u64, rng: &mut SmallRng, model: &mut Model) -> usize {
    let (mut received, mut answers) = (Vec::new(), 0);
    loop {
        while model.in_flight.len() < WINDOW {
            let key = (rng.random_range(0..NAMES), if rng.random() { origin::STATIC } else { origin::NLSR });
            let value = rng.random_bool(0.6).then(|| rng.random_range(0..1_000));
            let (name, wire) = command(face, key, value);
            model.in_flight.insert(name.value().to_vec(), (key, value));
            if socket.write_all(&wire).is_err() {
                break;
            }
        }
        let mut more = [0; 65_536];
        match socket.read(&mut more) {
            Ok(len) if len > 0 => received.extend_from_slice(&more[..len]),
            _ => return answers,
        }
        while let Ok(Some(len)) = element_len(&received, 9000)
            && len <= received.len()
        {
            let frame: Vec<u8> = received.drain(..len).collect();
            let packet = LpPacket::decode(&frame).expect("a frame").fragment.expect("a packet").to_vec();
            let data = Data::decode(&packet).expect("an answer");
            let response = ControlResponse::decode(data.content).expect("a response");
            assert_eq!(response.code, 200, "{}", response.text);
            model.answered(data.name.value());
            answers += 1;
        }
    }
}

/// The id of the neighbour's face, and the routes of the storm.
fn look(router: &Router) -> (u64, BTreeMap<Key, u64>) {
    let faces = router.json("face list");
    let face = faces.as_array().expect("a list").iter().find(|face| face["remote_uri"] == "udp4://127.0.0.1:9");
    let face = face.unwrap_or_else(|| panic!("no face: {faces}\n{}", router.log()))["face_id"].as_u64().expect("an id");
    let routes = router.json("route list /storm");
    let of = |route: &serde_json::Value| {
        let number = route["prefix"].as_str()?.strip_prefix("/storm/")?.parse().ok()?;
        let origin = if route["origin"] == "static" { origin::STATIC } else { origin::NLSR };
        assert_eq!(route["face_id"].as_u64(), Some(face));
        Some(((number, origin), route["cost"].as_u64()?))
    };
    (face, routes.as_array().expect("a list").iter().map(|route| of(route).expect("a route")).collect())
}

#[test]
fn acknowledged_routes_survive_kills_and_removed_ones_stay_away() {
    let number = |variable, default| std::env::var(variable).map_or(default, |text| text.parse().expect("a number"));
    let (kills, seed) = (number("BYNAME_TEST_KILLS", 50), number("BYNAME_TEST_SEED", 23));
    println!("{kills} kills, seed {seed}");
    let begun = Instant::now();
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut router = Router::start();
    router.ok("face create udp4://127.0.0.1:9 permanent");
    let (mut model, mut answers, mut in_flight) = (Model::default(), 0, 0);
    for kill in 0..kills {
        let (face, there) = look(&router);
        model.check(there, &format!("seed {seed}, after kill {kill}"));
        let after = STORM_MAX.mul_f64(rng.random());
        let socket = UnixStream::connect(router.socket()).expect("the router listens");
        let storm_seed = rng.random();
        std::thread::scope(|scope| {
            let storm = scope.spawn(|| storm(socket, face, &mut SmallRng::seed_from_u64(storm_seed), &mut model));
            std::thread::sleep(after);
            router.kill();
            answers += storm.join().expect("the storm goes well");
        });
        in_flight += model.in_flight.len();
        router = router.start_again();
    }
    let (_, there) = look(&router);
    let routes = there.len();
    model.check(there, &format!("seed {seed}, at the end"));
    let record = serde_json::json!({
        "experiment": "kills",
        "date": output_of("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "cpu": output_of("sed", &["-n", "s/^model name.*: //p;T;q", "/proc/cpuinfo"]),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": output_of("uname", &["-r"]),
        "commit": output_of("git", &["rev-parse", "--short=12", "HEAD"]),
        "clean": output_of("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty(),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "seed": seed,
        "kills": kills,
        "storm_ms_max": STORM_MAX.as_millis(),
        "window": WINDOW,
        "commands_answered": answers,
        "commands_in_flight": in_flight,
        "routes_at_the_end": routes,
        "routes_lost": 0,
        "routes_come_back": 0,
        "seconds": begun.elapsed().as_secs_f64().round(),
    });
    println!("{record}");
    assert!(answers > 20 * kills as usize && routes > 50, "the storms were no storms");
}

/// What a command prints. Nothing if it fails.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
