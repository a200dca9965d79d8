//! Names from URLs and from paths: the three schemes of [Yuan, Table 3].
//!
//! For experiments and tools whose names come from the web. The input is a line of a URL list or
//! log, dirt included: with or without a scheme, user names, ports, `$host`, quotes, empty labels,
//! trailing dots, `//`. None of it causes a panic. Bytes that are not part of the structure stay in
//! the components as they are, `%20` included. Host names become lower case. The query and the
//! fragment belong to the last component. Empty labels and empty path segments are left out.
//!
//! Differs: [Yuan §4] does not say how the site is found. Here it is the last two labels. It is
//! three if the last label is a country's (two letters) and the one before is a word that countries
//! register names below (`SECOND_LEVELS`). The public suffix list would be exact but changes every
//! week. Without it, `alice.github.io` counts as part of `github.io`, and rarer second levels such
//! as `city.kawasaki.jp` are missed. Such names have one component more or less in
//! [`UrlScheme::Site`]; they are still valid names. An IP address in place of a host name is one
//! label.
//!
//! Cost: one pass over the text, and one allocation.

use thiserror::Error;

use crate::PACKET_BYTES_MAX;
use crate::name::{COMPONENTS_MAX, Component, Name};

/// How the host of a URL is split into components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlScheme {
    /// Label by label, from the top level down: `/net/named-data/www/project`.
    Tld,
    /// The site, then the labels left of the site from right to left:
    /// `/named-data.net/www/project`.
    Site,
    /// The host name as it is: `/www.named-data.net/project`.
    Host,
}

/// A text that gives no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The host is missing.
    #[error("no host")]
    NoHost,
    /// More components than a name may have.
    #[error("more than {COMPONENTS_MAX} components")]
    TooManyComponents,
    /// Longer than any packet.
    #[error("{0} bytes, more than a packet holds")]
    TooLong(usize),
}

/// Labels below a country's label that are registries, not sites.
const SECOND_LEVELS: [&[u8]; 14] =
    [b"ac", b"co", b"com", b"edu", b"gob", b"gov", b"gv", b"mil", b"ne", b"net", b"nom", b"or", b"org", b"sch"];

/// The name of a URL, with or without `http://`: `www.named-data.net/project/`.
///
/// # Errors
/// If there is no host, or the name would be larger than a packet may carry.
pub fn name_of_url(scheme: UrlScheme, url: impl AsRef<[u8]>) -> Result<Name, UrlError> {
    let url = without_scheme(bounded(url.as_ref())?);
    let host_end = url.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(url.len());
    let (authority, path) = url.split_at(host_end);
    let host = host_of(authority).to_ascii_lowercase();
    let labels: Vec<&[u8]> = if is_address(&host) {
        vec![&host]
    } else {
        host.split(|byte| *byte == b'.').filter(|label| !label.is_empty()).collect()
    };
    if labels.is_empty() {
        return Err(UrlError::NoHost);
    }
    let whole = match scheme {
        UrlScheme::Tld => 1,
        UrlScheme::Site => site_labels(&labels),
        UrlScheme::Host => labels.len(),
    };
    let (below, first) = labels.split_at(labels.len() - whole);
    let first = first.join(&b'.');
    let components = std::iter::once(first.as_slice()).chain(below.iter().rev().copied()).chain(segments(path));
    name(components, url.len())
}

/// The name of a path: `/home//alice/notes.txt` gives `/home/alice/notes.txt`.
///
/// # Errors
/// If the name would be larger than a packet may carry.
pub fn name_of_path(path: impl AsRef<[u8]>) -> Result<Name, UrlError> {
    let path = bounded(path.as_ref())?;
    name(segments(path), path.len())
}

fn name<'a>(components: impl Iterator<Item = &'a [u8]>, bytes: usize) -> Result<Name, UrlError> {
    let mut value = Vec::with_capacity(bytes + 8);
    for (i, component) in components.enumerate() {
        if i == COMPONENTS_MAX {
            return Err(UrlError::TooManyComponents);
        }
        Component::generic(component).push(&mut value);
    }
    // TLV headers make a name longer than its text.
    if value.len() > PACKET_BYTES_MAX {
        return Err(UrlError::TooLong(value.len()));
    }
    Ok(Name::from_encoded(value))
}

/// Strips white space and quotes, and checks that the text is no longer than a packet.
fn bounded(text: &[u8]) -> Result<&[u8], UrlError> {
    let is_text = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'`<>".contains(byte);
    let text = match (text.iter().position(is_text), text.iter().rposition(is_text)) {
        (Some(first), Some(last)) => &text[first..=last],
        _ => &[],
    };
    if text.len() > PACKET_BYTES_MAX { Err(UrlError::TooLong(text.len())) } else { Ok(text) }
}

/// Strips `http:` and the slashes before the host. A colon after anything but a scheme belongs to a
/// port.
fn without_scheme(url: &[u8]) -> &[u8] {
    let host = url.windows(3).position(|bytes| bytes == b"://").map(|at| (&url[..at], &url[at + 3..]));
    match host {
        Some((scheme, rest)) if scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)) => rest,
        _ => url.strip_prefix(b"//").unwrap_or(url),
    }
}

/// Strips a user name before the host and a port after it.
fn host_of(authority: &[u8]) -> &[u8] {
    let host = authority.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    if host.starts_with(b"[") {
        return host.split_inclusive(|byte| *byte == b']').next().unwrap_or_default();
    }
    host.split(|byte| *byte == b':').next().unwrap_or_default()
}

/// Whether a host is an IP address. Its dots do not separate labels.
fn is_address(host: &[u8]) -> bool {
    let number = |label: &[u8]| !label.is_empty() && label.iter().all(u8::is_ascii_digit);
    host.starts_with(b"[") || host.split(|byte| *byte == b'.').all(number)
}

/// Number of labels at the end of a host that form its site.
fn site_labels(labels: &[&[u8]]) -> usize {
    let registry = match labels {
        [.., second, top] => top.len() == 2 && SECOND_LEVELS.contains(second),
        _ => false,
    };
    labels.len().min(if registry { 3 } else { 2 })
}

/// The non-empty segments of a path. Slashes after a `?` or `#` separate nothing.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let query = path.iter().position(|byte| b"?#".contains(byte)).unwrap_or(path.len());
    let last = path[..query].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directories, file) = path.split_at(last);
    directories.split(|byte| *byte == b'/').chain(std::iter::once(file)).filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::UrlScheme::{Host, Site, Tld};
    use super::*;

    fn of(scheme: UrlScheme, url: &str) -> String {
        name_of_url(scheme, url).unwrap().to_string()
    }

    /// [Yuan, Table 3]
    #[test]
    fn the_three_schemes_of_the_paper() {
        for url in ["http://www.named-data.net/project/", "www.named-data.net/project/", "//WWW.Named-Data.net/project"]
        {
            assert_eq!(of(Tld, url), "/net/named-data/www/project");
            assert_eq!(of(Site, url), "/named-data.net/www/project");
            assert_eq!(of(Host, url), "/www.named-data.net/project");
        }
    }

    #[test]
    fn sites_below_countries() {
        assert_eq!(of(Site, "a.b.example.co.uk/x"), "/example.co.uk/b/a/x");
        assert_eq!(of(Site, "co.uk"), "/co.uk");
        assert_eq!(of(Site, "www.heise.de"), "/heise.de/www");
        assert_eq!(of(Site, "com.example.org"), "/example.org/com");
        assert_eq!(of(Site, "localhost/x"), "/localhost/x");
    }

    #[test]
    fn paths_and_queries() {
        assert_eq!(of(Host, "h.org//a///b.html?q=1/2&r#c/d"), "/h.org/a/b.html%3Fq%3D1%2F2%26r%23c%2Fd");
        assert_eq!(of(Host, "h.org?q=/"), "/h.org/%3Fq%3D%2F");
        assert_eq!(name_of_path("/home//alice/notes.txt").unwrap().to_string(), "/home/alice/notes.txt");
        assert_eq!(name_of_path("").unwrap(), Name::default());
        assert_eq!(name_of_path("///").unwrap(), Name::default());
    }

    #[test]
    fn dirt_is_cleaned_or_kept_or_refused() {
        assert_eq!(of(Tld, "  \"https://user:pw@WWW.example.com.:8080/x\" \n"), "/com/example/www/x");
        assert_eq!(of(Tld, "..a...b..:80"), "/b/a");
        assert_eq!(of(Tld, "$host/x"), "/$host/x".replace('$', "%24"));
        assert_eq!(of(Tld, "192.0.2.1:80/x"), "/192.0.2.1/x");
        assert_eq!(of(Site, "http://[2001:db8::1]:80/x").matches('/').count(), 2);
        assert_eq!(of(Host, "example.com/a?u=http://b.org/c").matches('/').count(), 2);
        for url in ["", " ", "http://", "/path", ":80", "...", "\"\"", "user@", "?q", "//"] {
            assert_eq!(name_of_url(Tld, url), Err(UrlError::NoHost), "{url}");
        }
    }

    #[test]
    fn what_no_packet_holds_is_refused() {
        assert_eq!(name_of_url(Host, format!("h/{}", "a/".repeat(128))), Err(UrlError::TooManyComponents));
        assert!(name_of_url(Host, format!("h/{}", "a/".repeat(127))).is_ok());
        assert_eq!(name_of_url(Tld, "a.".repeat(200)), Err(UrlError::TooManyComponents));
        assert_eq!(name_of_path(vec![b'a'; 8801]), Err(UrlError::TooLong(8801)));
        assert_eq!(name_of_path(vec![b'a'; 8800]), Err(UrlError::TooLong(8804)));
        assert!(name_of_path(vec![b'a'; 8796]).is_ok());
    }
}
