//! The type of all answers.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;

/// An answer. Its body is complete before it is sent, so that the router never waits for a slow peer.
pub type Answer = Response<Full<Bytes>>;
