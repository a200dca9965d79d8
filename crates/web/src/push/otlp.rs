//! The message of OTLP that says what an OpenMetrics text says.
//!
//! - A metric has its name in that text. Its unit is in the name, and in the message as UCUM writes it: `s` or `By`. A
//!   Prometheus behind the collector therefore has the names that a scrape gives.
//! - A counter is a monotonic sum since the start of the process, a gauge is a gauge, and a histogram has its bounds.
//! - Values that the text writes without a point are integers.
//!
//! Only texts of this program are read. What is not understood is left out.

use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AttributeValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The name of this program for collectors.
const NAME: &str = "byname";
/// The metric that says when counters began.
const START: &str = "process_start_time_seconds ";
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
/// Units in names of metrics, and as OTLP writes them.
const UNITS: [(&str, &str); 2] = [("_seconds", "s"), ("_bytes", "By")];

/// The message of this text, which was made at this time. `instance` names the router.
pub fn request(text: &str, instance: &str, now: SystemTime) -> ExportMetricsServiceRequest {
    let now_ns = since_1970_ns(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    let start = text.lines().find_map(|line| line.strip_prefix(START)?.parse().ok());
    let start = start.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let times = Times { start_ns: start.map_or(now_ns, since_1970_ns).min(now_ns), now_ns };
    let attributes = [("service.name", NAME), ("service.version", VERSION), ("service.instance.id", instance)];
    let resource =
        Resource { attributes: attributes.map(|(key, value)| attribute(key, value)).into(), ..Resource::default() };
    let scope = InstrumentationScope { name: NAME.into(), version: VERSION.into(), ..InstrumentationScope::default() };
    let scope_metrics = ScopeMetrics { scope: Some(scope), metrics: metrics(text, times), ..ScopeMetrics::default() };
    let resource_metrics =
        ResourceMetrics { resource: Some(resource), scope_metrics: vec![scope_metrics], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// In nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Times {
    start_ns: u64,
    now_ns: u64,
}

fn since_1970_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(AttributeValue::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// All metrics of the text that have values.
fn metrics(text: &str, times: Times) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some((_, rest)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = rest;
        } else if let Some((name, typ)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let unit = UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit);
            metrics.extend(empty(typ).map(|data| Metric {
                name: name.to_owned(),
                description: help.to_owned(),
                unit: unit.to_owned(),
                data: Some(data),
                ..Metric::default()
            }));
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::parse(line)) {
            add(metric, sample, times);
        }
    }
    metrics.retain(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    });
    metrics
}

/// Data of this type, without points.
fn empty(typ: &str) -> Option<Data> {
    match typ {
        "gauge" => Some(Data::Gauge(Gauge::default())),
        "counter" => Some(Data::Sum(Sum { aggregation_temporality: CUMULATIVE, is_monotonic: true, ..Sum::default() })),
        "histogram" => Some(Data::Histogram(Histogram { aggregation_temporality: CUMULATIVE, ..Histogram::default() })),
        _ => None,
    }
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    /// Without `le`.
    attributes: Vec<KeyValue>,
    /// The upper bound of a bucket.
    le: Option<f64>,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
        let (name, mut labels) = head.split_once('{').unwrap_or((head, "}"));
        let mut sample = Sample { name, attributes: Vec::new(), le: None, value };
        while let Some((key, rest)) = labels.split_once("=\"") {
            let (text, rest) = unescape(rest)?;
            match key {
                "le" => sample.le = text.parse().ok(),
                _ => sample.attributes.push(attribute(key, &text)),
            }
            labels = rest.strip_prefix(',').unwrap_or(rest);
        }
        (labels == "}").then_some(sample)
    }

    fn number(&self) -> Option<Value> {
        let integer = self.value.parse().map(Value::AsInt).ok();
        integer.or_else(|| self.value.parse().map(Value::AsDouble).ok())
    }
}

/// A label's value up to its quotation mark, and what follows.
fn unescape(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            _ => value.push(c),
        }
    }
    None
}

fn add(metric: &mut Metric, sample: Sample<'_>, times: Times) {
    let Times { start_ns, now_ns } = times;
    let Some(data) = &mut metric.data else { return };
    let (start_time_unix_nano, points) = match data {
        Data::Gauge(gauge) => (0, &mut gauge.data_points),
        Data::Sum(sum) => (start_ns, &mut sum.data_points),
        Data::Histogram(histogram) => return add_to(histogram, &metric.name, sample, times),
        _ => return,
    };
    let value = sample.number();
    let attributes = sample.attributes;
    points.extend(value.map(|value| NumberDataPoint {
        attributes,
        start_time_unix_nano,
        time_unix_nano: now_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    }));
}

/// Adds a bucket, the sum or the count. All lines of one series follow each other.
fn add_to(histogram: &mut Histogram, name: &str, sample: Sample<'_>, times: Times) {
    if histogram.data_points.last().is_none_or(|point| point.attributes != sample.attributes) {
        histogram.data_points.push(HistogramDataPoint {
            attributes: sample.attributes,
            start_time_unix_nano: times.start_ns,
            time_unix_nano: times.now_ns,
            ..HistogramDataPoint::default()
        });
    }
    let Some(point) = histogram.data_points.last_mut() else { return };
    match (sample.name.strip_prefix(name), sample.le, sample.value.parse::<u64>()) {
        (Some("_bucket"), Some(bound), Ok(up_to)) => {
            // A scrape's bucket also counts what is in smaller ones.
            point.bucket_counts.push(up_to.saturating_sub(point.bucket_counts.iter().sum()));
            point.explicit_bounds.extend(Some(bound).filter(|bound| bound.is_finite()));
        }
        (Some("_count"), None, Ok(count)) => point.count = count,
        (Some("_sum"), None, _) => point.sum = sample.value.parse().ok(),
        _ => {}
    }
}
