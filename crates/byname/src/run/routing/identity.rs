//! This router's key, and whom it believes.
//!
//! A folder has the certificate of the network's anchor, and this router's key with its certificate. The rules are those
//! of ndn-dv's trust schema: the anchor signs certificates of routers, and a router signs what is under its own name. The
//! configuration can name another schema. Then the anchor may have a name above that of the network, and the folder may
//! have certificates between the anchor's and the router's.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use byname_control::config::{Config, Finding, Routing, RoutingProtocol};
use byname_trust::schema::Schema;
use byname_trust::validator::{Domain, Limits};
use byname_trust::{Certificate, Revocations, Rights, Rule, Signer, Validator};
use byname_wire::Name;

use crate::key::folder::{Entry, Folder};
use crate::key::router_identity;

/// A certificate that ends within this time is warned of.
pub const RENEWAL: Duration = Duration::from_secs(14 * 24 * 3600);

/// Most certificates of the folder beside the router's own and the anchors'.
const OTHERS_MAX: usize = 64;

/// Signs for this router, and knows whom to believe.
pub struct Identity {
    /// The private key in PKCS#8, and the name in KeyLocators. `None`: without security, there is none.
    key: Option<(Name, Vec<u8>)>,
    /// The certificate of that key. `None`: without security, there is no key.
    pub certificate: Option<Certificate>,
    /// The network's anchors.
    anchors: Vec<Certificate>,
    /// Other certificates of the folder: those between anchors and routers.
    others: Vec<Certificate>,
    /// Who may sign what. `None`: without security, everybody.
    schema: Option<Arc<Schema>>,
    revocations: Revocations,
}

impl Identity {
    /// Reads the folder that the configuration names.
    ///
    /// # Errors
    /// If the folder lacks a key or an anchor that is valid now.
    pub fn load(config: &Config, unix_ms: u64) -> anyhow::Result<Self> {
        let routing = &config.routing;
        if routing.insecure {
            return Ok(Identity {
                key: None,
                certificate: None,
                anchors: Vec::new(),
                others: Vec::new(),
                schema: None,
                revocations: Revocations::default(),
            });
        }
        let schema = schema(config)?;
        let named = (!routing.keys.as_os_str().is_empty()).then(|| config.folder.join(&routing.keys));
        let folder = Folder::new(named)?;
        let entries = folder.entries()?;
        let path = folder.path().display();
        let revocations = match config.trust.revoked.as_os_str().is_empty() {
            true => Revocations::default(),
            false => Revocations::load(&config.folder.join(&config.trust.revoked))?,
        };
        let (router, own) = own_entry(&entries, routing, unix_ms);
        let own = own.with_context(|| {
            let ended = match router {
                Some(entry) => {
                    format!("that of {} is not valid now: renew it, or compare the clocks", entry.certificate.name)
                }
                None => format!("make one with `byname key network {} {}`", routing.network, last(&routing.name)),
            };
            format!("{path} has no key with a valid certificate for {}; {ended}", routing.name)
        })?;
        let anchors: Vec<Certificate> = entries
            .iter()
            .map(|entry| &entry.certificate)
            .filter(|of| is_anchor(of, routing) && of.is_valid_at(unix_ms))
            .cloned()
            .collect();
        let is_other = |of: &&Certificate| of.name != own.certificate.name && !of.is_self_signed();
        let others =
            entries.iter().map(|entry| &entry.certificate).filter(is_other).take(OTHERS_MAX).cloned().collect();
        anyhow::ensure!(
            !anchors.is_empty(),
            "{path} has no valid certificate of the anchor of {}; `byname key network` puts one there",
            routing.network
        );
        let locator = own.signer()?.key_name().cloned().unwrap_or_default();
        let key = Some((locator, own.private_key()?));
        let certificate = Some(own.certificate.clone());
        Ok(Identity { key, certificate, anchors, others, schema: Some(schema), revocations })
    }

    /// Signs what this router says. Without security, that is a digest.
    pub fn signer(&self) -> anyhow::Result<Signer> {
        Ok(match &self.key {
            Some((locator, pkcs8)) => Signer::from_pkcs8(locator.clone(), pkcs8)?,
            None => Signer::digest(),
        })
    }

    /// Warnings of a certificate that ends soon.
    pub fn warning(&self, unix_ms: u64) -> Option<String> {
        let certificate = self.certificate.as_ref()?;
        let left = Duration::from_millis(certificate.not_after_ms.saturating_sub(unix_ms));
        let days = left.as_secs() / (24 * 3600);
        let text = || {
            format!(
                "the certificate {} of this router ends in {days} days: renew it where the anchor is, with `byname key \
                 network` or `byname key renew`, and copy it to here",
                certificate.name
            )
        };
        (left < RENEWAL).then(text)
    }

    /// Checks what other routers say. Without security it is not asked.
    pub fn validator(&self) -> Validator {
        let domain =
            |schema: &Arc<Schema>| Domain { anchors: self.anchors.clone(), rule: Rule::Schema(Arc::clone(schema)) };
        let limits = Limits { packet_name_as_hint: true, ..Limits::default() };
        let known = self.served().cloned();
        Validator::new(self.schema.iter().map(domain).collect(), self.revocations.clone(), limits)
            .with_certificates(known)
    }

    /// The certificates that others may ask this router for.
    pub fn served(&self) -> impl Iterator<Item = &Certificate> {
        self.certificate.iter().chain(&self.others)
    }

    /// What this router may announce, by its own certificate and the schema. The certificates between it and the anchor
    /// restrict it, too, if they are in the folder.
    pub fn own_rights(&self) -> Rights {
        let mut rights = Rights::default();
        let mut at = self.certificate.as_ref();
        // Each is signed by the next one; certificates in a circle end with their number.
        for _ in 0..=self.others.len() {
            let Some(certificate) = at else { break };
            rights = rights.within(certificate.announces.as_ref());
            let locator = certificate.data().signature.info.key_locator;
            at = locator.and_then(|locator| self.others.iter().find(|other| other.is_located_by(locator)));
        }
        match (&self.schema, &self.certificate) {
            (Some(schema), Some(certificate)) => rights.judged_by(schema, certificate.name.as_ref()),
            _ => rights,
        }
    }

    /// Whether both have the same certificate, and believe the same routers.
    pub fn is_like(&self, other: &Identity) -> bool {
        let name = |identity: &Identity| identity.certificate.as_ref().map(|certificate| certificate.name.clone());
        name(self) == name(other) && self.believes_like(other)
    }

    /// Whether both believe the same routers.
    pub fn believes_like(&self, other: &Identity) -> bool {
        let anchors = |identity: &Identity| -> Vec<Name> {
            identity.anchors.iter().map(|certificate| certificate.name.clone()).collect()
        };
        anchors(self) == anchors(other) && self.schema == other.schema && self.revocations == other.revocations
    }
}

/// Problems with this router's keys, for `byname check`.
pub fn findings(config: &Config, unix_ms: u64) -> Vec<Finding> {
    if !config.routing.is_on() {
        return Vec::new();
    }
    match Identity::load(config, unix_ms) {
        Ok(identity) => {
            identity.warning(unix_ms).map(|text| Finding::warning("routing.keys", text)).into_iter().collect()
        }
        Err(error) => vec![Finding::fatal("routing.keys", format!("{error:#}"))],
    }
}

/// The newest certificate of this router for a key that is here, and the newest of those that are valid.
fn own_entry<'a>(entries: &'a [Entry], routing: &Routing, unix_ms: u64) -> (Option<&'a Entry>, Option<&'a Entry>) {
    let identity = router_identity(&routing.name);
    let own = || {
        let is_own = |entry: &&Entry| {
            entry.certificate.identity() == identity && entry.has_key() && !entry.certificate.is_self_signed()
        };
        entries.iter().filter(is_own)
    };
    let newest = own().max_by_key(|entry| entry.certificate.not_before_ms);
    let valid = own().filter(|entry| entry.certificate.is_valid_at(unix_ms));
    (newest, valid.max_by_key(|entry| entry.certificate.not_before_ms))
}

fn last(name: &Name) -> String {
    name.as_ref()
        .component(-1)
        .map(|component| Name::default().join(component).to_string()[1..].to_owned())
        .unwrap_or_default()
}

/// Whether a certificate is an anchor of the network. With a schema of its own, the network may be below the anchor.
fn is_anchor(of: &Certificate, routing: &Routing) -> bool {
    let identity = of.identity();
    let is_above = match routing.schema.as_os_str().is_empty() {
        true => identity == routing.network,
        false => identity.as_ref().is_prefix_of(&routing.network.as_ref()),
    };
    is_above && of.is_self_signed()
}

/// The trust schema of the configuration, or else that of ndn-dv.
fn schema(config: &Config) -> anyhow::Result<Arc<Schema>> {
    let routing = &config.routing;
    if routing.schema.as_os_str().is_empty() {
        return Ok(Arc::new(Schema::compile(&schema_of_dv(&routing.network, routing.protocol))?));
    }
    let path = config.folder.join(&routing.schema);
    Ok(Arc::new(Schema::load(&path).with_context(|| format!("the trust schema {}", path.display()))?))
}

/// The trust schema of ndn-dv for a network with this name, and a rule for proofs over QUIC ([`super::links`]). It judges
/// names without version and segment.
fn schema_of_dv(network: &Name, protocol: RoutingProtocol) -> String {
    let group = match protocol {
        RoutingProtocol::Main => "PFS",
        RoutingProtocol::Dv2 => "PSD",
    };
    let components: Vec<String> =
        network.as_ref().components().map(|c| format!("\"{}\"", &Name::default().join(c).to_string()[1..])).collect();
    format!(
        r#"
#network: {}
#router: #network/router
#said: /"localhop"/#router/"32=DV"/"32=ADV"/_ <= #router_cert
#prefixes: #network/"32=DV"/"32={group}"/#router/_/_ <= #router_cert
#link: #router/"32=DV"/"32=LINK"/_ <= #router_cert
#network_cert: #network/#KEY
#router_cert: #router/"32=DV"/#KEY <= #network_cert
#KEY: "KEY"/_/_/_
"#,
        components.join("/")
    )
}
