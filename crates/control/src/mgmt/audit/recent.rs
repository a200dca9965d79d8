//! The last lines, in memory, for those who watch. They are formatted only when somebody asks.

use std::collections::VecDeque;

use super::{Entry, Line, Outcome, writer};

/// The last lines. Each has a number, counted from 1.
#[derive(Default)]
pub(super) struct Recent {
    lines_max: usize,
    lines: VecDeque<Line>,
    /// Number of the newest line.
    last: u64,
}

impl Recent {
    pub fn limit(&mut self, lines_max: usize) {
        self.lines_max = lines_max;
        self.lines.drain(..self.lines.len().saturating_sub(lines_max));
    }

    pub fn is_on(&self) -> bool {
        self.lines_max > 0
    }

    pub fn note(&mut self, entry: &Entry, outcome: &Outcome) {
        if !self.is_on() {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(Line::Command(Box::new(entry.clone()), outcome.clone()));
        self.last += 1;
    }

    pub fn after(&self, number: u64) -> Vec<(u64, String)> {
        let first = self.last - self.lines.len() as u64 + 1;
        let numbered = (first..).zip(&self.lines).filter(|(of, _)| *of > number);
        numbered.map(|(of, line)| (of, writer::text(line))).collect()
    }
}

#[cfg(test)]
mod tests {
    use byname_forward::FaceId;

    use super::*;
    use crate::mgmt::Command;

    fn note(recent: &mut Recent, face: u64) {
        let entry = Entry {
            unix_ms: 0,
            command: Command::CsErase,
            face: FaceId(face),
            remote: None,
            key: None,
            claimed_key: None,
            parameters: Box::default(),
        };
        recent.note(&entry, &Outcome { code: 200, text: None });
    }

    #[test]
    fn the_last_lines_are_kept_with_their_numbers() {
        let mut recent = Recent::default();
        note(&mut recent, 300);
        assert!(recent.after(0).is_empty(), "nobody wants them");
        recent.limit(2);
        (301..304).for_each(|face| note(&mut recent, face));
        let lines = recent.after(0);
        assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
        assert!(lines[1].1.contains("\"face\":303"), "{lines:?}");
        assert_eq!(recent.after(2).len(), 1);
        assert!(recent.after(3).is_empty());
        recent.limit(0);
        assert!(recent.after(0).is_empty());
    }
}
