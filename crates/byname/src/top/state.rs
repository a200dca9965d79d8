//! What the screen of `byname top` shows, and what keys change of it. It knows neither terminals nor routers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use byname_wire::Name;

use super::columns::{self, Column, Row};
use super::report::{FaceRate, PrefixRate, Report};

/// Samples of which the history of rates consists.
pub const HISTORY: usize = 120;
/// Shortest and longest time between two samples that keys set.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Longest filter, in characters.
const FILTER_MAX: usize = 64;
/// Deepest prefixes that routers tell.
const DEPTH_MAX: usize = 8;

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    Faces,
    Prefixes,
    Threads,
    Drops,
}

impl Tab {
    pub const ALL: [Tab; 4] = [Tab::Faces, Tab::Prefixes, Tab::Threads, Tab::Drops];

    /// Its title.
    pub fn title(self) -> &'static str {
        ["Faces", "Prefixes", "Threads", "Drops"][self as usize]
    }

    /// Its columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Tab::Faces => columns::FACES,
            Tab::Prefixes => columns::PREFIXES,
            Tab::Threads => columns::THREADS,
            Tab::Drops => columns::DROPS,
        }
    }
}

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Escape,
    Backspace,
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Index of the column.
    pub column: usize,
    pub reversed: bool,
}

/// What the screen shows.
#[derive(Debug)]
pub struct State {
    pub tab: Tab,
    /// The order of each list.
    pub orders: [Order; Tab::ALL.len()],
    /// The id of the selected row of each list. It stays selected when the order changes.
    pub selected: [Option<String>; Tab::ALL.len()],
    /// Only rows that contain this, in any case.
    pub filter: String,
    /// Whether keys go to the filter.
    pub edits_filter: bool,
    /// The face whose page is shown.
    pub face: Option<u64>,
    /// The prefix below which prefixes are listed.
    pub below: Name,
    /// How much deeper the listed prefixes are.
    pub deeper: usize,
    pub shows_help: bool,
    pub is_paused: bool,
    pub interval: Duration,
    pub report: Report,
    /// Why the router does not answer, if it does not.
    pub down: Option<String>,
    /// What the router says of a name.
    pub explanation: Option<(Name, String)>,
    /// Interests and Data per second that arrived, the latest last.
    pub history: VecDeque<(f64, f64)>,
    /// Rows that fit on the screen, as it was drawn last.
    pub page: usize,
    /// Number of reports so far.
    reports: u64,
    /// The rows that were made last: a router may have very many faces.
    made: RefCell<Option<(Choice, Rc<Vec<Row>>)>>,
}

/// What decides which rows a list has, and in which order.
type Choice = (u64, Tab, Order, String, Name, usize);

impl State {
    /// A screen without a sample.
    pub fn new(interval: Duration) -> State {
        let order = |tab: Tab| Order { column: columns::usual_order(tab.columns()), reversed: false };
        State {
            tab: Tab::Faces,
            orders: Tab::ALL.map(order),
            selected: Default::default(),
            filter: String::new(),
            edits_filter: false,
            face: None,
            below: Name::default(),
            deeper: 1,
            shows_help: false,
            is_paused: false,
            interval,
            report: Report::default(),
            down: None,
            explanation: None,
            history: VecDeque::new(),
            page: 10,
            reports: 0,
            made: RefCell::default(),
        }
    }

    /// Takes a new report.
    pub fn accept(&mut self, report: Report, explanation: Option<(Name, String)>) {
        self.down = None;
        if report.interval_ms > 0 {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back((report.rates.in_interests_per_s, report.rates.in_data_per_s));
        }
        if !self.is_paused {
            self.report = report;
            self.reports += 1;
            self.explanation = explanation;
        }
    }

    /// The name that the router must explain for this screen.
    pub fn name_to_explain(&self) -> Option<Name> {
        (self.tab == Tab::Prefixes && !self.below.as_ref().is_empty()).then(|| self.below.clone())
    }

    /// The face whose page is shown, if it still exists.
    pub fn shown_face(&self) -> Option<&FaceRate> {
        self.report.faces.iter().find(|face| Some(face.face_id) == self.face)
    }

    /// The prefixes of the list: those of its depth, below the prefix that was entered.
    pub fn prefixes(&self) -> impl Iterator<Item = &PrefixRate> {
        let all = self.report.traffic.iter().flat_map(|window| &window.prefixes);
        let depth = (self.below.as_ref().len() + self.deeper).min(DEPTH_MAX);
        all.filter(move |prefix| {
            let name = prefix.name.as_ref();
            name.len() == depth && self.below.as_ref().is_prefix_of(&name)
        })
    }

    /// The rows of the list, filtered and in order.
    pub fn rows(&self) -> Rc<Vec<Row>> {
        let order = self.orders[self.tab as usize];
        let choice = (self.reports, self.tab, order, self.filter.clone(), self.below.clone(), self.deeper);
        let mut made = self.made.borrow_mut();
        match &*made {
            Some((known, rows)) if *known == choice => Rc::clone(rows),
            _ => Rc::clone(&made.insert((choice, Rc::new(self.make_rows(order)))).1),
        }
    }

    fn make_rows(&self, Order { column, reversed }: Order) -> Vec<Row> {
        let report = &self.report;
        let mut rows: Vec<Row> = match self.tab {
            Tab::Faces => report.faces.iter().map(columns::face).collect(),
            Tab::Prefixes => self.prefixes().map(columns::prefix).collect(),
            Tab::Threads => report.threads.iter().map(columns::thread).collect(),
            Tab::Drops => report.drops.iter().map(columns::drops).collect(),
        };
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.contains(&filter));
        columns::sort(&mut rows, column, reversed);
        rows
    }

    /// The place of the selected row among these.
    pub fn place(&self, rows: &[Row]) -> usize {
        let id = self.selected[self.tab as usize].as_deref();
        rows.iter().position(|row| Some(row.id.as_str()) == id).unwrap_or(0)
    }

    /// Handles a key. Returns whether the program ends.
    pub fn press(&mut self, key: Key) -> bool {
        if self.edits_filter {
            self.edit_filter(key);
            return false;
        }
        if self.shows_help {
            self.shows_help = false;
            return key == Key::Char('q');
        }
        match key {
            Key::Char('q') => return true,
            Key::Char('?' | 'h') => self.shows_help = true,
            Key::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            Key::Char('/') => self.edits_filter = true,
            Key::Char('+') => self.interval = (self.interval * 2).min(INTERVALS.1),
            Key::Char('-') => self.interval = (self.interval / 2).max(INTERVALS.0),
            Key::Char(digit @ '1'..='4') => self.turn_to(Tab::ALL[digit as usize - '1' as usize]),
            Key::Tab => self.turn_to(Tab::ALL[(self.tab as usize + 1) % Tab::ALL.len()]),
            Key::BackTab => self.turn_to(Tab::ALL[(self.tab as usize + Tab::ALL.len() - 1) % Tab::ALL.len()]),
            Key::Char('s') => self.sort_by_next(1),
            Key::Char('S') => self.sort_by_next(self.tab.columns().len() - 1),
            Key::Char('r') => self.orders[self.tab as usize].reversed ^= true,
            Key::Enter => self.enter(),
            Key::Escape | Key::Backspace => self.leave(),
            Key::Right if self.tab == Tab::Prefixes => self.deeper = (self.deeper + 1).min(DEPTH_MAX),
            Key::Left if self.tab == Tab::Prefixes => self.deeper = (self.deeper - 1).max(1),
            Key::Up | Key::Char('k') => self.step(|place, _| place.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.step(|place, _| place + 1),
            Key::PageUp => self.step(usize::saturating_sub),
            Key::PageDown => self.step(|place, page| place + page),
            Key::Home | Key::Char('g') => self.step(|_, _| 0),
            Key::End | Key::Char('G') => self.step(|_, _| usize::MAX),
            _ => {}
        }
        false
    }

    fn edit_filter(&mut self, key: Key) {
        match key {
            Key::Char(char) if self.filter.chars().count() < FILTER_MAX => self.filter.push(char),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.edits_filter = false;
            }
            Key::Enter => self.edits_filter = false,
            _ => {}
        }
    }

    fn turn_to(&mut self, tab: Tab) {
        self.tab = tab;
        self.face = None;
    }

    fn sort_by_next(&mut self, step: usize) {
        let columns = self.tab.columns().len();
        let order = &mut self.orders[self.tab as usize];
        *order = Order { column: (order.column + step) % columns, reversed: false };
    }

    /// Selects another row: `to` gets the place of the selected one, and the number of rows on a page.
    fn step(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let place = to(self.place(&rows), self.page.max(1)).min(last);
        self.selected[self.tab as usize] = rows.get(place).map(|row| row.id.clone());
    }

    /// Shows the page of the selected face, or what is below the selected prefix.
    fn enter(&mut self) {
        let rows = self.rows();
        let Some(row) = rows.get(self.place(&rows)) else { return };
        match self.tab {
            Tab::Faces => self.face = row.id.parse().ok(),
            Tab::Prefixes => {
                let entered = self.prefixes().find(|prefix| prefix.prefix == row.id).map(|prefix| prefix.name.clone());
                if let Some(name) = entered {
                    (self.below, self.deeper) = (name, 1);
                    self.filter.clear();
                }
            }
            Tab::Threads | Tab::Drops => {}
        }
    }

    /// Leaves a page, then the filter.
    fn leave(&mut self) {
        let depth = self.below.as_ref().len();
        if self.face.is_some() {
            self.face = None;
        } else if self.tab == Tab::Prefixes && depth > 0 {
            self.selected[self.tab as usize] = Some(self.below.to_string());
            (self.below, self.deeper) = (self.below.as_ref().prefix(depth - 1).to_name(), 1);
        } else {
            self.filter.clear();
        }
    }
}
