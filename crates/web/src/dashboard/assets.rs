//! The pages: files that `dashboard/build.sh` has made of the sources in the folder `dashboard`. They are part of the
//! program.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Response, StatusCode};

use super::answers::Failure;
use crate::answer::Answer;

struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $content_type:literal) => {
        Asset { path: $path, content_type: $content_type, bytes: include_bytes!(concat!("../../assets/", $file)) }
    };
}

static ASSETS: [Asset; 6] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/assets/app.js", "assets/app.js", "text/javascript; charset=utf-8"),
    asset!("/assets/app.css", "assets/app.css", "text/css; charset=utf-8"),
    asset!("/assets/icon.svg", "assets/icon.svg", "image/svg+xml"),
    asset!("/assets/inter.woff2", "assets/inter.woff2", "font/woff2"),
    asset!("/assets/LICENSES.txt", "assets/LICENSES.txt", "text/plain; charset=utf-8"),
];

/// Whether there is such a file.
pub fn has(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

/// A file, unless the browser has it.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Result<Answer, Failure> {
    let asset = ASSETS.iter().find(|asset| asset.path == path).ok_or_else(Failure::unknown)?;
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD"));
    }
    let tag = format!("\"{}-{:x}-{:x}\"", env!("CARGO_PKG_VERSION"), asset.bytes.len(), digest(asset.bytes));
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = if is_known { &[][..] } else { asset.bytes };
    let mut answer = Response::new(Full::new(Bytes::from_static(body)));
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = answer.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert(ETAG, HeaderValue::try_from(tag).expect("digits and a version"));
    Ok(answer)
}

/// Tells files apart (FNV-1a). Nobody chooses them to collide.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
