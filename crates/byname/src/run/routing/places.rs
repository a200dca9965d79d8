//! Places on trees on their way into the router. There is at most one command about a tree in flight: the router must not
//! hear an old place after a new one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use byname_control::mgmt::tlv::trees::{PlaceGeneration, PlaceNumbering, TreePlace};
use byname_routing::trees::{Place, PlaceTable};
use byname_wire::TreeId;

/// How long to wait for an answer, and before a refused place is told again.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the router is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The tree.
    pub tree: TreeId,
    /// The encoded place.
    pub parameters: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    parameters: Vec<u8>,
    is_known: bool,
    /// What was told last, until it is answered.
    told: Option<Vec<u8>>,
    /// When it is told (again).
    at: Instant,
}

/// The places on all trees.
#[derive(Debug, Default)]
pub struct Places {
    trees: BTreeMap<TreeId, Entry>,
}

impl Places {
    /// Wants the router to have this place.
    pub fn want(&mut self, place: &Place, now: Instant) {
        let Some(parameters) = of_management(place).encode() else {
            tracing::warn!(tree = place.tree.0, "a tree has more neighbors here than one command can name");
            return;
        };
        match self.trees.get_mut(&place.tree) {
            Some(entry) => {
                entry.is_known &= entry.parameters == parameters;
                entry.parameters = parameters;
            }
            None => {
                self.trees.insert(place.tree, Entry { parameters, is_known: false, told: None, at: now });
            }
        }
    }

    /// The commands to send now.
    pub fn due(&mut self, now: Instant) -> Vec<Command> {
        let mut commands = Vec::new();
        for (tree, entry) in &mut self.trees {
            if !entry.is_known && entry.at <= now {
                entry.told = Some(entry.parameters.clone());
                entry.at = now + TIMEOUT;
                commands.push(Command { tree: *tree, parameters: entry.parameters.clone() });
            }
        }
        commands
    }

    /// The answer to a command.
    pub fn answered(&mut self, command: &Command, is_done: bool, now: Instant) {
        let Some(entry) = self.trees.get_mut(&command.tree) else { return };
        if entry.told.as_ref() != Some(&command.parameters) {
            return;
        }
        entry.told = None;
        entry.is_known = is_done && entry.parameters == command.parameters;
        // Another place at once, and a refused one after a while.
        if is_done {
            entry.at = now;
        }
    }

    /// When [`Places::due`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.trees.values().filter(|entry| !entry.is_known).map(|entry| entry.at).min()
    }
}

/// A place in the words of management. A neighbour counts when both have a secret.
fn of_management(place: &Place) -> TreePlace {
    let known = place.generations.iter().flat_map(|generation| &generation.neighbours);
    let neighbors: BTreeMap<_, _> = known.filter_map(|of| Some((of.face, *of.secret.as_ref()?.bytes()))).collect();
    let generation = |of: &byname_routing::trees::PlaceGeneration| PlaceGeneration {
        id: of.id,
        is_settled: of.is_settled,
        faces: of.neighbours.iter().map(|neighbour| neighbour.face).collect(),
    };
    let numbering = |table: &PlaceTable| PlaceNumbering {
        claim: table.claim,
        label: table.label,
        descendants: table.descendants,
        light_descendants: table.light_descendants,
        up: table.up,
        heavy: table.heavy,
        light: table.light.clone(),
    };
    let numberings = place.tables.iter().map(numbering).collect();
    TreePlace {
        tree: place.tree,
        label: place.label,
        neighbors: neighbors.into_iter().collect(),
        generations: place.generations.iter().map(generation).collect(),
        numberings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cost: u32) -> Place {
        Place {
            tree: TreeId(1),
            root: "/net/r1".parse().expect("a name"),
            cost: 0,
            nodes: 1,
            label: Some(byname_wire::Label::new(cost)),
            neighbours: Vec::new(),
            generations: Vec::new(),
            tables: Vec::new(),
        }
    }

    #[test]
    fn the_router_ends_up_with_the_last_place() {
        let (mut places, mut now) = (Places::default(), Instant::now());
        places.want(&place(1), now);
        let first = places.due(now);
        assert_eq!((first.len(), places.due(now)), (1, vec![]));
        places.want(&place(2), now);
        assert_eq!(places.due(now), [], "one command at a time");
        places.answered(&first[0], true, now);
        let second = places.due(now);
        assert_eq!(second[0].parameters, of_management(&place(2)).encode().expect("it fits"));
        places.answered(&second[0], false, now);
        assert_eq!(places.due(now), []);
        now += TIMEOUT;
        assert_eq!(places.due(now), second, "what was refused is told again");
        now += TIMEOUT;
        assert_eq!(places.due(now), second, "and so is what was not answered");
        places.answered(&second[0], true, now);
        assert_eq!((places.due(now), places.next_deadline()), (vec![], None));
        places.want(&place(2), now);
        assert_eq!(places.next_deadline(), None);
    }
}
