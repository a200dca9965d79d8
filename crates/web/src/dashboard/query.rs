//! The query of a URL, and the values in it.

use byname_wire::Name;

use super::answers::Failure;

/// Most values of a query that count.
const VALUES_MAX: usize = 16;

/// The values of a query.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=1&b=%2Fx`. What is no text is left out.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(VALUES_MAX);
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(key)?, decoded(value)?))
        };
        Query(pairs.filter_map(pair).collect())
    }

    /// The first value of this key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A name, or `/`.
    pub fn name(&self, key: &str) -> Result<Name, Failure> {
        Ok(self.maybe_name(key)?.unwrap_or_default())
    }

    /// A name, if there is one.
    pub fn maybe_name(&self, key: &str) -> Result<Option<Name>, Failure> {
        let Some(text) = self.text(key).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| Failure::malformed(format!("`{key}` is no name: {error}")))
    }

    /// A number up to `max`, or `default`.
    pub fn number(&self, key: &str, default: usize, max: usize) -> Result<usize, Failure> {
        let Some(text) = self.text(key).filter(|text| !text.is_empty()) else { return Ok(default) };
        let number: usize = text.parse().map_err(|_| Failure::malformed(format!("`{key}` is no number")))?;
        Ok(number.min(max))
    }
}

/// Replaces `%2F` and `+`. `None` if the result is no UTF-8.
fn decoded(text: &str) -> Option<String> {
    let hex = |byte: u8| (byte as char).to_digit(16);
    let (bytes, mut out, mut place) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = bytes.get(place) {
        let code = match (byte, bytes.get(place + 1), bytes.get(place + 2)) {
            (b'%', Some(&high), Some(&low)) => hex(high).zip(hex(low)).map(|(high, low)| (high << 4 | low) as u8),
            _ => None,
        };
        place += if code.is_some() { 3 } else { 1 };
        out.push(code.unwrap_or(if byte == b'+' { b' ' } else { byte }));
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_strange_ones_left_out() {
        let query = Query::parse("under=%2Fa%2F%2541&limit=7&&x&bad=%FF&half=%4&plus=a+b&under=/second");
        assert_eq!(query.text("under"), Some("/a/%41"));
        assert_eq!(query.name("under").expect("a name"), "/a/A".parse().expect("a name"));
        assert_eq!((query.text("x"), query.text("bad"), query.text("half")), (Some(""), None, Some("%4")));
        assert_eq!(query.text("plus"), Some("a b"));
        assert_eq!(query.number("limit", 5, 100), Ok(7));
        assert_eq!(query.number("limit", 5, 6), Ok(6));
        assert_eq!(query.number("none", 5, 6), Ok(5));
        assert!(Query::parse("limit=-1").number("limit", 5, 6).is_err());
        assert!(
            Query::parse("under=%2Fa%2F%25").name("under").is_err() || Query::parse("under=x:").name("under").is_err()
        );
        let many = "a=1&".repeat(1000) + "b=2";
        assert_eq!(Query::parse(&many).text("b"), None);
    }
}
