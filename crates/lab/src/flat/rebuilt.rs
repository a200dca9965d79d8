//! VFunc, the static function of the crate `sux`: it combines three values per name by exclusive-or, on a hypergraph
//! that is peeled once. A function takes no changes. So changes are gathered, and a thread builds the next function.
//!
//! Meanwhile readers get the answers of the previous function: changes take effect some time after `apply`. A new
//! reader waits for a function of all changes that were applied.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::anyhow;
use byname_lookup::flat::message::Feed;
use byname_lookup::{BuildError, Change, Control, EntryId, FlatFib, Update};
use byname_wire::Digest;
use dsi_progress_logger::no_logging;
use mem_dbg::{MemSize, SizeFlags};
use sux::bits::BitFieldVec;
use sux::func::VFunc;
use sux::utils::ToSig;

use super::engine::Halves;

/// A name for the crate: it is hashed already, so another hash is one multiplication.
#[derive(Debug, Clone, Copy)]
struct Key(Digest);

impl ToSig<[u64; 2]> for Key {
    #[inline]
    fn to_sig(key: impl Borrow<Self>, seed: u64) -> [u64; 2] {
        let Digest { hash, check } = key.borrow().0;
        [folded(hash ^ seed, check ^ 0x9e37_79b9_7f4a_7c15), folded(check ^ seed, hash ^ 0xd1b5_4a32_d192_ed03)]
    }
}

#[inline]
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Values with as many bits as the largest needs.
type Packed = VFunc<Key, BitFieldVec<Box<[u64]>>>;

/// The query half.
struct Function(Packed);

impl Function {
    fn build(names: Arc<HashMap<Digest, EntryId>>) -> anyhow::Result<Self> {
        if names.is_empty() {
            return Ok(Function(Packed::empty()));
        }
        let (keys, values): (Vec<_>, Vec<_>) =
            names.iter().map(|(name, entry)| (Key(*name), u64::from(entry.0))).unzip();
        // Otherwise the next change would have to copy the map, because it is shared.
        drop(names);
        Ok(Function(Packed::try_par_new(&keys, &values, no_logging![])?))
    }
}

impl FlatFib for Function {
    #[inline]
    fn entry(&self, name: Digest) -> Option<EntryId> {
        Some(EntryId(self.0.get(Key(name)) as u32))
    }

    fn memory_bytes(&self) -> usize {
        self.0.mem_size(SizeFlags::default())
    }
}

/// The control half.
pub struct Rebuilt {
    action_bits: u32,
    names_max: usize,
    // Only new readers lock this, and the writer for a moment.
    state: Mutex<State>,
}

struct State {
    names: Arc<HashMap<Digest, EntryId>>,
    query: Arc<Function>,
    /// The next function, while a thread builds it.
    building: Option<JoinHandle<anyhow::Result<Function>>>,
    /// Whether names have changed since the last build was started.
    is_behind: bool,
}

impl Rebuilt {
    /// Builds a table of these names.
    ///
    /// # Errors
    /// If no function is found.
    pub fn new(
        action_bits: u32,
        names_max: usize,
        names: impl Iterator<Item = (Digest, EntryId)>,
    ) -> anyhow::Result<Self> {
        let names = Arc::new(names.collect::<HashMap<_, _>>());
        let query = Arc::new(Function::build(names.clone())?);
        let state = State { names, query, building: None, is_behind: false };
        Ok(Rebuilt { action_bits, names_max, state: Mutex::new(state) })
    }
}

impl State {
    /// Adopts a finished function and starts the next build if names have changed. Returns whether readers need the new
    /// function. With `wait`, continues until the function contains all names.
    fn go_on(&mut self, wait: bool) -> anyhow::Result<bool> {
        let mut is_new = false;
        loop {
            if let Some(building) = self.building.take_if(|building| wait || building.is_finished()) {
                let built = building.join().map_err(|_| anyhow!("the thread that built a function panicked"))?;
                (self.query, is_new) = (Arc::new(built?), true);
            }
            if self.building.is_none() && self.is_behind {
                let names = self.names.clone();
                self.building = Some(std::thread::spawn(|| Function::build(names)));
                self.is_behind = false;
            }
            if !wait || self.building.is_none() {
                return Ok(is_new);
            }
        }
    }
}

impl Control<Digest> for Rebuilt {
    type Query = dyn FlatFib;

    fn query(&self) -> Arc<Self::Query> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // After an error, the previous function is still usable.
        let _ = state.go_on(true);
        state.query.clone()
    }

    fn apply(&mut self, changes: &[Change<Digest>]) -> Result<Update<Self::Query>, BuildError> {
        let entries_max = 1u64 << self.action_bits;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut sets = 0;
        for change in changes {
            if let Change::Set(_, entry) = change {
                if u64::from(entry.0) >= entries_max {
                    return Err(BuildError::EntryOutOfRange { entry: entry.0, entries_max: entries_max as u32 });
                }
                sets += 1;
            }
        }
        if state.names.len() + sets > self.names_max {
            let is_new = |change: &&Change<Digest>| match change {
                Change::Set(name, _) => !state.names.contains_key(name),
                Change::Remove(_) => false,
            };
            if state.names.len() + changes.iter().filter(is_new).count() > self.names_max {
                return Err(BuildError::Full { rules: self.names_max });
            }
        }
        let failed = |error: anyhow::Error| BuildError::Memory { reason: error.to_string() };
        let is_new = state.go_on(false).map_err(failed)?;
        let names = Arc::make_mut(&mut state.names);
        for change in changes {
            match change {
                Change::Set(name, entry) => names.insert(*name, *entry),
                Change::Remove(name) => names.remove(name),
            };
        }
        state.is_behind = true;
        // A build that finishes at once is adopted by the next call.
        if state.building.is_none() {
            state.go_on(false).map_err(failed)?;
        }
        Ok(if is_new { Update::Replace(state.query.clone()) } else { Update::Patched })
    }

    fn reclaim(&mut self) {}
}

impl Halves for Rebuilt {
    fn feed(&mut self) -> Option<&mut dyn Feed> {
        None
    }
}

#[cfg(test)]
mod tests {
    use byname_lookup::oracle::FlatOracle;

    use super::*;

    fn name(i: u64) -> Digest {
        let [hash, check] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb].map(|odd| folded(i ^ odd, !odd));
        Digest { hash, check }
    }

    /// Answers may lag, but in the end they include all changes.
    #[test]
    fn changes_show_when_the_next_function_is_there() {
        let mut rebuilt = Rebuilt::new(8, 5000, (0..4000).map(|i| (name(i), EntryId(0)))).expect("a function");
        let mut oracle = FlatOracle::new();
        let all: Vec<_> = (0..4000).map(|i| Change::Set(name(i), EntryId(0))).collect();
        oracle.apply(&all).expect("the oracle takes everything");
        let mut fib = rebuilt.query();
        for round in 1..=200 {
            let sets = (0..100).map(|i| Change::Set(name(i * 41 % 4000), EntryId(round)));
            let comes_and_goes = name(4000 + u64::from(round % 90));
            let last = match round / 90 % 2 {
                0 => Change::Set(comes_and_goes, EntryId(round)),
                _ => Change::Remove(comes_and_goes),
            };
            let changes: Vec<_> = sets.chain([last]).collect();
            oracle.apply(&changes).expect("the oracle takes everything");
            if let Update::Replace(new) = rebuilt.apply(&changes).expect("in range") {
                fib = new;
            }
            let found = fib.entry(name(41)).map(|entry| entry.0);
            assert!(found <= Some(round), "{found:?}");
            assert_eq!(fib.entry(name(1)), Some(EntryId(0)));
            if round % 50 == 0 {
                let (fib, right) = (rebuilt.query(), oracle.query());
                let mut known = (0..4090).map(name).filter_map(|name| Some((name, right.entry(name)?)));
                assert!(known.all(|(name, entry)| fib.entry(name) == Some(entry)), "round {round}");
            }
        }
    }

    #[test]
    fn a_batch_that_does_not_fit_is_refused() {
        let mut rebuilt = Rebuilt::new(8, 100, (0..90).map(|i| (name(i), EntryId(0)))).expect("a function");
        let wide = [Change::Set(name(2), EntryId(256))];
        assert!(matches!(rebuilt.apply(&wide), Err(BuildError::EntryOutOfRange { entries_max: 256, .. })));
        let many: Vec<_> = (90..101).map(|i| Change::Set(name(i), EntryId(1))).collect();
        assert!(matches!(rebuilt.apply(&many), Err(BuildError::Full { rules: 100 })));
    }
}
