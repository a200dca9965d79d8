//! Questions about a name, which its home answers between two bursts.

use byname_forward::explain::Explanation;
use byname_wire::Name;

use super::ForwarderHandle;

/// What the forwarder knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Number of the packet thread that is the name's home.
    pub home: usize,
    /// What the tables of this thread know.
    pub explanation: Explanation,
}

impl ForwarderHandle {
    /// What the home of a name knows of it. `None` if the threads have ended.
    pub fn explain(&self, name: &Name) -> Option<Explained> {
        let asked = name.clone();
        let home = self.line(0).call(move |io_loop| io_loop.seat.home(asked.as_ref()))?;
        let asked = name.clone();
        let explanation = self.line(home).call(move |io_loop| {
            let (now, mut answer) = (io_loop.clock.now(), None);
            io_loop.seat.ask(|worker| answer = Some(worker.explain(now, asked.as_ref())));
            answer
        });
        Some(Explained { home, explanation: explanation.flatten()? })
    }
}
