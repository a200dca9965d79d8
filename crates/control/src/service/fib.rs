//! Replaces the engine of the FIB of names while packets flow and commands are answered.
//!
//! The calling thread makes the new engine and fills it. The control thread only reads out rules, a part at a time.

use std::sync::Arc;

use byname_face::nodes::on_node;
use byname_lookup::{BuildError, Change, EntryId};
use byname_wire::Name;

use super::{ControlError, ControlHandle};
use crate::fib_writer::{FibEngine, Place, Replica, fill};
use crate::mgmt::Management;

/// Rules that the control thread reads out at once.
const RULES_PER_CALL: usize = 4096;

/// Some rules with their groups, and the name after which the next ones come; `None` if these are the last.
type Page = (Vec<(Name, EntryId)>, Option<Arc<[u8]>>);

impl ControlHandle {
    /// Replaces the engine of the FIB of names, or puts another one beside it. `build` makes one for a memory node.
    ///
    /// # Errors
    /// The new engine cannot be made, or refuses a rule. The old one goes on.
    pub fn rebuild_fib(
        &self,
        build: impl FnMut(Option<u32>) -> Result<FibEngine, BuildError>,
        place: Place,
    ) -> Result<(), ControlError> {
        let nodes = self.call(|management| management.fib_mut().begin_rebuild())?;
        match self.filled_engines(nodes, build) {
            Ok(engines) => {
                let finished = self.call(move |management| {
                    management.change_new_engines(&engines);
                    management.fib_mut().finish_rebuild(engines, place)
                })?;
                // Freed here: the control thread need not wait for that.
                finished.map(drop).map_err(ControlError::Build)
            }
            Err(error) => {
                self.call(|management| management.fib_mut().abandon_rebuild())?;
                Err(error)
            }
        }
    }

    /// After [`Place::Beside`]: keeps the later engine of the FIB, which all workers read by now, or the earlier one.
    ///
    /// # Errors
    /// If the control thread has ended.
    pub fn keep_fib(&self, later: bool) -> Result<(), ControlError> {
        self.call(move |management| management.fib_mut().keep_side(later)).map(drop)
    }

    fn filled_engines(
        &self,
        nodes: Vec<Option<u32>>,
        mut build: impl FnMut(Option<u32>) -> Result<FibEngine, BuildError>,
    ) -> Result<Vec<Replica>, ControlError> {
        let make = |node| Ok(Replica { engine: on_node(node, || build(node))?, node });
        let mut engines = nodes.into_iter().map(make).collect::<Result<Vec<Replica>, BuildError>>()?;
        let mut after: Option<Arc<[u8]>> = None;
        loop {
            let (rules, next) = self.call(move |management| rules_after(management, after.as_deref()))?;
            fill(&mut engines, rules.into_iter().map(|(name, group)| Change::Set(name, group)))?;
            if next.is_none() {
                return Ok(engines);
            }
            after = next;
        }
    }
}

fn rules_after(management: &Management, after: Option<&[u8]>) -> Page {
    let (mut rules, mut last) = (Vec::new(), None);
    for (number, entry) in management.rib().entries_after(after).take(RULES_PER_CALL).enumerate() {
        rules.extend(entry.group().map(|group| (entry.name().to_name(), group)));
        last = (number + 1 == RULES_PER_CALL).then(|| entry.key());
    }
    (rules, last)
}
