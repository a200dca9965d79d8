//! PIT tokens that name a worker: four random bytes drawn at start, one byte that says whether the name is short, and one
//! with the worker's number.
//!
//! They have six bytes, as those of ndnd have. ndnd (1.5.3) echoes any token, but ends with a panic if it has another
//! length.

use byname_wire::PitToken;

use super::WORKERS_MAX;

/// The byte before the last, if the name has fewer components than select a home.
const SHORT: u8 = 1;

const _: () = assert!(WORKERS_MAX <= 1 << u8::BITS);

/// The bytes that distinguish our tokens from those of others.
#[derive(Clone, Copy)]
pub(super) struct TokenMark([u8; 4]);

/// The content of one of our tokens.
pub(super) struct WorkerToken {
    pub worker: usize,
    /// Whether Data that answers the Interest may have another home.
    pub is_short: bool,
}

impl TokenMark {
    pub fn new(mark: u32) -> Self {
        TokenMark(mark.to_be_bytes())
    }

    pub fn bytes(self) -> [u8; 4] {
        self.0
    }

    /// The content of a token, if it is ours.
    #[inline]
    pub fn read(self, token: &PitToken) -> Option<WorkerToken> {
        let &[ref mark @ .., short, worker] = <&[u8; 6]>::try_from(token.as_slice()).ok()?;
        (*mark == self.0).then_some(WorkerToken { worker: usize::from(worker), is_short: short == SHORT })
    }

    fn token(self, short: u8, worker: u8) -> PitToken {
        let [a, b, c, d] = self.0;
        PitToken::new(&[a, b, c, d, short, worker]).expect("six bytes are few enough")
    }
}

/// Makes tokens for the Interests of one worker.
pub(crate) struct TokenMaker {
    whole: PitToken,
    short: PitToken,
    components: usize,
}

impl TokenMaker {
    pub(super) fn new(mark: TokenMark, worker: usize, components: usize) -> Self {
        let number = worker as u8;
        TokenMaker { whole: mark.token(0, number), short: mark.token(SHORT, number), components }
    }

    /// The token for an Interest whose name has `depth` components.
    #[inline]
    pub fn token(&self, can_be_prefix: bool, depth: usize) -> PitToken {
        if can_be_prefix && depth < self.components { self.short } else { self.whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_others_are_not_ours() {
        let mark = TokenMark::new(0x0102_0304);
        let maker = TokenMaker::new(mark, 63, 2);
        let read = |token: &PitToken| mark.read(token).map(|t| (t.worker, t.is_short));
        assert_eq!(read(&maker.token(true, 1)), Some((63, true)));
        assert_eq!(read(&maker.token(true, 2)), Some((63, false)));
        assert_eq!(read(&maker.token(false, 1)), Some((63, false)));
        assert_eq!(maker.token(false, 1).as_slice().len(), 6, "ndnd takes no others");
        for other in [&[][..], &[1, 2, 3, 4], &[1, 2, 3, 4, 0], &[1, 2, 3, 5, 0, 0], &[1, 2, 3, 4, 0, 0, 0]] {
            assert_eq!(read(&PitToken::new(other).expect("few bytes")), None);
        }
    }
}
