//! Applies changes to records in memory: the log has the changes, and the database the records.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::change::Change;
use super::records::{AdvertisementRecord, FaceRecord, FlatRecord, RouteRecord, Snapshot, StrategyRecord, ToldRecord};

/// A route, and whether it is there or was removed.
type Candidate = (RouteRecord, bool);

/// Applies changes, in their order. Routes are sorted afterwards as in the database: by face, layer, origin and name.
///
/// Cost: a sort of all routes, which are in long runs that are sorted already.
pub(super) fn merge(records: &mut Snapshot, changes: Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let mut faces: BTreeMap<u64, FaceRecord> = records.faces.drain(..).map(|face| (face.number, face)).collect();
    let mut strategies: BTreeMap<_, StrategyRecord> =
        records.strategies.drain(..).map(|choice| (choice.prefix.clone(), choice)).collect();
    let advertised = |one: AdvertisementRecord| (one.face, one.descriptor);
    let mut advertisements: BTreeSet<_> = records.advertisements.drain(..).map(advertised).collect();
    let of_told = |told: ToldRecord| (told.destination, told.prefix);
    let mut told: BTreeSet<_> = records.told.drain(..).map(of_told).collect();
    let mut flat: BTreeMap<_, _> = records.flat.drain(..).map(|one| (one.name, one.label)).collect();
    let mut routes: Vec<Candidate> =
        std::mem::take(&mut records.routes).into_iter().map(|route| (route, true)).collect();
    // Routes of these faces before these places are gone.
    let mut forgotten: HashMap<u64, usize> = HashMap::new();
    for change in changes {
        match change {
            Change::Face(face) => drop(faces.insert(face.number, face)),
            Change::ForgetFace(number) => {
                faces.remove(&number);
                advertisements.retain(|(face, _)| *face != number);
                forgotten.insert(number, routes.len());
            }
            Change::Route(route) => routes.push((route, true)),
            Change::ForgetRoute(route) => routes.push((route, false)),
            Change::Strategy(choice) => drop(strategies.insert(choice.prefix.clone(), choice)),
            Change::ForgetStrategy(prefix) => drop(strategies.remove(&prefix)),
            Change::ContentStore(settings) => records.content_store = vec![settings],
            Change::Advertisement(one) => drop(advertisements.insert(advertised(one))),
            Change::ForgetAdvertisement(one) => drop(advertisements.remove(&advertised(one))),
            Change::Told(one) => drop(told.insert(of_told(one))),
            Change::ForgetTold(one) => drop(told.remove(&of_told(one))),
            Change::Flat(one) => drop(flat.insert(one.name, one.label)),
            Change::ForgetFlat(name) => drop(flat.remove(&name)),
        }
    }
    let mut place = 0;
    routes.retain(|(route, _)| {
        place += 1;
        forgotten.get(&route.face).is_none_or(|&from| place > from)
    });
    records.faces = faces.into_values().collect();
    records.strategies = strategies.into_values().collect();
    let advertisement = |(face, descriptor)| AdvertisementRecord { face, descriptor };
    records.advertisements = advertisements.into_iter().map(advertisement).collect();
    records.told = told.into_iter().map(|(destination, prefix)| ToldRecord { destination, prefix }).collect();
    records.flat = flat.into_iter().map(|(name, label)| FlatRecord { name, label }).collect();
    records.routes = latest(routes);
}

/// The last candidate of each route, if it is there.
fn latest(mut routes: Vec<Candidate>) -> Vec<RouteRecord> {
    fn key(route: &RouteRecord) -> (u64, u64, u64, &[u8]) {
        (route.face, route.layer, route.origin, route.name.value())
    }
    // Stable: candidates for one route stay in their order.
    routes.sort_by(|(a, _), (b, _)| key(a).cmp(&key(b)));
    let mut latest: Vec<Candidate> = Vec::with_capacity(routes.len());
    for candidate in routes {
        match latest.last_mut() {
            Some(last) if key(&last.0) == key(&candidate.0) => *last = candidate,
            _ => latest.push(candidate),
        }
    }
    latest.into_iter().filter(|(_, is_there)| *is_there).map(|(route, _)| route).collect()
}
