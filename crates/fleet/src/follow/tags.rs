//! Sets of tags at the router: commands that tell it of them, and what it has.

use std::sync::Arc;

use byname_client::management::ManagementError;
use byname_client::{AsyncClient, CallError, RouterFaces};
use byname_mgmt::batch::{BatchChange, BatchOutcome};
use byname_mgmt::{Element, TagsEntry};
use byname_wire::Descriptor;
use tracing::debug;

use super::router::RouterError;
use super::told::Told;
use crate::intent::{Attributes, TOLD, TOLD_BEFORE};

/// A set of tags, the address that it leads to, and whether the router was told or remembers it.
pub(super) type TagWay = (Descriptor, Arc<str>, Attributes);

/// Makes one change of tags. The router has such changes in batches only.
pub(super) async fn change(client: &AsyncClient, change: BatchChange) -> Result<(), RouterError> {
    const COMMAND: &str = "rib/batch";
    let mut parameters = Vec::new();
    if !change.push(&mut parameters) {
        return Err(RouterError::Files("the tags do not fit in a command".to_owned()));
    }
    let response = client.command("rib", "batch", &parameters).await?;
    let refusal = match response.code {
        200 => {
            let outcome = BatchOutcome::decode(&response.body)
                .map_err(|error| CallError::from(ManagementError::Malformed { command: COMMAND.to_owned(), error }))?;
            outcome.refusals.into_iter().next().map(|refusal| (refusal.code, refusal.text))
        }
        code => Some((code, response.text)),
    };
    match refusal {
        None => Ok(()),
        Some((code, text)) => {
            let command = COMMAND.to_owned();
            Err(CallError::from(ManagementError::Refused { command, code, text, body: None }).into())
        }
    }
}

/// The ways that the router has of those that the agent has told it. A router that cannot say has all of them.
pub(super) async fn list(
    client: &AsyncClient,
    faces: &RouterFaces,
    told: &mut Told,
) -> Result<Vec<TagWay>, RouterError> {
    let there = match client.list::<TagsEntry>("tags").await.map_err(RouterError::from) {
        Ok(there) => there,
        Err(error) if error.is_lost() => return Err(error),
        Err(error) => {
            // As one of an earlier version.
            debug!("the router does not list its tags: {error}");
            return Ok(told.all_in_doubt().map(|(tags, uri)| (tags.clone(), uri.clone(), TOLD)).collect());
        }
    };
    let way = |entry: TagsEntry| {
        let uri = faces.uri(entry.face_id)?.clone();
        let with = if entry.is_stale.is_some() { TOLD_BEFORE } else { TOLD };
        Some(((entry.descriptor, uri), with))
    };
    let still = told.still_there(there.into_iter().filter_map(way).collect())?;
    Ok(still.into_iter().map(|((tags, uri), with)| (tags, uri, with)).collect())
}
