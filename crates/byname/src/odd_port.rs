//! A port for tests that does something odd in the packet thread.

use std::io;

use byname_face::{Port, PortContext};

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
    byname_face::port_without_faces!();
}
