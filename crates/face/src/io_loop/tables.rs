//! Exchanges the tables of workers: see [`byname_forward::worker::NewTables`].

use byname_forward::worker::{CsInfo, NewTables, OldTables, Progress};
use byname_wire::Name;

use super::ForwarderHandle;

impl ForwarderHandle {
    /// Gives each worker other tables, in the order of their numbers. Does not wait until the workers use them.
    pub fn exchange_tables(&self, tables: Vec<Box<NewTables>>) {
        for (number, new) in tables.into_iter().enumerate() {
            // Tables of an earlier exchange that never came into use are freed here.
            drop(self.line(number).call(move |io_loop| io_loop.seat.worker.exchange_tables(new)));
        }
    }

    /// How far the last exchange is on the thread that is furthest behind, and what workers have left. Dropping that
    /// takes time. `forget_nonces`: see [`Worker::take_old_tables`].
    ///
    /// [`Worker::take_old_tables`]: byname_forward::Worker::take_old_tables
    pub fn take_old_tables(&self, forget_nonces: bool) -> (Progress, Vec<OldTables>) {
        let taken = self.call_all(move |io_loop| io_loop.seat.worker.take_old_tables(forget_nonces));
        let (progress, old): (Vec<Progress>, Vec<_>) = taken.into_iter().unzip();
        (progress.into_iter().min().unwrap_or(Progress::Done), old.into_iter().flatten().collect())
    }

    /// State of each worker's content store, and the number of its pending Interests.
    pub fn table_contents(&self) -> Vec<(CsInfo, u64)> {
        self.ask_all(|_, worker| (worker.cs_info(), worker.counters().pit_entries))
    }

    /// Changes what ends a forwarding hint, and whether Data satisfies an Interest that was not sent to its face.
    pub fn set_rules(&self, producer_regions: Vec<Name>, accept_unasked_data: bool) {
        self.ask_all(move |_, worker| worker.set_rules(producer_regions.clone(), accept_unasked_data));
    }
}
