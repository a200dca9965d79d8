//! A secret of two neighbours, with which they sign what they tell each other of descriptors.
//!
//! It comes from a Diffie-Hellman exchange over X25519 [RFC 7748 §6.1], whose public keys are in signed messages. So
//! nobody has to configure it, and each update costs a HMAC instead of a signature. The router with the lower key begins:
//! it offers a public key, and the other one answers with its own. Each pair of keys is used once. If one of the routers
//! has started again, it lacks the secret, and the exchange begins anew.

use std::fmt;

use byname_wire::digest;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;

use super::message::{PUBLIC_KEY_BYTES, PublicKey, RouterKey};

/// A secret of two neighbours.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Secrets are not written down.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// One side of the exchange on a link.
#[derive(Default)]
pub(super) struct Exchange {
    begins: bool,
    /// The key that this side has offered, until it is answered.
    offered: Option<EphemeralPrivateKey>,
    own: Option<PublicKey>,
    /// The other side's key, which `secret` comes from.
    theirs: Option<PublicKey>,
    secret: Option<Secret>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("begins", &self.begins).field("is_done", &self.secret.is_some()).finish()
    }
}

impl Exchange {
    /// An exchange that has not begun.
    pub(super) fn new(begins: bool) -> Self {
        let mut exchange = Exchange { begins, ..Exchange::default() };
        if begins {
            exchange.offer();
        }
        exchange
    }

    /// The secret, if both sides have said enough.
    pub(super) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// What messages tell: this side's key, and the other side's that it answers.
    pub(super) fn keys(&self) -> (Option<PublicKey>, Option<PublicKey>) {
        (self.own, self.theirs.filter(|_| !self.begins))
    }

    /// Takes the keys of a message. Returns whether anything has changed. `ends`: this router and the other one.
    pub(super) fn receive(
        &mut self,
        key: Option<PublicKey>,
        answered: Option<PublicKey>,
        ends: (RouterKey, RouterKey),
    ) -> bool {
        let Some(key) = key else { return false };
        if !self.begins {
            if self.theirs == Some(key) && self.secret.is_some() {
                return false;
            }
            self.offer();
            self.agree(key, ends);
            return true;
        }
        if self.theirs == Some(key) && answered == self.own {
            return false;
        }
        if answered.is_none() || answered != self.own {
            // The answer to an earlier key, which arrives late, or the other side has started again. In the second case
            // it answers the key that it hears next.
            return false;
        }
        if self.offered.is_none() {
            // Another answer to the same key: the other side has lost its own.
            self.secret = None;
            self.offer();
            return true;
        }
        self.agree(key, ends);
        true
    }

    fn offer(&mut self) {
        let random = SystemRandom::new();
        let drawn = EphemeralPrivateKey::generate(&X25519, &random).ok();
        let public = drawn.as_ref().and_then(|key| key.compute_public_key().ok());
        self.own = public.and_then(|key| <[u8; PUBLIC_KEY_BYTES]>::try_from(key.as_ref()).ok());
        self.offered = drawn;
    }

    fn agree(&mut self, key: PublicKey, (own, other): (RouterKey, RouterKey)) {
        let Some(offered) = self.offered.take() else { return };
        self.theirs = Some(key);
        let (low, high) = (own.min(other), own.max(other));
        // Both public keys go into the secret, that of the beginning side first.
        let (Some(mine), theirs) = (self.own, key) else { return };
        let (first, second) = if self.begins { (mine, theirs) } else { (theirs, mine) };
        let names = [low.0.to_be_bytes(), high.0.to_be_bytes()].concat();
        self.secret = agree_ephemeral(offered, &UnparsedPublicKey::new(&X25519, key), |shared| {
            Secret(digest::sha256(&[b"byname tags 1", shared, &first, &second, &names]))
        })
        .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: RouterKey = RouterKey(1);
    const HIGH: RouterKey = RouterKey(2);

    /// Lets both hear each other until nothing changes.
    fn run(low: &mut Exchange, high: &mut Exchange) {
        for _ in 0..8 {
            let (key, answered) = low.keys();
            let a = high.receive(key, answered, (HIGH, LOW));
            let (key, answered) = high.keys();
            let b = low.receive(key, answered, (LOW, HIGH));
            if !a && !b {
                break;
            }
        }
        assert!(low.secret().is_some() && low.secret() == high.secret());
    }

    #[test]
    fn both_sides_have_the_same_secret_also_after_restarts() {
        let (mut low, mut high) = (Exchange::new(true), Exchange::new(false));
        run(&mut low, &mut high);
        let first = low.secret().cloned();
        run(&mut low, &mut high);
        assert_eq!(low.secret().cloned(), first, "nothing changes by itself");
        high = Exchange::new(false);
        run(&mut low, &mut high);
        let second = low.secret().cloned();
        assert_ne!(second, first);
        low = Exchange::new(true);
        run(&mut low, &mut high);
        assert!(low.secret().cloned() != second && low.secret().cloned() != first);
    }

    #[test]
    fn keys_that_are_no_answer_and_keys_without_order_give_no_secret() {
        let mut low = Exchange::new(true);
        assert!(!low.receive(Some([9; 32]), None, (LOW, HIGH)));
        assert!(!low.receive(Some([9; 32]), Some([8; 32]), (LOW, HIGH)));
        assert_eq!(low.secret(), None);
        // The point of order 1 gives the same secret with every key, so ring refuses it.
        let mut high = Exchange::new(false);
        high.receive(Some([0; 32]), None, (HIGH, LOW));
        assert_eq!(high.secret(), None);
    }
}
