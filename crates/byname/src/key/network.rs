//! Makes the folders of keys with which the routers of a network start.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use byname_trust::{Certificate, NewKey};
use byname_wire::{Component, Name};
use clap::Args;

use super::folder::{Entry, Folder};
use super::make::{DAY, certify, issuer_id, self_signed};
use super::{NewType, router_identity};
use crate::exit;

/// Options of `byname key network`.
#[derive(Debug, Clone, Args)]
pub struct NetworkArgs {
    /// Name of the network, for example /example
    #[arg(value_name = "NETWORK")]
    network: Name,
    /// Its routers, each by the last component of its name: r1 for /example/r1
    #[arg(value_name = "ROUTER", required = true)]
    routers: Vec<String>,
    /// Folder in which each router gets a folder of its own
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Days for which the routers' certificates are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    days: u32,
    /// A prefix below which a router may announce, as in r1=/example/video; any number, r1= for nothing, r1=/ for all
    /// [default: as before; new routers may announce all]
    #[arg(long = "announce", value_name = "ROUTER=PREFIX")]
    announce: Vec<String>,
    /// Type of new keys
    #[arg(long = "type", value_name = "TYPE", default_value = "ecdsa")]
    typ: NewType,
}

/// How long a new anchor is valid.
const ANCHOR_DAYS: u32 = 3650;

/// Makes the anchor of a network, if this folder has none, and a folder for each router. A router that has a key keeps it,
/// and gets a new certificate for it.
pub fn network(folder: &Folder, args: &NetworkArgs) -> anyhow::Result<u8> {
    let names = args.routers.iter().map(|router| router_name(&args.network, router));
    let names = names.collect::<anyhow::Result<Vec<Name>>>()?;
    let bound = bound(args)?;
    let mut out = std::io::stdout();
    let anchor = match anchor_of(folder, &args.network)? {
        Some(anchor) => anchor,
        None => {
            let anchor = new_anchor(folder, &args.network, args.typ)?;
            writeln!(out, "The anchor of {} is new: {}. Keep it secret.", args.network, anchor.key_path.display())?;
            anchor
        }
    };
    for (router, name) in args.routers.iter().zip(&names) {
        let own = Folder::new(Some(args.out.join(router)))?;
        let announces = bound.get(router.as_str()).map(Vec::as_slice);
        let entry = of_router(&own, name, &anchor, (args.typ, args.days), announces)?;
        let until = super::list::time(entry.certificate.not_after_ms);
        writeln!(out, "{name}: {}, valid until {until}", own.path().display())?;
    }
    let (first, name) = (args.out.join(&args.routers[0]), &names[0]);
    writeln!(
        out,
        "\nCopy each folder to its router, and to nobody else. Then, on each router, as on the first one:\n\n  \
         byname run --network {} --name {name} --keys {}",
        args.network,
        first.display()
    )?;
    Ok(exit::OK)
}

/// Makes the anchor of a network.
pub fn new_anchor(folder: &Folder, network: &Name, typ: NewType) -> anyhow::Result<Entry> {
    let key = NewKey::generate(network, typ.into())?;
    folder.add(key.pkcs8(), &self_signed(&key, b"self", ANCHOR_DAYS)?)
}

/// Puts into the folder of a router what it needs: its key with a new certificate, valid for some days, and that of the
/// anchor. The certificate binds the prefixes that `announces` has; without that, those that it bound before.
pub fn of_router(
    own: &Folder,
    name: &Name,
    anchor: &Entry,
    (typ, days): (NewType, u32),
    announces: Option<&[Name]>,
) -> anyhow::Result<Entry> {
    let identity = router_identity(name);
    let known = own.entries()?.into_iter().find(|entry| entry.certificate.identity() == identity && entry.has_key());
    let before = known.as_ref().and_then(|entry| entry.certificate.announces.clone());
    let announces = announces.or(before.as_deref());
    let sign = |key: (&Name, &[u8])| certify(key, anchor, &issuer_id(anchor), DAY * days, announces);
    let entry = match known {
        Some(entry) => {
            let packet = sign((&entry.certificate.key_name, entry.certificate.data().content))?;
            own.replace_certificate(&entry, &packet)?;
            Entry { certificate: Certificate::decode(&packet)?, ..entry }
        }
        None => {
            let key = NewKey::generate(&identity, typ.into())?;
            own.add(key.pkcs8(), &sign((key.name(), key.spki()))?)?
        }
    };
    own.add_certificate(&anchor.certificate)?;
    Ok(entry)
}

/// The newest key of the network that signs itself and can sign.
fn anchor_of(folder: &Folder, network: &Name) -> anyhow::Result<Option<Entry>> {
    let is_anchor = |entry: &Entry| {
        entry.certificate.identity() == *network && entry.certificate.is_self_signed() && entry.has_key()
    };
    Ok(folder.entries()?.into_iter().filter(is_anchor).max_by_key(|entry| entry.certificate.not_before_ms))
}

/// The prefixes to bind, by router.
fn bound(args: &NetworkArgs) -> anyhow::Result<BTreeMap<&str, Vec<Name>>> {
    let mut bound: BTreeMap<&str, Vec<Name>> = BTreeMap::new();
    for text in &args.announce {
        let wrong = |why: &str| exit::Failure::new(exit::USAGE, format!("--announce {text}: {why}"));
        let (router, prefix) = text.split_once('=').ok_or_else(|| wrong("write ROUTER=PREFIX, as in r1=/video"))?;
        if !args.routers.iter().any(|known| known == router) {
            return Err(wrong("this router is not among those of the command").into());
        }
        let prefixes = bound.entry(router).or_default();
        if !prefix.is_empty() {
            prefixes.push(prefix.parse().map_err(|error| wrong(&format!("{prefix} is no name: {error}")))?);
        }
    }
    Ok(bound)
}

/// The name of a router. Its component must do as the name of a folder, too.
fn router_name(network: &Name, router: &str) -> anyhow::Result<Name> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_good = router.chars().all(is_plain) && router.chars().any(|c| c != '.');
    let wrong = || {
        let text = format!("{router} is no router's component: write letters, digits, '-', '_' and '.', as in r1");
        exit::Failure::new(exit::USAGE, text)
    };
    Ok(is_good.then(|| network.join(Component::generic(router.as_bytes()))).ok_or_else(wrong)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_plain_components() {
        let network: Name = "/example".parse().expect("a name");
        for router in ["", "a/b", "..", ".", "r 1", "%00"] {
            assert!(router_name(&network, router).is_err(), "{router}");
        }
        assert_eq!(router_name(&network, "r-1.x").expect("plain").to_string(), "/example/r-1.x");
    }

    #[test]
    fn folders_have_what_a_router_needs_and_keep_its_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let of_anchor = Folder::new(Some(at("keys"))).expect("named");
        let args = NetworkArgs {
            network: "/example".parse().expect("a name"),
            routers: vec!["r1".to_owned(), "r2".to_owned()],
            out: at("out"),
            days: 10,
            announce: vec!["r1=/example/video".to_owned(), "r2=".to_owned()],
            typ: NewType::Ed25519,
        };
        let keys = |router: &str| {
            let entries = Folder::new(Some(at("out").join(router))).expect("named").entries().expect("read");
            entries
                .into_iter()
                .map(|entry| (entry.certificate.key_name.to_string(), entry.has_key()))
                .collect::<Vec<_>>()
        };
        assert_eq!(network(&of_anchor, &args).expect("made"), exit::OK);
        let first = keys("r1");
        assert_eq!(first.len(), 2, "{first:?}");
        let anchor = &of_anchor.entries().expect("read")[0].certificate.key_name;
        assert!(first.contains(&(anchor.to_string(), false)), "the anchor's key stays where it is");
        assert!(first.iter().any(|(name, has_key)| name.starts_with("/example/r1/32=DV/KEY/") && *has_key));
        let announces = |router: &str| {
            let entries = Folder::new(Some(at("out").join(router))).expect("named").entries().expect("read");
            let own = entries.into_iter().find(Entry::has_key).expect("its own");
            own.certificate.announces.map(|prefixes| prefixes.iter().map(Name::to_string).collect::<Vec<_>>())
        };
        assert_eq!(announces("r1"), Some(vec!["/example/video".to_owned()]));
        // What a certificate binds stays bound, and can be widened.
        let args = NetworkArgs { announce: vec!["r2=/".to_owned()], ..args };
        assert_eq!(network(&of_anchor, &args).expect("made again"), exit::OK);
        assert_eq!(announces("r1"), Some(vec!["/example/video".to_owned()]));
        assert_eq!(announces("r2"), Some(vec!["/".to_owned()]));
        for wrong in ["r1", "r9=/a", "r1=%zz"] {
            assert!(network(&of_anchor, &NetworkArgs { announce: vec![wrong.to_owned()], ..args.clone() }).is_err());
        }
        assert_eq!((keys("r1"), of_anchor.entries().expect("read").len()), (first, 1));
    }
}
