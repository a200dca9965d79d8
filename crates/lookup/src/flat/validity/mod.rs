//! Names that the control half does not know [Concise §7.3]: three ways to detect them, around any
//! flat engine.
//!
//! | | what an unknown name passes as known with | memory a name | cost of a query |
//! | --- | --- | --- | --- |
//! | [`Checked`]: r more bits beside the action | 2^-r | those bits, in the engine | none but a comparison |
//! | [`Filtered`]: a Bloom filter in front | the odds asked for | 1.44 bits for each halving of them | as many bits read |
//! | [`Verified`]: names whole, at the ingress | never | the name and some 100 bytes | three cache lines and the name |

mod checked;
mod filtered;
mod verified;

use std::sync::Arc;

use crate::flat::FlatFib;
use crate::update::Update;

pub use self::checked::{Check, Checked};
pub use self::filtered::Filtered;
pub use self::verified::{Verified, VerifiedFib};

/// Wraps the query half that an update delivers.
fn wrapped(
    update: Update<dyn FlatFib>,
    wrap: impl FnOnce(Arc<dyn FlatFib>) -> Arc<dyn FlatFib>,
) -> Update<dyn FlatFib> {
    match update {
        Update::Replace(fib) => Update::Replace(wrap(fib)),
        Update::Patched => Update::Patched,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
