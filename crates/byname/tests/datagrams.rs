//! UDP under floods of Interests with forged source addresses.

mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use byname_wire::interest::InterestBuilder;
use byname_wire::tlv::{push_nested, push_tlv, types};
use byname_wire::{Data, Interest, LpPacket};
use common::Router;

/// A socket at an address of this host. 127.0.0.0/8 has many.
fn socket_at(ip: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::from(ip), 0)).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    socket
}

fn interest(name: &str) -> Vec<u8> {
    InterestBuilder::new(name.parse().expect("a name"), rand::random()).lifetime_ms(60_000).encode()
}

/// The network packet in the next frame.
fn next_packet(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut frame = [0; 9000];
    let len = socket.recv(&mut frame).ok()?;
    Some(match LpPacket::decode(&frame[..len]) {
        Ok(packet) => packet.fragment.expect("a packet").to_vec(),
        Err(_) => frame[..len].to_vec(),
    })
}

/// Waits for the Interest with this name and answers it. Other Interests stay unanswered.
fn answer(producer: &UdpSocket, router: SocketAddr, name: &str) {
    let name: byname_wire::Name = name.parse().expect("a name");
    loop {
        let packet = next_packet(producer).expect("an Interest");
        if Interest::decode(&packet).is_ok_and(|interest| interest.name == name.as_ref()) {
            break;
        }
    }
    let mut data = Vec::new();
    push_nested(&mut data, types::DATA, |out| {
        push_tlv(out, types::NAME, name.value());
        push_tlv(out, types::CONTENT, b"late");
        push_nested(out, types::SIGNATURE_INFO, |out| push_tlv(out, types::SIGNATURE_TYPE, &[0]));
        push_tlv(out, types::SIGNATURE_VALUE, &[0; 32]);
    });
    producer.send_to(&data, router).expect("sent");
}

fn gets(consumer: &UdpSocket, name: &str) -> bool {
    next_packet(consumer).is_some_and(|packet| Data::decode(&packet).is_ok_and(|data| data.name.to_string() == name))
}

/// Two floods of forged Interests, the first from one address prefix, the second from many. A peer waits silently all
/// the time.
fn assert_floods_are_survived(threads: usize) {
    let router = Router::start_with(&format!("[faces]\non_demand_max = 64\n[threads]\ncount = {threads}\n"));
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, router.port).into();
    let (producer, silent) = (socket_at([127, 3, 3, 3]), socket_at([127, 1, 1, 1]));
    let to_producer = producer.local_addr().expect("bound");
    router.ok(&format!("route add / udp4://{to_producer}"));
    silent.send_to(&interest("/late/silent"), address).expect("sent");
    let waits = next_packet(&producer).expect("the silent peer's Interest");
    assert!(Interest::decode(&waits).is_ok_and(|interest| interest.name.to_string() == "/late/silent"));
    for flood in 0..2u8 {
        for n in 0..300u16 {
            let [a, b] = n.to_be_bytes();
            let forged = if flood == 0 { [127, 9, 9, b.max(1)] } else { [127, 10 + a, b, 1] };
            let name = format!("/forged/{flood}/{n}");
            socket_at(forged).send_to(&interest(&name), address).expect("sent");
            if n % 30 == 29 {
                let newcomer = socket_at([127, 20 + flood, b, 1]);
                let name = format!("/news/{flood}/{n}");
                newcomer.send_to(&interest(&name), address).expect("sent");
                answer(&producer, address, &name);
                assert!(gets(&newcomer, &name), "a newcomer is served, with {threads} threads");
            }
        }
    }
    // The producer received the Interest before the floods. Repeat it, so that `answer` finds it.
    producer.send_to(&interest("/late/silent"), to_producer).expect("sent to itself");
    answer(&producer, address, "/late/silent");
    assert!(gets(&silent, "/late/silent"), "who waited keeps its face, with {threads} threads");
}

#[test]
fn forged_sources_neither_evict_who_waits_nor_keep_newcomers_out() {
    assert_floods_are_survived(1);
    assert_floods_are_survived(2);
}
