//! Rates, keys and screens of `byname top`. The screens are the files in `screens`; with BYNAME_TEST_WRITE=1, the test
//! writes them anew.

use std::path::Path;
use std::time::Instant;

use byname_control::mgmt::tlv::traffic::{AnswerTimes, Traffic, TrafficPrefix};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::manage::threads::{Drops, Stage, Thread};
use crate::manage::view::{Cs, Face, General, Persistency};
use state::Tab;

fn face(face_id: u64, remote_uri: &str, packets: u64) -> Face {
    Face {
        face_id,
        remote_uri: remote_uri.to_owned(),
        local_uri: "udp4://192.0.2.1:6363".to_owned(),
        scope: "non-local".to_owned(),
        persistency: Persistency::OnDemand,
        link_type: "point-to-point".to_owned(),
        mtu: Some(1400),
        expires_in_ms: Some(600_000),
        local_fields: false,
        reliability: true,
        congestion_marking: true,
        base_congestion_marking_interval_ns: None,
        default_congestion_threshold_bytes: None,
        in_interests: packets,
        in_data: packets / 2,
        in_nacks: 0,
        in_bytes: packets * 1000,
        out_interests: packets / 4,
        out_data: packets,
        out_nacks: 1,
        out_bytes: packets * 2000,
        in_malformed: Some(0),
        reassembly_timeouts: Some(0),
        out_drops: Some(packets / 100),
        congestion_marks: Some(3),
        retransmissions: Some(4),
        thread: Some(face_id % 2),
    }
}

fn thread(packets: u64) -> Thread {
    Thread {
        load_percent: Some(37.5),
        busy_ns: Some(0),
        sleeps: Some(0),
        rests: Some(0),
        home_packets: Some(0),
        foreign_packets: Some(0),
        taken_packets: Some(0),
        faces: Some(2),
        faces_come: Some(0),
        faces_left: Some(0),
        node: None,
        pit_entries: 12,
        cs_entries: 500,
        in_interests: packets,
        in_data: packets / 2,
        in_nacks: 0,
        satisfied_interests: packets / 2,
        unsatisfied_interests: 0,
        input_depth: Some(1),
        input_drops: Some(0),
        output_depth: Some(0),
        output_drops: Some(packets / 100),
        spread_interests: 0,
        spread_hits: 0,
        spread_joins: 0,
        spread_busy: 0,
        drops: vec![],
        stages: vec![
            Stage { stage: "parse".into(), packets, time_ns: packets * 40 },
            Stage { stage: "fib".into(), packets, time_ns: packets * 85 },
        ],
        fib_lookups_counted: None,
        fib_lines_read: None,
    }
}

/// A sample of a router that started at `start_ms` and has handled so many packets on each of its two busy faces.
fn sample(at: Instant, start_ms: u64, packets: u64) -> Sample {
    let faces = vec![
        face(256, "fd://12", packets / 10),
        face(300, "udp4://198.51.100.7:6363", packets),
        face(301, "udp6://[2001:db8:1:2:3:4:5:6]:6363", packets / 2),
    ];
    let sum = |count: fn(&Face) -> u64| faces.iter().map(count).sum();
    let general = General {
        version: "byname 0.3.0".into(),
        start_time_ms: start_ms,
        current_time_ms: start_ms + 3_723_000,
        uptime_ms: 3_723_000,
        name_tree_entries: 0,
        fib_entries: 40,
        pit_entries: 24,
        measurements_entries: 0,
        cs_entries: 1000,
        in_interests: sum(|face| face.in_interests),
        in_data: sum(|face| face.in_data),
        in_nacks: 0,
        out_interests: sum(|face| face.out_interests),
        out_data: sum(|face| face.out_data),
        out_nacks: 3,
        satisfied_interests: packets,
        unsatisfied_interests: packets / 50,
        descriptors: 0,
        in_tag_packets: 0,
        in_locator_packets: 0,
        out_tag_packets: 0,
        out_locator_packets: 0,
        hot_names: 0,
        shared_pit_entries: 0,
        in_malformed: 0,
        reassembly_timeouts: 0,
        out_drops: 0,
        congestion_marks: 0,
        retransmissions: 0,
        state: None,
        closed: vec![],
        drops: vec![
            Drops { reason: "loop".into(), packets: 7 },
            Drops { reason: "unsolicited-data".into(), packets: packets / 20 },
        ],
        imbalance: None,
        threads: vec![thread(packets), thread(packets / 3)],
    };
    let cs = Cs { capacity: 65_536, admit: true, serve: true, entries: 1000, hits: packets / 4, misses: packets };
    Sample { at, general, faces, cs, traffic: Some(traffic()) }
}

fn traffic() -> Traffic {
    let prefix = |uri: &str, n_interests: u64, n_data: u64| TrafficPrefix {
        name: uri.parse().expect("a name"),
        n_interests,
        n_data,
        data_bytes: n_data * 1000,
        excess: 0,
    };
    let times =
        |up_to_ms: Option<u64>, n_answers| AnswerTimes { up_to_ns: up_to_ms.map(|ms| ms * 1_000_000), n_answers };
    Traffic {
        window_ms: 2000,
        n_packets: 20_000,
        n_samples: 5000,
        prefixes: vec![
            prefix("/video", 9000, 6000),
            prefix("/news", 1000, 0),
            prefix("/video/cats", 8000, 5000),
            prefix("/video/dogs", 1000, 1000),
            prefix("/news/today", 1000, 0),
        ],
        answers: vec![times(Some(1), 500), times(Some(2), 400), times(Some(10), 90), times(None, 10)],
    }
}

fn report() -> Report {
    let now = Instant::now();
    Report::new(Some(&sample(now, 1000, 100_000)), &sample(now + Duration::from_secs(2), 1000, 102_000))
}

fn state() -> State {
    let mut state = State::new(Duration::from_secs(2));
    state.accept(report(), None);
    state
}

fn look(colours: bool) -> Look {
    Look { colours, address: "unix:///run/nfd/nfd.sock".into() }
}

fn terminal(state: &mut State, (width, height): (u16, u16), colours: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| draw::draw(frame, state, &look(colours))).expect("drawn");
    terminal
}

fn screen(state: &mut State, (width, height): (u16, u16)) -> String {
    let terminal = terminal(state, (width, height), true);
    let cells = terminal.backend().buffer().content();
    let row = |row: &[ratatui::buffer::Cell]| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    cells.chunks(usize::from(width)).map(row).collect()
}

/// Compares a screen with its file.
fn assert_screen(name: &str, state: &mut State, size: (u16, u16)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/screens").join(format!("{name}.txt"));
    let is = screen(state, size);
    if std::env::var_os("BYNAME_TEST_WRITE").is_some() {
        std::fs::write(&path, &is).expect("written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == expected, "{name} is\n{is}\nand was\n{expected}");
}

fn press(state: &mut State, keys: &[Key]) {
    keys.iter().for_each(|key| assert!(!state.press(*key)));
}

fn ids(state: &State) -> Vec<String> {
    state.rows().iter().map(|row| row.id.clone()).collect()
}

#[test]
fn rates_are_differences_over_the_time_between_two_samples() {
    let report = report();
    assert_eq!(report.interval_ms, 2000);
    let busiest = &report.faces[1];
    assert_eq!((busiest.rates.in_interests_per_s, busiest.rates.in_data_per_s), (1000.0, 500.0));
    assert_eq!((busiest.rates.out_bytes_per_s, busiest.out_drops_per_s), (2_000_000.0, 10.0));
    assert_eq!(report.rates.in_interests_per_s, 1600.0, "of all three faces");
    assert_eq!(report.drops.iter().map(|drops| drops.per_s).collect::<Vec<_>>(), [0.0, 50.0]);
    assert_eq!(report.threads[0].stages[1].ns_per_packet, 85.0);
    let window = report.traffic.expect("the router tells");
    assert_eq!((window.packets_per_s, window.sampled_percent), (10_000.0, 25.0));
    assert_eq!((window.prefixes[0].interests_per_s, window.prefixes[0].share_percent), (4500.0, 75.0));
    assert_eq!((window.answer_p50_ms, window.answer_p90_ms), (Some(1.0), Some(2.0)));
    assert_eq!(window.answer_p99_ms, Some(10.0));
}

#[test]
fn a_restarted_router_has_no_rates_before_its_second_sample() {
    let now = Instant::now();
    let before = sample(now, 1000, 100_000);
    let restarted = sample(now + Duration::from_secs(2), 9_000_000, 50);
    let report = Report::new(Some(&before), &restarted);
    let rates = (report.rates.in_interests_per_s, report.faces[1].rates.packets_per_s());
    assert_eq!((report.interval_ms, rates), (0, (0.0, 0.0)));
    // A face that came since then has counted all it has since then.
    let mut later = sample(now + Duration::from_secs(4), 9_000_000, 50);
    later.faces.push(face(400, "tcp4://192.0.2.9:6363", 80));
    let report = Report::new(Some(&restarted), &later);
    assert_eq!(report.faces[3].rates.in_interests_per_s, 40.0);
    // Without any reason to drop, no zero has a sign.
    later.general.drops.clear();
    let report = Report::new(Some(&restarted), &later);
    assert!(report.drops_per_s == 0.0 && report.drops_per_s.is_sign_positive(), "{}", report.drops_per_s);
    // Counters of another face with the same number cannot fall below zero.
    let fewer = sample(now + Duration::from_secs(6), 9_000_000, 10);
    assert_eq!(Report::new(Some(&later), &fewer).rates.in_interests_per_s, 0.0);
}

#[test]
fn screens_show_each_list_at_80_columns() {
    let mut state = state();
    assert_screen("faces", &mut state, (80, 24));
    press(&mut state, &[Key::Char('2')]);
    assert_screen("prefixes", &mut state, (80, 24));
    press(&mut state, &[Key::Char('3')]);
    assert_screen("threads", &mut state, (132, 24));
    press(&mut state, &[Key::Char('4')]);
    assert_screen("drops", &mut state, (80, 24));
    press(&mut state, &[Key::Char('?')]);
    assert_screen("help", &mut state, (80, 24));
}

#[test]
fn pages_show_a_face_and_a_prefix() {
    let mut state = state();
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.face, Some(300), "the busiest face is the first");
    assert_screen("face", &mut state, (80, 24));
    state.report.faces.remove(1);
    assert!(screen(&mut state, (80, 24)).contains("face 300 is gone"));
    press(&mut state, &[Key::Escape, Key::Char('2'), Key::Enter]);
    assert_eq!(state.name_to_explain().map(|name| name.to_string()).as_deref(), Some("/video"));
    state.explanation =
        Some(("/video".parse().expect("a name"), "/video\n  rule     /video\n  nexthops none\n".into()));
    assert_screen("prefix", &mut state, (80, 24));
    assert_eq!(ids(&state), ["/video/cats", "/video/dogs"]);
    press(&mut state, &[Key::Backspace]);
    assert_eq!((ids(&state), state.name_to_explain()), (vec!["/video".to_owned(), "/news".to_owned()], None));
    press(&mut state, &[Key::Right]);
    assert_eq!(ids(&state), ["/video/cats", "/video/dogs", "/news/today"]);
}

#[test]
fn narrow_and_small_terminals_show_what_fits() {
    let mut state = state();
    for width in 1..140u16 {
        for height in [1, 4, 5, 9, 12, 16, 24, 60] {
            for tab in Tab::ALL {
                state.tab = tab;
                let shown = screen(&mut state, (width, height));
                assert!(shown.lines().all(|line| line.chars().count() <= usize::from(width)));
            }
        }
    }
    state.tab = Tab::Faces;
    assert_screen("narrow", &mut state, (40, 12));
    assert!(screen(&mut state, (132, 24)).contains("THREAD"), "a wide terminal has all columns");
}

#[test]
fn keys_sort_filter_and_select() {
    let mut state = state();
    assert_eq!(ids(&state), ["300", "301", "256"], "by packets");
    press(&mut state, &[Key::Down, Key::Down]);
    assert_eq!(state.place(&state.rows()), 2);
    press(&mut state, &[Key::Char('r')]);
    assert_eq!((ids(&state), state.place(&state.rows())), (vec!["256".into(), "301".into(), "300".into()], 0));
    for _ in 0..state.tab.columns().len() - state.orders[0].column {
        press(&mut state, &[Key::Char('s')]);
    }
    assert_eq!(ids(&state), ["256", "300", "301"], "by number");
    press(&mut state, &[Key::Char('S'), Key::Char('/')]);
    "UDP6q".chars().for_each(|char| press(&mut state, &[Key::Char(char)]));
    assert!(ids(&state).is_empty() && screen(&mut state, (80, 24)).contains("nothing matches the filter"));
    press(&mut state, &[Key::Backspace, Key::Enter]);
    assert_eq!((ids(&state), state.edits_filter), (vec!["301".to_owned()], false));
    press(&mut state, &[Key::Escape]);
    assert_eq!(ids(&state).len(), 3);
    press(&mut state, &[Key::End]);
    assert_eq!(state.place(&state.rows()), 2);
    press(&mut state, &[Key::Home, Key::Up]);
    assert_eq!(state.place(&state.rows()), 0);
    assert!(state.press(Key::Char('q')));
}

#[test]
fn a_pause_keeps_the_screen_and_a_router_that_is_down_is_told() {
    let mut state = state();
    press(&mut state, &[Key::Char(' ')]);
    let shown = screen(&mut state, (80, 24));
    state.accept(Report::default(), None);
    assert_eq!(state.report.faces.len(), 3);
    assert!(shown.contains("paused"));
    press(&mut state, &[Key::Char('p')]);
    state.down = Some("no forwarder answers".into());
    assert!(screen(&mut state, (80, 24)).starts_with("no forwarder answers\n"));
    state.accept(report(), None);
    assert!(screen(&mut state, (80, 24)).starts_with("byname 0.3.0, up "));
    for _ in 0..20 {
        press(&mut state, &[Key::Char('+')]);
    }
    assert_eq!(state.interval, Duration::from_secs(60));
    for _ in 0..20 {
        press(&mut state, &[Key::Char('-')]);
    }
    assert_eq!(state.interval, Duration::from_millis(500));
}

#[test]
fn without_colours_there_are_none() {
    for (colours, expected) in [(true, true), (false, false)] {
        let mut state = state();
        let terminal = terminal(&mut state, (80, 24), colours);
        let cells = terminal.backend().buffer().content();
        let coloured = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(coloured, expected);
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "the selected row");
    }
}

#[test]
fn ten_thousand_faces_are_sorted_and_drawn_in_time() {
    let now = Instant::now();
    let faces =
        |packets: u64| (0..10_000).map(move |id| face(256 + id, &format!("udp4://198.51.100.7:{id}"), packets * id));
    let [mut before, mut after] = [1, 2].map(|n| sample(now + Duration::from_secs(n), 1000, 100));
    (before.faces, after.faces) = (faces(1).collect(), faces(2).collect());
    let mut state = State::new(Duration::from_secs(1));
    state.accept(Report::new(Some(&before), &after), None);
    let shown = screen(&mut state, (80, 24));
    assert!(shown.contains(" 1 Faces 10000 ") && shown.contains("10255"), "{shown}");
    press(&mut state, &[Key::PageDown, Key::PageDown]);
    assert!(screen(&mut state, (80, 24)).contains(&(10_255 - 2 * state.page).to_string()));
    assert!(now.elapsed() < Duration::from_secs(20), "{:?}", now.elapsed());
}
