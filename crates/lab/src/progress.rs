//! Progress bars for long work. They are drawn only on a terminal, and never when a program reads the output.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Whether bars are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    visible: bool,
}

impl Progress {
    /// Drawn if standard error is a terminal.
    pub const SHOWN: Progress = Progress { visible: true };
    /// Never drawn.
    pub const HIDDEN: Progress = Progress { visible: false };

    /// A bar for `steps` steps of `what`, with the rate and the remaining time.
    pub fn bar(self, what: &str, steps: u64) -> ProgressBar {
        const TEMPLATE: &str = "{msg} {bar:30} {human_pos}/{human_len} {per_sec}, {eta} left";
        self.start(ProgressBar::new(steps), what, TEMPLATE)
    }

    /// A spinner for work of unknown length.
    pub fn spinner(self, what: &str) -> ProgressBar {
        self.start(ProgressBar::new_spinner(), what, "{spinner} {msg} {elapsed}")
    }

    fn start(self, bar: ProgressBar, what: &str, template: &str) -> ProgressBar {
        if !self.visible {
            return ProgressBar::hidden();
        }
        bar.set_style(ProgressStyle::with_template(template).expect("a literal template"));
        bar.set_message(what.to_owned());
        // Redraws rarely: a busy terminal would disturb the measurement.
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }
}
