//! Traffic through the routers, and looks at their tables, until the test ends.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use byname_client::Link;
use byname_client::management::dataset;
use byname_client::transport::Environment;
use byname_mgmt::{FaceStatus, RibEntry, TagsEntry, decode_list, origin};
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::element_len;
use byname_wire::{Component, Data, Interest, LpPacket, Name};

use crate::Shared;
use crate::history::{Answer, Ping, Sample};
use crate::oracle::{self, Table};

/// After so long, an Interest counts as not answered.
const LIFETIME: Duration = Duration::from_secs(4);
/// Pauses between two Interests, and between two looks.
const PINGS: Duration = Duration::from_millis(15);
const SAMPLES: Duration = Duration::from_millis(100);

/// Answers all Interests with its number. Returns its address.
pub fn produce(number: u32) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let uri = format!("udp4://{}", socket.local_addr().expect("an address"));
    // It ends with the process.
    thread::spawn(move || {
        let mut buffer = [0; 9_000];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).expect("a packet");
            let packet = LpPacket::decode(&buffer[..len]).expect("a frame").fragment.unwrap_or_default();
            if let Ok(interest) = Interest::decode(packet) {
                let data = DataBuilder::new(interest.name.to_name()).content(number.to_be_bytes().to_vec());
                let _ = socket.send_to(&data.encode(), from);
            }
        }
    });
    uri
}

/// Sends Interests below `prefix` to a router, one after the other.
pub fn ping(shared: &Arc<Shared>, node: usize, socket: PathBuf, prefix: &str) -> thread::JoinHandle<()> {
    let (shared, prefix) = (shared.clone(), prefix.parse::<Name>().expect("a name"));
    let number = AtomicU32::new(node as u32);
    thread::spawn(move || {
        let mut stream = None;
        while !shared.is_over() {
            let sent = shared.now();
            let name = prefix
                .join(Component::generic(format!("{node}-{}", number.fetch_add(3, Ordering::Relaxed)).as_bytes()));
            match exchange(&mut stream, &socket, &name) {
                Ok(answer) => {
                    let ping = Ping { node, prefix: prefix.clone(), sent, done: shared.now(), answer };
                    shared.history.lock().expect("no panic").pings.push(ping);
                }
                // The router is away.
                Err(_) => stream = None,
            }
            thread::sleep(PINGS);
        }
    })
}

fn exchange(stream: &mut Option<UnixStream>, path: &Path, name: &Name) -> std::io::Result<Answer> {
    let stream = match stream {
        Some(stream) => stream,
        None => stream.insert(UnixStream::connect(path)?),
    };
    stream.set_read_timeout(Some(LIFETIME + Duration::from_secs(1)))?;
    let interest = InterestBuilder::new(name.clone(), rand::random()).lifetime_ms(LIFETIME.as_millis() as u64);
    stream.write_all(&interest.encode())?;
    let (mut received, mut more) = (Vec::new(), [0; 9_000]);
    loop {
        if let Ok(Some(len)) = element_len(&received, 9_000)
            && len <= received.len()
        {
            let frame: Vec<u8> = received.drain(..len).collect();
            let frame = LpPacket::decode(&frame).expect("a frame");
            let packet = frame.fragment.unwrap_or_default();
            if let Some(reason) = frame.nack {
                return Ok(Answer::None(format!("{reason:?}")));
            }
            // Not one that came too late.
            if let Ok(data) = Data::decode(packet)
                && data.name == name.as_ref()
            {
                return Ok(Answer::Producer(u32::from_be_bytes(data.content.try_into().expect("a number"))));
            }
            continue;
        }
        match stream.read(&mut more) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => received.extend_from_slice(&more[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Ok(Answer::None("nothing came".to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Looks at the fleet's routes and tags of a router, again and again.
pub fn look(shared: &Arc<Shared>, node: usize, transport: String) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        let mut link = None;
        while !shared.is_over() {
            let sent = shared.now();
            match routes(&mut link, &transport) {
                Some(routes) => {
                    let sample = Sample { node, sent, done: shared.now(), routes };
                    shared.history.lock().expect("no panic").samples.push(sample);
                }
                None => link = None,
            }
            thread::sleep(SAMPLES);
        }
    })
}

/// The fleet's routes, and all tags: nobody else tells any. `None`: the router is away.
fn routes(link: &mut Option<Link>, transport: &str) -> Option<Table> {
    let link = match link {
        Some(link) => link,
        None => {
            let candidates = Environment::of_process().candidates(Some(transport)).expect("an address");
            link.insert(Link::connect(&candidates).ok()?)
        }
    };
    // Faces come last: those of routes and tags are there then.
    let tags: Vec<TagsEntry> = decode_list(&dataset(link, "tags", "list", None).ok()?).expect("sets of tags");
    let rib: Vec<RibEntry> = decode_list(&dataset(link, "rib", "list", None).ok()?).expect("routes");
    let faces: Vec<FaceStatus> = decode_list(&dataset(link, "faces", "list", None).ok()?).expect("faces");
    let mut table = Table::new();
    for entry in rib {
        for route in entry.routes.iter().filter(|route| route.origin == origin::FLEET) {
            let face = faces.iter().find(|face| face.face_id == route.face_id)?;
            table.insert((entry.name.clone(), face.uri.as_str().into(), route.cost));
        }
    }
    for entry in tags {
        let face = faces.iter().find(|face| face.face_id == entry.face_id)?;
        table.insert((oracle::name_of(&entry.descriptor), face.uri.as_str().into(), 0));
    }
    Some(table)
}
