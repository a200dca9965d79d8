//! Tests with a collector of their own: a server that decodes what it gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use byname_control::metrics::{Format, Snapshot};
use byname_face::{FaceStatus, FaceUri, ThreadStatus};
use byname_forward::FaceId;
use byname_forward::face_table::Scope;
use byname_forward::rounds::Rounds;
use byname_forward::worker::WorkerCounters;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceRequest};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AttributeValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use super::*;

const INTERVAL: Duration = Duration::from_millis(20);

/// A collector that gives these answers, one for each connection, and then ends. Returns its address and what it gets: the
/// head of a request, and its body.
fn collector(answers: Vec<Vec<u8>>) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let (sender, got) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let mut reader = BufReader::new(listener.accept().expect("a connection").0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
            let length =
                head.to_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let mut body = vec![0; length.expect("a length")];
            reader.read_exact(&mut body).expect("a body");
            reader.get_mut().write_all(&answer).expect("it reads");
            let _ = sender.send((head, body));
        }
    });
    (format!("http://{address}"), got)
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn good() -> Vec<u8> {
    answer("200 OK", &ExportMetricsServiceResponse::default().encode_to_vec())
}

fn face(id: u64) -> FaceStatus {
    let remote = FaceUri::Udp(SocketAddr::from(([192, 0, 2, 1], 6363)));
    let mut face = FaceStatus::plain(FaceId(id), remote, Scope::NonLocal);
    face.counters.in_interests = id;
    face
}

/// A router with values of each kind.
fn snapshot(faces: u64) -> Snapshot {
    let counters = WorkerCounters { satisfied_interests: 7, pit_entries: 5, ..WorkerCounters::default() };
    let mut rounds = Rounds::default();
    rounds.packets.counts[0] = 3;
    rounds.packets.above = 1;
    rounds.packets.sum = 2_000;
    let mut thread = ThreadStatus { counters: counters.clone(), rounds, ..ThreadStatus::default() };
    thread.activity.busy_ns = 2_500_000_000;
    let threads = vec![thread.clone(), thread];
    Snapshot { counters, threads, faces: (256..256 + faces).map(face).collect(), faces_max: 256, ..Snapshot::default() }
}

fn push(endpoint: &str, faces: u64) -> Push {
    let config = PushConfig { endpoint: endpoint.into(), interval: INTERVAL, instance: "router-7".into() };
    let ask = move |tell: Tell| {
        tell(snapshot(faces));
        true
    };
    Push::start(config, ask).expect("started")
}

/// A pusher to this collector, whose outcomes a test looks at.
fn pusher(endpoint: &str) -> Pusher<impl Fn(Tell) -> bool + use<>> {
    let uri = format!("{endpoint}/v1/metrics").parse().expect("an address");
    let ask = |tell: Tell| {
        tell(snapshot(1));
        true
    };
    Pusher { agent: agent(), uri, instance: String::new(), ask, fails: false }
}

fn text(attribute: &KeyValue) -> (&str, &str) {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(AttributeValue::StringValue(value)) => (attribute.key.as_str(), value.as_str()),
        other => panic!("{other:?}"),
    }
}

fn metric<'a>(metrics: &'a [Metric], name: &str) -> &'a Metric {
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Attributes and value of each point of a gauge or sum.
fn points(metric: &Metric) -> Vec<(Vec<(&str, &str)>, Value)> {
    let points = match metric.data.as_ref().expect("data") {
        Data::Gauge(gauge) => &gauge.data_points,
        Data::Sum(sum) => &sum.data_points,
        other => panic!("{other:?}"),
    };
    points.iter().map(|point| (point.attributes.iter().map(text).collect(), point.value.expect("a value"))).collect()
}

#[test]
fn a_collector_gets_names_units_and_values() {
    let (endpoint, got) = collector(vec![good()]);
    let push = push(&endpoint, 1);
    let (head, body) = got.recv().expect("a request");
    drop(push);
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
    let request = ExportMetricsServiceRequest::decode(body.as_slice()).expect("a message");
    let [all] = &request.resource_metrics[..] else { panic!("{request:?}") };
    let resource: Vec<_> = all.resource.as_ref().expect("a resource").attributes.iter().map(text).collect();
    let version = env!("CARGO_PKG_VERSION");
    let named = [("service.name", "byname"), ("service.version", version), ("service.instance.id", "router-7")];
    assert_eq!(resource, named);
    let metrics = &all.scope_metrics[0].metrics;

    let pending = metric(metrics, "byname_pit_entries");
    assert_eq!((pending.description.as_str(), pending.unit.as_str()), ("Interests pending", ""));
    assert_eq!(points(pending), [(vec![], Value::AsInt(5))]);
    assert_eq!(metric(metrics, "byname_cs_bytes").unit, "By");

    let satisfied = metric(metrics, "byname_satisfied_interests");
    assert_eq!(points(satisfied), [(vec![], Value::AsInt(7))]);
    let Some(Data::Sum(sum)) = &satisfied.data else { panic!("{satisfied:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{sum:?}");
    // Counters began with this process, not with this push.
    let started = points(metric(metrics, "process_start_time_seconds"))[0].1;
    let Value::AsDouble(started_s) = started else { panic!("{started:?}") };
    let point = &sum.data_points[0];
    assert!((point.start_time_unix_nano as f64 / 1e9 - started_s).abs() < 0.001, "{point:?}, {started_s}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    let age_s = now.as_secs_f64() - point.time_unix_nano as f64 / 1e9;
    assert!((0.0..60.0).contains(&age_s), "{age_s}");

    let busy = metric(metrics, "byname_thread_busy_seconds");
    assert_eq!(busy.unit, "s");
    assert_eq!(points(busy)[1], (vec![("thread", "1")], Value::AsDouble(2.5)));
    let of_face = points(metric(metrics, "byname_face_packets"));
    let labels = vec![("face", "256"), ("remote", "udp4://192.0.2.1:6363"), ("direction", "in"), ("type", "interest")];
    assert!(of_face.contains(&(labels, Value::AsInt(256))), "{of_face:?}");

    let Some(Data::Histogram(rounds)) = &metric(metrics, "byname_round_packets").data else { panic!("no histogram") };
    let [first, second] = &rounds.data_points[..] else { panic!("{rounds:?}") };
    assert_eq!(second.attributes.iter().map(text).collect::<Vec<_>>(), [("thread", "1")]);
    assert_eq!(first.bucket_counts.len(), first.explicit_bounds.len() + 1);
    assert_eq!((first.count, first.sum, first.bucket_counts[0]), (4, Some(2_000.0), 3));
    assert_eq!((first.bucket_counts.last(), first.bucket_counts.iter().sum()), (Some(&1), 4_u64));
    assert!(first.explicit_bounds.is_sorted(), "{first:?}");
}

/// Each sample of a scrape is in the message, once: a histogram's samples are a point.
#[test]
fn the_message_has_what_a_scrape_has() {
    let text = Snapshot { faces_max: 200, ..snapshot(256) }.encode();
    let request = otlp::request(&text, "", SystemTime::now());
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let mut sent = 0;
    for metric in metrics {
        sent += match metric.data.as_ref().expect("data") {
            Data::Histogram(histogram) => histogram.data_points.iter().map(|p| p.bucket_counts.len() + 2).sum(),
            _ => points(metric).len(),
        };
    }
    let scraped = Format::Prometheus.of(&text).lines().filter(|line| !line.starts_with('#')).count();
    assert!(sent == scraped && sent > 3_000, "{sent} of {scraped}");
    let of_faces = points(metric(metrics, "byname_face_out_drops")).len();
    assert_eq!(of_faces, 200);
}

#[test]
fn labels_may_have_any_characters() {
    let text = "# HELP a A.\n# TYPE a gauge\na{x=\"b \\\"}\\\\\\n=\\\"\",y=\"\"} 1.5\nno sample\na{x=\"open 1\n";
    let request = otlp::request(text, "", SystemTime::now());
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    assert_eq!(points(&metrics[0]), [(vec![("x", "b \"}\\\n=\""), ("y", "")], Value::AsDouble(1.5))]);
}

#[test]
fn messages_follow_each_other_also_after_failures() {
    let (endpoint, got) = collector(vec![answer("503 Service Unavailable", b"later"), good(), good()]);
    let _push = push(&endpoint, 1);
    for _ in 0..3 {
        let (_, body) = got.recv().expect("a request");
        assert!(ExportMetricsServiceRequest::decode(body.as_slice()).is_ok());
    }
}

#[test]
fn a_collector_that_does_not_take_them_is_reported_once() {
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "x".repeat(900) }),
    };
    let elsewhere =
        b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let answers = [
        answer("404 Not Found", b""),
        answer("200 OK", &partial.encode_to_vec()),
        answer("200 OK", b"no message"),
        answer("200 OK", &vec![0; ANSWER_MAX as usize + 1]),
        elsewhere.to_vec(),
    ];
    let (endpoint, _got) = collector(answers.into());
    let mut pusher = pusher(&endpoint);
    let mut said = Vec::new();
    for _ in 0..5 {
        let outcome = pusher.push();
        said.push(outcome.as_ref().expect_err("refused").to_string());
        pusher.report(outcome);
        assert!(pusher.fails);
    }
    assert_eq!(said[0], "it answers 404 Not Found");
    assert_eq!(said[1], format!("it has refused 3 values: {:?}", "x".repeat(SAID_MAX)));
    assert_eq!(said[2], "its answer is no message of OTLP");
    assert!(said[3].contains("limit"), "{}", said[3]);
    assert_eq!(said[4], "it answers 302 Found");
    // Nobody listens any more.
    let outcome = pusher.push();
    assert!(matches!(outcome, Err(Failure::Http(_))), "{outcome:?}");
    let (endpoint, _got) = collector(vec![good()]);
    pusher.uri = format!("{endpoint}/v1/metrics").parse().expect("an address");
    let outcome = pusher.push();
    pusher.report(outcome);
    assert!(!pusher.fails);
}

#[test]
fn only_addresses_of_http_are_collectors() {
    for endpoint in ["https://127.0.0.1:4318", "127.0.0.1:4318", "http://", "http:///", "http://a b", ""] {
        let config = PushConfig { endpoint: endpoint.into(), interval: INTERVAL, instance: String::new() };
        assert!(matches!(Push::start(config, |_| true), Err(PushError::Endpoint { .. })), "{endpoint}");
    }
}

/// A collector that accepts and does not answer keeps nobody waiting.
#[test]
fn the_end_does_not_wait_for_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let push = push(&format!("http://{}", listener.local_addr().expect("it has one")), 1);
    let _connection = listener.accept().expect("a connection");
    let began = Instant::now();
    drop(push);
    assert!(began.elapsed() < PATIENCE / 2);
}
