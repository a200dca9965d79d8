//! `byname route` and `byname fib`.

use byname_control::mgmt::tlv::{ControlParameters, origin, route_flags};
use byname_wire::Name;
use serde::Serialize;

use super::face_uri::{FaceSelector, parse_selector};
use super::view::{FibEntry, Route, origin_word, parse_origin};
use super::{decode, explain, face, human, print, show, text};
use crate::exit::{self, Failure};
use crate::tools::parse_name;
use byname_client::Link;
use byname_client::management::{ManagementError, command, dataset};

/// Arguments of `byname route`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RouteArgs {
    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A command about routes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
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
    /// Explain where an Interest for a name would go now, and why
    #[command(
        after_help = "It names the rule, the routes behind it, the strategy and the nexthops in its order, with \
                            measured round-trip times; and it tells whether the content store has the name, whether it \
                            is pending, and which thread is its home.\n\n\
                            Example:\n  byname route get /ndn/edu/arizona/song"
    )]
    Get(explain::GetArgs),
    /// Add a route, or change an existing one
    #[command(after_help = "Examples:\n  byname route add /ndn 300 --cost 100\n  \
                            byname route add / udp://router.example.net\n  \
                            byname route add prefix /ndn nexthop 300 cost 100 capture")]
    Add(AddArgs),
    /// Remove a route
    Remove(RemoveArgs),
}

/// Arguments of `byname route list`.
#[derive(Debug, Default, clap::Args)]
pub struct ListArgs {
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

/// Arguments of `byname route add`.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct AddArgs {
    /// Prefix of the route
    #[arg(value_parser = parse_name)]
    pub prefix: Name,
    /// Id or remote URI of the face; a missing face is created from its URI
    #[arg(value_parser = parse_selector)]
    pub nexthop: FaceSelector,
    /// Cost; strategies prefer low costs
    #[arg(long, default_value_t = 0)]
    pub cost: u64,
    /// Origin of the route: static, client, app, nlsr ... or a number
    #[arg(long, default_value = "static", value_parser = parse_origin)]
    pub origin: u64,
    /// Do not pass this route on to longer prefixes that have their own routes
    #[arg(long)]
    pub no_inherit: bool,
    /// Do not take over routes of shorter prefixes, for this prefix and longer ones
    #[arg(long)]
    pub capture: bool,
    /// Remove the route after this time, in ms [default: never]
    #[arg(long, value_name = "MS")]
    pub expires: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `byname route remove`.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct RemoveArgs {
    /// Prefix of the route
    #[arg(value_parser = parse_name)]
    pub prefix: Name,
    /// Id or remote URI of the face
    #[arg(value_parser = parse_selector)]
    pub nexthop: FaceSelector,
    /// Origin of the route: static, client, app, nlsr ... or a number
    #[arg(long, default_value = "static", value_parser = parse_origin)]
    pub origin: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
pub struct Removed {
    prefix: String,
    face_id: u64,
    origin: String,
}

impl Removed {
    /// A line as nfdc prints it.
    pub fn line(&self) -> String {
        format!("route-removed prefix={} nexthop={} origin={}\n", self.prefix, self.face_id, self.origin)
    }
}

impl RemoveArgs {
    /// Parameters of the command, for one of the faces that `nexthop` selects.
    pub fn parameters(&self, face_id: u64) -> ControlParameters {
        ControlParameters {
            name: Some(self.prefix.clone()),
            face_id: Some(face_id),
            origin: Some(self.origin),
            ..ControlParameters::default()
        }
    }

    /// What to print when the command has been accepted.
    pub fn removed(&self, face_id: u64) -> Removed {
        Removed { prefix: self.prefix.to_string(), face_id, origin: origin_word(self.origin) }
    }
}

impl AddArgs {
    /// Parameters of the command, for the face that `nexthop` selects.
    pub fn parameters(&self, face_id: u64) -> ControlParameters {
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        ControlParameters {
            name: Some(self.prefix.clone()),
            face_id: Some(face_id),
            origin: Some(self.origin),
            cost: Some(self.cost),
            flags: Some(flag(!self.no_inherit, route_flags::CHILD_INHERIT) | flag(self.capture, route_flags::CAPTURE)),
            expiration_period_ms: self.expires,
            ..ControlParameters::default()
        }
    }

    /// The route as the router's answer describes it. What is not in the answer is as in the command.
    pub fn added(&self, face_id: u64, answer: &ControlParameters) -> Route {
        let flags = answer.flags.or(self.parameters(face_id).flags).unwrap_or(0);
        Route {
            prefix: answer.name.as_ref().unwrap_or(&self.prefix).to_string(),
            face_id: answer.face_id.unwrap_or(face_id),
            origin: origin_word(answer.origin.unwrap_or(self.origin)),
            cost: answer.cost.unwrap_or(self.cost),
            child_inherit: flags & route_flags::CHILD_INHERIT != 0,
            capture: flags & route_flags::CAPTURE != 0,
            expires_in_ms: answer.expiration_period_ms,
            stale: false,
        }
    }

    /// Explains a refusal.
    pub fn failure(&self, face_id: u64, error: ManagementError) -> anyhow::Error {
        match error {
            ManagementError::Refused { code: 410, .. } => face_is_missing(self, face_id),
            other => other.into(),
        }
    }
}

/// The line about a new route, as nfdc prints it.
pub fn added_line(route: &Route) -> String {
    format!("route-add-accepted {}\n", text::line(&route.items()))
}

impl RouteArgs {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        !matches!(self.command, Some(Command::Add(_) | Command::Remove(_)))
    }
}

/// Runs `byname route`.
pub fn run(args: RouteArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::List(ListArgs { json: args.json, ..ListArgs::default() })) {
        Command::List(args) => list_command(client, args)?,
        Command::Show { prefix, json } => {
            let text = prefix.to_string();
            let routes: Vec<Route> = list(client)?.into_iter().filter(|route| route.prefix == text).collect();
            if routes.is_empty() {
                return Err(Failure::new(exit::NOT_FOUND, format!("{prefix} has no route")).into());
            }
            show(json, &routes, || columns(&routes), |width| human::routes(&routes, width))?;
        }
        Command::Get(args) => explain::run(client, &args)?,
        Command::Add(args) => add_command(client, &args)?,
        Command::Remove(args) => remove_command(client, &args)?,
    }
    Ok(())
}

/// Runs `byname fib`.
pub fn run_fib(args: FibArgs, client: &mut Link) -> anyhow::Result<()> {
    let FibCommand::List { json } = args.command.unwrap_or(FibCommand::List { json: args.json });
    let entries = fib(client)?;
    show(json, &entries, || entries.iter().map(FibEntry::line).collect(), |width| human::fib(&entries, width))
}

/// Fetches all routes.
pub fn list(client: &mut Link) -> anyhow::Result<Vec<Route>> {
    decode::routes(&dataset(client, "rib", "list", None)?)
}

/// Fetches all FIB entries.
pub fn fib(client: &mut Link) -> anyhow::Result<Vec<FibEntry>> {
    decode::fib(&dataset(client, "fib", "list", None)?)
}

fn columns(routes: &[Route]) -> String {
    text::columns(&routes.iter().map(Route::items).collect::<Vec<_>>())
}

fn list_command(client: &mut Link, args: ListArgs) -> anyhow::Result<()> {
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
    show(args.json, &routes, || columns(&routes), |width| human::routes(&routes, width))
}

fn add_command(client: &mut Link, args: &AddArgs) -> anyhow::Result<()> {
    let face_id = match &args.nexthop {
        FaceSelector::Id(id) => *id,
        FaceSelector::Uri(uri) => face::create_for_route(client, uri, !args.json)?,
    };
    let answer = command(client, "rib", "register", &args.parameters(face_id));
    let route = args.added(face_id, &answer.map_err(|error| args.failure(face_id, error))?);
    print(args.json, &route, || added_line(&route))
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

fn remove_command(client: &mut Link, args: &RemoveArgs) -> anyhow::Result<()> {
    let RemoveArgs { prefix, nexthop, origin, json } = args;
    let word = origin_word(*origin);
    let faces: Vec<u64> = face::find(client, nexthop)?.iter().map(|face| face.face_id).collect();
    let name = prefix.to_string();
    // The forwarder answers 200 even if the route does not exist. The user should hear about it.
    let there: Vec<Route> = list(client)?
        .into_iter()
        .filter(|route| route.prefix == name && route.origin == word && faces.contains(&route.face_id))
        .collect();
    if there.is_empty() {
        let hint = if *origin == origin::STATIC { "; routes of applications need --origin app or client" } else { "" };
        let message = format!("{prefix} has no {word} route to that face (see `byname route show {prefix}`{hint})");
        return Err(Failure::new(exit::NOT_FOUND, message).into());
    }
    let mut removed = Vec::new();
    for route in there {
        command(client, "rib", "unregister", &args.parameters(route.face_id))?;
        removed.push(args.removed(route.face_id));
    }
    print(*json, &removed, || removed.iter().map(Removed::line).collect())
}
