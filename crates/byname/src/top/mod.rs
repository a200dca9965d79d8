//! `byname top`: what a router is busy with, as it happens.
//!
//! A thread asks the router for its counters ([`source`]). [`report`] makes rates of them. [`state`] is what keys change,
//! and [`draw`] draws it. Tests need neither a terminal nor a router for these.

mod columns;
mod draw;
mod once;
mod report;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::draw::Look;
use self::report::{Report, Sample};
use self::source::{News, Source, Wanted};
use self::state::{Key, State};
use crate::exit::{self, Failure};
use crate::{Connection, manage};

/// Longest time until the screen sees a new sample, or a signal.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of `byname top`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys: ? shows them all. It needs no mouse, and colours only where the terminal has them (NO_COLOR turns \
                  them off).\n\nExamples:\n  \
                  byname top\n  \
                  byname top --once --json | jq .in_interests_per_s"
)]
pub struct TopArgs {
    /// Time between two measurements
    #[arg(short, long, value_name = "TIME", value_parser = parse_interval, default_value = "2s")]
    interval: Duration,
    /// Measure once, print the result, and end
    #[arg(long)]
    once: bool,
    /// Print JSON; needs --once
    #[arg(long, requires = "once")]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(200)..=Duration::from_secs(3600);
    if range.contains(&time) { Ok(time) } else { Err("must be between 200ms and 1h".into()) }
}

/// Runs `byname top`.
pub fn run(args: TopArgs, connection: &Connection) -> anyhow::Result<u8> {
    let mut source = Source::connect(connection)?;
    if args.once {
        once::run(&mut source, args.interval, args.json)?;
        return Ok(exit::OK);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let message = "byname top needs a terminal; `byname top --once` prints one measurement";
        return Err(Failure::new(exit::USAGE, message).into());
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("cannot catch signals")?;
    }
    let look = Look { colours: manage::paint::is_on(), address: source.address() };
    let mut state = State::new(args.interval);
    let wanted = Wanted { interval: args.interval, explain: None };
    let (orders, ordered) = mpsc::channel();
    let (tell, news) = mpsc::sync_channel(1);
    let (connection, asked) = (connection.clone(), wanted.clone());
    // It ends with the process: a router that does not answer must not keep the user.
    let asking = std::thread::Builder::new().name("source".to_owned());
    asking.spawn(move || source::run(source, &connection, asked, &ordered, &tell)).context("cannot start a thread")?;
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let shown = show(&mut terminal, &mut state, &look, wanted, (orders, &news), &ended);
    ratatui::restore();
    shown.map(|()| exit::OK)
}

/// Draws and handles keys until the user or a signal ends it.
fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    look: &Look,
    mut wanted: Wanted,
    (orders, news): (Sender<Wanted>, &Receiver<News>),
    ended: &AtomicBool,
) -> anyhow::Result<()> {
    let mut before: Option<Sample> = None;
    terminal.draw(|frame| draw::draw(frame, state, look))?;
    while !ended.load(Ordering::Relaxed) {
        let mut is_changed = false;
        if event::poll(TICK)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if is_interrupt(&key) || key_of(&key).is_some_and(|key| state.press(key)) {
                        return Ok(());
                    }
                    is_changed = true;
                }
                Event::Resize(..) => is_changed = true,
                _ => {}
            }
        }
        while let Ok(told) = news.try_recv() {
            is_changed = true;
            match told {
                News::Sample(sample, explanation) => {
                    state.accept(Report::new(before.as_ref(), &sample), explanation);
                    before = Some(*sample);
                }
                News::Down(why) => state.down = Some(why),
            }
        }
        let now_wanted = Wanted { interval: state.interval, explain: state.name_to_explain() };
        if now_wanted != wanted {
            wanted = now_wanted.clone();
            source::order(&orders, now_wanted);
        }
        if is_changed {
            terminal.draw(|frame| draw::draw(frame, state, look))?;
        }
    }
    Ok(())
}

/// Whether the user has pressed Ctrl-C, which is a key like others here.
fn is_interrupt(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd'))
}

fn key_of(key: &KeyEvent) -> Option<Key> {
    Some(match key.code {
        KeyCode::Char(_) if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
