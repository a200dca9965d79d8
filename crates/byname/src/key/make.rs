//! Makes keys, and certificates for them.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use byname_trust::rights::PREFIXES_MAX;
use byname_trust::{Certificate, NewKey, Terms, issue, issue_bound, read_packet_file, wrapped_base64};
use byname_wire::{Component, Name};
use clap::Args;

use super::folder::{Entry, Folder, now};
use super::{NewType, router_identity};
use crate::exit;

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate is valid from an hour ago: the verifier's clock may be behind ours.
const MARGIN: Duration = Duration::from_secs(3600);
/// A request is valid for ten days, as that of `ndnsec sign-req`.
const REQUEST_DAYS: u32 = 10;
/// The issuer of requests, as in `ndnsec sign-req`.
const REQUEST_ISSUER: &[u8] = b"cert-request";

#[derive(Debug, Args)]
pub struct AnchorArgs {
    /// Name of the network, for example /example
    #[arg(value_name = "NETWORK")]
    network: Name,
    /// Days for which the anchor is valid
    #[arg(long, value_name = "DAYS", default_value_t = 3650)]
    days: u32,
    /// Type of the key
    #[arg(long = "type", value_name = "TYPE", default_value = "ecdsa")]
    typ: NewType,
}

/// What the owner of a certificate may announce.
#[derive(Debug, Args)]
pub struct Bound {
    /// The owner may announce only what is below such prefixes, and so may those whose certificates it signs; any number
    /// [default: all]
    #[arg(long = "announce", value_name = "PREFIX")]
    prefixes: Vec<Name>,
    /// The owner may announce nothing but its own name
    #[arg(long, conflicts_with = "prefixes")]
    announce_nothing: bool,
}

impl Bound {
    /// The prefixes to bind. `None`: the certificate restricts nothing.
    fn prefixes(&self) -> Option<&[Name]> {
        (self.announce_nothing || !self.prefixes.is_empty()).then_some(&self.prefixes[..])
    }
}

#[derive(Debug, Args)]
pub struct MakeArgs {
    /// Name of the key's owner, for example /example/alice
    #[arg(value_name = "IDENTITY")]
    identity: Name,
    /// For a router that speaks ndn-dv: the identity is IDENTITY/32=DV
    #[arg(long)]
    router: bool,
    /// The key that signs: its name or identity [default: the closest one above IDENTITY]
    #[arg(long, value_name = "NAME")]
    signer: Option<Name>,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: u32,
    /// Type of the key
    #[arg(long = "type", value_name = "TYPE", default_value = "ecdsa")]
    typ: NewType,
    #[command(flatten)]
    bound: Bound,
}

#[derive(Debug, Args)]
pub struct RequestArgs {
    /// Name of the key's owner; its newest key is used, if it has one here
    #[arg(value_name = "IDENTITY")]
    identity: Name,
    /// For a router that speaks ndn-dv: the identity is IDENTITY/32=DV
    #[arg(long)]
    router: bool,
    /// Type of the key
    #[arg(long = "type", value_name = "TYPE", default_value = "ecdsa")]
    typ: NewType,
}

#[derive(Debug, Args)]
pub struct SignArgs {
    /// The request: a certificate that its own key has signed, as from `byname key request` or `ndnsec sign-req`
    #[arg(value_name = "FILE")]
    request: PathBuf,
    /// The key that signs: its name or identity [default: the closest one above the request's identity]
    #[arg(long, value_name = "NAME")]
    signer: Option<Name>,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: u32,
    /// Sign for an identity that is not below the signer's; the rule `hierarchical` does not trust such a certificate
    #[arg(long)]
    outside: bool,
    #[command(flatten)]
    bound: Bound,
}

#[derive(Debug, Args)]
pub struct RenewArgs {
    /// Keys to renew: names or identities [default: all of the folder]
    #[arg(value_name = "NAME")]
    names: Vec<Name>,
    /// Renew certificates that end within so many days
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    within: u32,
    /// Days for which the certificates are valid then [default: as long as before]
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
}

/// Issues a certificate for a key, valid from now on. It binds prefixes, if there are some.
pub(super) fn certify(
    key: (&Name, &[u8]),
    signer: &Entry,
    issuer: &[u8],
    valid_for: Duration,
    announces: Option<&[Name]>,
) -> anyhow::Result<Vec<u8>> {
    let now = now()?;
    // A certificate cannot be valid for longer than that of its signer.
    let until = (now + valid_for).min(Duration::from_millis(signer.certificate.not_after_ms));
    let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let terms = Terms { issuer: Component::generic(issuer), version, valid: (now.saturating_sub(MARGIN), until) };
    if !signer.certificate.is_valid_at(version) {
        let text = format!("the certificate {} is not valid now; renew it first", signer.certificate.name);
        return Err(exit::Failure::new(exit::FAILED, text).into());
    }
    if announces.is_some_and(|prefixes| prefixes.len() > PREFIXES_MAX) {
        let text = format!("a certificate binds at most {PREFIXES_MAX} prefixes: bind one above them");
        return Err(exit::Failure::new(exit::USAGE, text).into());
    }
    Ok(issue_bound(key.0, key.1, &signer.signer()?, terms, announces)?)
}

/// The issuer's id in certificates: the last component of the signer's identity.
pub(super) fn issuer_id(signer: &Entry) -> Vec<u8> {
    let identity = signer.certificate.identity();
    let last = identity.as_ref().component(-1).map(|component| component.value.to_vec());
    last.filter(|value| !value.is_empty()).unwrap_or_else(|| b"anchor".to_vec())
}

/// A self-signed certificate of a new key.
pub(super) fn self_signed(key: &NewKey, issuer: &[u8], days: u32) -> anyhow::Result<Vec<u8>> {
    let now = now()?;
    let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let valid = (now.saturating_sub(MARGIN), now + DAY * days);
    Ok(issue(key.name(), key.spki(), key.signer(), Terms { issuer: Component::generic(issuer), version, valid })?)
}

fn tell(entry: &Entry, lines: &str) -> anyhow::Result<u8> {
    let certificate = &entry.certificate;
    writeln!(
        std::io::stdout(),
        "Key {}\nCertificate {}\nFiles {} and {}\n{lines}",
        certificate.key_name,
        certificate.name,
        entry.key_path.display(),
        entry.certificate_path.display()
    )?;
    Ok(exit::OK)
}

/// Makes a trust anchor.
pub fn anchor(folder: &Folder, args: &AnchorArgs) -> anyhow::Result<u8> {
    let key = NewKey::generate(&args.network, args.typ.into())?;
    let entry = folder.add(key.pkcs8(), &self_signed(&key, b"self", args.days)?)?;
    let lines = format!(
        "\nIn the configuration of each router of the network (copy the certificate to it, but never the key):\n\n  \
         [trust]\n  anchors = [\"{}\"]\n",
        entry.certificate_path.display()
    );
    tell(&entry, &lines)
}

/// Makes a key with a certificate that a key of the folder signs.
pub fn make(folder: &Folder, args: &MakeArgs) -> anyhow::Result<u8> {
    let identity = if args.router { router_identity(&args.identity) } else { args.identity.clone() };
    let signer = folder.signer_for(&identity, args.signer.as_ref())?;
    let key = NewKey::generate(&identity, args.typ.into())?;
    let announces = args.bound.prefixes();
    let packet = certify((key.name(), key.spki()), &signer, &issuer_id(&signer), DAY * args.days, announces)?;
    let entry = folder.add(key.pkcs8(), &packet)?;
    let lines = format!(
        "\nIn the configuration of the owner's router, so that others can fetch the certificate:\n\n  \
         [trust]\n  certificates = [\"{}\"]\n",
        entry.certificate_path.display()
    );
    tell(&entry, &lines)
}

/// Prints a request for a certificate.
pub fn request(folder: &Folder, args: &RequestArgs) -> anyhow::Result<u8> {
    let identity = if args.router { router_identity(&args.identity) } else { args.identity.clone() };
    let known =
        folder.entries()?.into_iter().filter(|entry| entry.certificate.identity() == identity && entry.has_key());
    let packet = match known.max_by_key(|entry| entry.certificate.not_before_ms) {
        Some(entry) => {
            let signer = entry.signer()?.named(entry.certificate.key_name.clone());
            let now = now()?;
            let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            let valid = (now.saturating_sub(MARGIN), now + DAY * REQUEST_DAYS);
            let terms = Terms { issuer: Component::generic(REQUEST_ISSUER), version, valid };
            issue(&entry.certificate.key_name, entry.certificate.data().content, &signer, terms)?
        }
        None => {
            let key = NewKey::generate(&identity, args.typ.into())?;
            let packet = self_signed(&key, REQUEST_ISSUER, REQUEST_DAYS)?;
            folder.add(key.pkcs8(), &packet)?;
            packet
        }
    };
    write!(std::io::stdout(), "{}", wrapped_base64(&packet))?;
    Ok(exit::OK)
}

/// Signs a request, and prints the certificate.
pub fn sign(folder: &Folder, args: &SignArgs) -> anyhow::Result<u8> {
    let path = args.request.display();
    let packet = read_packet_file(&args.request).with_context(|| format!("{path}"))?;
    let request = Certificate::decode(&packet).with_context(|| format!("{path}"))?;
    let refuse = |text: String| Err(exit::Failure::new(exit::FAILED, text).into());
    // Otherwise somebody could get a certificate for a key that he does not have.
    if !request.is_self_signed() {
        return refuse(format!("{path}: the key of the request has not signed it"));
    }
    let identity = request.identity();
    let signer = folder.signer_for(&identity, args.signer.as_ref())?;
    let above = signer.certificate.identity();
    if !above.as_ref().is_prefix_of(&identity.as_ref()) && !args.outside {
        return refuse(format!(
            "{identity} is not below {above}, so few would trust the certificate; --outside signs it"
        ));
    }
    let key = (&request.key_name, request.data().content);
    let packet = certify(key, &signer, &issuer_id(&signer), DAY * args.days, args.bound.prefixes())?;
    write!(std::io::stdout(), "{}", wrapped_base64(&packet))?;
    Ok(exit::OK)
}

/// Signs certificates again that end soon.
pub fn renew(folder: &Folder, args: &RenewArgs) -> anyhow::Result<u8> {
    let entries = match &args.names[..] {
        [] => folder.entries()?,
        names => names.iter().map(|name| folder.find(name)).collect::<anyhow::Result<_>>()?,
    };
    let soon_ms = u64::try_from((now()? + DAY * args.within).as_millis()).unwrap_or(u64::MAX);
    let (mut out, mut left) = (std::io::stdout(), 0);
    // Signers first: a certificate cannot be valid for longer than that of its signer.
    let mut entries: Vec<Entry> =
        entries.into_iter().filter(|entry| entry.certificate.not_after_ms <= soon_ms).collect();
    entries.sort_by_key(|entry| entry.certificate.name.as_ref().len());
    for entry in entries {
        let certificate = &entry.certificate;
        match renewed(folder, &entry, args.days) {
            Ok(packet) => {
                folder.replace_certificate(&entry, &packet)?;
                let until = super::list::time(Certificate::decode(&packet)?.not_after_ms);
                writeln!(out, "{} is valid until {until}", certificate.key_name)?;
            }
            Err(error) => {
                left += 1;
                let (key, why) = (&certificate.key_name, exit::message_of(&error));
                writeln!(std::io::stderr(), "{key} was not renewed: {why}")?;
            }
        }
    }
    Ok(if left == 0 { exit::OK } else { exit::FAILED })
}

/// The next certificate of a key, by the same signer.
fn renewed(folder: &Folder, entry: &Entry, days: Option<u32>) -> anyhow::Result<Vec<u8>> {
    let certificate = &entry.certificate;
    let key = (&certificate.key_name, certificate.data().content);
    let before = Duration::from_millis(certificate.not_after_ms.saturating_sub(certificate.not_before_ms));
    let valid_for = days.map_or(before.saturating_sub(MARGIN), |days| DAY * days);
    if certificate.is_self_signed() {
        let now = now()?;
        let version = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let valid = (now.saturating_sub(MARGIN), now + valid_for);
        let issuer = certificate.name.as_ref().component(-2).context("a certificate's name has an issuer")?;
        let terms = Terms { issuer, version, valid };
        return Ok(issue_bound(key.0, key.1, &entry.signer()?, terms, certificate.announces.as_deref())?);
    }
    let is_signer = |other: &Entry| {
        let locator = certificate.data().signature.info.key_locator;
        other.has_key() && locator.is_some_and(|locator| other.certificate.is_located_by(locator))
    };
    let signer = folder.entries()?.into_iter().find(is_signer);
    let signer = signer.context("the key that signed it is not here; send its owner a `byname key request`")?;
    certify(key, &signer, &issuer_id(&signer), valid_for, certificate.announces.as_deref())
}
