//! Names whose popularity follows Zipf's law.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

/// Draws names by their popularity.
pub struct Popularity {
    zipf: Zipf<f64>,
    random: SmallRng,
}

impl Popularity {
    /// Draws from `names` names; with an exponent of 0, each is equally popular.
    ///
    /// # Errors
    /// If there are no names, or the exponent is negative.
    pub fn new(names: u64, exponent: f64, seed: u64) -> anyhow::Result<Self> {
        Ok(Popularity { zipf: Zipf::new(names as f64, exponent)?, random: SmallRng::seed_from_u64(seed) })
    }

    /// Draws the next name. Its number is its rank.
    pub fn draw(&mut self) -> u64 {
        self.zipf.sample(&mut self.random) as u64 - 1
    }
}
