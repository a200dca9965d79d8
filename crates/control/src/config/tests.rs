//! The documented default, and what is said to those who err.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("byname.toml"))
}

#[test]
fn the_documented_default_is_the_default() {
    assert_eq!(parse(default_toml()), Ok(Config::default()));
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn every_setting_is_documented() {
    // An unknown word makes the parser name all that it knows.
    let sections: Vec<&str> = default_toml().split("\n[").skip(1).collect();
    assert_eq!(sections.len(), 22);
    for section in sections {
        let (header, body) = section.split_once('\n').expect("a header ends");
        if header == "tables.strategies]" || header == "log.modules]" {
            continue;
        }
        let error = parse(&format!("[{header}\nzzzzzzzzzzzz = 1\n")).expect_err("an unknown word");
        let (_, known) = error.problem.split_once("known are ").expect("what is known");
        for key in known.split(", ").filter(|key| !key.contains("certificate") && !key.contains("hmac")) {
            let set = body.lines().any(|line| line.starts_with(&format!("{key} = ")));
            let table = format!("[{}.{key}]", header.trim_matches(['[', ']']));
            assert!(set || default_toml().contains(&table), "[{header} lacks {key}");
        }
    }
}

#[test]
fn peers_by_udp_in_frames_are_as_they_were_configured() {
    let config = parse(
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"xdp\"\nudp = [\n\
         { local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" },\n\
         { local = \"[2001:db8::1]:6363\", remote = \"[2001:db8::2]:7000\", station = \"08:00:27:01:02:03\" }]\n",
    );
    let peers = config.expect("good").faces.ethernet[0].datagram_peers();
    assert_eq!(peers[0].station, None);
    assert_eq!(peers[1].path.there, "[2001:db8::2]:7000".parse().expect("an address"));
    assert_eq!(peers[1].station.map(|station| station.to_string()).as_deref(), Some("08:00:27:01:02:03"));
}

/// What the default file says of a kind of faces that may be there several times, without its `#`.
fn documented(header: &str) -> String {
    let lines = default_toml().lines().skip_while(|line| *line != format!("#   {header}"));
    lines.map_while(|line| line.strip_prefix("#   ")).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_setting_of_an_interface_is_documented_with_its_default() {
    let kinds =
        [("[[faces.ethernet]]", "interface = \"eth0\""), ("[[faces.memif]]", "socket = \"/run/byname/memif.sock\"")];
    for (header, needed) in kinds {
        let (documented, shortest) = (documented(header), format!("{header}\n{needed}\n"));
        let faces = |text: &str| parse(text).expect(text).faces;
        assert_eq!(faces(&documented), faces(&shortest));
        let error = parse(&format!("{shortest}zzzzzzzzzzzzzzz = 1\n")).expect_err("an unknown word");
        let (_, known) = error.problem.split_once("known are ").expect("what is known");
        for key in known.split(", ") {
            assert!(documented.contains(&format!("\n{key} = ")), "{key} is not documented");
        }
    }
}

#[test]
fn an_interface_in_shared_memory_is_as_it_was_configured() {
    let text = "[[faces.memif]]\nsocket = \"/a\"\nrole = \"client\"\nid = 7\nframing = \"ethernet\"\n\
                secret = \"psst\"\nring = 64\nbuffer = \"4 KiB\"\nmtu = 1400\nlocal = true\n";
    let port = parse(text).expect("good").faces.memif[0].port(false);
    assert_eq!((port.role, port.framing), (byname_face::memif::Role::Client, byname_face::memif::Framing::Ethernet));
    assert_eq!((port.id, port.slots_log2, port.buffer_bytes, port.mtu), (7, 6, 4096, 1400));
    assert_eq!((&port.secret[..6], port.local, port.congestion_marking), (&b"psst\0\0"[..], true, false));
    assert!(port.datagrams.is_none());
    let by_udp = format!("{text}udp = [{{ local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" }}]\n");
    for (mtu, expected) in [("mtu = 1400", 1400), ("", 1472)] {
        let port = parse(&by_udp.replace("mtu = 1400", mtu)).expect("good").faces.memif[0].port(false);
        assert_eq!(port.datagrams.map(|peer| (peer.path.there.port(), peer.station)), Some((6363, None)));
        assert_eq!(port.mtu, expected);
    }
    // One socket has many clients, of different interfaces.
    parse(&format!("{text}{}", text.replace("id = 7", "id = 8"))).expect("good");
}

#[test]
fn values_are_written_as_people_do() {
    let config = parse(
        r#"
        [tables]
        cs_bytes = "1 GiB"
        cs_policy = "s3-fifo"
        fib = "two-stage"
        name_hash = "aes"
        strategies = { "/" = "multicast", "/a" = "/localhost/nfd/strategy/best-route" }
        [faces.udp]
        idle_timeout = "90 s"
        [network]
        producer_regions = ["/net/here"]
        [log]
        level = "warn"
        modules = { byname_face = "trace" }
        [[face]]
        remote = "udp4://192.0.2.1:6363"
        [[route]]
        prefix = "/ndn"
        face = "udp4://192.0.2.1:6363"
        cost = 10
        "#,
    )
    .expect("a configuration");
    assert_eq!(config.tables.cs_bytes, 1 << 30);
    assert_eq!(config.tables.cs_policy, CsPolicy::S3Fifo);
    assert_eq!(config.tables.fib, FibEngineKind::TwoStage);
    assert_eq!(config.tables.name_hash, HashFunction::Aes);
    assert_eq!(config.tables.strategies.len(), 2);
    assert_eq!(config.faces.udp.idle_timeout, Duration::from_secs(90));
    assert_eq!(config.network.producer_regions[0].to_string(), "/net/here");
    assert_eq!(config.log.filter(), "warn,byname_face=trace");
    assert_eq!(config.initial_faces, [InitialFace::new("udp4://192.0.2.1:6363".parse().expect("a URI"))]);
    assert_eq!(config.initial_routes[0].cost, 10);
    assert!(config.initial_routes[0].child_inherit);
}

/// What is wrong, and all that is said about it.
const ERRORS: &[(&str, &str)] = &[
    (
        "[faces.udp]\nlisten = true\nprot = 6363\n",
        "byname.toml:3:1: unknown word `prot` in [faces.udp]; did you mean `port`?",
    ),
    ("[table]\n", "byname.toml:1:2: unknown word `table` in [table]; did you mean `tables`?"),
    ("[metrics]\nzzzzzzzz = 1\n", "byname.toml:2:1: unknown word `zzzzzzzz` in [metrics]; known are enabled, listen"),
    ("[log]\nlevel = \"wran\"\n", "byname.toml:2:9: unknown word `wran` in [log]; did you mean `warn`?"),
    (
        "[faces.udp]\nidle_timeout = \"10 minuts\"\n",
        "byname.toml:2:16: \"10 minuts\" is no time; write for example \"10 min\", \"30 s\" or \"500 ms\"",
    ),
    (
        "[faces.udp]\nidle_timeout = 600\n",
        "byname.toml:2:16: 600 is no time; write for example \"10 min\", \"30 s\" or \"500 ms\"",
    ),
    (
        "[tables]\ncs_bytes = \"many\"\n",
        "byname.toml:2:12: \"many\" is no size; write octets, or for example \"128 MiB\" or \"500 MB\"",
    ),
    ("[tables]\npit_entries = 0\n", "byname.toml:2:15: 0 would let nothing through; write at least 1"),
    ("[faces.tcp]\nport = 70000\n", "byname.toml:2:8: 70000 is no port; write 0 to 65535 (0: any free one)"),
    ("[faces.udp]\nmtu = 20\n", "byname.toml:2:7: 20 octets are no frame size; write 64 to 8800"),
    ("[network]\nproducer_regions = [\"net\"]\n", "byname.toml:2:20: \"net\" is no name; names begin with /"),
    (
        "[tables.strategies]\n\"/\" = \"fastest\"\n",
        "byname.toml:1:1: \"fastest\" for /: no such strategy; write \"best-route\", \"multicast\", \"adaptive\" \
         or the full name of one of these",
    ),
    (
        "[tables.strategies]\n\"/a\" = \"multicast\"\n",
        "byname.toml:1:1: every name needs a strategy: add \"/\" = \"best-route\"",
    ),
    (
        "[faces.udp.multicast]\ngroup_ipv4 = \"192.0.2.1:56363\"\n",
        "byname.toml:2:14: 192.0.2.1:56363 is no IPv4 multicast group; write for example \"224.0.23.170:56363\"",
    ),
    (
        "[[authorization]]\nfrom = \"network\"\nsigner = \"any\"\nmodules = [\"rib\"]\n",
        "byname.toml:1:1: signer = \"any\" with from = \"network\" would let anyone command this router: \
         name a certificate, or write from = \"host\"",
    ),
    (
        "[[authorization]]\nmodules = [\"rib\"]\n",
        "byname.toml:1:1: an [[authorization]] wants exactly one of signer = \"any\", certificate = \"FILE\", \
         or hmac_key = \"/name\" with hmac_secret_file = \"FILE\"",
    ),
    (
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"ribs\"]\n",
        "byname.toml:3:12: unknown word `ribs` in [[authorization]]; did you mean `rib`?",
    ),
    (
        "[faces.tcp]\nipv4 = false\nipv6 = false\n",
        "byname.toml: [faces.tcp] listens, but neither on ipv4 nor on ipv6: set `listen = false`, \
         or one of `ipv4` and `ipv6` to true",
    ),
    (
        "[faces.websocket]\nport = 6363\n",
        "byname.toml: [faces.tcp] and [faces.websocket] both want TCP port 6363: change one `port`",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\ngroup = \"02:00:00:00:00:01\"\n",
        "byname.toml:3:9: \"02:00:00:00:00:01\" is no MAC address of a group; write for example \"01:00:5e:00:17:aa\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nreceive_ring = 1\n",
        "byname.toml:3:16: a ring of 1 octets; write \"64 KiB\" to \"1 GiB\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\n[[faces.ethernet]]\ninterface = \"eth0\"\n",
        "byname.toml: eth0 has two [[faces.ethernet]]: leave one out",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"netmap\"\n",
        "byname.toml:3:8: unknown word `netmap` in [[faces.ethernet]]; known are packet-mmap, xdp, dpdk",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"dpdk\"\n",
        "byname.toml: eth0 has port = \"dpdk\" and no device: write for example dpdk_device = \"0000:01:00.0\", which \
         `dpdk-devbind.py --status` lists, or \"net_memif0,role=server,socket=/run/dpdk.sock,socket-abstract=no\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\ndpdk_device = \"0000:01:00.0\"\n",
        "byname.toml: eth0 has a dpdk_device, and another port: write port = \"dpdk\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"dpdk\"\ndpdk_device = \"net_null0\"\ndpdk_mtu = 60\n",
        "byname.toml:5:12: a device's MTU of 60 octets; write 68 to 9600",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"xdp\"\n\
         udp = [{ local = \"192.0.2.1:6363\", remote = \"[2001:db8::2]:6363\" }]\n",
        "byname.toml: 192.0.2.1:6363 and [2001:db8::2]:6363, of eth0, are not of one family: IPv4, or IPv6",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"xdp\"\n\
         udp = [{ local = \"192.0.2.1:6363\", remote = \"224.0.23.170:6363\" }]\n",
        "byname.toml:4:45: 224.0.23.170:6363 is no address of a host on this link, or no port; \
         write for example \"192.0.2.1:6363\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nudp = [{ local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" }]\n",
        "byname.toml: /a has a peer by `udp`, in Ethernet frames: write framing = \"ethernet\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nframing = \"ethernet\"\nudp = [\n\
         { local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" },\n\
         { local = \"192.0.2.1:6363\", remote = \"192.0.2.3:6363\" }]\n",
        "byname.toml: /a has 2 peers by `udp`; an interface has one",
    ),
    (
        "[[faces.memif]]\nsocket = \"memif.sock\"\n",
        "byname.toml:2:10: \"memif.sock\" is no absolute path of up to 107 octets; \
         write for example \"/run/byname/memif.sock\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nrole = \"master\"\n",
        "byname.toml:3:8: unknown word `master` in [[faces.memif]]; known are server, client",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nring = 1000\n",
        "byname.toml:3:8: a ring of 1000 slots; write a power of two, 8 to 16384",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nbuffer = 100\n",
        "byname.toml:3:10: buffers of 100 octets; write a multiple of 64, \"64 B\" to \"64 KiB\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nsecret = \"a secret of 25 octets....\"\n",
        "byname.toml:3:10: a secret of 25 octets; memif has room for 24",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\n[[faces.memif]]\nsocket = \"/a\"\nid = 1\n",
        "byname.toml: two [[faces.memif]] listen on /a: give each server a `socket` of its own",
    ),
    (
        "[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"eth0\"\n",
        "byname.toml:3:9: \"eth0\" is no interface; write for example \"dev://eth0\"",
    ),
    (
        "[[face]]\nremote = \"unix:///run/x.sock\"\n",
        "byname.toml:2:10: \"unix:///run/x.sock\" cannot be connected to; \
         write for example \"udp4://192.0.2.1:6363\" or \"tcp6://[2001:db8::1]:6363\"",
    ),
];

#[test]
fn errors_say_where_and_what_to_do() {
    for (text, expected) in ERRORS {
        let error = parse(text).expect_err(text);
        assert_eq!(error.to_string(), *expected, "for\n{text}");
    }
}

#[test]
fn malformed_toml_has_a_place() {
    let error = parse("[general\nspin = 1\n").expect_err("no TOML");
    assert_eq!(error.position.map(|(line, _)| line), Some(1));
    assert!(!error.problem.is_empty());
}

#[test]
fn rights_come_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("byname.toml");
    let with = |text: &str| Config::parse(text, &path).expect("a configuration").authorizer();
    let hmac =
        "[[authorization]]\nfrom = \"network\"\nhmac_key = \"/k\"\nhmac_secret_file = \"s\"\nmodules = [\"rib\"]\n";
    assert!(matches!(with(hmac), Err(RightsError::Secret { .. })));
    std::fs::write(folder.path().join("s"), "short\n").expect("written");
    assert!(matches!(with(hmac), Err(RightsError::ShortSecret { octets: 5, .. })));
    std::fs::write(folder.path().join("s"), "a secret of some length\n").expect("written");
    let authorizer = with(hmac).expect("rights");
    assert!(authorizer.serves_remote(crate::security::Module::Rib));
    assert!(!authorizer.serves_remote(crate::security::Module::Faces));
    let anchors = "[rib]\nlocalhop_anchors = [\"none.ndncert\"]\n";
    let Err(error) = with(anchors) else { panic!("there is no such file") };
    assert!(error.to_string().contains("none.ndncert"), "{error}");
}
