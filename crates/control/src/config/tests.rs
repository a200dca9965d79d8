//! Tests of the default configuration and of error messages.

use std::ops::ControlFlow;
use std::path::Path;

use byname_lookup::tagset::TagQuery;
use byname_lookup::{Change, EntryId};
use byname_wire::Descriptor;

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
    // For an unknown key, the parser's error lists all known keys.
    let sections: Vec<&str> = default_toml().split("\n[").skip(1).collect();
    assert_eq!(sections.len(), 35);
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

/// The settings that the default file shows in comments for a repeatable table, without the leading `#`.
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
fn every_setting_of_a_flat_namespace_is_documented_with_its_default() {
    let (documented, shortest) =
        (documented("[[flat]]"), "[[flat]]\nprefix = \"/objects\"\ntable = \"objects.flat\"\n");
    assert_eq!(parse(&documented).expect("good").flat, parse(shortest).expect("good").flat);
    let error = parse(&format!("{shortest}zzzzzzzzzzzzzzz = 1\n")).expect_err("an unknown word");
    let (_, known) = error.problem.split_once("known are ").expect("what is known");
    for key in known.split(", ") {
        assert!(documented.contains(&format!("\n{key} = ")), "{key} is not documented");
    }
}

#[test]
fn flat_namespaces_that_cannot_be_are_refused() {
    let flat = |prefix: &str| format!("[[flat]]\nprefix = \"{prefix}\"\ntable = \"x.flat\"\n");
    let findings = |prefixes: &[&str]| {
        let text: String = prefixes.iter().map(|prefix| flat(prefix)).collect();
        parse(&text).map_or_else(|error| error.problem, |_| String::new())
    };
    assert_eq!(findings(&["/objects", "/objects/sha256"]), "");
    assert!(findings(&["/objects", "/objects"]).contains("two [[flat]]"));
    let remedy = |more: &str, told: &str| {
        let error = parse(&format!("{}{more}\n", flat("/objects"))).expect_err(more).problem;
        assert!(error.contains(told), "{error}");
    };
    remedy("unknown = \"filter\"", "`filter = \"objects.filter\"`, made by `byname flat build --filter`");
    remedy("unknown = \"exact\"\nfilter = \"x.filter\"", "`filter` is not used: set `unknown = \"filter\"` too");
    remedy("unknown = \"exact\"", "`exact = \"objects.exact\"`, made by `byname flat build --exact`");
    remedy("exact = \"x.names\"", "`exact` is not used");
    let error = parse("[[flat]]\nprefix = \"/o\"\nunknown = \"exact\"\nexact = \"x.names\"\n").expect_err("no table");
    assert!(error.problem.contains("needs a `table`"), "{}", error.problem);
    assert!(findings(&["/localhost/nfd"]).contains("management"));
    let many: Vec<String> = (0..17).map(|n| format!("/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(findings(&many).contains("more than 16"));
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
    // One socket serves many clients, each with its own interface number.
    parse(&format!("{text}{}", text.replace("id = 7", "id = 8"))).expect("good");
}

#[test]
fn strategies_have_short_names_and_nfds_defaults() {
    let chosen =
        |config: &Config, prefix: &str| config.tables.strategies[&prefix.parse::<Name>().expect("a name")].to_string();
    let defaults = Config::default();
    for (prefix, strategy) in [
        ("/", "best-route"),
        ("/localhost", "multicast"),
        ("/localhost/nfd", "best-route"),
        ("/ndn/broadcast", "multicast"),
    ] {
        assert_eq!(chosen(&defaults, prefix), format!("/localhost/nfd/strategy/{strategy}/v=5"));
    }
    let config = parse(r#"tables.strategies = { "/" = "adaptive", "/a" = "asf" }"#).expect("both are names of one");
    for prefix in ["/", "/a"] {
        assert_eq!(chosen(&config, prefix), "/localhost/nfd/strategy/asf/v=5");
    }
    let config = parse(r#"tables.strategies = { "/" = "asf/v=5/max-timeouts~5" }"#).expect("parameters may follow");
    assert_eq!(chosen(&config, "/"), "/localhost/nfd/strategy/asf/v=5/max-timeouts~5");
}

#[test]
fn every_engine_can_be_chosen() {
    let words = ["compact", "compact-exact", "longest-first", "two-stage", "binary-search", "level-pulling", "learned"];
    for (word, kind) in words.into_iter().zip(FibEngineKind::ALL) {
        assert_eq!(parse(&format!("tables.fib = \"{word}\"")).expect(word).tables.fib, kind);
    }
    assert!(parse("tables.fib = \"trie\"").is_err());
    for (written, depth) in [
        ("4", StartDepth::Fixed(4)),
        ("0.5", StartDepth::CumulativeThreshold(0.5)),
        ("\"most-likely\"", StartDepth::MostLikely),
    ] {
        let config = parse(&format!("tables.fib_start_depth = {written}\ntables.fib_children = 9")).expect(written);
        assert_eq!(config.tables.fib_parameters(), FibParameters { start_depth: depth, children: 9 });
    }
    for bad in [
        "fib_start_depth = 0",
        "fib_start_depth = 129",
        "fib_start_depth = 1.5",
        "fib_start_depth = \"x\"",
        "fib_start_depth = nan",
        "fib_children = 0",
    ] {
        assert!(parse(&format!("tables.{bad}")).is_err(), "{bad}");
    }
    for word in ["rare-tag", "trie"] {
        let config = parse(&format!("tags.engine = \"{word}\"\ntags.descriptors_max = 100")).expect(word);
        let mut engine = config.tags.build_engine(7).expect("little memory");
        let tags = |tags: &[&str]| Descriptor::of(tags).expect("few tags");
        engine.apply(&[Change::Set(tags(&["a", "b"]), EntryId(5))]).expect("room");
        let mut found = Vec::new();
        engine.query().all_subsets(&TagQuery::of_tags(tags(&["a", "b", "c"]).tags()), &mut |entry| {
            found.push(entry);
            ControlFlow::Continue(())
        });
        assert_eq!(found, [EntryId(5)], "{word}");
    }
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

/// Each wrong input and its complete error message.
const ERRORS: &[(&str, &str)] = &[
    (
        "[faces.udp]\nlisten = true\nprot = 6363\n",
        "byname.toml:3:1: unknown word `prot` in [faces.udp]; did you mean `port`?",
    ),
    ("[table]\n", "byname.toml:1:2: unknown word `table` in [table]; did you mean `tables`?"),
    (
        "[metrics]\nzzzzzzzz = 1\n",
        "byname.toml:2:1: unknown word `zzzzzzzz` in [metrics]; known are enabled, listen, faces, otlp, otlp_interval",
    ),
    (
        "[metrics]\notlp = \"https://collector:4318\"\n",
        "byname.toml:2:8: \"https://collector:4318\" needs TLS, which byname does not speak to collectors; write the \
         http:// address of a collector on this host, which passes metrics on by TLS",
    ),
    (
        "[metrics]\notlp = \"127.0.0.1:4318\"\n",
        "byname.toml:2:8: \"127.0.0.1:4318\" is not the address of a collector; write for example \
         \"http://127.0.0.1:4318\"",
    ),
    (
        "[metrics]\notlp = \"http://:4318\"\n",
        "byname.toml:2:8: \"http://:4318\" is not the address of a collector; write for example \
         \"http://127.0.0.1:4318\"",
    ),
    (
        "[metrics]\notlp_interval = \"900 ms\"\n",
        "byname.toml:2:17: metrics would be made all the time; write at least \"1 s\"",
    ),
    ("[log]\nlevel = \"wran\"\n", "byname.toml:2:9: unknown word `wran` in [log]; did you mean `warn`?"),
    (
        "[faces.udp]\nidle_timeout = \"10 minuts\"\n",
        "byname.toml:2:16: \"10 minuts\" is not a duration; write for example \"10 min\", \"30 s\" or \"500 ms\"",
    ),
    (
        "[faces.udp]\nidle_timeout = 600\n",
        "byname.toml:2:16: 600 is not a duration; write for example \"10 min\", \"30 s\" or \"500 ms\"",
    ),
    (
        "[tables]\ncs_bytes = \"many\"\n",
        "byname.toml:2:12: \"many\" is not a size; write a number of bytes, or for example \"128 MiB\" or \"500 MB\"",
    ),
    ("[tables]\npit_entries = 0\n", "byname.toml:2:15: 0 is too small: nothing could pass; write at least 1"),
    ("[faces.tcp]\nport = 70000\n", "byname.toml:2:8: 70000 is not a port; write 0 to 65535 (0: any free port)"),
    ("[faces.udp]\nmtu = 20\n", "byname.toml:2:7: a frame size of 20 bytes is not possible; write 64 to 8800"),
    (
        "[faces.stream]\nlocal_queue_max = \"1 KiB\"\n",
        "byname.toml:2:19: a queue of 1024 bytes is too small for the packets of one burst; write at least \"64 KiB\"",
    ),
    (
        "[faces.stream]\nstall_timeout = \"0 s\"\n",
        "byname.toml:2:17: 0s is too short and would close connections to working peers; write at least \"1 s\"",
    ),
    ("[network]\nproducer_regions = [\"net\"]\n", "byname.toml:2:20: \"net\" is not a name; names begin with /"),
    (
        "[tables.strategies]\n\"/\" = \"fastest\"\n",
        "byname.toml:1:1: \"fastest\" for /: no such strategy; write \"best-route\", \"multicast\", \"adaptive\", \
         \"access\", \"random\", \"self-learning\" or the full name of one of these",
    ),
    (
        "[tables.strategies]\n\"/a\" = \"multicast\"\n",
        "byname.toml:1:1: every name needs a strategy: add \"/\" = \"best-route\"",
    ),
    (
        "[faces.websocket]\nlocal_origins = [\"http://localhost/\"]\n",
        "byname.toml:2:17: \"http://localhost/\" is not the origin of a web page; write scheme and host, and the port \
         unless it is the scheme's default, for example \"http://localhost:8080\"",
    ),
    (
        "[faces.udp.multicast]\ngroup_ipv4 = \"192.0.2.1:56363\"\n",
        "byname.toml:2:14: 192.0.2.1:56363 is not an IPv4 multicast group; write for example \"224.0.23.170:56363\"",
    ),
    (
        "[[authorization]]\nfrom = \"network\"\nsigner = \"any\"\nmodules = [\"rib\"]\n",
        "byname.toml:1:1: signer = \"any\" with from = \"network\" would let anyone command this router: \
         name a certificate, or write from = \"host\"",
    ),
    (
        "[[authorization]]\nmodules = [\"rib\"]\n",
        "byname.toml:1:1: an [[authorization]] needs exactly one of signer = \"any\", signer = \"trusted\", certificate = \"FILE\", \
         or hmac_key = \"/name\" with hmac_secret_file = \"FILE\"",
    ),
    (
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"ribs\"]\n",
        "byname.toml:3:12: unknown word `ribs` in [[authorization]]; did you mean `rib`?",
    ),
    (
        "[faces.tcp]\nipv4 = false\nipv6 = false\n",
        "byname.toml:1:8: [faces.tcp] listens, but neither on ipv4 nor on ipv6: set `listen = false`, \
         or one of `ipv4` and `ipv6` to true",
    ),
    (
        "[faces.websocket]\nport = 6363\n",
        "byname.toml:2:1: [faces.tcp] and [faces.websocket] both use TCP port 6363: change one",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\ngroup = \"02:00:00:00:00:01\"\n",
        "byname.toml:3:9: \"02:00:00:00:00:01\" is not a multicast MAC address; write for example \"01:00:5e:00:17:aa\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nreceive_ring = 1\n",
        "byname.toml:3:16: a ring of 1 bytes is not possible; write \"64 KiB\" to \"1 GiB\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\n[[faces.ethernet]]\ninterface = \"eth0\"\n",
        "byname.toml:4:1: eth0 has two [[faces.ethernet]]: leave one out",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"netmap\"\n",
        "byname.toml:3:8: unknown word `netmap` in [[faces.ethernet]]; known are packet-mmap, xdp, dpdk",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"dpdk\"\n",
        "byname.toml:2:1: eth0 has port = \"dpdk\" but no device: write for example dpdk_device = \"0000:01:00.0\", which \
         `dpdk-devbind.py --status` lists, or \"net_memif0,role=server,socket=/run/dpdk.sock,socket-abstract=no\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\ndpdk_device = \"0000:01:00.0\"\n",
        "byname.toml:2:1: eth0 has a dpdk_device, but its port is not \"dpdk\": write port = \"dpdk\"",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"dpdk\"\ndpdk_device = \"net_null0\"\ndpdk_mtu = 60\n",
        "byname.toml:5:12: a device's MTU of 60 bytes is not possible; write 68 to 9600",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"xdp\"\n\
         udp = [{ local = \"192.0.2.1:6363\", remote = \"[2001:db8::2]:6363\" }]\n",
        "byname.toml:2:1: eth0 has a peer in `udp` with 192.0.2.1:6363 and [2001:db8::2]:6363: both must be IPv4, or both IPv6",
    ),
    (
        "[[faces.ethernet]]\ninterface = \"eth0\"\nport = \"xdp\"\n\
         udp = [{ local = \"192.0.2.1:6363\", remote = \"224.0.23.170:6363\" }]\n",
        "byname.toml:4:45: 224.0.23.170:6363 is not the address of a host on this link with a port; \
         write for example \"192.0.2.1:6363\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nudp = [{ local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" }]\n",
        "byname.toml:2:1: /a has a peer in `udp`, which needs Ethernet frames: write framing = \"ethernet\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nframing = \"ethernet\"\nudp = [\n\
         { local = \"192.0.2.1:6363\", remote = \"192.0.2.2:6363\" },\n\
         { local = \"192.0.2.1:6363\", remote = \"192.0.2.3:6363\" }]\n",
        "byname.toml:2:1: /a has 2 peers in `udp`, but an interface can have only one",
    ),
    (
        "[[faces.memif]]\nsocket = \"memif.sock\"\n",
        "byname.toml:2:10: \"memif.sock\" is not an absolute path of at most 107 bytes; \
         write for example \"/run/byname/memif.sock\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nrole = \"master\"\n",
        "byname.toml:3:8: unknown word `master` in [[faces.memif]]; known are server, client",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nring = 1000\n",
        "byname.toml:3:8: a ring of 1000 slots is not possible; write a power of two, 8 to 16384",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nbuffer = 100\n",
        "byname.toml:3:10: buffers of 100 bytes are not possible; write a multiple of 64, \"64 B\" to \"64 KiB\"",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\nsecret = \"a secret of 25 bytes.....\"\n",
        "byname.toml:3:10: a secret of 25 bytes is too long; memif has room for 24",
    ),
    (
        "[[faces.memif]]\nsocket = \"/a\"\n[[faces.memif]]\nsocket = \"/a\"\nid = 1\n",
        "byname.toml:4:1: two [[faces.memif]] listen on /a: give each server a `socket` of its own",
    ),
    (
        "[[face]]\nremote = \"ether://[02:00:00:00:00:01]\"\nlocal = \"eth0\"\n",
        "byname.toml:3:9: \"eth0\" is not an interface; write for example \"dev://eth0\"",
    ),
    (
        "[[route]]\nprefix = \"/localhost/nfd/faces\"\nface = \"udp4://192.0.2.1:6363\"\n",
        "byname.toml:2:1: the [[route]] /localhost/nfd/faces is for names of this router's management: leave it out; \
         only /localhop/nfd itself may lead to another router, the hub",
    ),
    (
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"rib\"]\nprefixes = [\"/a\", \"/localhost/nfd\"]\n",
        "byname.toml:1:1: `prefixes` has /localhost/nfd, which belongs to this router's management: leave it out \
         (with from = \"host\", \"/localhop/nfd\" itself lets a signer name the hub)",
    ),
    (
        "[[authorization]]\nsigner = \"any\"\nmodules = [\"rib\"]\nprefixes = [\"a\"]\n",
        "byname.toml:4:12: \"a\" is not a name; names begin with /",
    ),
    (
        "[rib.propagate]\nenabled = true\n",
        "byname.toml:1:6: [rib.propagate] is enabled and has no key_name: write the name of this host's key, \
         for example \"/net/alice/KEY/1\" (`byname keygen` makes a key)",
    ),
    (
        "[rib.propagate]\nenabled = true\nkey_name = \"/net/alice/KEY/1\"\n",
        "byname.toml:1:6: [rib.propagate] needs exactly one of key_file and hmac_secret_file",
    ),
    (
        "[rib.propagate]\nhub = \"192.0.2.1\"\n",
        "byname.toml:2:7: '192.0.2.1' is not a face URI in canonical form: there is no scheme; \
         write for example \"udp4://192.0.2.1:6363\"",
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
    let problems = |text: &str| with(text).err().expect("a file is missing");
    assert!(problems(hmac)[0].text.contains("hmac_secret_file") && problems(hmac)[0].text.contains("No such file"));
    std::fs::write(folder.path().join("s"), "short\n").expect("written");
    assert!(problems(hmac)[0].text.contains("holds 5 bytes"));
    std::fs::write(folder.path().join("s"), "a secret of some length\n").expect("written");
    let authorizer = with(hmac).expect("rights");
    assert!(authorizer.serves_remote(crate::security::Module::Rib));
    assert!(!authorizer.serves_remote(crate::security::Module::Faces));
    let anchors = "[rib]\nlocalhop_anchors = [\"none.ndncert\"]\n";
    let found = problems(anchors);
    assert!(found[0].text.contains("none.ndncert") && found[0].key == "rib.localhop_anchors.0", "{found:?}");
    // All missing files are reported together.
    let certificate = "[[authorization]]\ncertificate = \"gone.ndncert\"\nmodules = [\"rib\"]\n";
    let found = problems(&format!("{certificate}{anchors}"));
    assert_eq!((found.len(), found[0].key.as_str()), (2, "authorization.0.certificate"));
}

#[test]
fn all_that_contradicts_each_other_is_told_at_once() {
    let error = parse(
        "[faces.websocket]\nport = 6363\n[metrics]\nlisten = \"127.0.0.1:6363\"\n\
         [faces.udp]\nipv4 = false\nipv6 = false\n\
         [faces.unix]\npath = \"/run/a.sock\"\n[[faces.memif]]\nsocket = \"/run/a.sock\"\n",
    );
    let told = error.expect_err("five things").to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 5, "{told}");
    assert!(lines[0].starts_with("byname.toml:5:8: [faces.udp] listens, but"), "{told}");
    assert_eq!(lines[1], "byname.toml:2:1: [faces.tcp] and [faces.websocket] both use TCP port 6363: change one");
    assert_eq!(lines[2], "byname.toml:4:1: [faces.tcp] and [metrics] both use TCP port 6363: change one");
    assert_eq!(lines[3], "byname.toml:4:1: [faces.websocket] and [metrics] both use TCP port 6363: change one");
    assert!(lines[4].contains("[faces.unix] and [[faces.memif]] both use the socket /run/a.sock"), "{told}");
    // Different addresses, or port 0, do not conflict.
    parse("[metrics]\nlisten = \"[::1]:6363\"\n[faces.tcp]\nipv6 = false\n").expect("good");
    parse("[metrics]\nlisten = \"127.0.0.1:0\"\n[faces.tcp]\nport = 0\n").expect("good");
}

#[test]
fn secrets_that_others_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("byname.toml");
    let text = "[[authorization]]\nhmac_key = \"/k\"\nhmac_secret_file = \"s\"\nmodules = [\"rib\"]\n\
                [[faces.memif]]\nsocket = \"/a\"\nsecret = \"psst\"\n\
                [tags]\ngraph = \"g\"\nnode = \"n\"\ntree = [{ id = 1, root = \"n\" }]\n\
                key_name = \"/n/KEY/1\"\nkey_file = \"s\"\n\
                [[tags.neighbor]]\nnode = \"m\"\nface = \"udp4://192.0.2.1:6363\"\nhmac_key = \"/m\"\n\
                hmac_secret_file = \"s\"\n";
    let secret = folder.path().join("s");
    for path in [&secret, &file] {
        std::fs::write(path, text).expect("written");
    }
    let set = |mode| {
        for path in [&secret, &file] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
        }
        Config::parse(text, &file).expect("good").exposed_secrets(&file)
    };
    assert_eq!(set(0o600), []);
    let found = set(0o640);
    assert_eq!(
        found.iter().map(|f| f.key.as_str()).collect::<Vec<_>>(),
        [
            "authorization.0.hmac_secret_file",
            "tags.key_file",
            "tags.neighbor.0.hmac_secret_file",
            "faces.memif.0.secret"
        ]
    );
    assert!(found[0].text.contains("(mode 640): `chmod 600 ") && !found[0].is_fatal, "{found:?}");
}

#[test]
fn a_host_signs_to_its_hub_with_a_key_or_a_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("byname.toml");
    let signer = |text: &str| {
        let text = format!("[rib.propagate]\nenabled = true\nkey_name = \"/net/alice/KEY/1\"\n{text}");
        Config::parse(&text, &path).expect("a configuration").propagate_signer()
    };
    assert!(matches!(parse("").expect("the default").propagate_signer(), Ok(None)));
    let key = "key_file = \"key\"\n";
    assert!(matches!(signer(key), Err(RightsError::PrivateKey { .. })));
    std::fs::write(folder.path().join("key"), "-----BEGIN EC PRIVATE KEY-----\nAAAA\n").expect("written");
    let Err(error) = signer(key) else { panic!("it is not PKCS#8") };
    assert!(error.to_string().contains("openssl"), "{error}");
    let random = ring::rand::SystemRandom::new();
    let algorithm = &ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING;
    let pkcs8 = ring::signature::EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let pem = crate::security::pem(pkcs8.as_ref());
    for bytes in [pkcs8.as_ref(), pem.as_bytes()] {
        std::fs::write(folder.path().join("key"), bytes).expect("written");
        assert!(matches!(signer(key), Ok(Some(_))));
    }
    let secret = "hmac_secret_file = \"secret\"\n";
    std::fs::write(folder.path().join("secret"), "short").expect("written");
    assert!(matches!(signer(secret), Err(RightsError::ShortSecret { .. })));
    std::fs::write(folder.path().join("secret"), "a secret of some length\n").expect("written");
    assert!(matches!(signer(secret), Ok(Some(_))));
}

#[test]
fn the_hub_is_told_the_identity_unless_prefixes_say_otherwise() {
    let prefixes = |text: &str| {
        let config = parse(&format!("[rib.propagate]\n{text}")).expect("a configuration");
        let prefixes = config.rib.propagate.prefixes();
        prefixes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(prefixes("key_name = \"/net/alice/KEY/1\"\n"), ["/net/alice"]);
    assert_eq!(prefixes("key_name = \"/net/alice/KEY/1/hub/v=1\"\n"), ["/net/alice"]);
    assert_eq!(prefixes("key_name = \"/net/alice\"\n"), ["/net/alice"]);
    assert_eq!(prefixes("key_name = \"/k/KEY/1\"\nprefixes = [\"/a\", \"/b\"]\n"), ["/a", "/b"]);
}

#[test]
fn neighbours_on_trees_need_keys() {
    let config = |settings: &str, of_neighbor: &str| {
        parse(&format!(
            "[tags]\ngraph = \"network.txt\"\nnode = \"a\"\n{settings}[[tags.tree]]\nid = 1\nroot = \"a\"\n\
             [[tags.neighbor]]\nnode = \"b\"\nface = \"udp4://192.0.2.1:6363\"\n{of_neighbor}"
        ))
    };
    let (secret, certificate) = ("hmac_key = \"/net\"\nhmac_secret_file = \"s\"\n", "certificate = \"b.ndncert\"\n");
    let own_key = "key_name = \"/net/a/KEY/1\"\nkey_file = \"a.pkcs8\"\n";
    for (settings, of_neighbor) in
        [("", secret), (own_key, certificate), ("allow_unsigned_neighbors = true\n", ""), (own_key, secret)]
    {
        assert!(config(settings, of_neighbor).is_ok(), "{settings}{of_neighbor}");
    }
    let both = format!("{secret}{certificate}");
    for (settings, of_neighbor, told) in [
        ("", "", "the [[tags.neighbor]] b has no key"),
        ("", certificate, "add key_name = "),
        ("key_name = \"/net/a/KEY/1\"\n", certificate, "key_file = "),
        ("", "hmac_key = \"/net\"\n", "needs either hmac_key"),
        (own_key, &both, "needs either hmac_key"),
        ("", "hmac_key = \"net\"\n", "names begin with /"),
    ] {
        let error = config(settings, of_neighbor).expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// The configurations in a document: blocks of TOML, except those whose mark says that they are none.
fn configurations(document: &str) -> impl Iterator<Item = &str> {
    let blocks = document.split("```toml\n").collect::<Vec<_>>();
    let pairs: Vec<(&str, &str)> = blocks.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.into_iter().filter_map(|(before, block)| {
        let is_marked = before.lines().last().is_some_and(|line| line.starts_with("<!-- not run: "));
        (!is_marked).then(|| block.split("```").next()).flatten()
    })
}

#[test]
fn configurations_in_the_documents_are_right() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut count = 0;
    for folder in [docs.clone(), docs.join("guide")] {
        for entry in std::fs::read_dir(folder).expect("docs") {
            let path = entry.expect("an entry").path();
            let document = std::fs::read_to_string(&path).unwrap_or_default();
            for text in configurations(&document) {
                let outcome = Config::parse(text, &path);
                assert!(outcome.is_ok(), "{}: {}\n{text}", path.display(), outcome.expect_err("a mistake"));
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count} configurations");
}
