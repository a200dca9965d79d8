//! `[trust]`: anchors, rules and limits of the validator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::rights::RightsError;
use super::{Config, Finding, value};
use byname_trust::schema::Schema;
use byname_trust::validator::{Domain, Limits};
use byname_trust::{Certificate, KeyType, Revocations, Rule, Validator};

/// Most certificates that a chain may be allowed to have.
const CHAIN_MAX: usize = 32;

const DAY_MS: u64 = 24 * 3_600_000;
/// Certificates that end within this time are warned of.
const RENEWAL_MS: u64 = 14 * DAY_MS;

/// `[trust]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trust {
    /// Certificates of trust anchors.
    pub anchors: Vec<PathBuf>,
    /// Which key may sign which packet.
    pub rule: RuleKind,
    /// The file of the schema.
    pub schema: PathBuf,
    /// The file with the names of revoked keys and certificates. Empty: none.
    pub revoked: PathBuf,
    /// Certificates that this router gives to everybody.
    pub certificates: Vec<PathBuf>,
    /// Accepted types of keys.
    pub key_types: Vec<KeyType>,
    /// Most certificates of a chain, the anchor not counted.
    #[serde(deserialize_with = "value::at_least_1")]
    pub chain_max: usize,
    /// How long to wait for one certificate.
    #[serde(deserialize_with = "value::duration")]
    pub fetch_timeout: Duration,
    /// Most packets that wait for certificates.
    #[serde(deserialize_with = "value::at_least_1")]
    pub waiting_max: usize,
    /// Most certificates to keep.
    pub certificates_max: usize,
    /// Whether Interests for certificates have the name of the signed packet as their forwarding hint.
    pub packet_name_as_hint: bool,
}

/// The kinds of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// A key may sign what is at or below its identity.
    #[default]
    Hierarchical,
    /// A schema says it.
    Schema,
}

impl Default for Trust {
    fn default() -> Self {
        let limits = Limits::default();
        Trust {
            anchors: Vec::new(),
            rule: RuleKind::Hierarchical,
            schema: PathBuf::new(),
            revoked: PathBuf::new(),
            certificates: Vec::new(),
            key_types: limits.key_types,
            chain_max: limits.depth_max,
            fetch_timeout: limits.fetch_timeout,
            waiting_max: limits.waiting_max,
            certificates_max: limits.certificates_max,
            packet_name_as_hint: limits.packet_name_as_hint,
        }
    }
}

/// The validator, the places of its domains, and the certificates to serve.
pub(super) struct Trusting {
    pub validator: Validator,
    /// The domain of `[trust]`, if it has anchors.
    pub general: Option<usize>,
    /// The domain of `[rib] localhop_anchors`, if there are any.
    pub localhop: Option<usize>,
    pub served: Vec<Certificate>,
}

impl Config {
    /// Reads the files of `[trust]`, and the anchors of `[rib]`. The second list is that of the anchors of `[rib]`.
    ///
    /// # Errors
    /// One finding for each file that cannot be used.
    pub(super) fn trusting(&self, localhop: Vec<Certificate>) -> Result<Trusting, Vec<Finding>> {
        let (trust, mut findings) = (&self.trust, Vec::new());
        let mut load = |setting: &str, paths: &[PathBuf]| {
            let mut certificates = Vec::new();
            for (n, path) in paths.iter().enumerate() {
                let path = self.folder.join(path);
                match Certificate::load(&path) {
                    Ok(certificate) => certificates.push(certificate),
                    Err(source) => {
                        let error = RightsError::Certificate { path, source };
                        findings.push(Finding::fatal(format!("trust.{setting}.{n}"), error.to_string()));
                    }
                }
            }
            certificates
        };
        let (anchors, served) = (load("anchors", &trust.anchors), load("certificates", &trust.certificates));
        let rule = self.trust_rule().map_err(|finding| findings.push(finding)).ok();
        let revocations = self.revocations().map_err(|finding| findings.push(finding)).ok();
        findings.extend(self.trust_limits_problem());
        let (Some(rule), Some(revocations), true) = (rule, revocations, findings.is_empty()) else {
            return Err(findings);
        };
        let mut domains = Vec::new();
        let mut place = |anchors: Vec<Certificate>, rule: Rule| {
            (!anchors.is_empty()).then(|| {
                domains.push(Domain { anchors, rule });
                domains.len() - 1
            })
        };
        let (general, localhop) = (place(anchors, rule), place(localhop, Rule::Hierarchical));
        let limits = Limits {
            depth_max: trust.chain_max,
            waiting_max: trust.waiting_max,
            certificates_max: trust.certificates_max,
            fetch_timeout: trust.fetch_timeout,
            key_types: trust.key_types.clone(),
            packet_name_as_hint: trust.packet_name_as_hint,
            ..Limits::default()
        };
        let validator = Validator::new(domains, revocations, limits).with_certificates(served.iter().cloned());
        Ok(Trusting { validator, general, localhop, served })
    }

    /// Warnings of certificates of `[trust]` that are not valid at this time, or end within two weeks. Files that cannot
    /// be used are left out.
    pub fn expiring_certificates(&self, unix_ms: u64) -> Vec<Finding> {
        let lists = [("anchors", &self.trust.anchors), ("certificates", &self.trust.certificates)];
        let files = lists.iter().flat_map(|(setting, paths)| {
            paths.iter().enumerate().map(move |(n, path)| (format!("trust.{setting}.{n}"), path))
        });
        let expiring = files.filter_map(|(key, path)| {
            let certificate = Certificate::load(&self.folder.join(path)).ok()?;
            let name = &certificate.name;
            let text = match certificate.is_valid_at(unix_ms) {
                false => format!("the certificate {name} is not valid now: renew it, and compare the clocks"),
                true if !certificate.is_valid_at(unix_ms.saturating_add(RENEWAL_MS)) => {
                    let days = (certificate.not_after_ms - unix_ms) / DAY_MS;
                    format!("the certificate {name} ends in {days} days: renew it, for example by `byname key renew`")
                }
                true => return None,
            };
            Some(Finding::warning(key, text))
        });
        expiring.collect()
    }

    fn trust_rule(&self) -> Result<Rule, Finding> {
        let has_schema = !self.trust.schema.as_os_str().is_empty();
        let fail = |text: String| Finding::fatal("trust.schema".to_owned(), text);
        match self.trust.rule {
            RuleKind::Hierarchical if has_schema => {
                Err(fail("a schema is named, but not used: write rule = \"schema\"".to_owned()))
            }
            RuleKind::Hierarchical => Ok(Rule::Hierarchical),
            RuleKind::Schema if !has_schema => Err(fail("rule = \"schema\" needs schema = \"FILE\"".to_owned())),
            RuleKind::Schema => {
                let path = self.folder.join(&self.trust.schema);
                let schema = Schema::load(&path).map_err(|error| fail(format!("{}: {error}", path.display())))?;
                Ok(Rule::Schema(Arc::new(schema)))
            }
        }
    }

    fn revocations(&self) -> Result<Revocations, Finding> {
        if self.trust.revoked.as_os_str().is_empty() {
            return Ok(Revocations::default());
        }
        let path = self.folder.join(&self.trust.revoked);
        let fail = |error| Finding::fatal("trust.revoked".to_owned(), format!("{}: {error}", path.display()));
        Revocations::load(&path).map_err(fail)
    }

    fn trust_limits_problem(&self) -> Option<Finding> {
        let fatal = |setting: &str, text: String| Some(Finding::fatal(format!("trust.{setting}"), text));
        match &self.trust {
            trust if trust.key_types.is_empty() => {
                fatal("key_types", "no key would be accepted: name at least one type".to_owned())
            }
            trust if trust.chain_max > CHAIN_MAX => fatal("chain_max", format!("at most {CHAIN_MAX} are possible")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::security::Module;
    use byname_trust::NewKey;

    /// The keys and texts of the findings of this configuration.
    fn found(folder: &Path, text: &str) -> Vec<(String, String)> {
        let config = Config::parse(text, &folder.join("byname.toml")).expect("a configuration");
        let findings = config.authorizer().err().unwrap_or_default();
        findings.into_iter().map(|finding| (finding.key, finding.text)).collect()
    }

    #[test]
    fn files_and_settings_of_trust_are_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let key = NewKey::generate(&"/net".parse().expect("a name"), KeyType::Ecdsa).expect("a key");
        let times = (Duration::from_secs(1), Duration::from_secs(4_000_000_000));
        let certificate = key.certificate(times.0, times).expect("signed");
        std::fs::write(folder.join("net.ndncert"), certificate).expect("written");
        std::fs::write(folder.join("bad.trust"), "#a: ").expect("written");
        std::fs::write(folder.join("good.trust"), "#a: \"x\"").expect("written");
        std::fs::write(folder.join("bad.list"), "/a/KEY/1\n/").expect("written");
        for (text, key, problem) in [
            ("anchors = [\"none\"]", "trust.anchors.0", "No such file"),
            ("certificates = [\"net.ndncert\", \"bad.list\"]", "trust.certificates.1", "neither a Data packet"),
            ("rule = \"schema\"", "trust.schema", "needs schema"),
            ("schema = \"good.trust\"", "trust.schema", "not used"),
            ("rule = \"schema\"\nschema = \"bad.trust\"", "trust.schema", "line 1: expected a component"),
            ("revoked = \"bad.list\"", "trust.revoked", "line 2: / would revoke every key"),
            ("key_types = []", "trust.key_types", "no key would be accepted"),
            ("chain_max = 33", "trust.chain_max", "at most 32"),
        ] {
            let found = found(folder, &format!("[trust]\n{text}\n"));
            assert!(found.len() == 1 && found[0].0 == key && found[0].1.contains(problem), "{text}: {found:?}");
        }
        let right = "[[authorization]]\nfrom = \"network\"\nsigner = \"trusted\"\nmodules = [\"rib\"]\n";
        let found_right = found(folder, right);
        assert!(found_right[0].0 == "authorization.0.signer" && found_right[0].1.contains("[trust] anchors"));
        let good = format!(
            "[trust]\nanchors = [\"net.ndncert\"]\nrule = \"schema\"\nschema = \"good.trust\"\n\
             certificates = [\"net.ndncert\"]\n{right}[rib]\nlocalhop_anchors = [\"net.ndncert\"]\n"
        );
        assert_eq!(found(folder, &good), []);
        let authorizer = Config::parse(&good, &folder.join("byname.toml")).expect("good").authorizer();
        let authorizer = authorizer.unwrap_or_else(|found| panic!("{found:?}"));
        assert!(authorizer.serves_remote(Module::Rib) && authorizer.knows_keys());
        assert_eq!((authorizer.validator().domains().len(), authorizer.served().len()), (2, 1));
        let config = Config::parse(&good, &folder.join("byname.toml")).expect("good");
        let warned = |seconds: u64| config.expiring_certificates(seconds * 1_000).len();
        assert_eq!([0, 3_900_000_000, 3_999_000_000, 4_000_000_001].map(warned), [2, 0, 2, 2]);
        let misplaced = "[[authorization]]\nsigner = \"any\"\nidentities = [\"/a\"]\nmodules = [\"rib\"]\n";
        let error = Config::parse(misplaced, &folder.join("byname.toml")).expect_err("misplaced");
        assert!(error.to_string().contains("`identities` belongs to"), "{error}");
    }
}
