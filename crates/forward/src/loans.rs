//! Faces that several threads send on.
//!
//! A face has one owner, the thread whose port receives from its peer. Mostly, a packet for the face must cross to that
//! thread. Some ports have a socket on each thread, with one address for all. Such a port *lends* its faces: it gives
//! other threads what they need to send to the peer by themselves, a [`Loan`].
//!
//! A loan is news of the face. Workers hear of it in order with the packets of the face, together with the face itself,
//! and the loan ends when a worker forgets the face. Each worker keeps a list of such news for the loop of its thread
//! ([`Worker::take_loans`](crate::Worker::take_loans)), which has the ports.
//!
//! With one thread nothing is lent.

use std::any::Any;
use std::sync::Arc;

/// What a port on another thread needs to send on a face. Only ports know what that is.
pub type Loan = Arc<dyn Any + Send + Sync>;
