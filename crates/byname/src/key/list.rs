//! Shows what a folder of keys has.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use byname_trust::{Certificate, wrapped_base64};
use byname_wire::Name;
use byname_wire::signature::KeyLocator;
use clap::Args;
use serde::Serialize;

use super::folder::{Entry, Folder, now};
use crate::exit;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the key or certificate, or its identity
    #[arg(value_name = "NAME")]
    name: Name,
    /// Print the certificate in base64, as `ndnsec cert-dump` does
    #[arg(long)]
    certificate: bool,
}

/// A key in JSON.
#[derive(Debug, Serialize)]
struct Listed {
    identity: String,
    key: String,
    certificate: String,
    /// `ECDSA P-256`, `Ed25519`...
    #[serde(rename = "type")]
    typ: String,
    /// The key that signed the certificate; `null` if a digest names it.
    signer: Option<String>,
    self_signed: bool,
    not_before_ms: u64,
    not_after_ms: u64,
    /// The prefixes that the certificate binds; `null` if it restricts nothing.
    announces: Option<Vec<String>>,
    /// Whether the certificate is valid now.
    valid: bool,
    /// Whether the private key is in the folder.
    private_key: bool,
}

impl Listed {
    fn of(entry: &Entry, now_ms: u64) -> Self {
        let certificate = &entry.certificate;
        let signer = match certificate.data().signature.info.key_locator {
            Some(KeyLocator::Name(name)) => Some(name.to_string()),
            _ => None,
        };
        Listed {
            identity: certificate.identity().to_string(),
            key: certificate.key_name.to_string(),
            certificate: certificate.name.to_string(),
            typ: format!("{:?}", certificate.key),
            signer,
            self_signed: certificate.is_self_signed(),
            not_before_ms: certificate.not_before_ms,
            not_after_ms: certificate.not_after_ms,
            announces: announces(certificate),
            valid: certificate.is_valid_at(now_ms),
            private_key: entry.has_key(),
        }
    }

    fn condition(&self, now_ms: u64) -> String {
        match self.valid {
            true => format!("valid until {}", time(self.not_after_ms)),
            false if self.not_before_ms > now_ms => format!("valid from {} on", time(self.not_before_ms)),
            false => format!("ended {}", time(self.not_after_ms)),
        }
    }
}

/// The prefixes that a certificate binds, as URIs.
fn announces(certificate: &Certificate) -> Option<Vec<String>> {
    Some(certificate.announces.as_ref()?.iter().map(ToString::to_string).collect())
}

/// A time in ms since the Unix epoch, in words.
pub fn time(unix_ms: u64) -> String {
    // The last second that the format has; a certificate may be valid until then.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(unix_ms).min(LAST)).to_string()
}

fn now_ms() -> anyhow::Result<u64> {
    Ok(u64::try_from(now()?.as_millis()).unwrap_or(u64::MAX))
}

/// Lists all keys.
pub fn list(folder: &Folder, args: &ListArgs) -> anyhow::Result<u8> {
    let (entries, now_ms) = (folder.entries()?, now_ms()?);
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<Listed> = entries.iter().map(|entry| Listed::of(entry, now_ms)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(exit::OK);
    }
    if entries.is_empty() {
        writeln!(out, "no keys in {}", folder.path().display())?;
    }
    for entry in &entries {
        let listed = Listed::of(entry, now_ms);
        let role = if listed.self_signed { "signs itself" } else { "signed" };
        let without = if listed.private_key { "" } else { ", without its private key" };
        let condition = listed.condition(now_ms);
        writeln!(out, "{}  {}, {role}, {condition}{without}", listed.key, listed.typ)?;
    }
    Ok(exit::OK)
}

/// Shows one key.
pub fn show(folder: &Folder, args: &ShowArgs) -> anyhow::Result<u8> {
    let entry = folder.find(&args.name)?;
    let mut out = std::io::stdout().lock();
    if args.certificate {
        write!(out, "{}", wrapped_base64(&entry.certificate.packet))?;
        return Ok(exit::OK);
    }
    let now_ms = now_ms()?;
    let listed = Listed::of(&entry, now_ms);
    writeln!(out, "identity     {}", listed.identity)?;
    writeln!(out, "key          {}", listed.key)?;
    writeln!(out, "certificate  {}", listed.certificate)?;
    writeln!(out, "type         {}", listed.typ)?;
    writeln!(out, "signed by    {}", listed.signer.as_deref().unwrap_or("a key that only a digest names"))?;
    if let Some(prefixes) = &listed.announces {
        let text = if prefixes.is_empty() { "nothing".to_owned() } else { prefixes.join(", ") };
        writeln!(out, "announces    {text}")?;
    }
    writeln!(out, "validity     {}", listed.condition(now_ms))?;
    let private = if listed.private_key { entry.key_path.display().to_string() } else { "not here".to_owned() };
    writeln!(out, "private key  {private}")?;
    Ok(exit::OK)
}
