//! Problems of a configuration and their places in the file.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError};

/// A problem to report to the author of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The setting that it concerns, from the outermost table inwards. For example, `faces.ethernet.0.interface` is in
    /// the first `[[faces.ethernet]]`. Empty: the whole file.
    pub key: String,
    /// What is wrong and what to do about it.
    pub text: String,
    /// Whether the router refuses to run.
    pub is_fatal: bool,
}

impl Finding {
    /// A finding with which the router refuses to run.
    pub fn fatal(key: impl Into<String>, text: impl Into<String>) -> Self {
        Finding { key: key.into(), text: text.into(), is_fatal: true }
    }

    /// A finding with which the router runs, perhaps not as intended.
    pub fn warning(key: impl Into<String>, text: impl Into<String>) -> Self {
        Finding { key: key.into(), text: text.into(), is_fatal: false }
    }
}

/// The text of a configuration and the path of its file.
#[derive(Debug, Clone, Default)]
pub struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// A text whose file is `path`.
    pub fn new(text: impl Into<String>, path: &Path) -> Self {
        Source { path: path.to_owned(), text: text.into() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError::of_file(format!("cannot read the file: {e}"), path))?;
        Ok(Source::new(text, path))
    }

    /// Parses and checks the text. If it names a file of a fleet (`[fleet]`), its tables are added.
    ///
    /// # Errors
    /// The problems, with their places and remedies. A syntax error or an invalid value is reported alone.
    /// Contradictions between settings are all reported together.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let mut config: Config =
            toml::from_str(&self.text).map_err(|e| ConfigError::from_toml(&e, &self.text, &self.path))?;
        config.folder = self.path.parent().unwrap_or(Path::new("")).to_owned();
        let mut findings = config.add_tables_of_fleet()?;
        findings.extend(config.contradictions());
        match self.errors(&findings) {
            None => Ok(config),
            Some(error) => Err(error),
        }
    }

    /// The fatal ones among these findings, with their places. `None` if no finding is fatal.
    pub fn errors(&self, findings: &[Finding]) -> Option<ConfigError> {
        let mut errors = findings.iter().filter(|finding| finding.is_fatal).map(|finding| self.place(finding));
        let mut first = errors.next()?;
        first.more = errors.collect();
        Some(first)
    }

    /// The finding as an error, with its place in the text.
    pub fn place(&self, finding: &Finding) -> ConfigError {
        ConfigError::at(self.offset(&finding.key), &finding.text, &self.text, &self.path)
    }

    /// Whether the text sets this key.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some_and(|(_, is_all)| is_all)
    }

    /// The text of the value of this key, if the text sets it and it is no table.
    pub fn value(&self, key: &str) -> Option<&str> {
        let document = DeTable::parse(&self.text).ok()?;
        let (mut steps, mut table) = (key.split('.').peekable(), document.get_ref());
        loop {
            let step = steps.next()?;
            let (_, value) = table.iter().find(|(key, _)| key.get_ref() == step)?;
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ if steps.peek().is_none() => return self.text.get(value.span()),
                _ => return None,
            }
        }
    }

    /// Offset of a key, or of the innermost table around it that the text has.
    fn offset(&self, key: &str) -> Option<usize> {
        self.find(key).map(|(at, _)| at)
    }

    /// Follows the steps of `key` as far as the text has them. Returns the offset reached, and whether the whole key
    /// was found.
    fn find(&self, key: &str) -> Option<(usize, bool)> {
        let document = DeTable::parse(&self.text).ok()?;
        let mut steps = key.split('.');
        let first = steps.next()?;
        let (key, mut value) = document.get_ref().iter().find(|(key, _)| key.get_ref() == first)?;
        let mut at = key.span().start;
        for step in steps {
            let next = match value.get_ref() {
                DeValue::Table(table) => {
                    let found = table.iter().find(|(key, _)| key.get_ref() == step);
                    found.map(|(key, value)| (key.span().start, value))
                }
                DeValue::Array(array) => {
                    let found = step.parse().ok().and_then(|number: usize| array.get(number));
                    found.map(|value| (value.span().start, value))
                }
                _ => None,
            };
            let Some(next) = next else { return Some((at, false)) };
            (at, value) = next;
        }
        Some((at, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_places() {
        let text = "[faces.udp]\nport = 1\n[[faces.ethernet]]\ninterface = \"a\"\n[[faces.ethernet]]\nmtu = 9\n\
                    interface = \"b\"\n[rib]\nlocalhop_anchors = [\"x\", \"y\"]\ntables = { pit_entries = 5 }\n";
        let source = Source::new(text, Path::new("x.toml"));
        let place = |key: &str| source.place(&Finding::fatal(key, "?")).position;
        assert_eq!(place("faces.udp.port"), Some((2, 1)));
        assert_eq!(place("faces.ethernet.1.interface"), Some((7, 1)));
        assert_eq!(place("rib.localhop_anchors.1"), Some((9, 26)));
        assert_eq!(place("rib.tables.pit_entries"), Some((10, 12)));
        // An absent key has the place of the table around it.
        assert_eq!(place("faces.udp.mtu"), Some((1, 8)));
        assert_eq!(place("tables.pit_entries"), None);
        assert_eq!(source.value("faces.udp.port"), Some("1"));
        assert_eq!(source.value("rib.localhop_anchors"), Some("[\"x\", \"y\"]"));
        assert_eq!((source.value("rib"), source.value("rib.x"), source.value("faces.udp.port.x")), (None, None, None));
        assert!(source.has("faces.udp.port") && !source.has("faces.udp.mtu") && !source.has("faces.udp.port.x"));
    }

    #[test]
    fn all_that_is_fatal_is_told() {
        let source = Source::new("[tables]\n[rib]\n", Path::new("x.toml"));
        let findings = [Finding::fatal("rib", "one"), Finding::warning("rib", "two"), Finding::fatal("", "three")];
        let error = source.errors(&findings).expect("there are two");
        assert_eq!(error.to_string(), "x.toml:2:2: one\nx.toml: three");
        assert_eq!(source.errors(&findings[1..2]), None);
    }
}
