//! `byname route` and `byname fib`.

use byname_control::mgmt::tlv::{ControlParameters, origin, route_flags};
use byname_wire::Name;
use serde::Serialize;

use super::face_uri::{FaceSelector, parse_selector};
use super::view::{FibEntry, Route, origin_word, parse_origin};
use super::{decode, face, print, text};
use crate::Connection;
use crate::client::Client;
use crate::client::management::{ManagementError, command, dataset};
use crate::exit::{self, Failure};
use crate::tools::parse_name;

/// Arguments of `byname route`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RouteArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List routes (the default)
    List(ListArgs),
    /// Show the routes of exactly one prefix
    Show {
        /// Prefix of the routes
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a route, or change an existing one
    #[command(after_help = "Examples:\n  byname route add /ndn 300 --cost 100\n  \
                            byname route add / udp://router.example.net\n  \
                            byname route add prefix /ndn nexthop 300 cost 100 capture")]
    Add(AddArgs),
    /// Remove a route
    Remove {
        /// Prefix of the route
        #[arg(value_parser = parse_name)]
        prefix: Name,
        /// Id or remote URI of the face
        #[arg(value_parser = parse_selector)]
        nexthop: FaceSelector,
        /// Origin of the route: static, client, app, nlsr ... or a number
        #[arg(long, default_value = "static", value_parser = parse_origin)]
        origin: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Default, clap::Args)]
struct ListArgs {
    /// Only routes under this prefix, or to this face (id or remote URI)
    #[arg(value_name = "PREFIX|FACE", value_parser = parse_filter)]
    filter: Option<Filter>,
    /// Only routes to this face (id or remote URI)
    #[arg(long, value_name = "FACE", value_parser = parse_selector)]
    nexthop: Option<FaceSelector>,
    /// Only routes with this origin
    #[arg(long, value_parser = parse_origin)]
    origin: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Prefix of the route
    #[arg(value_parser = parse_name)]
    prefix: Name,
    /// Id or remote URI of the face; a missing face is created from its URI
    #[arg(value_parser = parse_selector)]
    nexthop: FaceSelector,
    /// Cost; strategies prefer low costs
    #[arg(long, default_value_t = 0)]
    cost: u64,
    /// Origin of the route: static, client, app, nlsr ... or a number
    #[arg(long, default_value = "static", value_parser = parse_origin)]
    origin: u64,
    /// Do not pass this route on to longer prefixes that have their own routes
    #[arg(long)]
    no_inherit: bool,
    /// Do not take over routes of shorter prefixes, for this prefix and longer ones
    #[arg(long)]
    capture: bool,
    /// Remove the route after this time, in ms [default: never]
    #[arg(long, value_name = "MS")]
    expires: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone)]
enum Filter {
    Prefix(Name),
    Face(FaceSelector),
}

fn parse_filter(text: &str) -> Result<Filter, String> {
    if text.starts_with('/') || text.starts_with("ndn:") {
        return parse_name(text).map(Filter::Prefix);
    }
    parse_selector(text).map(Filter::Face)
}

/// Arguments of `byname fib`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FibArgs {
    #[command(subcommand)]
    command: Option<FibCommand>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum FibCommand {
    /// List FIB entries (the default)
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// A removed route. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Removed {
    prefix: String,
    face_id: u64,
    origin: String,
}

/// Runs `byname route`.
pub fn run(args: RouteArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    match args.command.unwrap_or(Command::List(ListArgs { json: args.json, ..ListArgs::default() })) {
        Command::List(args) => list_command(&mut client, args)?,
        Command::Show { prefix, json } => {
            let text = prefix.to_string();
            let routes: Vec<Route> = list(&mut client)?.into_iter().filter(|route| route.prefix == text).collect();
            if routes.is_empty() {
                return Err(Failure::new(exit::NOT_FOUND, format!("{prefix} has no route")).into());
            }
            print(json, &routes, || columns(&routes))?;
        }
        Command::Add(args) => add_command(&mut client, &args)?,
        Command::Remove { prefix, nexthop, origin, json } => {
            remove_command(&mut client, &prefix, &nexthop, origin, json)?;
        }
    }
    Ok(exit::OK)
}

/// Runs `byname fib`.
pub fn run_fib(args: FibArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut client = connection.connect()?;
    let FibCommand::List { json } = args.command.unwrap_or(FibCommand::List { json: args.json });
    let entries = fib(&mut client)?;
    print(json, &entries, || entries.iter().map(FibEntry::line).collect())?;
    Ok(exit::OK)
}

/// Fetches all routes.
pub fn list(client: &mut Client) -> anyhow::Result<Vec<Route>> {
    decode::routes(&dataset(client, "rib", "list", None)?)
}

/// Fetches all FIB entries.
pub fn fib(client: &mut Client) -> anyhow::Result<Vec<FibEntry>> {
    decode::fib(&dataset(client, "fib", "list", None)?)
}

fn columns(routes: &[Route]) -> String {
    text::columns(&routes.iter().map(Route::items).collect::<Vec<_>>())
}

fn list_command(client: &mut Client, args: ListArgs) -> anyhow::Result<()> {
    let mut selectors: Vec<FaceSelector> = args.nexthop.into_iter().collect();
    let mut under = None;
    match args.filter {
        Some(Filter::Prefix(prefix)) => under = Some(prefix),
        Some(Filter::Face(selector)) => selectors.push(selector),
        None => {}
    }
    let mut routes = list(client)?;
    for selector in &selectors {
        let ids: Vec<u64> = face::find(client, selector)?.iter().map(|face| face.face_id).collect();
        routes.retain(|route| ids.contains(&route.face_id));
    }
    if let Some(prefix) = under {
        routes.retain(|route| {
            route.prefix.parse::<Name>().is_ok_and(|name| prefix.as_ref().is_prefix_of(&name.as_ref()))
        });
    }
    if let Some(origin) = args.origin {
        let word = origin_word(origin);
        routes.retain(|route| route.origin == word);
    }
    print(args.json, &routes, || columns(&routes))
}

fn add_command(client: &mut Client, args: &AddArgs) -> anyhow::Result<()> {
    let face_id = match &args.nexthop {
        FaceSelector::Id(id) => *id,
        FaceSelector::Uri(uri) => face::create_for_route(client, uri, !args.json)?,
    };
    let flag = |on: bool, bit: u64| if on { bit } else { 0 };
    let parameters = ControlParameters {
        name: Some(args.prefix.clone()),
        face_id: Some(face_id),
        origin: Some(args.origin),
        cost: Some(args.cost),
        flags: Some(flag(!args.no_inherit, route_flags::CHILD_INHERIT) | flag(args.capture, route_flags::CAPTURE)),
        expiration_period_ms: args.expires,
        ..ControlParameters::default()
    };
    let answer = match command(client, "rib", "register", &parameters) {
        Err(ManagementError::Refused { code: 410, .. }) => return Err(face_is_missing(args, face_id)),
        answer => answer?,
    };
    let flags = answer.flags.or(parameters.flags).unwrap_or(0);
    let route = Route {
        prefix: answer.name.as_ref().unwrap_or(&args.prefix).to_string(),
        face_id: answer.face_id.unwrap_or(face_id),
        origin: origin_word(answer.origin.unwrap_or(args.origin)),
        cost: answer.cost.unwrap_or(args.cost),
        child_inherit: flags & route_flags::CHILD_INHERIT != 0,
        capture: flags & route_flags::CAPTURE != 0,
        expires_in_ms: answer.expiration_period_ms,
        stale: false,
    };
    print(args.json, &route, || format!("route-add-accepted {}\n", text::line(&route.items())))
}

/// Explains that the nexthop of a new route does not exist.
fn face_is_missing(args: &AddArgs, face_id: u64) -> anyhow::Error {
    let advice = match &args.nexthop {
        FaceSelector::Id(_) => format!(
            "`byname face list` shows the faces; the URI of a neighbour creates its face: \
             `byname route add {} udp://router.example.net`",
            args.prefix
        ),
        FaceSelector::Uri(uri) => format!("its connection to {uri} ended at once; is anything listening there?"),
    };
    Failure::new(exit::NOT_FOUND, format!("there is no face {face_id}: {advice}")).into()
}

fn remove_command(
    client: &mut Client,
    prefix: &Name,
    nexthop: &FaceSelector,
    origin: u64,
    json: bool,
) -> anyhow::Result<()> {
    let word = origin_word(origin);
    let faces: Vec<u64> = face::find(client, nexthop)?.iter().map(|face| face.face_id).collect();
    let name = prefix.to_string();
    // The forwarder answers 200 even if the route does not exist. The user should hear about it.
    let there: Vec<Route> = list(client)?
        .into_iter()
        .filter(|route| route.prefix == name && route.origin == word && faces.contains(&route.face_id))
        .collect();
    if there.is_empty() {
        let hint = if origin == origin::STATIC { "; routes of applications need --origin app or client" } else { "" };
        let message = format!("{prefix} has no {word} route to that face (see `byname route show {prefix}`{hint})");
        return Err(Failure::new(exit::NOT_FOUND, message).into());
    }
    let mut removed = Vec::new();
    for route in there {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            face_id: Some(route.face_id),
            origin: Some(origin),
            ..ControlParameters::default()
        };
        command(client, "rib", "unregister", &parameters)?;
        removed.push(Removed { prefix: route.prefix, face_id: route.face_id, origin: route.origin });
    }
    print(json, &removed, || {
        removed
            .iter()
            .map(|r| format!("route-removed prefix={} nexthop={} origin={}\n", r.prefix, r.face_id, r.origin))
            .collect()
    })
}
