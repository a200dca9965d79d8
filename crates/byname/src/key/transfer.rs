//! Files of others: certificates, keys, lists of revoked keys, and schemas.

use std::fs::OpenOptions;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_trust::safe_bag::SafeBag;
use byname_trust::schema::Schema;
use byname_trust::{Certificate, Revocations, read_packet_file, wrapped_base64};
use byname_wire::Name;
use clap::Args;

use super::folder::Folder;
use crate::exit;

/// The list of revoked keys, in the folder.
const REVOKED: &str = "revoked";
/// Most bytes of a passphrase.
const PASSPHRASE_BYTES_MAX: u64 = 4096;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The certificate, as from `byname key sign` or `ndnsec cert-gen`
    #[arg(value_name = "FILE")]
    certificate: PathBuf,
}

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Name of a key, a certificate or an identity; all that is below it is revoked
    #[arg(value_name = "NAME")]
    name: Name,
    /// The list [default: `revoked` in the folder]
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Name of the key or certificate, or its identity
    #[arg(value_name = "NAME")]
    name: Name,
    /// File whose first line is the passphrase; -: standard input
    #[arg(long, value_name = "FILE")]
    passphrase_file: PathBuf,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file, as from `ndnsec export`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File whose first line is the passphrase; -: standard input
    #[arg(long, value_name = "FILE")]
    passphrase_file: PathBuf,
}

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The schema, as text or compiled
    #[arg(value_name = "FILE")]
    schema: PathBuf,
    /// File for the compiled schema
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Puts a certificate to its key.
pub fn install(folder: &Folder, args: &InstallArgs) -> anyhow::Result<u8> {
    let path = args.certificate.display();
    let certificate = Certificate::load(&args.certificate).with_context(|| format!("{path}"))?;
    let entry = folder.find(&certificate.key_name)?;
    if entry.certificate.data().content != certificate.data().content {
        let text = format!("{path}: the certificate has another public key than {}", certificate.key_name);
        return Err(exit::Failure::new(exit::FAILED, text).into());
    }
    folder.replace_certificate(&entry, &certificate.packet)?;
    writeln!(std::io::stdout(), "{} in {}", certificate.name, entry.certificate_path.display())?;
    Ok(exit::OK)
}

/// Adds a name to the list of what is not trusted any more.
pub fn revoke(folder: &Folder, args: &RevokeArgs) -> anyhow::Result<u8> {
    let path = args.list.clone().unwrap_or_else(|| folder.path().join(REVOKED));
    let line = format!("{}\n", args.name);
    Revocations::parse(&line)?;
    let known = if path.exists() {
        Revocations::load(&path).with_context(|| path.display().to_string())?
    } else {
        Revocations::default()
    };
    if !known.covers(args.name.as_ref()) {
        let fail = || format!("cannot write {}", path.display());
        let mut file = OpenOptions::new().append(true).create(true).open(&path).with_context(fail)?;
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).with_context(fail)?;
    }
    writeln!(
        std::io::stdout(),
        "{} is on the list {}\n\nIn the configuration of each router of the network:\n\n  [trust]\n  revoked = \"{}\"\n\n\
         `byname reload` makes a running router read it.",
        args.name,
        path.display(),
        path.display()
    )?;
    Ok(exit::OK)
}

/// Prints a key, encrypted by a passphrase.
pub fn export(folder: &Folder, args: &ExportArgs) -> anyhow::Result<u8> {
    let entry = folder.find(&args.name)?;
    let bag = SafeBag::seal(entry.certificate.clone(), &entry.private_key()?, &passphrase(&args.passphrase_file)?)?;
    write!(std::io::stdout(), "{}", wrapped_base64(&bag.encode()))?;
    Ok(exit::OK)
}

/// Takes a key that is encrypted by a passphrase.
pub fn import(folder: &Folder, args: &ImportArgs) -> anyhow::Result<u8> {
    let path = args.file.display();
    let bag = read_packet_file(&args.file).with_context(|| format!("{path}"))?;
    let bag = SafeBag::decode(&bag).with_context(|| format!("{path}"))?;
    let key = bag.open(&passphrase(&args.passphrase_file)?)?;
    let entry = folder.add(key.as_bytes(), &bag.certificate.packet)?;
    writeln!(std::io::stdout(), "{} in {}", entry.certificate.key_name, entry.key_path.display())?;
    Ok(exit::OK)
}

/// Checks and compiles a schema.
pub fn schema(args: &SchemaArgs) -> anyhow::Result<u8> {
    let schema = Schema::load(&args.schema).with_context(|| args.schema.display().to_string())?;
    match &args.output {
        Some(path) => {
            std::fs::write(path, schema.encode()).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => writeln!(std::io::stdout(), "a schema with {} nodes", schema.len())?,
    }
    Ok(exit::OK)
}

/// The first line of a file.
fn passphrase(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut read = |input: &mut dyn Read| {
        let mut reader = std::io::BufReader::new(input.take(PASSPHRASE_BYTES_MAX));
        reader.read_until(b'\n', &mut line)
    };
    let outcome = if path == Path::new("-") {
        read(&mut std::io::stdin())
    } else {
        std::fs::File::open(path).and_then(|mut file| read(&mut file))
    };
    outcome.with_context(|| path.display().to_string())?;
    line.pop_if(|last| *last == b'\n');
    line.pop_if(|last| *last == b'\r');
    if line.is_empty() {
        return Err(exit::Failure::new(exit::USAGE, "the passphrase is empty").into());
    }
    Ok(line)
}
