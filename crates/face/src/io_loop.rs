//! The packet thread: ports, one worker, and the control side's commands.

use byname_forward::strategy::StrategyChoice;
use byname_forward::worker::{CsInfo, WorkerCounters};
use byname_forward::{FaceId, LinkFields, Packet};
use byname_wire::Name;

use crate::face::{CreateFaceError, FaceChange, FaceRequest, FaceStatus, UpdateFaceError};

/// The control side's hold on the packet thread: each call is carried out between two bursts.
#[derive(Clone)]
pub struct ForwarderHandle {}

impl ForwarderHandle {
    /// Creates a face, or says that it exists.
    pub fn create_face(&self, _request: FaceRequest) -> Result<FaceStatus, CreateFaceError> {
        todo!()
    }
    /// Changes a face.
    pub fn update_face(&self, _face: FaceId, _change: FaceChange) -> Result<FaceStatus, UpdateFaceError> {
        todo!()
    }
    /// Destroys a face; false if there is none such.
    pub fn destroy_face(&self, _face: FaceId) -> bool {
        todo!()
    }
    /// All faces, by id.
    pub fn faces(&self) -> Vec<FaceStatus> {
        todo!()
    }
    /// One face.
    pub fn face(&self, _face: FaceId) -> Option<FaceStatus> {
        todo!()
    }
    /// Local URIs of all channels (listeners).
    pub fn channels(&self) -> Vec<String> {
        todo!()
    }
    /// Replaces all strategy choices.
    pub fn set_strategy_choices(&self, _choices: Vec<StrategyChoice>) {
        todo!()
    }
    /// State of the content store.
    pub fn cs_info(&self) -> CsInfo {
        todo!()
    }
    /// Changes the content store; returns how it is now.
    pub fn cs_config(&self, _packets_max: Option<usize>, _admit: Option<bool>, _serve: Option<bool>) -> CsInfo {
        todo!()
    }
    /// Erases Data under a prefix: how many went, and whether more are left.
    pub fn cs_erase(&self, _prefix: Name, _count_max: usize) -> (usize, bool) {
        todo!()
    }
    /// Counts of the worker.
    pub fn counters(&self) -> WorkerCounters {
        todo!()
    }
    /// Sends what is queued, closes all faces and ends the thread.
    pub fn shutdown(&self) {
        todo!()
    }
}

/// The control side's end of [`FaceId::INTERNAL`].
///
/// What the worker forwards to that face arrives in `from_worker`, with `incoming_face_id` set in
/// its fields; what is sent to `to_worker` arrives at the worker as if from that face. Both are
/// bounded: when full, the packet is dropped and counted.
pub struct InternalFace {
    /// Interests for management, and Data for Interests that the control side sent.
    pub from_worker: crossbeam_channel::Receiver<(LinkFields, Packet)>,
    to_worker: crossbeam_channel::Sender<(LinkFields, Packet)>,
}

impl InternalFace {
    /// Sends a packet to the worker; false if the queue was full.
    pub fn send(&self, _fields: LinkFields, _packet: Packet) -> bool {
        let _ = &self.to_worker;
        todo!()
    }
}
