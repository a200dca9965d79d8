//! `byname gribi get`.

use std::io::{self, BufWriter, Write};

use byname_gribi::client::Client;
use byname_gribi::proto::entry::{Entry as Of, FibStatus};
use byname_gribi::proto::{Entry, EntryKind};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::exit;

/// What to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Everything
    All,
    /// Next-hops
    NextHop,
    /// Groups
    Group,
    /// Prefixes of names
    Prefix,
    /// Names in flat namespaces
    Flat,
    /// Sets of tags
    Tags,
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::All => EntryKind::All,
            Kind::NextHop => EntryKind::NextHop,
            Kind::Group => EntryKind::NextHopGroup,
            Kind::Prefix => EntryKind::Prefix,
            Kind::Flat => EntryKind::Flat,
            Kind::Tags => EntryKind::Tags,
        }
    }
}

/// Prints what the server has, as `load` takes it. A remark says what the router does not have yet.
pub async fn get(client: &Client, kind: Kind, json: bool) -> anyhow::Result<u8> {
    let mut pages = client.get(kind.into()).await?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut all = Vec::new();
    while let Some(page) = pages.message().await.map_err(byname_gribi::client::ClientError::from)? {
        for entry in page.entry {
            if json {
                all.push(object(&entry));
            } else {
                writeln!(out, "{}", line(&entry))?;
            }
        }
    }
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    }
    out.flush()?;
    Ok(exit::OK)
}

fn line(entry: &Entry) -> String {
    let words = match &entry.entry {
        None => return String::new(),
        Some(Of::NextHop(hop)) => format!("next-hop {} {}", hop.index, hop.uri),
        Some(Of::NextHopGroup(group)) => {
            let members: Vec<String> =
                group.next_hop.iter().map(|member| format!("{}:{}", member.index, member.cost)).collect();
            format!("group {} {}", group.id, members.join(" "))
        }
        Some(Of::Prefix(prefix)) => {
            let inherit = if prefix.no_inherit { " --no-inherit" } else { "" };
            let capture = if prefix.capture { " --capture" } else { "" };
            format!("prefix {} {}{inherit}{capture}", prefix.name, prefix.next_hop_group)
        }
        Some(Of::Flat(flat)) => format!("flat {} {}", flat.name, flat.next_hop_group),
        Some(Of::Tags(tags)) => format!("tags {} {}", tags.tag.join(","), tags.next_hop_group),
    };
    let remark = if entry.fib_status() == FibStatus::Programmed { "" } else { "  # not programmed" };
    format!("add {words}{remark}")
}

fn object(entry: &Entry) -> Value {
    let mut object = match &entry.entry {
        None => json!({}),
        Some(Of::NextHop(hop)) => json!({"kind": "next-hop", "index": hop.index, "uri": hop.uri}),
        Some(Of::NextHopGroup(group)) => {
            let members: Vec<Value> =
                group.next_hop.iter().map(|member| json!({"index": member.index, "cost": member.cost})).collect();
            json!({"kind": "group", "id": group.id, "next_hops": members})
        }
        Some(Of::Prefix(prefix)) => json!({
            "kind": "prefix", "name": prefix.name, "group": prefix.next_hop_group,
            "inherit": !prefix.no_inherit, "capture": prefix.capture,
        }),
        Some(Of::Flat(flat)) => json!({"kind": "flat", "name": flat.name, "group": flat.next_hop_group}),
        Some(Of::Tags(tags)) => json!({"kind": "tags", "tags": tags.tag, "group": tags.next_hop_group}),
    };
    object["programmed"] = (entry.fib_status() == FibStatus::Programmed).into();
    object
}
