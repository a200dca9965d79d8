//! What strangers can make the data plane do, beside what it does for everybody [So §2.1, §2.3].
//!
//! An attacker's face sends what is made to cost much ([`Attack`]) to the worker, and among the
//! packets, of `byname-lab forward`. Three kinds of turns are timed in turn, each through a worker of its
//! own, so that what else the machine does hits all of them: ordinary packets that nobody disturbs; the
//! attack alone; and ordinary packets with one of the attack among so many. The first and the second give
//! an attack's cost, the first and the third what is left of the others' rate.
//!
//! Each worker's PIT has room for what is pending in ordinary traffic and for as much of the attacker's.
//! Where there is one, that is taken before anything is timed: from then on each Interest of the attacker
//! drives out an older one of his. Afterwards every ordinary Interest must have been answered.

mod attack;
mod measure;
mod record;
#[cfg(test)]
mod tests;

pub use attack::Attack;
pub use measure::measure;
