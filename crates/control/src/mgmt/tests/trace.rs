//! The module `trace`.

use super::*;
use crate::mgmt::tlv::trace::{TraceChunk, TraceEvent, trace_flags};

impl Router {
    fn read(&mut self, count: u64, from: FaceId) -> Result<TraceChunk, u64> {
        let parameters = ControlParameters { count: Some(count), ..ControlParameters::default() };
        let response = self.command_from("/localhost/nfd/trace/read", &parameters, from);
        self.now.unix_ms += 1;
        if response.code != 200 {
            return Err(response.code);
        }
        Ok(TraceChunk::decode(&response.body).expect("encoded as it is decoded"))
    }

    /// Sends Interests to the worker, through the internal face.
    pub(super) fn express(&mut self, uris: &[String]) {
        let running = self.running.as_ref().expect("it runs");
        for uri in uris {
            let wire = InterestBuilder::new(name(uri), 7).encode();
            let packet = byname_forward::Packet::copy_from(&wire);
            assert!(running.internal.sender.send(byname_forward::LinkFields::default(), packet));
        }
    }
}

fn events(stream: &[u8]) -> Vec<TraceEvent> {
    decode_list(stream).expect("whole events")
}

fn start(uri: &str, flags: u64) -> ControlParameters {
    ControlParameters { flags: Some(flags), ..prefix(uri) }
}

#[test]
fn a_stream_of_events_is_read_in_parts_and_any_part_again() {
    for threads in [1, 3] {
        let mut router = Router::with_threads(100, Authorizer::local_only(), threads);
        assert_eq!(router.command("trace/start", &start("/watched", trace_flags::WITH_PACKETS)).code, 200);
        let uris: Vec<String> = (0..60).map(|i| format!("/watched/{}/{i}", "x".repeat(400))).collect();
        router.express(&uris);
        router.express(&["/other".to_owned()]);
        let (mut stream, mut parts) = (Vec::new(), 0);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while parts < 3 || events(&stream).len() < uris.len() {
            assert!(std::time::Instant::now() < deadline, "{} bytes", stream.len());
            let chunk = router.read(stream.len() as u64, APP).expect("there is a trace");
            assert_eq!((chunk.offset, chunk.lost), (stream.len() as u64, 0));
            let bytes = chunk.bytes.expect("a part");
            if !bytes.is_empty() {
                // The answer was lost, and the reader asks again.
                let again = router.read(stream.len() as u64, APP).expect("there is a trace");
                let again = again.bytes.expect("the same part, or more");
                assert!(again.starts_with(&bytes[..bytes.len().min(again.len())]) && again.len() >= bytes.len());
                parts += 1;
            }
            stream.extend(bytes);
            // Until a part ends between two events.
            while decode_list::<TraceEvent>(&stream).is_err() {
                let chunk = router.read(stream.len() as u64, APP).expect("there is a trace");
                stream.extend(chunk.bytes.expect("the rest"));
                parts += 1;
            }
        }
        let events = events(&stream);
        let mut names: Vec<String> = events.iter().map(|event| event.name.to_string()).collect();
        names.sort();
        let mut expected = uris.clone();
        expected.sort();
        assert_eq!(names, expected);
        let event = &events[0];
        assert_eq!((event.subject.as_str(), event.face_id, event.nonce), ("interest", 1, Some(7)));
        assert_eq!((event.pit.as_deref(), event.store.as_deref()), (Some("new"), Some("miss")));
        assert_eq!((event.way.as_deref(), event.dropped.as_deref()), (Some("no-rule"), Some("refused")));
        let sent = event.sent.iter().map(|sent| (sent.face_id, sent.subject.as_str(), sent.nack)).collect::<Vec<_>>();
        assert_eq!(sent, [(1, "nack", Some(150))]);
        assert_eq!(event.times.len(), 4);
        let wire = event.packet.as_ref().expect("it was asked for");
        assert_eq!(byname_wire::Interest::decode(wire).expect("an Interest").name.to_string(), event.name.to_string());
        let home = router.explain_home(&event.name);
        assert_eq!(event.thread, home);
        assert!(event.at_unix_us.abs_diff(router.now.unix_ms * 1000) < 60_000_000);
        // What the reader had before is gone, and what it cannot have yet is no place.
        assert_eq!(router.read(0, APP).err(), Some(400));
        assert_eq!(router.read(stream.len() as u64 + 1, APP).err(), Some(400));
    }
}

impl Router {
    fn explain_home(&mut self, name: &Name) -> u64 {
        self.running.as_ref().expect("it runs").handle.explain(name).expect("it runs").home as u64
    }
}

#[test]
fn a_trace_ends_with_its_face_its_reader_or_a_command() {
    let mut router = Router::new(100);
    let other = FaceId(302);
    router.management.face_event(&FaceEvent::Created(face(other, Scope::Local)));
    assert_eq!(router.read(0, APP).err(), Some(404));
    assert_eq!(router.command("trace/start", &start("/", 0)).code, 200);
    assert_eq!(router.command_from("/localhost/nfd/trace/start", &start("/", 0), other).code, 200);
    assert!(router.read(0, APP).is_ok() && router.read(0, other).is_ok());
    router.advance(6000);
    assert!(router.read(0, other).is_ok());
    router.advance(6000);
    assert_eq!(router.read(0, APP).err(), Some(404), "nobody read it for 12 s");
    assert!(router.read(0, other).is_ok());
    router.management.face_event(&FaceEvent::Destroyed(face(other, Scope::Local)));
    router.management.face_event(&FaceEvent::Created(face(other, Scope::Local)));
    assert_eq!(router.read(0, other).err(), Some(404));
    assert_eq!(router.command("trace/start", &start("/", 0)).code, 200);
    assert_eq!(router.command("trace/stop", &ControlParameters::default()).code, 200);
    assert_eq!(router.read(0, APP).err(), Some(404));
}

#[test]
fn traces_are_few_and_need_rights() {
    let mut router = Router::new(100);
    let faces: Vec<FaceId> = (310..315).map(FaceId).collect();
    let codes: Vec<u64> = faces
        .iter()
        .map(|id| {
            router.management.face_event(&FaceEvent::Created(face(*id, Scope::Local)));
            router.now.unix_ms += 1;
            router.command_from("/localhost/nfd/trace/start", &start("/", 0), *id).code
        })
        .collect();
    assert_eq!(codes, [200, 200, 200, 200, 503]);
    // A second start of one face replaces its first.
    assert_eq!(router.command_from("/localhost/nfd/trace/start", &start("/a", 1), faces[0]).code, 200);
    assert_eq!(router.command_from("/localhost/nfd/trace/start", &start("/a", 4), faces[0]).code, 400);
    assert_eq!(router.command_from("/localhost/nfd/trace/start", &start("/", 0), faces[4]).code, 503);
    let unsigned = name("/localhost/nfd/trace/start").join(Component::generic(&start("/", 0).encode()));
    assert_eq!(router.send(&InterestBuilder::new(unsigned, 7).encode(), APP).map(|r| r.code), Some(403));
    let signed = router.signed(name("/localhost/nfd/trace/start").join(Component::generic(&start("/", 0).encode())));
    assert_eq!(router.send(&signed, NEIGHBOUR).map(|r| r.code), Some(403));
}
