//! A port for tests that does something odd in the packet thread.

use std::io;

use byname_face::face::{FaceChange, UpdateFaceError};
use byname_face::{FaceStatus, Port, PortContext};
use byname_forward::{FaceId, Outgoing, Ticks};

/// Has no faces, and sends nothing.
pub struct OddPort {
    pub name: &'static str,
    /// Called when the thread starts it.
    pub on_start: fn(),
    /// Called when the thread receives from it, again and again. `None`: it never has input.
    pub on_receive: Option<fn()>,
}

impl Port for OddPort {
    fn name(&self) -> &str {
        self.name
    }
    fn start(&mut self, _: &mut PortContext<'_>) -> io::Result<()> {
        (self.on_start)();
        Ok(())
    }
    fn has_input(&self) -> bool {
        self.on_receive.is_some()
    }
    fn receive(&mut self, _: &mut PortContext<'_>, _: usize) {
        if let Some(receive) = self.on_receive {
            receive();
        }
    }
    fn transmit(&mut self, _: &mut PortContext<'_>, _: &mut [Outgoing]) {}
    fn flush(&mut self, _: &mut PortContext<'_>) {}
    fn update_face(
        &mut self,
        _: &mut PortContext<'_>,
        _: FaceId,
        _: &FaceChange,
    ) -> Result<FaceStatus, UpdateFaceError> {
        Err(UpdateFaceError::NotFound)
    }
    fn destroy_face(&mut self, _: &mut PortContext<'_>, _: FaceId) -> bool {
        false
    }
    fn status(&self, _: Ticks, _: FaceId) -> Option<FaceStatus> {
        None
    }
}
