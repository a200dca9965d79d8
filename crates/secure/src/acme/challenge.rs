//! Answers the authority's question whether this router has a name [RFC 8555 §8.3].
//!
//! The socket is open only while an order is under way. Anybody may ask meanwhile. A question has some seconds and some
//! bytes, and there are few at a time; others wait in the socket's queue.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as BoundListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Where the authority asks.
const PATH: &str = "/.well-known/acme-challenge/";
/// Questions at a time.
const QUESTIONS_MAX: usize = 16;
/// How long a question may take.
const QUESTION_TIME: Duration = Duration::from_secs(5);
/// Bytes of a question.
const QUESTION_BYTES_MAX: usize = 8 << 10;
/// How long to wait before accepting again when the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// The right answer to each token.
type Known = Arc<Mutex<HashMap<String, String>>>;

/// Answers questions until it is dropped.
#[derive(Default)]
pub(super) struct Answers {
    known: Known,
    task: JoinSet<()>,
}

impl Answers {
    /// From now on, who asks for this token on this address gets this answer.
    pub(super) fn add(&mut self, token: &str, answer: &str, listen: SocketAddr) -> io::Result<()> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned(), answer.to_owned());
        if self.task.is_empty() {
            let bound = BoundListener::bind(listen)?;
            bound.set_nonblocking(true)?;
            self.task.spawn(listen_on(TcpListener::from_std(bound)?, Arc::clone(&self.known)));
        }
        Ok(())
    }
}

async fn listen_on(listener: TcpListener, known: Known) {
    let mut questions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if questions.len() < QUESTIONS_MAX => accepted,
            Some(_) = questions.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => drop(questions.spawn(timeout(QUESTION_TIME, answer(stream, Arc::clone(&known))))),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn answer(stream: TcpStream, known: Known) {
    let service = service_fn(move |request: Request<Incoming>| {
        let token = request.uri().path().strip_prefix(PATH).filter(|_| request.method() == Method::GET);
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = token.and_then(|token| known.get(token)).cloned();
        let mut response = Response::new(Full::new(Bytes::from(answer.clone().unwrap_or_default())));
        if answer.is_none() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut connection = http1::Builder::new();
    connection.keep_alive(false).max_buf_size(QUESTION_BYTES_MAX);
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}
