//! `byname face` and `byname channel`.

use std::collections::{BTreeSet, HashMap};

use byname_control::mgmt::tlv::{ControlParameters, Element, FaceQueryFilter};
use serde::Serialize;

use super::face_uri::{FaceSelector, canonical, parse_selector, parse_uri};
use super::view::{Channel, Face, Persistency};
use super::{Switch, decode, human, print, show, text};
use crate::exit::{self, Failure};
use byname_client::Link;
use byname_client::management::{ManagementError, command, dataset};

/// Most faces to ask for one by one, and not by a list of all.
const SEPARATE_MAX: usize = 16;
/// Bits of the Flags of faces.
const RELIABILITY: u64 = 2;
const CONGESTION_MARKING: u64 = 4;

/// Arguments of `byname face`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FaceArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List faces (the default)
    List(ListArgs),
    /// Show one face
    Show {
        /// Id or remote URI of the face
        #[arg(value_name = "FACE", value_parser = parse_selector)]
        id: FaceSelector,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a face, or change an existing one
    #[command(after_help = "Examples:\n  byname face create udp://router.example.net\n  \
                            byname face create tcp4://192.0.2.1:6363 permanent --congestion-marking off")]
    Create(CreateArgs),
    /// Move a face to another packet thread
    #[command(
        after_help = "The face keeps its id, its routes and what it has queued. Faces on Unix, TCP and WebSocket \
                            connections can move; `byname status` shows the threads."
    )]
    Move {
        /// Id or remote URI of the face
        #[arg(value_parser = parse_selector)]
        face: FaceSelector,
        /// Number of the thread, from 0
        thread: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Destroy a face
    Destroy {
        /// Id or remote URI of the face
        #[arg(value_parser = parse_selector)]
        face: FaceSelector,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Default, clap::Args)]
struct ListArgs {
    /// Only faces to this remote URI
    #[arg(value_parser = parse_uri)]
    remote: Option<String>,
    /// Only faces with this local URI
    #[arg(long, value_name = "URI", value_parser = parse_uri)]
    local: Option<String>,
    /// Only faces with this URI scheme, such as udp4 or unix
    #[arg(long)]
    scheme: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// URI of the peer: udp://HOST[:PORT], tcp://HOST[:PORT], ws://HOST[:PORT] or ether://[MAC]
    #[arg(value_parser = parse_uri)]
    remote: String,
    /// A persistent face ends when its socket fails; a permanent one reconnects
    #[arg(value_enum)]
    persistency: Option<Persistency>,
    /// URI of the local end; dev://INTERFACE for ether
    #[arg(long, value_name = "URI", value_parser = parse_uri)]
    local: Option<String>,
    /// Largest frame to send, in bytes, or auto
    #[arg(long, value_name = "BYTES", value_parser = parse_mtu)]
    mtu: Option<u64>,
    /// Resend lost frames; the peer must do the same
    #[arg(long, value_name = "on|off")]
    reliability: Option<Switch>,
    /// Mark packets when the send queue is long
    #[arg(long, value_name = "on|off")]
    congestion_marking: Option<Switch>,
    /// Shortest time between marks, in ms
    #[arg(long, value_name = "MS")]
    congestion_marking_interval: Option<u64>,
    /// Queue length that counts as congestion, in bytes
    #[arg(long, value_name = "BYTES")]
    default_congestion_threshold: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `byname channel`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ChannelArgs {
    #[command(subcommand)]
    command: Option<ChannelCommand>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum ChannelCommand {
    /// List channels (the default)
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The effect of a command on a face. These are the fields of `--json`.
#[derive(Debug, Serialize)]
struct Outcome {
    /// `face-created`, `face-exists`, `face-updated` or `face-destroyed`.
    action: &'static str,
    face_id: u64,
    local_uri: String,
    remote_uri: String,
    persistency: Persistency,
    reliability: bool,
    congestion_marking: bool,
    mtu: Option<u64>,
}

impl Outcome {
    fn new(action: &'static str, body: &ControlParameters) -> Outcome {
        let flags = body.flags.unwrap_or(0);
        Outcome {
            action,
            face_id: body.face_id.unwrap_or(0),
            local_uri: body.local_uri.clone().unwrap_or_default(),
            remote_uri: body.uri.clone().unwrap_or_default(),
            persistency: Persistency::from_number(body.face_persistency.unwrap_or(0)),
            reliability: flags & RELIABILITY != 0,
            congestion_marking: flags & CONGESTION_MARKING != 0,
            mtu: body.mtu,
        }
    }

    fn text(&self) -> String {
        let mut items: text::Items = vec![
            ("id", self.face_id.to_string()),
            ("local", self.local_uri.clone()),
            ("remote", self.remote_uri.clone()),
            ("persistency", self.persistency.word().to_owned()),
            ("reliability", text::on_off(self.reliability)),
            ("congestion-marking", text::on_off(self.congestion_marking)),
        ];
        items.extend(self.mtu.map(|mtu| ("mtu", mtu.to_string())));
        format!("{} {}\n", self.action, text::line(&items))
    }
}

impl FaceArgs {
    /// Whether the command only shows what is.
    pub fn only_shows(&self) -> bool {
        matches!(self.command, None | Some(Command::List(_) | Command::Show { .. }))
    }
}

/// Runs `byname face`.
pub fn run(args: FaceArgs, client: &mut Link) -> anyhow::Result<()> {
    match args.command.unwrap_or(Command::List(ListArgs { json: args.json, ..ListArgs::default() })) {
        Command::List(args) => list_command(client, args)?,
        Command::Show { id, json } => {
            let face = find_one(client, &id)?;
            print(json, &face, || text::lines(&face.items()))?;
        }
        Command::Create(args) => create_command(client, &args)?,
        Command::Move { face, thread, json } => move_command(client, &face, thread, json)?,
        Command::Destroy { face, json } => destroy_command(client, &face, json)?,
    }
    Ok(())
}

/// Runs `byname channel`.
pub fn run_channel(args: ChannelArgs, client: &mut Link) -> anyhow::Result<()> {
    let ChannelCommand::List { json } = args.command.unwrap_or(ChannelCommand::List { json: args.json });
    let channels = channels(client)?;
    print(json, &channels, || channels.iter().map(|channel| format!("{}\n", channel.local_uri)).collect())?;
    Ok(())
}

/// Fetches all faces.
pub fn list(client: &mut Link) -> anyhow::Result<Vec<Face>> {
    decode::faces(&dataset(client, "faces", "list", None)?)
}

/// Remote URIs of these faces, as far as they exist.
pub fn uris(client: &mut Link, ids: &BTreeSet<u64>) -> anyhow::Result<HashMap<u64, String>> {
    let faces = if ids.len() > SEPARATE_MAX {
        list(client)?
    } else {
        let mut faces = Vec::new();
        for id in ids {
            faces.extend(query(client, &FaceQueryFilter { face_id: Some(*id), ..FaceQueryFilter::default() })?);
        }
        faces
    };
    let known = faces.into_iter().filter(|face| ids.contains(&face.face_id));
    Ok(known.map(|face| (face.face_id, face.remote_uri)).collect())
}

/// Fetches all channels.
pub fn channels(client: &mut Link) -> anyhow::Result<Vec<Channel>> {
    decode::channels(&dataset(client, "faces", "channels", None)?)
}

/// Returns the faces that match `selector`. It is an error if there are none.
pub fn find(client: &mut Link, selector: &FaceSelector) -> anyhow::Result<Vec<Face>> {
    let filter = match selector {
        FaceSelector::Id(id) => FaceQueryFilter { face_id: Some(*id), ..FaceQueryFilter::default() },
        FaceSelector::Uri(uri) => FaceQueryFilter { uri: Some(canonical(uri)?), ..FaceQueryFilter::default() },
    };
    let faces = query(client, &filter)?;
    if faces.is_empty() {
        let what = match selector {
            FaceSelector::Id(id) => format!("no face has id {id}"),
            FaceSelector::Uri(uri) => format!("no face leads to {uri}"),
        };
        return Err(Failure::new(exit::NOT_FOUND, format!("{what} (see `byname face list`)")).into());
    }
    Ok(faces)
}

/// Returns the only face that matches `selector`.
pub fn find_one(client: &mut Link, selector: &FaceSelector) -> anyhow::Result<Face> {
    let mut faces = find(client, selector)?;
    if faces.len() > 1 {
        let ids: Vec<String> =
            faces.iter().map(|face| format!("{} (local={})", face.face_id, face.local_uri)).collect();
        let message = format!("several faces have this URI; use an id instead: {}", ids.join(", "));
        return Err(Failure::new(exit::FAILED, message).into());
    }
    Ok(faces.remove(0))
}

/// Creates a face to `uri` with the forwarder's defaults, and prints it if `say`. If the face exists, only returns its
/// id.
pub fn create_for_route(client: &mut Link, uri: &str, say: bool) -> anyhow::Result<u64> {
    let parameters = ControlParameters { uri: Some(canonical(uri)?), ..ControlParameters::default() };
    let body = match command(client, "faces", "create", &parameters) {
        Err(ManagementError::Refused { code: 409, body: Some(body), .. }) if body.face_id.is_some() => *body,
        Ok(body) => {
            if say {
                print(false, &(), || Outcome::new("face-created", &body).text())?;
            }
            body
        }
        Err(error) => return Err(error.into()),
    };
    body.face_id.ok_or_else(|| Failure::new(exit::FAILED, "the forwarder's answer contains no face id").into())
}

fn query(client: &mut Link, filter: &FaceQueryFilter) -> anyhow::Result<Vec<Face>> {
    decode::faces(&dataset(client, "faces", "query", Some(&filter.encode()))?)
}

fn list_command(client: &mut Link, args: ListArgs) -> anyhow::Result<()> {
    let filter = FaceQueryFilter {
        uri: args.remote.as_deref().map(canonical).transpose()?,
        local_uri: args.local.as_deref().map(canonical).transpose()?,
        uri_scheme: args.scheme,
        ..FaceQueryFilter::default()
    };
    let faces = if filter == FaceQueryFilter::default() { list(client)? } else { query(client, &filter)? };
    let text = || text::columns(&faces.iter().map(Face::items).collect::<Vec<_>>());
    show(args.json, &faces, text, |width| human::faces(&faces, width))
}

fn create_command(client: &mut Link, args: &CreateArgs) -> anyhow::Result<()> {
    let settings = args.settings();
    let parameters = ControlParameters {
        uri: Some(canonical(&args.remote)?),
        local_uri: args.local.as_deref().map(canonical).transpose()?,
        face_persistency: Some(args.persistency.unwrap_or(Persistency::Persistent).number()),
        ..settings.clone()
    };
    let outcome = match command(client, "faces", "create", &parameters) {
        Ok(body) => Outcome::new("face-created", &body),
        Err(ManagementError::Refused { code: 409, body: Some(body), .. }) if body.uri == parameters.uri => {
            update(client, *body, &settings)?
        }
        Err(error) => return Err(error.into()),
    };
    print(args.json, &outcome, || outcome.text())
}

/// Changes an existing face where the command line asks for other settings.
fn update(client: &mut Link, body: ControlParameters, settings: &ControlParameters) -> anyhow::Result<Outcome> {
    if !differs(&body, settings) {
        return Ok(Outcome::new("face-exists", &body));
    }
    let parameters = ControlParameters { face_id: body.face_id, ..settings.clone() };
    let answer = command(client, "faces", "update", &parameters)?;
    // The answer to an update has no URIs.
    let merged = ControlParameters { uri: body.uri, local_uri: body.local_uri, ..answer };
    Ok(Outcome::new("face-updated", &merged))
}

/// Whether `settings` ask for something that differs from the face in `body`.
fn differs(body: &ControlParameters, settings: &ControlParameters) -> bool {
    let other = |wanted: Option<u64>, has: Option<u64>| wanted.is_some() && wanted != has;
    let mask = settings.mask.unwrap_or(0);
    other(settings.face_persistency, body.face_persistency)
        || other(settings.mtu, body.mtu)
        || other(settings.base_congestion_marking_interval_ns, body.base_congestion_marking_interval_ns)
        || other(settings.default_congestion_threshold_bytes, body.default_congestion_threshold_bytes)
        || (body.flags.unwrap_or(0) ^ settings.flags.unwrap_or(0)) & mask != 0
}

impl CreateArgs {
    /// The settings on the command line, without the URIs.
    fn settings(&self) -> ControlParameters {
        let mut flags = 0;
        let mut mask = 0;
        for (switch, bit) in [(self.reliability, RELIABILITY), (self.congestion_marking, CONGESTION_MARKING)] {
            if let Some(switch) = switch {
                mask |= bit;
                flags |= u64::from(switch.is_on()) * bit;
            }
        }
        ControlParameters {
            face_persistency: self.persistency.map(Persistency::number),
            mtu: self.mtu,
            flags: (mask != 0).then_some(flags),
            mask: (mask != 0).then_some(mask),
            base_congestion_marking_interval_ns: self
                .congestion_marking_interval
                .map(|ms| ms.saturating_mul(1_000_000)),
            default_congestion_threshold_bytes: self.default_congestion_threshold,
            ..ControlParameters::default()
        }
    }
}

/// The effect of `byname face move`.
#[derive(Debug, Serialize)]
struct Moved {
    /// `face-moved`.
    action: &'static str,
    face_id: u64,
    local_uri: String,
    remote_uri: String,
    thread: u64,
}

fn move_command(client: &mut Link, selector: &FaceSelector, thread: u64, json: bool) -> anyhow::Result<()> {
    let face = find_one(client, selector)?;
    let parameters =
        ControlParameters { face_id: Some(face.face_id), thread: Some(thread), ..ControlParameters::default() };
    let body = command(client, "faces", "move", &parameters)?;
    let moved = Moved {
        action: "face-moved",
        face_id: face.face_id,
        local_uri: face.local_uri,
        remote_uri: face.remote_uri,
        thread: body.thread.unwrap_or(thread),
    };
    print(json, &moved, || {
        let items: text::Items = vec![
            ("id", moved.face_id.to_string()),
            ("local", moved.local_uri.clone()),
            ("remote", moved.remote_uri.clone()),
            ("thread", moved.thread.to_string()),
        ];
        format!("{} {}\n", moved.action, text::line(&items))
    })
}

fn destroy_command(client: &mut Link, selector: &FaceSelector, json: bool) -> anyhow::Result<()> {
    let face = find_one(client, selector)?;
    let parameters = ControlParameters { face_id: Some(face.face_id), ..ControlParameters::default() };
    command(client, "faces", "destroy", &parameters)?;
    let outcome = Outcome {
        action: "face-destroyed",
        face_id: face.face_id,
        local_uri: face.local_uri,
        remote_uri: face.remote_uri,
        persistency: face.persistency,
        reliability: face.reliability,
        congestion_marking: face.congestion_marking,
        mtu: face.mtu,
    };
    print(json, &outcome, || outcome.text())
}

/// Parses an MTU. `auto` means no limit, which the protocol encodes as the largest number.
fn parse_mtu(text: &str) -> Result<u64, String> {
    if text == "auto" {
        return Ok(u64::MAX);
    }
    text.parse().map_err(|_| "must be a number of bytes, or auto".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_face_is_changed_only_where_it_differs() {
        let has =
            ControlParameters { face_persistency: Some(0), flags: Some(4), mtu: Some(1400), ..Default::default() };
        let wants = |settings| differs(&has, &settings);
        assert!(!wants(ControlParameters::default()));
        assert!(!wants(ControlParameters { mtu: Some(1400), ..Default::default() }));
        assert!(wants(ControlParameters { face_persistency: Some(2), ..Default::default() }));
        assert!(!wants(ControlParameters { flags: Some(4), mask: Some(4), ..Default::default() }));
        assert!(wants(ControlParameters { flags: Some(0), mask: Some(4), ..Default::default() }));
        assert!(wants(ControlParameters { flags: Some(2), mask: Some(2), ..Default::default() }));
    }

    #[test]
    fn outcomes_in_nfdcs_shape() {
        let body = ControlParameters {
            face_id: Some(300),
            uri: Some("udp4://192.0.2.1:6363".into()),
            local_uri: Some("udp4://192.0.2.2:6363".into()),
            face_persistency: Some(2),
            flags: Some(6),
            ..Default::default()
        };
        assert_eq!(
            Outcome::new("face-created", &body).text(),
            "face-created id=300 local=udp4://192.0.2.2:6363 remote=udp4://192.0.2.1:6363 persistency=permanent \
             reliability=on congestion-marking=on\n"
        );
    }
}
