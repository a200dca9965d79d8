//! WebSocket clients and servers.

use super::*;

#[test]
fn a_websocket_client_sends_and_receives() {
    let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], StreamConfig::default()).unwrap();
    let address = port.entrances[0].listener.local_addr().unwrap();
    assert_eq!(port.channels(), [format!("ws://{address}")]);
    let mut rig = Rig::new(port);
    let client = std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let (mut socket, _) = tungstenite::client(format!("ws://{address}/any/path"), stream).unwrap();
        socket.send(Message::binary(interest(1))).unwrap();
        socket.send(Message::Ping(vec![1, 2, 3].into())).unwrap();
        // Several packets in a message, a text, a message that is no packet, and a packet again.
        socket.send(Message::binary([interest(2), interest(3)].concat())).unwrap();
        socket.send(Message::text("hello")).unwrap();
        socket.send(Message::binary(vec![1, 2, 3])).unwrap();
        socket.send(Message::binary(interest(4))).unwrap();
        let (mut pongs, mut packets) = (0, Vec::new());
        while packets.len() < 2 {
            match socket.read().unwrap() {
                Message::Pong(pong) => {
                    assert_eq!(&pong[..], [1, 2, 3]);
                    pongs += 1;
                }
                Message::Binary(packet) => packets.push(packet),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((pongs, &packets[0][..], &packets[1][..]), (1, &data(1, 300)[..], &data(2, 8_000)[..]));
        socket.close(None).unwrap();
        while socket.read().is_ok() {}
    });
    rig.until(|r| r.bench.received.len() == 4);
    let face = rig.created()[0].clone();
    assert!(face.remote.to_string().starts_with("wsclient://127.0.0.1:"), "{}", face.remote);
    assert_eq!((face.local, face.scope), (FaceUri::WebSocket(address), Scope::Local));
    assert_eq!(rig.port.status(Ticks(0), face.id).unwrap().link.in_malformed, 2);
    rig.send(face.id, &data(1, 300));
    rig.send(face.id, &data(2, 8_000));
    rig.until(|r| r.destroyed().len() == 1);
    client.join().unwrap();
}

#[test]
fn a_websocket_handshake_must_end_in_time_and_makes_no_face_before() {
    let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], StreamConfig::default()).unwrap();
    let address = port.entrances[0].listener.local_addr().unwrap();
    let mut rig = Rig::new(port);
    let mut idle = TcpStream::connect(address).unwrap();
    let mut wrong = TcpStream::connect(address).unwrap();
    wrong.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    idle.write_all(b"GET / HT").unwrap();
    rig.settle();
    rig.until(|r| r.port.connections() == 1);
    rig.bench.now = Ticks::from_ms(8_000);
    rig.until(|r| r.port.connections() == 0);
    assert!(rig.bench.events.is_empty());
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_websocket_client_that_only_pings_is_bounded() {
    let config = StreamConfig { local_queue_bytes_max: 10_000, ..StreamConfig::default() };
    let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], config).unwrap();
    let address = port.entrances[0].listener.local_addr().unwrap();
    let mut rig = Rig::new(port);
    let client = std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let (mut socket, _) = tungstenite::client(format!("ws://{address}/"), stream).unwrap();
        // It never reads a pong.
        while socket.send(Message::Ping(vec![0; 125].into())).is_ok() {}
    });
    let start = Instant::now();
    while !client.is_finished() {
        assert!(start.elapsed() < Duration::from_secs(30));
        rig.round(10);
        rig.bench.now = rig.bench.now + Duration::from_millis(50);
        assert!(rig.port.queued_bytes < 10_000 + (512 << 10), "{}", rig.port.queued_bytes);
    }
    client.join().unwrap();
    rig.until(|r| r.destroyed().len() == 1);
}

#[test]
fn websocket_faces_are_made_by_request_too() {
    let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], StreamConfig::default()).unwrap();
    let address = port.entrances[0].listener.local_addr().unwrap();
    let mut server = Rig::new(port);
    let mut client = Rig::new(StreamPort::websocket(&[], StreamConfig::default()).unwrap());
    let face = client.create(FaceUri::WebSocket(address), Persistency::Permanent).unwrap().id;
    let start = Instant::now();
    while !client.port.status(Ticks(0), face).unwrap().up {
        assert!(start.elapsed() < Duration::from_secs(20));
        client.round(5);
        server.round(5);
    }
    client.send(face, &interest(1));
    client.round(0);
    server.until(|r| r.bench.received.len() == 1);
    let accepted = server.bench.received[0].face;
    server.send(accepted, &data(1, 500));
    server.round(0);
    client.until(|r| r.bench.received.len() == 1);
    assert_eq!(&*client.bench.received[0].packet, data(1, 500));
}

/// Scope of the face of a client on a loopback address that sends these headers.
fn scope_with(config: StreamConfig, headers: &str) -> Scope {
    let port = StreamPort::websocket(&[(Ipv4Addr::LOCALHOST, 0).into()], config).unwrap();
    let address = port.entrances[0].listener.local_addr().unwrap();
    let mut rig = Rig::new(port);
    let mut client = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    rig.until(|r| !r.created().is_empty());
    assert!(read_exactly(&mut client, 12).starts_with(b"HTTP/1.1 101"));
    rig.created()[0].scope
}

#[test]
fn a_web_page_gets_a_face_that_is_not_local() {
    let listed = StreamConfig { local_origins: vec!["http://localhost:8080".into()], ..StreamConfig::default() };
    let none = StreamConfig::default;
    assert_eq!(scope_with(none(), "Host: localhost:9696\r\n"), Scope::Local);
    assert_eq!(scope_with(none(), "Host: localhost:9696\r\nOrigin: https://evil.example\r\n"), Scope::NonLocal);
    assert_eq!(scope_with(none(), "Host: evil.example\r\n"), Scope::NonLocal);
    assert_eq!(scope_with(none(), "Host: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n"), Scope::NonLocal);
    assert_eq!(scope_with(listed, "Host: 127.0.0.1:9696\r\nOrigin: http://localhost:8080\r\n"), Scope::Local);
}
