//! Answers to HTTP requests, by path.
//!
//! Everybody who can connect can read the metrics. [`dashboard`](crate::dashboard) decides who may ask for the rest.

use std::net::SocketAddr;
use std::time::Duration;

use byname_control::metrics::Format;
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};

use crate::answer::Answer;
use crate::dashboard::{Dashboard, DashboardConfig};
use crate::metrics::{Ask, Metrics};
use crate::probes::{Probe, Probes};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Serves all paths.
pub struct Router {
    metrics: Metrics,
    probes: Probes,
    dashboard: Option<Dashboard>,
}

impl Router {
    /// A router for snapshots from `ask`. Waits at most `patience` for each.
    pub fn new(ask: Ask, patience: Duration, probes: Probes, dashboard: Option<DashboardConfig>) -> Self {
        let dashboard = dashboard.map(|config| Dashboard::new(config, patience));
        Router { metrics: Metrics::new(ask, patience), probes, dashboard }
    }

    /// The answer to a request of this peer. Only the dashboard reads a body.
    pub async fn answer<B>(&self, request: Request<B>, peer: SocketAddr) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        if let Some(dashboard) = &self.dashboard
            && Dashboard::has(path)
        {
            return dashboard.answer(request, peer).await;
        }
        if !matches!(path, "/" | "/metrics" | "/livez" | "/readyz" | "/certificate") {
            return text(StatusCode::NOT_FOUND, "nothing here; metrics are at /metrics\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if !request.body().is_end_stream() {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "requests here have no body\n");
        }
        match path {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
                self.metrics(Format::accepted_by(accept)).await
            }
            "/livez" => probed(&self.probes.live),
            "/readyz" => probed(&self.probes.ready),
            "/certificate" => match &self.probes.certificate {
                Some(certificate) => with_type(StatusCode::OK, JSON, certificate().into()),
                None => text(StatusCode::NOT_FOUND, "neither [faces.wss] nor [faces.quic] listens\n"),
            },
            _ => text(StatusCode::OK, "byname: metrics are at /metrics\n"),
        }
    }

    async fn metrics(&self, format: Format) -> Answer {
        match self.metrics.text().await {
            Ok(metrics) => {
                let content_type = HeaderValue::from_static(format.content_type());
                let metrics = match (format, std::str::from_utf8(&metrics)) {
                    (Format::Prometheus, Ok(text)) => format.of(text).into(),
                    _ => metrics,
                };
                with_type(StatusCode::OK, content_type, metrics)
            }
            Err(error) => {
                let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, format!("no metrics now: {error}\n"));
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
                answer
            }
        }
    }
}

fn probed(probe: &Probe) -> Answer {
    match probe() {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    with_type(status, TEXT, text.into())
}

fn with_type(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
