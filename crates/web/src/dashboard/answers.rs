//! Answers, and what a browser is told with all of them.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::questions::NoAnswer;
use crate::answer::Answer;

/// Nothing but what this router serves, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Why a request gets no content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    status: StatusCode,
    text: String,
}

impl Failure {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Failure { status, text: text.into() }
    }

    pub fn unknown() -> Self {
        Failure::new(StatusCode::NOT_FOUND, "there is nothing here")
    }

    /// A request that makes no sense.
    pub fn malformed(text: impl Into<String>) -> Self {
        Failure::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn into_answer(self) -> Answer {
        let text = serde_json::json!({ "error": self.text }).to_string();
        let mut answer = json_text(text);
        *answer.status_mut() = self.status;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        answer
    }
}

impl From<NoAnswer> for Failure {
    fn from(error: NoAnswer) -> Self {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// A value as JSON.
pub fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("these types have no maps with keys that are no strings")
}

/// An answer with this JSON.
pub fn json_text(text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Adds what forbids a browser to do anything with other sites.
pub fn with_security(mut answer: Answer) -> Answer {
    let fields = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fields {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
