//! Names of ndn-dv [SPEC.md §2].

use byname_wire::name::component_type::{KEYWORD, SEGMENT, SEQUENCE_NUM, TIMESTAMP, VERSION};
use byname_wire::{Component, Name, NameRef};

use crate::version::Version;

/// Version component of State Vector Sync's names.
const SVS_VERSION: u64 = 3;

fn keyword(value: &[u8]) -> Component<'_> {
    Component { typ: KEYWORD, value }
}

fn localhop() -> Name {
    Name::from_components([Component::generic(b"localhop")])
}

/// The names that one router uses.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// `/localhop/<network>/32=DV/32=ADS`.
    pub sync: Name,
    /// Below it: `32=ACT`.
    pub sync_active: Name,
    /// Below it: `32=PSV`.
    pub sync_passive: Name,
    /// Below it: `32=HELLO`. ndn-dv does not know it.
    pub hello: Name,
    /// Below it: `32=TREE`. ndn-dv does not know it.
    pub tree: Name,
    /// `/localhop/<router>/32=DV/32=ADV`.
    pub own_advertisements: Name,
    /// `/<network>/32=DV`.
    pub network_control: Name,
    /// `/<network>/32=DV/32=PFS`.
    pub prefix_group: Name,
    /// Below it: `32=svs`.
    pub prefix_sync: Name,
    /// Below it: `v=3`.
    pub prefix_sync_interest: Name,
    /// Whether the names of routers are routes.
    pub routes_to_routers: bool,
    /// `/localhost/nlsr`, and others that the version has.
    pub managements: Vec<Name>,
    router: Name,
}

impl Names {
    pub(crate) fn new(network: &Name, router: &Name, version: &dyn Version) -> Self {
        let sync = localhop().join_name(network.as_ref()).join(keyword(b"DV")).join(keyword(b"ADS"));
        let network_control = network.join(keyword(b"DV"));
        let prefix_group = network_control.join(keyword(version.prefix_group()));
        let prefix_sync = prefix_group.join(keyword(b"svs"));
        let localhost = Name::from_components([Component::generic(b"localhost")]);
        Names {
            sync_active: sync.join(keyword(b"ACT")),
            sync_passive: sync.join(keyword(b"PSV")),
            hello: sync.join(keyword(b"HELLO")),
            tree: sync.join(keyword(b"TREE")),
            own_advertisements: advertisements(router.as_ref()),
            prefix_sync_interest: prefix_sync.join_number(VERSION, SVS_VERSION),
            managements: version.managements().iter().map(|word| localhost.join(Component::generic(word))).collect(),
            routes_to_routers: version.routes_to_routers(),
            router: router.clone(),
            sync,
            network_control,
            prefix_group,
            prefix_sync,
        }
    }

    /// Name of this router's sync Data.
    pub(crate) fn own_sync_data(&self) -> Name {
        sync_data(self.router.as_ref())
    }

    /// Name of this router's hellos.
    pub(crate) fn own_hello_data(&self) -> Name {
        hello_data(self.router.as_ref())
    }

    /// Name of what this router tells of trees.
    pub(crate) fn own_tree_data(&self) -> Name {
        tree_data(self.router.as_ref())
    }

    /// Prefix of the publications of a router.
    pub(crate) fn publications(&self, router: NameRef<'_>) -> Name {
        self.prefix_group.join_name(router)
    }

    /// Name of this router's prefix sync Data, made at a time in microseconds.
    pub(crate) fn own_prefix_sync_data(&self, boot: u64, unix_micros: u64) -> Name {
        let publications = self.publications(self.router.as_ref());
        publications.join_number(TIMESTAMP, boot).join(keyword(b"svs")).join_number(VERSION, unix_micros)
    }

    /// The router that a prefix sync Data's name claims, if the name has the right form:
    /// `<group>/<router>/t=<boot>/32=svs/v=<microseconds>`.
    pub(crate) fn sender_of_prefix_sync(&self, name: NameRef<'_>) -> Option<Name> {
        let rest = self.after_group(name)?;
        let depth = self.router.as_ref().len();
        let parts: Vec<Component<'_>> = rest.components().skip(depth).collect();
        let [boot, svs, version] = parts[..] else { return None };
        let is_right =
            boot.typ == TIMESTAMP && svs == keyword(b"svs") && version.typ == VERSION && version.number().is_some();
        is_right.then(|| rest.prefix(depth).to_name())
    }

    fn after_group<'a>(&self, name: NameRef<'a>) -> Option<NameRef<'a>> {
        let rest = name.value().strip_prefix(self.prefix_group.value())?;
        // A suffix of a name that begins between two components is a name.
        NameRef::new(rest).ok()
    }

    /// Base name of a publication: `<group>/<router>/t=<boot>/seq=<seq>/v=0`.
    pub(crate) fn publication(&self, router: NameRef<'_>, boot: u64, seq: u64) -> Name {
        let boot = self.publications(router).join_number(TIMESTAMP, boot);
        boot.join_number(SEQUENCE_NUM, seq).join_number(VERSION, 0)
    }

    /// Prefix of a router's snapshots: `<group>/<router>/t=<boot>/32=SNAP`.
    pub(crate) fn snapshots(&self, router: NameRef<'_>, boot: u64) -> Name {
        self.publications(router).join_number(TIMESTAMP, boot).join(keyword(b"SNAP"))
    }

    /// Whether a prefix belongs to the network itself or to hosts, so that no router may announce it.
    pub(crate) fn is_reserved(&self, prefix: NameRef<'_>) -> bool {
        let first = prefix.component(0);
        let is_scoped =
            [&b"localhost"[..], b"localhop"].into_iter().any(|scope| first == Some(Component::generic(scope)));
        is_scoped || self.network_control.as_ref().is_prefix_of(&prefix)
    }
}

/// Prefix of the advertisements of a router.
pub(crate) fn advertisements(router: NameRef<'_>) -> Name {
    neighbour_control(router).join(keyword(b"ADV"))
}

/// `/localhop/<router>/32=DV`: all that a neighbour serves to its neighbours.
pub(crate) fn neighbour_control(router: NameRef<'_>) -> Name {
    localhop().join_name(router).join(keyword(b"DV"))
}

/// Name of the sync Data of a router.
pub(crate) fn sync_data(router: NameRef<'_>) -> Name {
    advertisements(router).join(keyword(b"SYNC"))
}

/// Name of the hellos of a router. The trust schema of ndn-dv permits it.
pub(crate) fn hello_data(router: NameRef<'_>) -> Name {
    advertisements(router).join(keyword(b"HELLO"))
}

/// Name of what a router tells of trees. The trust schema of ndn-dv permits it.
pub(crate) fn tree_data(router: NameRef<'_>) -> Name {
    advertisements(router).join(keyword(b"TREE"))
}

/// The router whose words about trees have this name.
pub(crate) fn sender_of_tree(name: NameRef<'_>) -> Option<Name> {
    sender(name, b"TREE")
}

/// The router whose hello has this name.
pub(crate) fn sender_of_hello(name: NameRef<'_>) -> Option<Name> {
    sender(name, b"HELLO")
}

/// The router whose sync Data has this name.
pub(crate) fn sender_of_sync(name: NameRef<'_>) -> Option<Name> {
    sender(name, b"SYNC")
}

/// The router of `/localhop/<router>/32=DV/32=ADV/32=<last>`.
fn sender(name: NameRef<'_>, last: &[u8]) -> Option<Name> {
    let depth = name.len().checked_sub(4)?;
    let router = Name::from_components(name.components().skip(1).take(depth));
    (advertisements(router.as_ref()).join(keyword(last)).as_ref() == name).then_some(router)
}

/// Base name of an advertisement: `/localhop/<router>/32=DV/32=ADV/t=<boot>/v=<seq>`.
pub(crate) fn advertisement(router: NameRef<'_>, boot: u64, seq: u64) -> Name {
    advertisements(router).join_number(TIMESTAMP, boot).join_number(VERSION, seq)
}

/// Name of an object's metadata.
pub(crate) fn metadata(object: NameRef<'_>) -> Name {
    object.to_name().join(keyword(b"metadata"))
}

/// Name of a segment.
pub(crate) fn segment(base: &Name, number: u64) -> Name {
    base.join_number(SEGMENT, number)
}

/// Name of a version.
pub(crate) fn versioned(base: &Name, number: u64) -> Name {
    base.join_number(VERSION, number)
}

/// The number in the last component, if it has this type.
pub(crate) fn last_number(name: NameRef<'_>, typ: u16) -> Option<u64> {
    name.component(-1).filter(|last| last.typ == typ)?.number()
}

/// A name without its last `count` components.
pub(crate) fn without_last(name: NameRef<'_>, count: usize) -> NameRef<'_> {
    name.prefix(name.len().saturating_sub(count))
}

/// The name by which trust rules judge a packet: without segment, version and `32=metadata`.
pub(crate) fn judged(name: NameRef<'_>) -> Name {
    let mut rest = name;
    for dropped in [
        |last: Component<'_>| last.typ == SEGMENT,
        |last: Component<'_>| last.typ == VERSION,
        |last: Component<'_>| last == keyword(b"metadata"),
    ] {
        if rest.component(-1).is_some_and(dropped) {
            rest = without_last(rest, 1);
        }
    }
    rest.to_name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::{Dv2, Main};

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let names = Names::new(&name("/ndn"), &name("/ndn/r1"), &Main);
        assert_eq!(names.sync_active, name("/localhop/ndn/32=DV/32=ADS/32=ACT"));
        assert_eq!(names.sync_passive, name("/localhop/ndn/32=DV/32=ADS/32=PSV"));
        assert_eq!(names.own_sync_data(), name("/localhop/ndn/r1/32=DV/32=ADV/32=SYNC"));
        assert_eq!(advertisement(name("/ndn/r1").as_ref(), 7, 9), name("/localhop/ndn/r1/32=DV/32=ADV/t=7/v=9"));
        assert_eq!(names.prefix_sync_interest, name("/ndn/32=DV/32=PFS/32=svs/v=3"));
        let r1 = name("/ndn/r1");
        assert_eq!(names.publication(r1.as_ref(), 7, 3), name("/ndn/32=DV/32=PFS/ndn/r1/t=7/seq=3/v=0"));
        assert_eq!(names.snapshots(r1.as_ref(), 7), name("/ndn/32=DV/32=PFS/ndn/r1/t=7/32=SNAP"));
        let own = names.own_prefix_sync_data(7, 1_700_000_000_000_000);
        assert_eq!(own, name("/ndn/32=DV/32=PFS/ndn/r1/t=7/32=svs/v=1700000000000000"));
        assert_eq!(names.managements, [name("/localhost/nlsr")]);
        let names = Names::new(&name("/ndn"), &name("/ndn/r1"), &Dv2);
        assert_eq!(names.prefix_sync_interest, name("/ndn/32=DV/32=PSD/32=svs/v=3"));
        assert_eq!(names.managements, [name("/localhost/nlsr"), name("/localhost/dv")]);
    }

    #[test]
    fn senders_are_read_from_sync_data() {
        let names = Names::new(&name("/ndn"), &name("/ndn/r1"), &Main);
        let sender = |uri| names.sender_of_prefix_sync(name(uri).as_ref());
        assert_eq!(sender("/ndn/32=DV/32=PFS/ndn/r2/t=7/32=svs/v=1795550044123456"), Some(name("/ndn/r2")));
        assert_eq!(sender("/ndn/32=DV/32=PFS/ndn/r2/t=7/32=svs/seq=3"), None);
        assert_eq!(sender("/ndn/32=DV/32=PFS/ndn/r2/t=7/32=svs"), None);
        assert_eq!(sender("/ndn/32=DV/32=ADS/ndn/r2/t=7/32=svs/v=1795550044123456"), None);
    }

    #[test]
    fn senders_are_read_from_hellos() {
        assert_eq!(sender_of_hello(hello_data(name("/n/r").as_ref()).as_ref()), Some(name("/n/r")));
        assert_eq!(sender_of_sync(sync_data(name("/n/r").as_ref()).as_ref()), Some(name("/n/r")));
        for uri in ["/localhop/n/r/32=DV/32=ADV/32=SYNC", "/localhost/n/r/32=DV/32=ADV/32=HELLO", "/32=HELLO", "/a"] {
            assert_eq!(sender_of_hello(name(uri).as_ref()), None, "{uri}");
        }
    }

    #[test]
    fn rules_judge_objects_and_not_segments() {
        assert_eq!(judged(name("/a/t=1/v=2/seg=3").as_ref()), name("/a/t=1"));
        assert_eq!(judged(name("/a/32=SNAP/32=metadata/v=2/seg=0").as_ref()), name("/a/32=SNAP"));
        assert_eq!(judged(name("/a/32=svs/v=3").as_ref()), name("/a/32=svs"));
        assert_eq!(judged(name("/a/seq=3").as_ref()), name("/a/seq=3"));
    }

    #[test]
    fn names_of_the_network_are_reserved() {
        let names = Names::new(&name("/ndn"), &name("/ndn/r1"), &Main);
        for uri in ["/localhost", "/localhop/a", "/ndn/32=DV", "/ndn/32=DV/32=PFS/ndn/r9"] {
            assert!(names.is_reserved(name(uri).as_ref()), "{uri}");
        }
        for uri in ["/", "/ndn", "/ndn/r1", "/ndn/DV"] {
            assert!(!names.is_reserved(name(uri).as_ref()), "{uri}");
        }
    }
}
