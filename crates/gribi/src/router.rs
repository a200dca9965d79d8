//! The server's side towards its router: management commands, as of any application. Changes go in batches
//! (`byname_mgmt::batch`), many at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byname_client::{AsyncClient, CallError, ClientOptions, ConnectError, Ended, MakeFaceError, RouterFaces};
use byname_mgmt::batch::{BATCH_CHANGES_MAX, BatchChange, BatchOutcome};
use byname_mgmt::{ControlParameters, Element, FlatChange, RibEntry, origin};
use byname_wire::{Component, DecodeError, Descriptor, Name, NameRef};
use thiserror::Error;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::convert::LABELS;
use crate::core::{Atom, Change, Key};
use crate::shared::Shared;

/// Pauses between attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

#[derive(Debug, Error)]
enum RouterError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error("the router's answer to {0} is malformed: {1}")]
    Malformed(&'static str, DecodeError),
    #[error("the router refuses {verb}: {code} {text}")]
    Refused { verb: &'static str, code: u64, text: String },
    #[error("the connection was closed")]
    Closed,
}

/// A change, and why it was refused: a code, and a text.
type Carried = (Change, Result<(), (u64, Arc<str>)>);

/// What has come of something that was asked of the router.
enum Done {
    /// Of changes in one command.
    Changes(Vec<Carried>),
    /// Of a face.
    Face(Arc<str>, Result<u64, Arc<str>>),
}

/// Keeps the router as the core wants it, for ever.
pub(crate) async fn serve(shared: &Shared) {
    let mut said = String::new();
    let mut pause = PAUSE.0;
    loop {
        let begun = Instant::now();
        let result = session(shared, &mut said).await;
        shared.tell(|core, _| core.router_lost());
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        if let Err(error) = result {
            let text = error.to_string();
            if text != said {
                warn!("the router: {text}; trying again");
                said = text;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// One connection to the router.
async fn session(shared: &Shared, said: &mut String) -> Result<(), RouterError> {
    let mut options = ClientOptions::new(shared.router.clone());
    options.reconnect = None;
    options.session.outage_max = Duration::ZERO;
    let client = AsyncClient::connect(options).await?;
    let (faces, there) = what_is(&client).await?;
    info!("connected to the router, which has {} entries of clients", there.len());
    said.clear();
    shared.tell(|core, now| core.router_is(now, there));
    let mut compared = Instant::now();
    let mut work =
        Work { client: client.clone(), faces, creating: HashMap::new(), back: Vec::new(), under_way: JoinSet::new() };
    loop {
        work.issue(shared);
        let wake = shared.ask(|core, now| core.next_wake().map_or(u64::MAX, |at| at.saturating_sub(now)));
        let is_idle = work.under_way.is_empty() && shared.ask(|core, _| core.is_idle());
        let compare_in = shared.compare.saturating_sub(compared.elapsed());
        tokio::select! {
            Some(done) = work.under_way.join_next(), if !work.under_way.is_empty() => {
                work.finish(shared, done.map_err(|_| RouterError::Closed)??);
                // All that has come, before the core is asked for more.
                while let Some(done) = work.under_way.try_join_next() {
                    work.finish(shared, done.map_err(|_| RouterError::Closed)??);
                }
            }
            () = shared.work.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(wake.max(1))) => {}
            () = tokio::time::sleep(compare_in), if is_idle => {
                let (faces, there) = what_is(&client).await?;
                compared = Instant::now();
                work.faces = faces;
                // Clients may have asked for something meanwhile: then what was read may be old.
                shared.tell(|core, now| if core.is_idle() { core.router_is(now, there) });
            }
            ended = client.ended() => return Err(ended.into()),
        }
    }
}

/// What is under way in one connection.
struct Work {
    client: AsyncClient,
    faces: RouterFaces,
    /// Changes that wait for a face.
    creating: HashMap<Arc<str>, Vec<Change>>,
    /// Changes that have waited.
    back: Vec<Change>,
    under_way: JoinSet<Result<Done, RouterError>>,
}

/// Changes for one command.
#[derive(Default)]
struct Filling {
    parameters: Vec<u8>,
    count: usize,
    changes: Vec<Change>,
    /// For each change of the command, which of `changes` it is about.
    about: Vec<usize>,
}

impl Work {
    /// Sends all changes that are due.
    fn issue(&mut self, shared: &Shared) {
        let (mut rib, mut flat) = (Filling::default(), Filling::default());
        let mut over = Vec::new();
        while let Some(change) = self.back.pop().or_else(|| shared.next_change()) {
            let Some(ids) = self.faces_for(&change) else { continue };
            let elements = elements(&change, &ids);
            if elements.is_empty() {
                // Its face is gone, and has taken it along.
                over.push((change, Ok(())));
                continue;
            }
            let is_flat = matches!(change.key, Key::Flat(_));
            let (verb, filling) = if is_flat { ("flat", &mut flat) } else { ("rib", &mut rib) };
            if !filling.push(&change, &elements) {
                let full = std::mem::take(filling);
                self.send(verb, full);
                if !filling.push(&change, &elements) {
                    over.push((change, Err((0, Arc::from("the entry is too large for one command")))));
                }
            }
        }
        self.send("rib", rib);
        self.send("flat", flat);
        if !over.is_empty() {
            self.finish(shared, Done::Changes(over));
        }
    }

    /// The faces that a change is about. `None`: one is being made, and the change waits for it.
    fn faces_for(&mut self, change: &Change) -> Option<Vec<u64>> {
        let uri = match &change.atom {
            Atom::Route { uri, .. } | Atom::Tags(uri) => uri,
            Atom::Label(_) => return Some(Vec::new()),
        };
        let known = self.faces.of(uri).to_vec();
        if !known.is_empty() || !change.adds {
            return Some(known);
        }
        let waiting = self.creating.entry(uri.clone()).or_default();
        waiting.push(change.clone());
        if waiting.len() == 1 {
            let (client, uri) = (self.client.clone(), uri.clone());
            self.under_way.spawn(async move {
                match client.make_face(&uri).await {
                    Err(MakeFaceError::Call(CallError::Ended(ended))) => Err(ended.into()),
                    made => Ok(Done::Face(uri, made.map_err(|error| error.to_string().into()))),
                }
            });
        }
        None
    }

    fn send(&mut self, module: &'static str, filling: Filling) {
        if filling.changes.is_empty() {
            return;
        }
        let client = self.client.clone();
        self.under_way.spawn(async move {
            let Filling { parameters, changes, about, .. } = filling;
            let response = client.command(module, "batch", &parameters).await?;
            if response.code != 200 {
                let verb = if module == "rib" { "rib/batch" } else { "flat/batch" };
                let why: Arc<str> =
                    RouterError::Refused { verb, code: response.code, text: response.text }.to_string().into();
                return Ok(Done::Changes(changes.into_iter().map(|change| (change, Err((0, why.clone())))).collect()));
            }
            let outcome =
                BatchOutcome::decode(&response.body).map_err(|error| RouterError::Malformed("a batch", error))?;
            let mut results: Vec<Carried> = changes.into_iter().map(|change| (change, Ok(()))).collect();
            for refusal in outcome.refusals {
                let at = usize::try_from(refusal.index).ok().and_then(|index| about.get(index));
                if let Some((_, result)) = at.and_then(|at| results.get_mut(*at)) {
                    let words = if refusal.text.is_empty() { "refused".to_owned() } else { refusal.text };
                    *result = Err((refusal.code, format!("{}: {words}", refusal.code).into()));
                }
            }
            Ok(Done::Changes(results))
        });
    }

    fn finish(&mut self, shared: &Shared, done: Done) {
        let results = match done {
            Done::Changes(results) => results,
            Done::Face(uri, made) => {
                let waiting = self.creating.remove(&uri).unwrap_or_default();
                match made {
                    Ok(id) => {
                        self.faces.set(uri, id);
                        return self.back.extend(waiting);
                    }
                    Err(why) => waiting.into_iter().map(|change| (change, Err((0, why.clone())))).collect(),
                }
            }
        };
        for (change, result) in &results {
            if let (Err((410, _)), Atom::Route { uri, .. } | Atom::Tags(uri)) = (result, &change.atom) {
                // The face is gone. The next attempt makes it again.
                self.faces.forget(uri);
            }
        }
        shared.tell(|core, now| {
            for (change, result) in results {
                core.done(now, &change, result.map_err(|(_, why)| why));
            }
        });
    }
}

impl Filling {
    /// Adds a change. Returns false, and adds nothing, if there is no room.
    fn push(&mut self, change: &Change, elements: &[BatchChange]) -> bool {
        let before = self.parameters.len();
        let fits = self.count + elements.len() <= BATCH_CHANGES_MAX
            && elements.iter().all(|element| element.push(&mut self.parameters));
        if !fits {
            self.parameters.truncate(before);
            return false;
        }
        self.count += elements.len();
        self.about.extend(std::iter::repeat_n(self.changes.len(), elements.len()));
        self.changes.push(change.clone());
        true
    }
}

/// A change as what a command has: for several faces with one address, a removal is one for each.
fn elements(change: &Change, ids: &[u64]) -> Vec<BatchChange> {
    let of_faces = |of: &dyn Fn(u64) -> BatchChange| {
        // A route is added to one face.
        let count = if change.adds { 1 } else { ids.len() };
        ids.iter().take(count).map(|id| of(*id)).collect()
    };
    let name = match &change.key {
        Key::Prefix(name) | Key::Flat(name) => Name::clone(name),
        Key::Label(group) => label(*group),
        Key::Tags(tags) => {
            // Checked when the operation came.
            let descriptor = Descriptor::of(tags.iter()).unwrap_or_default();
            return of_faces(&|face_id| match change.adds {
                true => BatchChange::Advertise { face_id, descriptor: descriptor.clone() },
                false => BatchChange::Withdraw { face_id, descriptor: descriptor.clone() },
            });
        }
    };
    let named = ControlParameters { name: Some(name), ..ControlParameters::default() };
    match &change.atom {
        Atom::Label(_) if !change.adds => vec![BatchChange::FlatReset(named)],
        Atom::Label(group) => vec![BatchChange::FlatSet(ControlParameters { label: Some(label(*group)), ..named })],
        Atom::Route { cost, flags, .. } => of_faces(&|face_id| {
            let route = ControlParameters { face_id: Some(face_id), origin: Some(origin::GRIBI), ..named.clone() };
            match change.adds {
                true => BatchChange::Register(ControlParameters { cost: Some(*cost), flags: Some(*flags), ..route }),
                false => BatchChange::Unregister(route),
            }
        }),
        Atom::Tags(_) => Vec::new(),
    }
}

/// The label of a group's flat names.
fn label(group: u64) -> Name {
    let labels: Name = LABELS.parse().unwrap_or_default();
    labels.join(Component::generic(group.to_string().as_bytes()))
}

/// The group of a label.
fn group_of(name: NameRef<'_>) -> Option<u64> {
    let labels: Name = LABELS.parse().ok()?;
    let is_one = name.len() == labels.as_ref().len() + 1 && labels.as_ref().is_prefix_of(&name);
    let last = name.component(-1).filter(|_| is_one)?;
    std::str::from_utf8(last.value).ok()?.parse().ok()
}

/// What the router has: its faces, and what it has for each subject.
async fn what_is(client: &AsyncClient) -> Result<(RouterFaces, Vec<(Key, Vec<Atom>)>), RouterError> {
    let faces = client.faces().await?;
    let mut there: BTreeMap<Key, Vec<Atom>> = BTreeMap::new();
    for entry in client.list::<RibEntry>("rib").await? {
        let of_clients = entry.routes.iter().filter(|route| route.origin == origin::GRIBI);
        let atom = |route: &byname_mgmt::Route| {
            let uri = faces.uri(route.face_id)?.clone();
            Some(Atom::Route { uri, cost: route.cost, flags: route.flags })
        };
        let atoms: Vec<Atom> = of_clients.filter_map(atom).collect();
        if !atoms.is_empty() {
            let label = group_of(entry.name.as_ref());
            there.insert(label.map_or_else(|| Key::Prefix(Arc::new(entry.name)), Key::Label), atoms);
        }
    }
    for one in client.list::<FlatChange>("flat").await? {
        if let Some(group) = one.label.and_then(|label| group_of(label.as_ref())) {
            there.insert(Key::Flat(Arc::new(one.name)), vec![Atom::Label(group)]);
        }
    }
    Ok((faces, there.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_groups_belong_together() {
        for group in [0, 7, u64::MAX] {
            assert_eq!(group_of(label(group).as_ref()), Some(group));
        }
        for other in ["/localhost/byname/gribi", "/localhost/byname/gribi/x", "/localhost/byname/gribi/1/2", "/a/7"] {
            let other: Name = other.parse().expect("a name");
            assert_eq!(group_of(other.as_ref()), None);
        }
    }
}
