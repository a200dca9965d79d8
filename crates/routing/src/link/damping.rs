//! Damping of links that flap [RFC 2439].

use crate::config::Damping;

/// The sum of a link's downs. It decays by half in each half-life.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Penalty {
    value: f64,
    at_ms: u64,
    /// It has exceeded the threshold, and has not fallen below that for reuse since.
    is_suppressed: bool,
}

impl Penalty {
    fn value_at(&self, damping: &Damping, now_ms: u64) -> f64 {
        let elapsed = now_ms.saturating_sub(self.at_ms) as f64;
        self.value * (-elapsed / damping.half_life.as_millis().max(1) as f64).exp2()
    }

    /// The link went down.
    pub(crate) fn add(&mut self, damping: &Damping, now_ms: u64) {
        let now = self.value_at(damping, now_ms);
        let was_suppressed = self.suppressed_until(damping).is_some_and(|until| until > now_ms);
        // Above this, the link would be suppressed for longer than the longest time.
        let ceiling = f64::from(damping.reuse)
            * (damping.longest.as_millis() as f64 / damping.half_life.as_millis().max(1) as f64).exp2();
        self.value = (now + f64::from(damping.penalty)).min(ceiling);
        self.at_ms = now_ms;
        self.is_suppressed = was_suppressed || self.value > f64::from(damping.suppress);
    }

    /// When the link may be used again.
    pub(crate) fn suppressed_until(&self, damping: &Damping) -> Option<u64> {
        if !self.is_suppressed || self.value <= f64::from(damping.reuse) {
            return None;
        }
        let half_lives = (self.value / f64::from(damping.reuse)).log2();
        Some(self.at_ms.saturating_add((half_lives * damping.half_life.as_millis() as f64).ceil() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_is_suppressed_and_comes_back() {
        let damping = Damping::default();
        let mut penalty = Penalty::default();
        for down in 0..3 {
            penalty.add(&damping, 1000 + down * 1000);
            assert_eq!(penalty.suppressed_until(&damping), None, "{down}");
        }
        penalty.add(&damping, 4000);
        let until = penalty.suppressed_until(&damping).unwrap();
        // From about 3800 to 1500 it takes a bit more than one half-life.
        assert!((4000 + 15_000..4000 + 30_000).contains(&until), "{until}");
        // Another down while it is suppressed makes it longer, up to the longest time.
        for _ in 0..100 {
            penalty.add(&damping, 5000);
        }
        let until = penalty.suppressed_until(&damping).unwrap();
        assert!((5000 + 59_000..=5000 + 60_001).contains(&until), "{until}");
    }

    #[test]
    fn rare_downs_are_forgiven() {
        let damping = Damping::default();
        let mut penalty = Penalty::default();
        for down in 1..100 {
            penalty.add(&damping, down * 60_000);
            assert_eq!(penalty.suppressed_until(&damping), None);
        }
    }
}
