//! What agents beside a router ask of it: commands, datasets, and faces by the address of the peer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use byname_mgmt::{ControlParameters, ControlResponse, Element, FaceStatus, decode_list};
use byname_wire::interest::InterestBuilder;
use byname_wire::{Component, DecodeError};
use thiserror::Error;

use super::{AsyncClient, CallError, Ended};
use crate::fetch::{Discovery, FetchOptions, Object};
use crate::management::{ManagementError, management_name, outcome};

/// Longest dataset, in bytes: a few million routes.
const DATASET_BYTES_MAX: u64 = 1 << 30;
/// A face that connects again when its peer is back.
const PERMANENT: u64 = 2;
/// Connecting may take so long.
const CREATE: Duration = Duration::from_secs(9);
/// How often to look whether the client has ended.
const LOOK: Duration = Duration::from_millis(500);

/// The reason why there is no face for an address.
#[derive(Debug, Error)]
pub enum MakeFaceError {
    /// The router did not make it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The router writes the address in another way, so the face would not be found again.
    #[error("the router calls {asked} {answer}: write the address in this form")]
    NotCanonical {
        /// The address.
        asked: String,
        /// As the router writes it.
        answer: String,
    },
}

/// Faces of a router by the address of the peer.
#[derive(Debug, Clone, Default)]
pub struct RouterFaces {
    by_uri: HashMap<Arc<str>, Vec<u64>>,
    uris: HashMap<u64, Arc<str>>,
}

impl RouterFaces {
    /// The faces with this address, in the order in which the router listed them.
    pub fn of(&self, uri: &str) -> &[u64] {
        self.by_uri.get(uri).map_or(&[], Vec::as_slice)
    }

    /// The address of a face's peer.
    pub fn uri(&self, face: u64) -> Option<&Arc<str>> {
        self.uris.get(&face)
    }

    /// Notes a face that was made, as the only one with this address.
    pub fn set(&mut self, uri: Arc<str>, face: u64) {
        self.forget(&uri);
        self.add(uri, face);
    }

    /// Forgets all faces with this address.
    pub fn forget(&mut self, uri: &str) {
        for face in self.by_uri.remove(uri).unwrap_or_default() {
            self.uris.remove(&face);
        }
    }

    fn add(&mut self, uri: Arc<str>, face: u64) {
        self.uris.insert(face, uri.clone());
        self.by_uri.entry(uri).or_default().push(face);
    }
}

impl AsyncClient {
    /// Gives the router a command, once, and waits for the answer until `lifetime` is over. Returns the parameters in it.
    ///
    /// # Errors
    /// The router refuses, or there is no answer.
    pub async fn manage(
        &self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
        lifetime: Duration,
    ) -> Result<ControlParameters, CallError> {
        let response = self.response(module, verb, parameters, lifetime).await?;
        Ok(outcome(format!("{module}/{verb}"), response)?)
    }

    /// As [`AsyncClient::manage`], for commands that answer with something else than parameters. Returns the answer, whatever its
    /// code.
    ///
    /// # Errors
    /// There is no answer, or it is malformed.
    pub async fn response(
        &self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
        lifetime: Duration,
    ) -> Result<ControlResponse, CallError> {
        let name = management_name("localhost", module, verb).join(Component::generic(&parameters.encode()));
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let interest = InterestBuilder::new(name, rand::random()).lifetime_ms(lifetime_ms);
        let answer = self.express_signed(interest, 1).await?;
        let malformed = |error| ManagementError::Malformed { command: format!("{module}/{verb}"), error };
        Ok(ControlResponse::decode(answer.data().content).map_err(malformed)?)
    }

    /// Reads the dataset `list` of a module.
    ///
    /// # Errors
    /// There is no answer, or it is malformed.
    pub async fn list<T: Element>(&self, module: &str) -> Result<Vec<T>, CallError> {
        // The router has no metadata of its datasets, so nobody asks for it.
        let object = self.find(&management_name("localhost", module, "list"), Discovery::Prefix).await?;
        let options =
            FetchOptions { bytes_max: DATASET_BYTES_MAX, segments_max: DATASET_BYTES_MAX, ..FetchOptions::default() };
        let mut content = Vec::new();
        match object {
            Object::Single(packet) => content.extend_from_slice(packet.data().content),
            Object::Segmented(name) => {
                let mut fetching = self.fetch_segments(&name, options).await?;
                while let Some(chunk) = fetching.next().await {
                    content.extend_from_slice(chunk?.content());
                }
            }
        }
        let malformed = |error| ManagementError::Malformed { command: format!("{module}/list"), error };
        Ok(decode_list(&content).map_err(malformed)?)
    }

    /// The router's faces by address.
    ///
    /// # Errors
    /// As for [`AsyncClient::list`].
    pub async fn faces(&self) -> Result<RouterFaces, CallError> {
        let mut faces = RouterFaces::default();
        for face in self.list::<FaceStatus>("faces").await? {
            faces.add(face.uri.into(), face.face_id);
        }
        Ok(faces)
    }

    /// Makes a permanent face, or finds the one that exists. Returns its number.
    ///
    /// # Errors
    /// The router does not make it, or calls the address something else.
    pub async fn make_face(&self, uri: &str) -> Result<u64, MakeFaceError> {
        let parameters = ControlParameters {
            uri: Some(uri.to_owned()),
            face_persistency: Some(PERMANENT),
            ..ControlParameters::default()
        };
        let body = match self.manage("faces", "create", &parameters, CREATE).await {
            Err(CallError::Management(ManagementError::Refused { code: 409, body: Some(body), .. })) => *body,
            other => other?,
        };
        if let Some(answer) = body.uri.filter(|answer| answer != uri) {
            return Err(MakeFaceError::NotCanonical { asked: uri.to_owned(), answer });
        }
        let error = DecodeError::Missing(byname_mgmt::types::FACE_ID);
        let malformed = || ManagementError::Malformed { command: "faces/create".to_owned(), error };
        Ok(body.face_id.ok_or_else(malformed).map_err(CallError::from)?)
    }

    /// Waits until the client has ended, for those that do something else meanwhile.
    pub async fn ended(&self) -> Ended {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(ended) = self.counters().await {
                return ended;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_found_by_address_and_by_number() {
        let mut faces = RouterFaces::default();
        let uri: Arc<str> = "udp4://192.0.2.1:6363".into();
        faces.add(uri.clone(), 300);
        faces.add(uri.clone(), 301);
        assert_eq!((faces.of(&uri), faces.uri(301)), (&[300, 301][..], Some(&uri)));
        faces.set(uri.clone(), 302);
        assert_eq!((faces.of(&uri), faces.uri(301), faces.uri(302)), (&[302][..], None, Some(&uri)));
        faces.forget(&uri);
        assert_eq!((faces.of(&uri), faces.uri(302)), (&[][..], None));
    }
}
