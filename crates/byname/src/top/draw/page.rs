//! The page of a face, and that of a prefix.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{Look, list};
use crate::manage::table::{bytes, count};
use crate::top::columns::{byte_rate, rate};
use crate::top::report::FaceRate;
use crate::top::state::State;

/// Rows that a list needs at least beside what the router says of a prefix.
const LIST_MIN: u16 = 6;

/// Draws all about one face.
pub fn face(frame: &mut Frame<'_>, state: &State, id: u64, look: &Look, area: Rect) {
    let lines = match state.shown_face() {
        Some(face) => face_lines(face, look),
        None => vec![Line::styled(format!("face {id} is gone (Esc: back to the list)"), look.bad())],
    };
    frame.render_widget(Paragraph::new(lines), area);
}

fn face_lines(of: &FaceRate, look: &Look) -> Vec<Line<'static>> {
    let (face, rates) = (&of.face, &of.rates);
    let item = |title: &str, value: String| {
        Line::from(vec![Span::styled(format!("{title:<12}"), look.key()), Span::raw(value)])
    };
    let mut kind = format!("{}, {}, {}", face.scope, face.persistency.word(), face.link_type);
    for (on, word) in [
        (face.local_fields, "local fields"),
        (face.reliability, "reliability"),
        (face.congestion_marking, "congestion marking"),
    ] {
        if on {
            kind += &format!(", {word}");
        }
    }
    let mut lines = vec![
        item("face", face.face_id.to_string()),
        item("remote", face.remote_uri.clone()),
        item("local", face.local_uri.clone()),
        item("kind", kind),
    ];
    let more = [
        face.mtu.map(|mtu| format!("MTU {mtu}")),
        face.thread.map(|thread| format!("thread {thread}")),
        face.expires_in_ms.map(|ms| format!("expires in {} s if it stays silent", ms / 1000)),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    if !more.is_empty() {
        lines.push(item("", more.join(", ")));
    }
    lines.push(Line::raw(""));
    let titles = format!("{:<12}{:>10}{:>10}{:>12}{:>12}", "", "IN/s", "OUT/s", "IN", "OUT");
    lines.push(Line::styled(titles, look.key()));
    let row = |what: &str, in_rate: String, out_rate: String, came: String, left: String| {
        Line::raw(format!("{what:<12}{in_rate:>10}{out_rate:>10}{came:>12}{left:>12}"))
    };
    let packets = [
        ("Interests", rates.in_interests_per_s, rates.out_interests_per_s, face.in_interests, face.out_interests),
        ("Data", rates.in_data_per_s, rates.out_data_per_s, face.in_data, face.out_data),
        ("Nacks", rates.in_nacks_per_s, rates.out_nacks_per_s, face.in_nacks, face.out_nacks),
    ];
    lines.extend(packets.map(|(what, in_rate, out_rate, came, left)| {
        row(what, rate(in_rate), rate(out_rate), count(came), count(left))
    }));
    let (in_rate, out_rate) = (byte_rate(rates.in_bytes_per_s), byte_rate(rates.out_bytes_per_s));
    lines.push(row("bytes", in_rate, out_rate, bytes(face.in_bytes), bytes(face.out_bytes)));
    lines.push(Line::raw(""));
    let counters = [
        ("not sent", face.out_drops),
        ("malformed", face.in_malformed),
        ("fragments lost", face.reassembly_timeouts),
        ("marked", face.congestion_marks),
        ("sent again", face.retransmissions),
    ];
    let told = counters.into_iter().filter_map(|(word, number)| Some(format!("{word} {}", count(number?))));
    lines.push(item("packets", told.collect::<Vec<_>>().join(", ")));
    lines
}

/// Draws what is below a prefix, and what the router says of it.
pub fn prefix(frame: &mut Frame<'_>, state: &mut State, look: &Look, area: Rect) {
    let words = match &state.explanation {
        Some((name, text)) if *name == state.below => text.clone(),
        _ => "asking the router for this prefix".to_owned(),
    };
    // The first line is the prefix, which is above.
    let lines: Vec<Line<'static>> = words.lines().skip(1).map(|line| Line::raw(line.to_owned())).collect();
    let height = (lines.len() as u16 + 1).min(area.height.saturating_sub(LIST_MIN));
    let [list, said] = Layout::vertical([Constraint::Min(1), Constraint::Length(height)]).areas(area);
    list::draw(frame, state, look, list);
    if height > 1 {
        let mut all = vec![Line::styled("An Interest for this prefix would go:", look.key())];
        all.extend(lines);
        frame.render_widget(Paragraph::new(all), said);
    }
}
