//! Colours, where standard output is a terminal that shows them.

use anstyle::{AnsiColor, Style};

/// Whether to colour: not in a pipe, nor with NO_COLOR or TERM=dumb.
pub fn is_on() -> bool {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    !matches!(choice, anstream::ColorChoice::Never)
}

fn with(style: Style, text: &str) -> String {
    if is_on() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// What a page is about.
pub fn title(text: &str) -> String {
    with(Style::new().bold(), text)
}

/// The name of a value.
pub fn key(text: &str) -> String {
    with(AnsiColor::Cyan.on_default(), text)
}

/// What is in use, or well.
pub fn good(text: &str) -> String {
    with(AnsiColor::Green.on_default(), text)
}

/// What needs attention.
pub fn bad(text: &str) -> String {
    with(AnsiColor::Red.on_default(), text)
}

/// What matters less.
pub fn faint(text: &str) -> String {
    with(Style::new().dimmed(), text)
}
