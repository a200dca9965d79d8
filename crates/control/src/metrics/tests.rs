//! Tests of the text that a scrape gets.

use std::net::SocketAddr;

use byname_face::face::LinkCounters;
use byname_face::{Activity, FaceUri};
use byname_forward::face_table::Scope;
use byname_forward::rounds::Rounds;
use byname_forward::stages::{Stage, StageTimes, Stopwatch};
use byname_forward::worker::FibLines;
use byname_forward::{FaceId, Ticks};

use super::*;
use byname_trust::validator::Counters;

fn face(id: u64) -> FaceStatus {
    let remote = FaceUri::Udp(SocketAddr::from(([192, 0, 2, 1], 6363)));
    FaceStatus {
        counters: FaceCounters { in_interests: id, ..Default::default() },
        link: LinkCounters { out_drops: 3, ..Default::default() },
        ..FaceStatus::plain(FaceId(id), remote, Scope::NonLocal)
    }
}

/// Stage times after 17 packets have passed a stage, on a clock that stands still.
fn stages(stage: Stage) -> StageTimes {
    let mut stopwatch = Stopwatch::new(1, Ticks::default);
    stopwatch.start();
    stopwatch.lap(stage, 17);
    *stopwatch.times()
}

fn snapshot(faces: u64) -> Snapshot {
    let mut counters = WorkerCounters {
        satisfied_interests: 7,
        pit_entries: 5,
        hot_names: 6,
        spread_hits: 14,
        spread_joins: 31,
        spread_busy: 32,
        shared_pit_entries: 33,
        stages: stages(Stage::Fib),
        fib_lines: FibLines { lookups: 15, lines: 16 },
        ..Default::default()
    };
    counters.drops = vec![("pit_full", 2)];
    let rings =
        RingStatus { home: 30, foreign: 25, taken: 26, input_depth: 9, output_drops: 8, ..RingStatus::default() };
    let mut rounds = Rounds::default();
    rounds.add(40, Ticks(0), Ticks(20_000));
    rounds.add(1000, Ticks(0), Ticks(15_000));
    let activity = Activity { load: 0.5, packets_per_s: 34.0, busy_ns: 2_700_000_000, sleeps: 28, rests: 29 };
    let thread = ThreadStatus {
        activity,
        counters: counters.clone(),
        rings: Some(rings),
        faces: 31,
        faces_come: 32,
        faces_left: 33,
        node: Some(3),
        rounds,
    };
    let idle = ThreadStatus { activity: Activity { packets_per_s: 0.0, ..activity }, ..thread.clone() };
    Snapshot {
        counters,
        faces: (256..256 + faces).map(face).collect(),
        faces_max: 256,
        links: LinkTotals {
            counters: LinkCounters { out_drops: 21, ..Default::default() },
            closed: vec![("tcp_stalled", 22)],
        },
        routes: 11,
        announcements: 7,
        learning: [("learned", 8), ("refused", 0), ("limited", 0), ("withdrawn", 0)],
        trust: (Counters { accepted: 51, rejected: 52, waited: 53, interests: 54, unwanted: 55 }, 56, 57),
        fib_entries: 12,
        descriptors: 13,
        descriptors_refused: 0,
        threads: vec![thread, idle],
        refusals: vec![("replayed", 4)],
        advertised: vec![("daemon", 17, 18), ("hub", 19, 20)],
        store: Some(StoreStatus {
            path: "/var/lib/byname/state.db".into(),
            condition: Condition::Good,
            written: 41,
            commits: 42,
            waiting: 43,
        }),
        audit_lost: 34,
        routing: Some(RoutingCounts {
            packets: vec![("in", "hello", 35)],
            refused: vec![("untrusted", 36)],
            tree_changes: vec![("root", 38)],
            certificate_ends_s: Some(37),
            ..RoutingCounts::default()
        }),
        certificate: Some(CertificateCounts { ends_s: Some(58), failures: 59 }),
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
        "byname_trust_chains_total{outcome=\"rejected\"} 52",
        "byname_trust_interests_total 54",
        "byname_trust_unwanted_total 55",
        "byname_trust_waiting 56",
        "byname_trust_certificates 57",
        "byname_fib_entries 12",
        "byname_descriptors 13",
        "byname_hot_names 6",
        "byname_shared_pit_entries 33",
        "byname_thread_spread_hits_total{thread=\"1\"} 14",
        "byname_thread_spread_joins_total{thread=\"1\"} 31",
        "byname_thread_spread_busy_total{thread=\"1\"} 32",
        "byname_thread_pit_entries{thread=\"1\"} 5",
        "byname_thread_faces{thread=\"1\"} 31",
        "byname_thread_faces_come_total{thread=\"1\"} 32",
        "byname_thread_faces_left_total{thread=\"1\"} 33",
        "byname_thread_satisfied_interests_total{thread=\"1\"} 7",
        "byname_thread_drops_total{thread=\"1\",reason=\"pit_full\"} 2",
        "byname_thread_fib_lookups_counted_total{thread=\"0\"} 15",
        "byname_thread_fib_lines_read_total{thread=\"0\"} 16",
        "byname_stage_packets_total{thread=\"1\",stage=\"fib\"} 17",
        "byname_stage_seconds_total{thread=\"0\",stage=\"fib\"} 0.0",
        "byname_thread_busy_seconds_total{thread=\"0\"} 2.7",
        "byname_round_packets_bucket{le=\"64.0\",thread=\"0\"} 1",
        "byname_round_packets_bucket{le=\"+Inf\",thread=\"0\"} 2",
        "byname_round_packets_sum{thread=\"0\"} 1040.0",
        "byname_round_seconds_bucket{le=\"0.00002\",thread=\"1\"} 2",
        "byname_round_seconds_count{thread=\"1\"} 2",
        "byname_thread_sleeps_total{thread=\"0\"} 28",
        "byname_thread_node{thread=\"0\"} 3",
        "byname_thread_rests_total{thread=\"1\"} 29",
        "byname_thread_packets_total{thread=\"0\",way=\"home\"} 30",
        "byname_thread_packets_total{thread=\"1\",way=\"foreign\"} 25",
        "byname_thread_packets_total{thread=\"0\",way=\"taken\"} 26",
        "byname_thread_imbalance 2.0",
        "byname_thread_ring_depth{thread=\"0\",direction=\"in\"} 9",
        "byname_thread_ring_drops_total{thread=\"0\",direction=\"out\"} 8",
        "byname_drops_total{reason=\"pit_full\"} 2",
        "byname_advertised_prefixes{to=\"hub\"} 19",
        "byname_advertise_failures_total{to=\"daemon\"} 18",
        "byname_command_refusals_total{reason=\"replayed\"} 4",
        "byname_face_packets_total{face=\"256\",remote=\"udp4://192.0.2.1:6363\",direction=\"in\",type=\"interest\"} 256",
        "byname_links_out_drops_total 21",
        "byname_audit_lost_total 34",
        "byname_routing_packets_total{direction=\"in\",type=\"hello\"} 35",
        "byname_routing_refused_total{reason=\"untrusted\"} 36",
        "byname_routing_certificate_ends_seconds 37",
        "byname_tls_certificate_ends_seconds 58",
        "byname_tls_certificate_failures_total 59",
        "byname_faces_closed_total{reason=\"tcp_stalled\"} 22",
        "byname_face_out_drops_total{face=\"256\",remote=\"udp4://192.0.2.1:6363\"} 3",
    ] {
        assert!(text.lines().any(|l| l == line), "no line\n{line}\nin\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn metrics_that_the_documents_name_exist() {
    let text = snapshot(1).encode();
    let samples: Vec<&str> = text.lines().filter_map(|line| line.split([' ', '{']).next()).collect();
    let is_sample = |name: &str| match name.strip_suffix('*') {
        Some(first) => samples.iter().any(|sample| sample.starts_with(first)),
        // A histogram has samples of other names.
        None => samples.iter().any(|sample| *sample == name || *sample == format!("{name}_count")),
    };
    let mut names = 0;
    let docs = ["docs", "docs/guide"].map(|folder| format!("{}/../../{folder}", env!("CARGO_MANIFEST_DIR")));
    for entry in docs.iter().flat_map(|folder| std::fs::read_dir(folder).expect("docs")) {
        let path = entry.expect("an entry").path();
        let document = std::fs::read_to_string(&path).unwrap_or_default();
        for name in document.split('`').filter(|code| code.starts_with("byname_") && !code.contains("::")) {
            assert!(is_sample(name), "{}: no metric {name}", path.display());
            names += 1;
        }
    }
    assert!(names > 10, "{names} metrics in docs");
}

#[test]
fn series_are_bounded_however_many_faces_there_are() {
    for faces_max in [0, 1, 256] {
        let text = Snapshot { faces_max, ..snapshot(5000) }.encode();
        assert!(text.contains("byname_faces 5000\n") && text.contains("byname_links_out_drops_total 21\n"));
        let series = text.lines().filter(|line| line.starts_with("byname_face_out_drops_total{")).count();
        assert_eq!(series, faces_max);
    }
}

#[test]
fn one_thread_has_neither_rings_nor_an_imbalance() {
    let mut snapshot = snapshot(1);
    snapshot.threads.truncate(1);
    snapshot.threads[0].rings = None;
    let text = snapshot.encode();
    assert!(text.contains("byname_thread_sleeps_total{thread=\"0\"} 28\n"), "{text}");
    for absent in ["byname_thread_packets_total", "byname_thread_ring_depth{", "byname_thread_imbalance"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
}

/// The rows of the table in docs/metrics.md: name, type, labels and meaning of each metric.
fn documented(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else { continue };
        let typ = lines.next().and_then(|line| line.rsplit_once(' ')).map_or("", |(_, typ)| typ);
        let sample = lines.peek().and_then(|line| line.split_once('{')).map_or("", |(_, rest)| rest);
        let labels: Vec<String> = sample
            .split_once('}')
            .map_or("", |(labels, _)| labels)
            .split(',')
            .filter_map(|label| Some(format!("`{}`", label.split_once('=')?.0)))
            .filter(|label| label != "`le`")
            .collect();
        rows.push(format!("| `{name}` | {typ} | {} | {help} |", labels.join(", ")));
    }
    rows.sort();
    rows
}

#[test]
fn the_page_of_metrics_lists_all() {
    let text = Format::Prometheus.of(&snapshot(1).encode());
    let rows = documented(&text);
    let page = include_str!("../../../../docs/metrics.md");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows == listed, "docs/metrics.md should have this table:\n{}", rows.join("\n"));
    assert!(rows.len() > 60 && rows.iter().all(|row| !row.contains("|  |  |")), "{rows:?}");
}

/// `promtool check metrics` finds nothing to improve, where it is installed.
#[test]
fn promtool_is_content() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("promtool");
    let command =
        command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.spawn() else { return println!("skipped: there is no promtool") };
    let text = Format::Prometheus.of(&snapshot(3).encode());
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
