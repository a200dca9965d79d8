//! What a scrape is answered with.

use std::io::{Read, Write};
use std::net::TcpStream;

use byname_face::FaceUri;
use byname_face::face::LinkCounters;
use byname_forward::face_table::Scope;
use byname_forward::stages::{Stage, Stopwatch};
use byname_forward::worker::FibLines;
use byname_forward::{FaceId, Ticks};

use super::*;

fn face(id: u64) -> FaceStatus {
    let remote = FaceUri::Udp(SocketAddr::from(([192, 0, 2, 1], 6363)));
    FaceStatus {
        counters: FaceCounters { in_interests: id, ..Default::default() },
        link: LinkCounters { out_drops: 3, ..Default::default() },
        ..FaceStatus::plain(FaceId(id), remote, Scope::NonLocal)
    }
}

/// Seventeen packets have passed this stage, by a clock that stands still.
fn stages(stage: Stage) -> StageTimes {
    let mut stopwatch = Stopwatch::new(1, Ticks::default);
    stopwatch.start();
    stopwatch.lap(stage, 17);
    *stopwatch.times()
}

fn snapshot(faces: u64) -> Snapshot {
    let mut worker = WorkerCounters {
        satisfied_interests: 7,
        pit_entries: 5,
        hot_names: 6,
        spread_hits: 14,
        stages: stages(Stage::Fib),
        fib_lines: FibLines { lookups: 15, lines: 16 },
        ..Default::default()
    };
    worker.drops = vec![("pit_full", 2)];
    let rings = RingStatus { input_depth: 9, output_drops: 8, ..RingStatus::default() };
    let workers = vec![WorkerStatus { counters: worker.clone(), rings: Some(rings) }; 2];
    let faces = (256..256 + faces).map(face).collect();
    Snapshot {
        worker,
        faces,
        routes: 11,
        fib_entries: 12,
        descriptors: 13,
        descriptors_refused: 0,
        workers,
        stages: stages(Stage::Receive),
        refusals: vec![("replayed", 4)],
    }
}

#[test]
fn the_text_is_openmetrics() {
    let text = snapshot(1).encode();
    for line in [
        "# TYPE byname_satisfied_interests counter",
        "byname_satisfied_interests_total 7",
        "byname_pit_entries 5",
        "byname_routes 11",
        "byname_fib_entries 12",
        "byname_descriptors 13",
        "byname_hot_names 6",
        "byname_worker_spread_hits_total{worker=\"1\"} 14",
        "byname_worker_pit_entries{worker=\"1\"} 5",
        "byname_worker_satisfied_interests_total{worker=\"1\"} 7",
        "byname_worker_drops_total{worker=\"1\",reason=\"pit_full\"} 2",
        "byname_worker_fib_lookups_counted_total{worker=\"0\"} 15",
        "byname_worker_fib_lines_read_total{worker=\"0\"} 16",
        "byname_stage_packets_total{thread=\"packets\",stage=\"receive\"} 17",
        "byname_stage_packets_total{thread=\"worker1\",stage=\"fib\"} 17",
        "byname_stage_nanoseconds_total{thread=\"worker0\",stage=\"fib\"} 0",
        "byname_worker_ring_depth{worker=\"0\",direction=\"in\"} 9",
        "byname_worker_ring_drops_total{worker=\"0\",direction=\"out\"} 8",
        "byname_drops_total{reason=\"pit_full\"} 2",
        "byname_command_refusals_total{reason=\"replayed\"} 4",
        "byname_face_packets_total{face=\"256\",remote=\"udp4://192.0.2.1:6363\",direction=\"in\",type=\"interest\"} 256",
        "byname_face_out_drops_total{face=\"256\",remote=\"udp4://192.0.2.1:6363\"} 3",
    ] {
        assert!(text.lines().any(|l| l == line), "no line\n{line}\nin\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn series_are_bounded_however_many_faces_there_are() {
    let text = snapshot(5000).encode();
    assert!(text.contains("byname_faces 5000\n"));
    let series = text.lines().filter(|line| line.starts_with("byname_face_out_drops_total")).count();
    assert_eq!(series, FACES_MAX);
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn scrapes_are_answered_over_http() {
    let server = MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), || snapshot(1)).expect("a free port");
    let answer = get(server.address(), "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("byname_routes 11"), "{answer}");
    assert!(get(server.address(), "/other").starts_with("HTTP/1.1 404"));
    let busy = MetricsServer::start(server.address(), || snapshot(0));
    let Err(error) = busy else { panic!("the port is taken") };
    assert_eq!(error.address, server.address());
    drop(server);
}
