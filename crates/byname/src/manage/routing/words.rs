//! What routing knows, for people.

use std::fmt::Write;
use std::time::Duration;

use super::report::{Explained, Neighbor, Nexthop, Prefix, RouterSeen, Status, TreePlace};

fn rule(rule: &Option<String>) -> String {
    rule.as_ref().map(|rule| format!(", by the rule \"{rule}\"")).unwrap_or_default()
}

fn nexthops(hops: &[Nexthop]) -> String {
    match hops {
        [] => "none".to_owned(),
        _ => hops.iter().map(|hop| format!("{} (cost {})", hop.face_id, hop.cost)).collect::<Vec<_>>().join(", "),
    }
}

fn time(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// Routing as a whole.
pub fn status(status: &Status) -> String {
    let mut out = String::new();
    let mut row = |label: &str, value: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{label:>15} {value}");
    };
    row("router", status.router.clone());
    row("network", status.network.clone());
    let ends = |ms| humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(ms)).to_string();
    row(
        "trust",
        match (&status.certificate, status.certificate_ends_ms) {
            (Some(name), Some(ms)) => format!("{name}, valid until {}", ends(ms.min(253_402_300_799_000))),
            _ => "none: everybody is believed".to_owned(),
        },
    );
    row("neighbors", format!("{}, {} links in use", status.neighbors, status.links_used));
    row("routers", format!("{}, {} reachable", status.routers, status.routers_reachable));
    row("prefixes", format!("{} of the network, {} of this host", status.prefixes, status.local_prefixes));
    let settled = if status.settled { "" } else { ", and changes on their way" };
    row("routes", format!("{}{settled}", status.routes));
    row("links", format!("{} times down, {} times damped", status.links_down, status.links_damped));
    row(
        "refused",
        format!(
            "{} not trusted, {} malformed, {} repeated, {} in floods, {} above limits, {} by rules, {} outside rights",
            status.untrusted,
            status.malformed,
            status.replayed,
            status.flooded,
            status.over_limit,
            status.denied,
            status.outside_rights
        ),
    );
    out
}

/// Places on trees, one a line, each with its neighbours.
pub fn trees(trees: &[TreePlace]) -> String {
    let mut out = String::new();
    for tree in trees {
        let label = tree.label.as_deref().unwrap_or("none");
        let earlier = match tree.earlier_labels {
            0 => String::new(),
            count => format!(", and {count} earlier ones for a while"),
        };
        let TreePlace { tree: id, root, cost, nodes, neighbors, .. } = tree;
        let routers = if *nodes == 1 { "router" } else { "routers" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            out,
            "tree {id} root {root} cost {cost}, {nodes} {routers} here and below, label {label}{earlier}"
        );
        let _ = writeln!(
            out,
            "  since the start: another root {} times, repaired {} times, labelled {} times",
            tree.root_changes, tree.repairs, tree.labelings
        );
        for neighbor in neighbors {
            let role = if neighbor.parent { "parent" } else { "child" };
            let secret = if neighbor.secure { "" } else { ", without a secret yet" };
            let _ = writeln!(out, "  {role} {} face {}{secret}", neighbor.router, neighbor.face_id);
        }
    }
    if out.is_empty() { "no trees: see `trees` in [routing]\n".to_owned() } else { out }
}

/// Links to neighbours, one a line.
pub fn neighbors(neighbors: &[Neighbor]) -> String {
    let line = |n: &Neighbor| {
        let uri = n.uri.as_deref().unwrap_or("-");
        let used = match (n.used, n.hello.as_str()) {
            (true, _) => "in use",
            // It was down recently, or flaps.
            (false, "up") => "costs more for a while",
            (false, _) => "not used",
        };
        let damped = n.damped_ms.map(|ms| format!(", damped for {}", time(ms))).unwrap_or_default();
        let down = n.last_down.as_ref().map(|why| format!(", {} times down, last because {why}", n.downs));
        format!(
            "{} face {} {uri} cost {}, hello {}, {used}{damped}, heard {} ago{}\n",
            n.router,
            n.face_id,
            n.cost,
            n.hello,
            time(n.heard_ms),
            down.unwrap_or_default()
        )
    };
    neighbors.iter().map(line).collect()
}

/// Routers, one a line.
pub fn routers(routers: &[RouterSeen]) -> String {
    let line = |r: &RouterSeen| {
        let cost = r.cost.map_or_else(|| "not reachable".to_owned(), |cost| format!("cost {cost}"));
        let stale = if r.stale { ", of its earlier start" } else { "" };
        let outside = match r.outside_rights {
            0 => String::new(),
            count => format!(", {count} refused that it may not announce"),
        };
        format!("{} {cost}, nexthops {}, {} prefixes{stale}{outside}\n", r.router, nexthops(&r.nexthops), r.prefixes)
    };
    routers.iter().map(line).collect()
}

/// Prefixes, one a line.
pub fn prefixes(prefixes: &[Prefix]) -> String {
    let line = |p: &Prefix| {
        let exits: Vec<String> = p.exits.iter().map(|exit| format!("{} (cost {})", exit.router, exit.cost)).collect();
        format!("{} at {}, nexthops {}\n", p.prefix, exits.join(", "), nexthops(&p.nexthops))
    };
    prefixes.iter().map(line).collect()
}

/// Why a name goes where it goes.
pub fn explained(explained: &Explained) -> String {
    let mut out = String::new();
    let refused = explained.outside_rights.iter().map(|outside| {
        let (router, prefix) = (&outside.router, &outside.prefix);
        format!("  refused: {router} announces {prefix}, and its certificate or the trust schema does not permit it\n")
    });
    let refused: String = refused.collect();
    let Some(prefix) = &explained.prefix else {
        return format!("no router of the network announces {} or a prefix of it\n{refused}", explained.name);
    };
    let _ = write!(out, "{} is below {prefix}\n{refused}", explained.name);
    if let Some(local) = &explained.local {
        let told = match (local.announced, local.within_rights) {
            (true, _) => "the network is told",
            (false, true) => "the network is not told",
            (false, false) => {
                "the network is not told: this router's certificate or the trust schema does not permit it"
            }
        };
        let _ =
            writeln!(out, "  this host serves it, on faces {}; {told}{}", nexthops(&local.faces), rule(&local.rule));
    }
    for exit in &explained.exits {
        let way = exit.router_cost.map_or_else(|| "not reachable".to_owned(), |cost| format!("at cost {cost}"));
        let stale = if exit.stale { ", of its earlier start" } else { "" };
        let accepted = if exit.accepted { "" } else { ", not accepted" };
        let (router, cost) = (&exit.router, exit.announced_cost);
        let _ = writeln!(out, "  {router} announces it with cost {cost}, {way}{stale}{accepted}{}", rule(&exit.rule));
    }
    for way in &explained.ways {
        let used = match way.used.as_str() {
            "best" => "used: the lowest cost",
            "alternative" => "an alternative, free of loops",
            "may-loop" => "not used: it might lead back here",
            "not-wanted" => "not used: no alternatives are wanted",
            _ => "not used: denied",
        };
        let faces: Vec<String> = way.face_ids.iter().map(u64::to_string).collect();
        let _ = writeln!(
            out,
            "  through {} (faces {}) to {}: cost {} (the neighbor tells {}, the link costs {}, rules add {}); {used}{}",
            way.neighbor,
            faces.join(", "),
            way.exit,
            way.cost,
            way.told_cost,
            way.link_cost,
            way.added_cost,
            rule(&way.rule)
        );
    }
    let _ = writeln!(out, "  routes: {}", nexthops(&explained.nexthops));
    out
}
