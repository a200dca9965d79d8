//! Changes of routes that go to the router in one command (`byname_mgmt::batch`).

use byname_client::AsyncClient;
use byname_mgmt::batch::{BATCH_CHANGES_MAX, BatchChange, BatchOutcome};
use byname_mgmt::{ControlParameters, Element, origin};
use byname_wire::Descriptor;

use super::router::{Made, make};
use crate::agent::{Change, Ticket};

/// A change, and the faces with its address.
pub(super) type Wanted = (Ticket, Change, Vec<u64>);

/// Changes of one command, in their order.
#[derive(Default)]
pub(super) struct Batch {
    parameters: Vec<u8>,
    /// The change that each element belongs to.
    about: Vec<usize>,
    changes: Vec<Wanted>,
}

impl Batch {
    /// A batch of a change that is made by itself.
    pub(super) fn alone(wanted: Wanted) -> Self {
        Batch { changes: vec![wanted], ..Batch::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Adds a change. Gives it back if there is no room, or if it is not one of routes of faces that exist.
    pub(super) fn push(&mut self, wanted: Wanted) -> Result<(), Wanted> {
        let elements = elements(&wanted.1, &wanted.2);
        let before = self.parameters.len();
        let fits = !elements.is_empty()
            && self.about.len() + elements.len() <= BATCH_CHANGES_MAX
            && elements.iter().all(|element| element.push(&mut self.parameters));
        if !fits {
            self.parameters.truncate(before);
            return Err(wanted);
        }
        self.about.extend(std::iter::repeat_n(self.changes.len(), elements.len()));
        self.changes.push(wanted);
        Ok(())
    }

    /// Makes all changes. Those that the router refuses in the batch are made by themselves: a face may have to be made first, and a
    /// router of an earlier version has no such command.
    pub(super) async fn make(self, client: AsyncClient) -> Vec<Made> {
        let mut again = vec![true; self.changes.len()];
        if again.len() > 1 {
            match client.command("rib", "batch", &self.parameters).await {
                Ok(response) if response.code == 200 => {
                    if let Ok(outcome) = BatchOutcome::decode(&response.body) {
                        again.fill(false);
                        let refused = outcome.refusals.iter().filter_map(|refusal| usize::try_from(refusal.index).ok());
                        for at in refused.filter_map(|index| self.about.get(index)) {
                            again[*at] = true;
                        }
                    }
                }
                // If the connection is gone, so it is for each of them.
                Ok(_) | Err(_) => {}
            }
        }
        let mut made = Vec::with_capacity(again.len());
        for ((ticket, change, ids), again) in self.changes.into_iter().zip(again) {
            let result = if again { make(&client, &change, &ids).await } else { Ok(None) };
            made.push((ticket, change, result));
        }
        made
    }
}

/// A change as elements of a batch; none if it cannot be one.
fn elements(change: &Change, ids: &[u64]) -> Vec<BatchChange> {
    let of = |prefix: &byname_wire::Name, id: u64| ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(id),
        origin: Some(origin::FLEET),
        ..ControlParameters::default()
    };
    match change {
        Change::Register { prefix, attributes, .. } => {
            let (cost, flags) = (Some(attributes.cost), Some(attributes.flags));
            let register = |id: &u64| BatchChange::Register(ControlParameters { cost, flags, ..of(prefix, *id) });
            ids.first().map(register).into_iter().collect()
        }
        Change::Advertise { tags, .. } => {
            let advertise = |id: &u64| BatchChange::Advertise { face_id: *id, descriptor: Descriptor::clone(tags) };
            ids.first().map(advertise).into_iter().collect()
        }
        Change::Withdraw { tags, .. } => {
            let withdraw = |id: &u64| BatchChange::Withdraw { face_id: *id, descriptor: Descriptor::clone(tags) };
            ids.iter().map(withdraw).collect()
        }
        Change::Unregister { prefix, .. } => ids.iter().map(|id| BatchChange::Unregister(of(prefix, *id))).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::intent::Attributes;

    fn register(prefix: &str) -> Change {
        let attributes = Attributes { cost: 1, flags: 1 };
        Change::Register {
            prefix: prefix.parse().expect("a name"),
            uri: Arc::from("udp4://192.0.2.1:6363"),
            attributes,
        }
    }

    #[test]
    fn a_batch_takes_changes_of_routes_until_it_is_full() {
        let mut batch = Batch::default();
        assert!(batch.push((Ticket(0), register("/a"), vec![])).is_err(), "its face is not there yet");
        let suspension = Change::Suspend { uri: Arc::from("udp4://192.0.2.1:6363") };
        assert!(batch.push((Ticket(0), suspension, vec![300])).is_err(), "that is no change of routes");
        assert!(batch.is_empty());
        let removal = Change::Unregister { prefix: "/b".parse().expect("a name"), uri: Arc::from("x") };
        batch.push((Ticket(0), removal, vec![300, 301])).expect("room");
        let mut count = 0;
        while batch.push((Ticket(count + 1), register(&format!("/a/{count}")), vec![300, 301])).is_ok() {
            count += 1;
        }
        assert_eq!((count, batch.about.len()), (BATCH_CHANGES_MAX as u64 - 2, BATCH_CHANGES_MAX));
        assert_eq!(batch.about[..3], [0, 0, 1], "a removal is one for each face, a route is of one face");
        let mut long = Batch::default();
        let name = format!("/{}", "x".repeat(3_000));
        assert!(
            long.push((Ticket(1), register(&name), vec![300])).is_ok()
                && long.push((Ticket(2), register(&name), vec![300])).is_ok()
        );
        let bytes = long.parameters.len();
        assert!(long.push((Ticket(3), register(&name), vec![300])).is_err(), "a command fits in a packet");
        assert_eq!(long.parameters.len(), bytes);
    }
}
