//! `byname key`: a network's anchor, keys and certificates, in one folder.
//!
//! - [`folder`]: the files.
//! - [`make`]: keys, and certificates for them. [`network`]: those of all routers of a network at once.
//! - [`transfer`]: files of others: requests, certificates, and keys as `ndnsec export` writes them.
//! - [`list`]: what there is, and how long it is valid.
//!
//! Private keys are never shown. Their files have mode 0600.

pub mod folder;
mod list;
mod make;
pub mod network;
mod transfer;

use std::path::PathBuf;

use byname_trust::KeyType;
use byname_wire::Name;
use clap::{Args, Subcommand, ValueEnum};

use self::folder::Folder;

/// Options of `byname key`.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Folder of the keys [default: BYNAME_KEYS, else /etc/byname/keys for root, else byname/keys in the user's
    /// configuration]
    #[arg(long, global = true, value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the keys and certificates of a network's routers, and its anchor if there is none
    Network(network::NetworkArgs),
    /// Make the trust anchor of a network: a key that signs itself
    Anchor(make::AnchorArgs),
    /// Make a key, and a certificate for it, signed by a key of this folder
    Make(make::MakeArgs),
    /// Make a key, and print a request for a certificate, as `ndnsec sign-req` does
    Request(make::RequestArgs),
    /// Sign a request, and print the certificate
    Sign(make::SignArgs),
    /// Sign certificates again that end soon
    Renew(make::RenewArgs),
    /// List keys and certificates
    List(list::ListArgs),
    /// Show a key, or print its certificate
    Show(list::ShowArgs),
    /// Put a certificate that somebody has signed to its key
    Install(transfer::InstallArgs),
    /// Put a key on the list of those that are not trusted any more
    Revoke(transfer::RevokeArgs),
    /// Print a key and its certificate, encrypted, for `ndnsec import`
    Export(transfer::ExportArgs),
    /// Take a key and its certificate from `ndnsec export`
    Import(transfer::ImportArgs),
    /// Check a trust schema in LightVerSec, and compile it
    Schema(transfer::SchemaArgs),
}

/// The type of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum NewType {
    /// ECDSA P-256, which all NDN programs know
    #[default]
    Ecdsa,
    /// Ed25519
    Ed25519,
}

impl From<NewType> for KeyType {
    fn from(typ: NewType) -> Self {
        match typ {
            NewType::Ecdsa => KeyType::Ecdsa,
            NewType::Ed25519 => KeyType::Ed25519,
        }
    }
}

/// Carries out `byname key`.
pub fn run(args: KeyArgs) -> anyhow::Result<u8> {
    let folder = Folder::new(args.folder)?;
    match args.command {
        Command::Network(args) => network::network(&folder, &args),
        Command::Anchor(args) => make::anchor(&folder, &args),
        Command::Make(args) => make::make(&folder, &args),
        Command::Request(args) => make::request(&folder, &args),
        Command::Sign(args) => make::sign(&folder, &args),
        Command::Renew(args) => make::renew(&folder, &args),
        Command::List(args) => list::list(&folder, &args),
        Command::Show(args) => list::show(&folder, &args),
        Command::Install(args) => transfer::install(&folder, &args),
        Command::Revoke(args) => transfer::revoke(&folder, &args),
        Command::Export(args) => transfer::export(&folder, &args),
        Command::Import(args) => transfer::import(&folder, &args),
        Command::Schema(args) => transfer::schema(&args),
    }
}

/// The identity of a router for ndn-dv: its name, followed by the keyword DV.
pub fn router_identity(name: &Name) -> Name {
    name.join(byname_wire::Component { typ: byname_wire::name::component_type::KEYWORD, value: b"DV" })
}
