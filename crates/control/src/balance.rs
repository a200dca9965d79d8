//! Decides which face moves to another packet thread when one thread is much busier than another for long.
//!
//! Once a period, the balancer compares the time that each thread has worked since the last period. If the busiest
//! thread was at least [`BUSY`] busy, and [`GAP`] busier than the idlest, it counts the packets of that thread's faces.
//! If that thread is still the busiest in the next period, one face moves: the one whose share of the thread's packets
//! is nearest to half of the gap. Its packets are also handled at their homes, which do not move, so its share is the
//! most that it can take along.
//!
//! Faces do not go back and forth. A face takes along at most [`PART_MAX`] of the gap, so each move brings the two
//! threads nearer to each other. A face that has moved stays for [`SETTLED_PERIODS`], and the loads are measured anew
//! for two periods after each move.
//!
//! A thread that rests has no load of its own, since the first thread does its work. So faces leave the first thread
//! only when it is busy itself.

use std::time::Duration;

use byname_forward::FaceId;
use byname_forward::face_table::FaceMap;

/// Share of its time that a thread must work before a face leaves it.
pub const BUSY: f64 = 0.5;
/// Least difference between the loads of two threads at which a face moves.
pub const GAP: f64 = 0.2;
/// Parts of this difference that a face must and may take along.
pub const PART_MIN: f64 = 0.1;
/// See [`PART_MIN`].
pub const PART_MAX: f64 = 0.75;
/// Periods for which a face stays where it has moved.
pub const SETTLED_PERIODS: u64 = 6;

/// Two threads with very different loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uneven {
    /// The thread with the greatest load.
    pub busiest: usize,
    /// The thread with the least load.
    pub idlest: usize,
    /// Load of the busiest thread: the share of its time that it has worked.
    pub load: f64,
    /// Difference of their loads.
    pub gap: f64,
}

/// A face of the busiest thread.
#[derive(Debug, Clone, Copy)]
pub struct FaceLoad {
    /// Its number.
    pub face: FaceId,
    /// Packets in both directions since it was created.
    pub packets: u64,
    /// Whether it can move.
    pub is_movable: bool,
}

/// Compares the loads of threads, period by period.
#[derive(Debug)]
pub struct Balancer {
    period_ms: u64,
    measured_ms: u64,
    /// Time that each thread had worked at the last measurement.
    busy_ns: Vec<u64>,
    /// The busiest thread of the last period, if the loads were uneven, with the packets of its faces at its end.
    uneven: Option<(usize, FaceMap<u64>)>,
    /// Faces that have moved, with the time until which they stay.
    settled: FaceMap<u64>,
}

impl Balancer {
    /// Measures loads over `period`, at least 1 ms, from `now_ms` on.
    pub fn new(period: Duration, now_ms: u64) -> Self {
        let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        Balancer { period_ms, measured_ms: now_ms, busy_ns: Vec::new(), uneven: None, settled: FaceMap::default() }
    }

    /// Time of the next [`Balancer::measure`].
    pub fn next_deadline_ms(&self) -> u64 {
        self.measured_ms.saturating_add(self.period_ms)
    }

    /// Ends a period. `busy_ns` is the time that each thread has worked since its start. Returns the threads between
    /// which a face should move; [`Balancer::choose`] chooses the face.
    pub fn measure(&mut self, now_ms: u64, busy_ns: Vec<u64>) -> Option<Uneven> {
        let elapsed_ns = now_ms.saturating_sub(std::mem::replace(&mut self.measured_ms, now_ms)) as f64 * 1e6;
        self.settled.retain(|_, until_ms| *until_ms > now_ms);
        let before = std::mem::replace(&mut self.busy_ns, busy_ns);
        let found = uneven(&before, &self.busy_ns, elapsed_ns);
        if found.is_none() {
            self.uneven = None;
        }
        found
    }

    /// The face that should move from the busiest thread to the idlest, if there is one. `faces` are the faces of the
    /// busiest thread.
    pub fn choose(&mut self, uneven: &Uneven, faces: &[FaceLoad]) -> Option<FaceId> {
        let packets = faces.iter().map(|load| (load.face, load.packets)).collect();
        let (thread, before) = self.uneven.replace((uneven.busiest, packets))?;
        if thread != uneven.busiest {
            return None;
        }
        // New faces have no share yet.
        let lately = |load: &FaceLoad| before.get(&load.face).map_or(0, |before| load.packets.saturating_sub(*before));
        let all: u64 = faces.iter().map(lately).sum();
        let fits = |load: &FaceLoad| {
            let part = lately(load) as f64 / all as f64 * uneven.load;
            let may = load.is_movable && !self.settled.contains_key(&load.face);
            (may && (PART_MIN * uneven.gap..=PART_MAX * uneven.gap).contains(&part))
                .then_some((load.face, (part - uneven.gap / 2.0).abs()))
        };
        let nearest = faces.iter().filter_map(fits).min_by(|(_, a), (_, b)| a.total_cmp(b));
        nearest.map(|(face, _)| face)
    }

    /// Notes that a face has moved, or cannot.
    pub fn settle(&mut self, now_ms: u64, face: FaceId) {
        self.settled.insert(face, now_ms.saturating_add(self.period_ms.saturating_mul(SETTLED_PERIODS)));
        self.uneven = None;
    }
}

fn uneven(before_ns: &[u64], now_ns: &[u64], elapsed_ns: f64) -> Option<Uneven> {
    if before_ns.len() != now_ns.len() || elapsed_ns <= 0.0 {
        return None;
    }
    let load = |thread: usize| now_ns[thread].saturating_sub(before_ns[thread]) as f64 / elapsed_ns;
    let threads = || (0..now_ns.len()).map(|thread| (load(thread), thread));
    let (most, busiest) = threads().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (least, idlest) = threads().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let gap = most - least;
    (most >= BUSY && gap >= GAP).then_some(Uneven { busiest, idlest, load: most, gap })
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const PERIOD_MS: u64 = 10_000;

    /// Threads whose load comes from the packets of their faces, in virtual time.
    struct Router {
        balancer: Balancer,
        now_ms: u64,
        threads: usize,
        /// For each face: its thread, its packets per second, its packets so far, and the time of its last move.
        faces: Vec<(usize, f64, f64, u64)>,
        busy_ns: Vec<f64>,
        /// Part of a packet's work that is done where its face is; the rest is spread over all threads.
        part_here: f64,
        ns_per_packet: f64,
        moves: usize,
    }

    impl Router {
        fn new(threads: usize, part_here: f64) -> Self {
            Router {
                balancer: Balancer::new(Duration::from_millis(PERIOD_MS), 0),
                now_ms: 0,
                threads,
                faces: Vec::new(),
                busy_ns: vec![0.0; threads],
                part_here,
                ns_per_packet: 1000.0,
                moves: 0,
            }
        }

        /// A face that keeps its thread busy for `load` of its time.
        fn face(&mut self, thread: usize, load: f64) {
            self.faces.push((thread, load * 1e9 / self.ns_per_packet, 0.0, 0));
        }

        fn loads(&self) -> Vec<f64> {
            let all: f64 = self.faces.iter().map(|face| face.1).sum();
            let spread = all * (1.0 - self.part_here) / self.threads as f64;
            let here = |thread| self.faces.iter().filter(move |face| face.0 == thread).map(|face| face.1).sum::<f64>();
            (0..self.threads)
                .map(|thread| ((here(thread) * self.part_here + spread) * self.ns_per_packet / 1e9).min(1.0))
                .collect()
        }

        fn gap(&self) -> f64 {
            let loads = self.loads();
            loads.iter().copied().fold(0.0, f64::max) - loads.iter().copied().fold(1.0, f64::min)
        }

        /// One period. Returns whether a face moved.
        fn period(&mut self) -> bool {
            self.now_ms += PERIOD_MS;
            let loads = self.loads();
            for (busy, load) in self.busy_ns.iter_mut().zip(loads) {
                *busy += load * PERIOD_MS as f64 * 1e6;
            }
            for face in &mut self.faces {
                face.2 += face.1 * PERIOD_MS as f64 / 1e3;
            }
            assert!(self.balancer.next_deadline_ms() <= self.now_ms);
            let busy_ns = self.busy_ns.iter().map(|ns| *ns as u64).collect();
            let Some(uneven) = self.balancer.measure(self.now_ms, busy_ns) else { return false };
            let load = |(n, face): (usize, &(usize, f64, f64, u64))| FaceLoad {
                face: FaceId(n as u64),
                packets: face.2 as u64,
                is_movable: n % 10 != 9,
            };
            let of_busiest = self.faces.iter().enumerate().filter(|(_, face)| face.0 == uneven.busiest);
            let faces: Vec<FaceLoad> = of_busiest.map(load).collect();
            let Some(face) = self.balancer.choose(&uneven, &faces) else { return false };
            let face = face.0 as usize;
            assert!(face % 10 != 9, "it cannot move");
            let last = std::mem::replace(&mut self.faces[face].3, self.now_ms);
            assert!(last == 0 || self.now_ms >= last + SETTLED_PERIODS * PERIOD_MS, "it has just moved");
            self.faces[face].0 = uneven.idlest;
            self.balancer.settle(self.now_ms, FaceId(face as u64));
            self.moves += 1;
            true
        }
    }

    #[test]
    fn uneven_threads_become_even_and_stay_so() {
        for seed in 0..200 {
            let mut random = SmallRng::seed_from_u64(seed);
            let threads = 2 + random.random_range(0..7);
            let mut router = Router::new(threads, random.random_range(0.3..1.0));
            let faces = 1 + random.random_range(0..60);
            let all = random.random_range(0.3..0.8) * threads as f64;
            for _ in 0..faces {
                // Most faces begin on the first two threads.
                let begins_at = if random.random_range(0.0..1.0) < 0.8 { 2 } else { threads };
                let thread = random.random_range(0..begins_at);
                router.face(thread, random.random_range(0.1..2.0) * all / faces as f64);
            }
            for _ in 0..400 {
                let loads = router.loads();
                let squares = |loads: &[f64]| loads.iter().map(|load| load * load).sum::<f64>();
                let is_overloaded = loads.iter().any(|load| *load >= 1.0);
                if router.period() && !is_overloaded {
                    assert!(squares(&router.loads()) < squares(&loads) + 1e-9, "seed {seed}: a move made it worse");
                }
            }
            assert!(router.moves <= 2 * faces, "seed {seed}: {} moves of {faces} faces", router.moves);
            let before = router.moves;
            (0..100).for_each(|_| _ = router.period());
            assert_eq!(router.moves, before, "seed {seed}: faces still go back and forth");
        }
    }

    #[test]
    fn two_threads_share_the_faces_of_one() {
        let mut router = Router::new(2, 1.0);
        (0..8).for_each(|_| router.face(0, 0.11));
        (0..100).for_each(|_| _ = router.period());
        assert!(router.gap() < GAP, "{:?}", router.loads());
        assert!((2..=4).contains(&router.moves), "{}", router.moves);
    }

    #[test]
    fn nothing_moves_without_need_or_use() {
        let moves = |loads: &[(usize, f64)], periods: usize| {
            let mut router = Router::new(2, 1.0);
            loads.iter().for_each(|(thread, load)| router.face(*thread, *load));
            (0..periods).filter(|_| router.period()).count()
        };
        assert_eq!(moves(&[(0, 0.2), (0, 0.2)], 100), 0, "no thread is busy");
        assert_eq!(moves(&[(0, 0.3), (0, 0.3), (1, 0.5)], 100), 0, "they are nearly even");
        assert_eq!(moves(&[(0, 0.9)], 100), 0, "it would be the same on the other thread");
        assert_eq!(moves(&[(0, 0.4), (0, 0.4)], 2), 0, "not for long");
        assert_eq!(moves(&[(0, 0.4), (0, 0.4)], 3), 1);
        assert_eq!(moves(&[], 3), 0);
    }

    #[test]
    fn loads_that_change_do_not_make_faces_flap() {
        let mut router = Router::new(2, 0.7);
        (0..20).for_each(|n| router.face(n % 2, 0.07));
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..2000 {
            for face in &mut router.faces {
                face.1 = random.random_range(0.0..0.14) * 1e9 / router.ns_per_packet;
            }
            router.period();
        }
        assert!(router.moves < 60, "{} moves, though loads are even in the mean", router.moves);
    }

    #[test]
    fn strange_measurements_move_nothing() {
        let mut balancer = Balancer::new(Duration::ZERO, 5);
        assert_eq!(balancer.next_deadline_ms(), 6);
        assert_eq!(balancer.measure(5, vec![]), None);
        assert_eq!(balancer.measure(5, vec![1, 2]), None);
        assert_eq!(balancer.measure(5, vec![u64::MAX, 0]), None, "no time has passed");
        assert_eq!(balancer.measure(6, vec![0, 0]), None, "time went back");
        let uneven = balancer.measure(7, vec![1_000_000, 0]).expect("uneven");
        assert_eq!((uneven.busiest, uneven.idlest, uneven.load), (0, 1, 1.0));
        let faces = [FaceLoad { face: FaceId(256), packets: 0, is_movable: true }];
        assert_eq!(balancer.choose(&uneven, &faces), None);
        assert_eq!(balancer.choose(&uneven, &faces), None, "no packets at all");
        assert_eq!(Balancer::new(Duration::MAX, u64::MAX).next_deadline_ms(), u64::MAX);
    }
}
