//! What a terminal shows: tables of lists, and the whole state on one screen.

use std::time::Duration;

use super::paint;
use super::table::{Column, Table, bytes, count};
use super::text;
use super::view::{Cs, Face, FibEntry, General, Route, StrategyChoice};

/// Faces that `byname status` lists: those with most packets.
const BUSIEST: usize = 8;

/// Faces with their packets and bytes.
pub fn faces(faces: &[Face], width: usize) -> String {
    use Column::{Number, Text, Word};
    let columns = [
        Number("FACE"),
        Text("REMOTE"),
        Word("SCOPE"),
        Word("KIND"),
        Number("IN PKTS"),
        Number("OUT PKTS"),
        Number("IN"),
        Number("OUT"),
        Number("DROPS"),
        Number("THREAD"),
    ];
    let row = |face: &Face| {
        vec![
            face.face_id.to_string(),
            face.remote_uri.clone(),
            face.scope.clone(),
            face.persistency.word().to_owned(),
            count(face.in_interests + face.in_data + face.in_nacks),
            count(face.out_interests + face.out_data + face.out_nacks),
            bytes(face.in_bytes),
            bytes(face.out_bytes),
            face.out_drops.map_or_else(|| "-".to_owned(), count),
            face.thread.map_or_else(|| "-".to_owned(), |thread| thread.to_string()),
        ]
    };
    Table::new(&columns).rows(faces.iter().map(row)).text(width)
}

/// Routes.
pub fn routes(routes: &[Route], width: usize) -> String {
    use Column::{Number, Text, Word};
    let columns = [
        Text("PREFIX"),
        Number("FACE"),
        Word("ORIGIN"),
        Number("COST"),
        Word("INHERITED"),
        Word("CAPTURE"),
        Word("EXPIRES"),
    ];
    let yes = |on: bool| if on { "yes" } else { "-" }.to_owned();
    let row = |route: &Route| {
        let expires = route.expires_in_ms.map_or_else(
            || "-".to_owned(),
            |ms| humantime::format_duration(Duration::from_secs(ms / 1000)).to_string(),
        );
        vec![
            route.prefix.clone(),
            route.face_id.to_string(),
            if route.stale { format!("{} (stale)", route.origin) } else { route.origin.clone() },
            route.cost.to_string(),
            yes(route.child_inherit),
            yes(route.capture),
            expires,
        ]
    };
    Table::new(&columns).rows(routes.iter().map(row)).text(width)
}

/// Rules of the FIB.
pub fn fib(entries: &[FibEntry], width: usize) -> String {
    let row = |entry: &FibEntry| {
        let nexthops: Vec<String> =
            entry.nexthops.iter().map(|nexthop| format!("{} (cost {})", nexthop.face_id, nexthop.cost)).collect();
        vec![entry.prefix.clone(), nexthops.join(", ")]
    };
    Table::new(&[Column::Text("PREFIX"), Column::Text("NEXTHOPS")]).rows(entries.iter().map(row)).text(width)
}

/// Strategies by prefix.
pub fn strategies(choices: &[StrategyChoice], width: usize) -> String {
    let short = |name: &str| name.strip_prefix("/localhost/nfd/strategy/").unwrap_or(name).to_owned();
    let row = |choice: &StrategyChoice| vec![choice.prefix.clone(), short(&choice.strategy)];
    Table::new(&[Column::Text("PREFIX"), Column::Text("STRATEGY")]).rows(choices.iter().map(row)).text(width)
}

/// The content store in two lines.
pub fn cs(cs: &Cs) -> String {
    let asked = cs.hits + cs.misses;
    let ratio = if asked == 0 { "-".to_owned() } else { format!("{:.1} %", cs.hits as f64 * 100.0 / asked as f64) };
    let mut text = format!("{} of {} packets, hit ratio {ratio} ", count(cs.entries), count(cs.capacity));
    text += &format!("({} hits, {} misses)", count(cs.hits), count(cs.misses));
    for (on, word) in [(cs.admit, "admits"), (cs.serve, "serves")] {
        if !on {
            text += &paint::bad(&format!(", {word} nothing"));
        }
    }
    text + "\n"
}

/// The state of the router on one screen.
pub fn status(general: &General, all_faces: &[Face], store: &Cs, width: usize) -> String {
    let uptime = text::duration(Duration::from_millis(general.uptime_ms));
    let mut out = format!("{}, up {uptime}\n", paint::title(&general.version));
    if let Some(state) = &general.state {
        out += &format!("state: {state}\n");
    }
    let rows = [
        ("Interests", general.in_interests, general.out_interests),
        ("Data", general.in_data, general.out_data),
        ("Nacks", general.in_nacks, general.out_nacks),
    ];
    let row = |(what, came, left): (&str, u64, u64)| vec![what.to_owned(), count(came), count(left)];
    let columns = [Column::Word("PACKETS"), Column::Number("IN"), Column::Number("OUT")];
    out += &format!("\n{}", Table::new(&columns).rows(rows.into_iter().map(row)).text(width));
    let (answered, unanswered) = (general.satisfied_interests, general.unsatisfied_interests);
    out += &format!("answered {}, not answered {}\n", count(answered), count(unanswered));
    out += &format!("\n{}\n", paint::key("TABLES"));
    out += &format!("pending Interests  {}\n", count(general.pit_entries));
    out += &format!("FIB rules          {}\n", count(general.fib_entries));
    out += &format!("content store      {}", cs(store));
    out += &format!("\n{}", threads(general, width));
    out += &drops(general);
    let mut busiest: Vec<Face> = all_faces.to_vec();
    busiest
        .sort_by_key(|face| std::cmp::Reverse(face.in_interests + face.in_data + face.out_interests + face.out_data));
    busiest.truncate(BUSIEST);
    out += &format!("\n{}", faces(&busiest, width));
    if all_faces.len() > BUSIEST {
        out += &paint::faint(&format!("the busiest of {} faces; `byname face list` shows all\n", all_faces.len()));
    }
    out
}

fn threads(general: &General, width: usize) -> String {
    use Column::Number;
    let columns = [
        Number("THREAD"),
        Number("LOAD"),
        Number("INTERESTS"),
        Number("DATA"),
        Number("PENDING"),
        Number("CS"),
        Number("FACES"),
        Number("DROPS"),
    ];
    let row = |(number, thread): (usize, &super::threads::Thread)| {
        vec![
            number.to_string(),
            thread.load_percent.map_or_else(|| "-".to_owned(), |load| format!("{load:.1} %")),
            count(thread.in_interests),
            count(thread.in_data),
            count(thread.pit_entries),
            count(thread.cs_entries),
            thread.faces.map_or_else(|| "-".to_owned(), count),
            count(thread.drops.iter().map(|drops| drops.packets).sum()),
        ]
    };
    Table::new(&columns).rows(general.threads.iter().enumerate().map(row)).text(width)
}

fn drops(general: &General) -> String {
    if general.drops.is_empty() {
        return String::new();
    }
    let mut drops: Vec<_> = general.drops.iter().collect();
    drops.sort_by_key(|drops| std::cmp::Reverse(drops.packets));
    let words: Vec<String> = drops.iter().map(|drops| format!("{} {}", drops.reason, count(drops.packets))).collect();
    format!("\n{} {}\n", paint::bad("dropped:"), words.join(", "))
}
