//! What a process has taken over from another one, in numbers and in words.

use std::time::Duration;

use byname_face::handover::FaceRecord;
use byname_forward::FaceId;

use crate::run::initial::Former;
use crate::run::start_up::grouped;

/// What was taken over.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Id of the old process.
    pub process: u32,
    /// Faces, without those that have to be made anew.
    pub faces: usize,
    /// Faces that have to be made anew, on ports that only one process may have open.
    pub anew: Vec<FaceRecord>,
    /// These ports.
    pub reopened: Vec<String>,
    /// Descriptors of applications, which have to be advertised on the trees of this process.
    pub tags: Vec<(FaceId, Vec<u8>)>,
    /// What the configuration of the old process had made.
    pub configured: Former,
    /// Data in the content stores.
    pub cached: usize,
    /// Data that stayed behind.
    pub cached_left: usize,
    /// Routes.
    pub routes: usize,
    /// Faces that no port took, and faces whose routes were forgotten.
    pub faces_left: usize,
    /// Routes that were refused.
    pub routes_left: usize,
    /// Time between the last packet that the old process received and the first that this one may receive.
    pub gap: Duration,
}

impl Taken {
    /// The rows of a table: what passed, and what did not.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let numbers = format!(
            "{} faces, {} routes and {} cached Data from process {}, after {:.1} ms",
            grouped(self.faces),
            grouped(self.routes),
            grouped(self.cached),
            self.process,
            1000.0 * self.gap.as_secs_f64()
        );
        let mut rows = vec![("Taken over", numbers)];
        if !self.reopened.is_empty() {
            let faces = match self.anew.len() {
                0 => String::new(),
                faces => format!(", with {} faces", grouped(faces)),
            };
            rows.push(("Opened anew", format!("{}{faces}", self.reopened.join(", "))));
        }
        let left = [
            (self.faces_left, "the routes of", "faces"),
            (self.routes_left, "", "routes that are refused here"),
            (self.cached_left, "", "cached Data"),
        ];
        let left = left.iter().filter(|(count, ..)| *count > 0);
        let left: Vec<String> =
            left.map(|(count, of, what)| format!("{of} {} {what}", grouped(*count)).trim_start().to_owned()).collect();
        if !left.is_empty() {
            rows.push(("Left behind", left.join("; ")));
        }
        rows
    }

    /// The rows as text, a line for each.
    pub fn text(&self) -> String {
        self.rows().iter().map(|(label, value)| format!("{label}: {value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_what_passed_and_what_did_not() {
        let gap = Duration::from_micros(1_240);
        let mut taken = Taken { process: 4711, faces: 6, routes: 1_000_000, cached: 1_234, gap, ..Taken::default() };
        let passed = "Taken over: 6 faces, 1,000,000 routes and 1,234 cached Data from process 4711, after 1.2 ms\n";
        assert_eq!(taken.text(), passed);
        taken.reopened = vec!["eth0".to_owned(), "memif /run/a.sock 0".to_owned()];
        (taken.faces_left, taken.cached_left) = (2, 7);
        assert_eq!(
            taken.text(),
            format!(
                "{passed}Opened anew: eth0, memif /run/a.sock 0\nLeft behind: the routes of 2 faces; 7 cached Data\n"
            )
        );
    }
}
