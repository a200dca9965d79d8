//! The dashboard: pages for people, and the API behind them, `/api/v1/`. `docs/dashboard.md` documents it.
//!
//! - [`access`] decides who may ask. Everything that changes state needs the token.
//! - `assets` are the pages, built from the folder `dashboard` of the repository.
//! - `questions` reach the control thread one by one, and so seldom that it has time for its other work.
//! - `commands` and `traces` go through management's door, as those of applications do.

pub mod access;
mod answers;
mod assets;
mod commands;
mod faces;
mod live;
mod query;
mod questions;
mod routes;
mod tables;
mod traces;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byname_control::service::Door;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use tokio::time::timeout;

pub use self::access::Access;
use self::answers::{Failure, json_text, with_security};
use self::faces::Faces;
use self::live::Live;
use self::query::Query;
use self::questions::Questions;
use self::traces::Traces;
use crate::answer::Answer;

/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How long a request's body may take.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Lines about commands to keep for those who watch.
pub const COMMANDS_KEPT: usize = 500;

/// Tells the network as routing knows it, as an object of JSON: `links` to neighbours, and `routers`. `None`: routing is
/// off. It must answer at once.
pub type RoutingMap = Arc<dyn Fn() -> Option<serde_json::Value> + Send + Sync>;

/// What the dashboard needs: the way to the control thread, and who may ask.
pub struct DashboardConfig {
    /// The way to the control thread.
    pub door: Door,
    /// Who may ask.
    pub access: Access,
    /// What routing knows of the network.
    pub routing: RoutingMap,
}

/// The dashboard.
pub struct Dashboard {
    access: Access,
    door: Door,
    questions: Questions,
    live: Live,
    faces: Faces,
    traces: Traces,
    routing: RoutingMap,
}

/// The head of a request.
struct Head {
    method: Method,
    path: String,
    query: Query,
    headers: HeaderMap,
    peer: SocketAddr,
}

impl Dashboard {
    /// A dashboard whose questions wait at most `patience` for the control thread.
    pub fn new(config: DashboardConfig, patience: Duration) -> Self {
        let DashboardConfig { door, access, routing } = config;
        Dashboard {
            access,
            questions: Questions::new(door.clone(), patience),
            door,
            live: Live::default(),
            faces: Faces::default(),
            traces: Traces::default(),
            routing,
        }
    }

    /// Whether a path is the dashboard's.
    pub fn has(path: &str) -> bool {
        path == "/" || path.starts_with("/api/") || assets::has(path)
    }

    /// The answer to a request for one of its paths.
    pub async fn answer<B>(&self, request: Request<B>, peer: SocketAddr) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let head = Head {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or("")),
            headers: parts.headers,
            peer,
        };
        let answer = match self.access.admit(&head.headers, head.peer) {
            Err(failure) => Err(failure),
            Ok(()) if head.path.starts_with("/api/") => self.api(&head, body).await.map(json_text),
            Ok(()) => assets::answer(&head.method, &head.path, &head.headers),
        };
        with_security(answer.unwrap_or_else(Failure::into_answer))
    }

    async fn api<B>(&self, head: &Head, body: B) -> Result<String, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = head.path.strip_prefix("/api/v1/").ok_or_else(Failure::unknown)?;
        let parts: Vec<&str> = path.split('/').collect();
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        let has_token = self.access.check_token(&head.headers);
        // From other hosts, everything needs the token; and traces show what others ask for.
        if !is_read || parts[0] == "traces" || parts == ["token"] || !self.access.is_open_to(head.peer) {
            has_token?;
        }
        if is_read {
            return self.read(head, &parts).await;
        }
        if head.headers.get(CONTENT_TYPE).is_none_or(|typ| typ.as_bytes() != b"application/json") {
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
        }
        let body = whole_body(body).await?;
        match (head.method.as_str(), &parts[..]) {
            ("POST", ["commands", module, verb]) => {
                let done = commands::carry_out(&self.door, (module, verb), &body).await;
                if *module == "faces" {
                    self.faces.note_change();
                }
                done
            }
            ("POST", ["traces"]) => self.traces.start(&self.door, &body).await,
            ("DELETE", ["traces", id]) => self.traces.stop(&self.door, id).await,
            _ => Err(Failure::unknown()),
        }
    }

    async fn read(&self, head: &Head, parts: &[&str]) -> Result<String, Failure> {
        let (query, questions) = (&head.query, &self.questions);
        match parts {
            ["live"] => self.live.text(questions).await,
            ["faces"] => self.faces.page(questions, query).await,
            ["faces", id] => self.faces.one(questions, id).await,
            ["channels"] => tables::channels(questions).await,
            ["map"] => tables::map(questions, &self.faces, &self.routing).await,
            ["routes"] => routes::tree(questions, query).await,
            ["routes", "find"] => routes::find(questions, query).await,
            ["explain"] => routes::explain(questions, &self.faces, query).await,
            ["strategies"] => tables::strategies(questions, query).await,
            ["content-store"] => tables::content_store(questions).await,
            ["trees"] => tables::trees(questions, &self.faces).await,
            ["descriptors"] => tables::descriptors(questions, query).await,
            ["audit"] => tables::audit(questions, query).await,
            ["token"] => Ok("{}".to_owned()),
            ["traces", id] => self.traces.read(&self.door, questions, &self.faces, id).await,
            _ => Err(Failure::unknown()),
        }
    }
}

/// The whole body, if it is short and comes in time.
async fn whole_body<B>(body: B) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = |_| Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or has ended early");
    let late = |_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the body does not come");
    let collected = timeout(BODY_TIME, Limited::new(body, BODY_BYTES_MAX).collect()).await.map_err(late)?;
    Ok(collected.map_err(too_large)?.to_bytes())
}
