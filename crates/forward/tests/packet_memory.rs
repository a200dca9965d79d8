//! System memory that packet buffers take. This file has only one test, because it measures the whole process.
#![cfg(target_os = "linux")]

use byname_forward::Packet;

const LENGTHS: [usize; 6] = [200, 600, 1200, 2200, 4500, 9000];

/// Memory of this process, in KiB.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
    resident.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn number(packet: &Packet) -> u32 {
    u32::from_le_bytes(packet[..4].try_into().expect("each holds more"))
}

#[test]
fn memory_is_what_packets_hold() {
    let before = resident_kib();
    let few = LENGTHS.map(|len| Packet::build(len, |bytes| bytes.fill(1)));
    assert!(resident_kib() < before + 512, "a packet of each size takes {} KiB", resident_kib() - before);
    drop(few);
    for (classes, len) in (1..).zip(LENGTHS) {
        let count = (100 << 20) / len;
        let build = |i: usize| Packet::build(len, |bytes| bytes.fill(i as u8));
        let packets: Vec<Packet> = (0..count)
            .map(|i| {
                let mut packet = build(i);
                packet.unshared_mut().expect("nobody has it yet")[..4].copy_from_slice(&(i as u32).to_le_bytes());
                packet
            })
            .collect();
        let full = resident_kib() - before;
        assert!((100 << 10..160 << 10).contains(&full), "100 MiB of packets of {len} bytes take {full} KiB");
        // The packets are dropped by two other threads, in an order that is unrelated to their addresses.
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for (i, packet) in packets.into_iter().enumerate() {
            assert_eq!(number(&packet), i as u32);
            assert!(packet[4..].iter().all(|byte| *byte == i as u8));
            if i * 7 % 11 < 5 { one.push(packet) } else { other.push(packet) }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| drop(one));
            scope.spawn(|| drop(other));
        });
        // Each class used so far may keep a spare chunk and this thread's unused stock. The allocator may keep memory
        // of the vectors.
        let left = resident_kib().saturating_sub(before);
        assert!(left < (24 + classes * 8) << 10, "{left} KiB are left of packets of {len} bytes");
    }
}
