//! `byname keygen`: a key for a host or an operator, and its certificate.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use byname_trust::{KeyType, NewKey, pem};
use byname_wire::Name;
use clap::Args;

use crate::exit;

/// Options of `byname keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Name of the key's owner, for example /net/alice
    #[arg(value_name = "IDENTITY")]
    identity: Name,
    /// File for the new private key (PKCS#8 in PEM); must not exist yet
    #[arg(long, value_name = "FILE", default_value = "host.key")]
    key: PathBuf,
    /// File for the new certificate; must not exist yet
    #[arg(long, value_name = "FILE", default_value = "host.ndncert")]
    certificate: PathBuf,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "DAYS", default_value_t = 3650)]
    days: u32,
}

/// Makes a key and a certificate.
pub fn run(args: KeygenArgs) -> anyhow::Result<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the system clock is set before 1970")?;
    let key = NewKey::generate(&args.identity, KeyType::Ecdsa)?;
    // One hour of margin: the verifier's clock may be a little behind ours.
    let from = now.saturating_sub(Duration::from_secs(3600));
    let until = now + Duration::from_secs(24 * 3600) * args.days;
    let certificate = key.certificate(now, (from, until))?;
    create(&args.key, 0o600, &pem(key.pkcs8()))?;
    create(&args.certificate, 0o644, &certificate)?;
    let (name, file) = (key.name(), args.key.display());
    write!(
        std::io::stdout(),
        "Key {name} for {identity}\n\n\
         In the configuration of this host, to register at a hub:\n\n  \
         [rib.propagate]\n  enabled = true\n  key_name = \"{name}\"\n  key_file = \"{file}\"\n\n\
         In the configuration of the hub (copy the certificate to it, but never the key):\n\n  \
         [rib]\n  localhop_anchors = [\"{certificate}\"]\n",
        identity = args.identity,
        certificate = args.certificate.display()
    )?;
    Ok(exit::OK)
}

fn create(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
