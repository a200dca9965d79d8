//! Faces: pages of a list that may be long, sorted and searched here, with rates.
//!
//! The list is read as a whole, and all who ask share it. Reading takes time for each face, so the next reading waits
//! [`REST`] times as long as the last one took, and at least a second.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use byname_face::{FaceStatus, LinkTotals};
use byname_forward::FaceId;
use byname_forward::face_table::{FaceCounters, LinkType, Persistency, Scope};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::answers::{Failure, to_json};
use super::query::Query;
use super::questions::Questions;

/// Shortest time between two readings.
const REST_MIN: Duration = Duration::from_secs(1);
/// Pause after a reading, as a multiple of the time that it took.
const REST: u32 = 100;
/// Most faces of a page.
const PAGE_MAX: usize = 200;

/// All faces at one moment.
pub struct Reading {
    at: Instant,
    faces: Vec<FaceStatus>,
    links: LinkTotals,
    took: Duration,
    /// Rates by face since the reading before.
    rates: HashMap<FaceId, Rates>,
    all: Rates,
}

/// What a face does in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rates {
    pub in_packets_per_s: f64,
    pub out_packets_per_s: f64,
    pub in_bytes_per_s: f64,
    pub out_bytes_per_s: f64,
    pub out_drops_per_s: f64,
}

/// The last reading.
#[derive(Default)]
pub struct Faces {
    last: Mutex<Option<Arc<Reading>>>,
    /// Whether a command has changed faces since.
    is_stale: AtomicBool,
}

/// One face in a list.
#[derive(Serialize)]
pub struct Row {
    face_id: u64,
    remote_uri: String,
    local_uri: String,
    scope: &'static str,
    persistency: &'static str,
    link_type: &'static str,
    up: bool,
    mtu: Option<u64>,
    expires_in_ms: Option<u64>,
    local_fields: bool,
    reliability: bool,
    congestion_marking: bool,
    base_congestion_marking_interval_ns: u64,
    default_congestion_threshold_bytes: u64,
    thread: usize,
    in_interests: u64,
    in_data: u64,
    in_nacks: u64,
    out_interests: u64,
    out_data: u64,
    out_nacks: u64,
    in_bytes: u64,
    out_bytes: u64,
    in_malformed: u64,
    reassembly_timeouts: u64,
    out_drops: u64,
    congestion_marks: u64,
    retransmissions: u64,
    #[serde(flatten)]
    rates: Rates,
}

#[derive(Serialize)]
struct Page {
    total: usize,
    found: usize,
    up: usize,
    /// Age of the reading.
    age_ms: u64,
    all: Rates,
    in_bytes: u64,
    out_bytes: u64,
    closed: HashMap<&'static str, u64>,
    faces: Vec<Row>,
}

impl Faces {
    /// The last reading, or a new one if that is old.
    pub async fn reading(&self, questions: &Questions) -> Result<Arc<Reading>, Failure> {
        let mut last = self.last.lock().await;
        if let Some(reading) = &*last
            && !self.is_stale.swap(false, Ordering::Relaxed)
            && reading.at.elapsed() < REST_MIN.max(REST * reading.took)
        {
            return Ok(Arc::clone(reading));
        }
        let ((faces, links), took) = questions.ask_timed(|management, _| management.all_faces()).await?;
        let reading = Arc::new(Reading::new(faces, links, took, last.as_deref()));
        *last = Some(Arc::clone(&reading));
        Ok(reading)
    }

    /// Notes that a command has changed faces: the next reading is a new one.
    pub fn note_change(&self) {
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// A page of the list.
    pub async fn page(&self, questions: &Questions, query: &Query) -> Result<String, Failure> {
        let (skip, count) = (query.number("offset", 0, usize::MAX)?, query.number("limit", 50, PAGE_MAX)?);
        let sort = query.text("sort").unwrap_or("face_id").to_owned();
        let is_falling = query.text("desc").is_some_and(|desc| desc != "0");
        let reading = self.reading(questions).await?;
        let part = query.text("search").unwrap_or("");
        let mut found: Vec<&FaceStatus> = match query.text("id") {
            Some(id) => id.parse().ok().and_then(|id| reading.face(FaceId(id))).into_iter().collect(),
            None => reading.faces.iter().filter(|face| fits(face, part)).collect(),
        };
        reading.sort(&mut found, &sort)?;
        if is_falling {
            found.reverse();
        }
        let rows = found.iter().skip(skip).take(count).map(|face| reading.row(face)).collect();
        Ok(to_json(&Page {
            total: reading.faces.len(),
            found: found.len(),
            up: reading.faces.iter().filter(|face| face.up).count(),
            age_ms: u64::try_from(reading.at.elapsed().as_millis()).unwrap_or(u64::MAX),
            all: reading.all,
            in_bytes: reading.links.counters.in_bytes,
            out_bytes: reading.links.counters.out_bytes,
            closed: reading.links.closed.iter().copied().collect(),
            faces: rows,
        }))
    }

    /// One face.
    pub async fn one(&self, questions: &Questions, id: &str) -> Result<String, Failure> {
        let id = id.parse().map_err(|_| Failure::malformed("a face has a number"))?;
        let reading = self.reading(questions).await?;
        let face = reading.face(FaceId(id)).ok_or_else(Failure::unknown)?;
        Ok(to_json(&reading.row(face)))
    }

    /// Remote URIs of these faces, as far as they are known.
    pub async fn uris(&self, questions: &Questions, faces: &BTreeSet<u64>) -> Result<HashMap<u64, String>, Failure> {
        if faces.is_empty() {
            return Ok(HashMap::new());
        }
        let reading = self.reading(questions).await?;
        let uri = |id: &u64| Some((*id, reading.face(FaceId(*id))?.remote.to_string()));
        Ok(faces.iter().filter_map(uri).collect())
    }
}

impl Reading {
    fn new(faces: Vec<FaceStatus>, links: LinkTotals, took: Duration, before: Option<&Reading>) -> Self {
        let at = Instant::now();
        let mut rates = HashMap::new();
        let mut all = Rates::default();
        if let Some(before) = before {
            let seconds = (at - before.at).as_secs_f64().max(1e-3);
            let mut earlier = before.faces.iter().peekable();
            // Both lists are sorted by id.
            for face in &faces {
                while earlier.next_if(|one| one.id < face.id).is_some() {}
                if let Some(one) = earlier.next_if(|one| one.id == face.id) {
                    let rate = Rates::between(one, face, seconds);
                    all.add(&rate);
                    if rate != Rates::default() {
                        rates.insert(face.id, rate);
                    }
                }
            }
        }
        Reading { at, faces, links, took, rates, all }
    }

    /// All faces, sorted by id.
    pub fn faces(&self) -> &[FaceStatus] {
        &self.faces
    }

    fn face(&self, id: FaceId) -> Option<&FaceStatus> {
        let place = self.faces.binary_search_by_key(&id, |face| face.id).ok()?;
        Some(&self.faces[place])
    }

    pub fn rates(&self, id: FaceId) -> Rates {
        self.rates.get(&id).copied().unwrap_or_default()
    }

    fn sort(&self, faces: &mut [&FaceStatus], by: &str) -> Result<(), Failure> {
        let sort_by_rate = |faces: &mut [&FaceStatus], rate: fn(&Rates) -> f64| {
            faces.sort_by(|a, b| rate(&self.rates(a.id)).total_cmp(&rate(&self.rates(b.id))));
        };
        match by {
            "face_id" => {}
            "remote_uri" => faces.sort_by_cached_key(|face| face.remote.to_string()),
            "thread" => faces.sort_by_key(|face| face.thread),
            "in_packets_per_s" => sort_by_rate(faces, |rates| rates.in_packets_per_s),
            "out_packets_per_s" => sort_by_rate(faces, |rates| rates.out_packets_per_s),
            "bytes_per_s" => sort_by_rate(faces, |rates| rates.in_bytes_per_s + rates.out_bytes_per_s),
            "in_bytes" => faces.sort_by_key(|face| face.link.in_bytes),
            "out_bytes" => faces.sort_by_key(|face| face.link.out_bytes),
            "out_drops" => faces.sort_by_key(|face| face.link.out_drops),
            _ => return Err(Failure::malformed("faces are not sorted by that")),
        }
        Ok(())
    }

    /// A face with its rates.
    pub fn row(&self, face: &FaceStatus) -> Row {
        let (counters, link) = (&face.counters, &face.link);
        Row {
            face_id: face.id.0,
            remote_uri: face.remote.to_string(),
            local_uri: face.local.to_string(),
            scope: if face.scope == Scope::Local { "local" } else { "non-local" },
            persistency: match face.persistency {
                Persistency::Persistent => "persistent",
                Persistency::OnDemand => "on-demand",
                Persistency::Permanent => "permanent",
            },
            link_type: match face.link_type {
                LinkType::PointToPoint => "point-to-point",
                LinkType::MultiAccess => "multi-access",
                LinkType::AdHoc => "adhoc",
            },
            up: face.up,
            mtu: face.mtu,
            expires_in_ms: face.expires_in_ms,
            local_fields: face.flags.local_fields,
            reliability: face.flags.reliability,
            congestion_marking: face.flags.congestion_marking,
            base_congestion_marking_interval_ns: face.base_congestion_marking_interval_ns,
            default_congestion_threshold_bytes: face.default_congestion_threshold_bytes,
            thread: face.thread,
            in_interests: counters.in_interests,
            in_data: counters.in_data,
            in_nacks: counters.in_nacks,
            out_interests: counters.out_interests,
            out_data: counters.out_data,
            out_nacks: counters.out_nacks,
            in_bytes: link.in_bytes,
            out_bytes: link.out_bytes,
            in_malformed: link.in_malformed,
            reassembly_timeouts: link.in_reassembly_timeouts,
            out_drops: link.out_drops,
            congestion_marks: link.congestion_marks,
            retransmissions: link.retransmissions,
            rates: self.rates(face.id),
        }
    }
}

impl Rates {
    fn between(before: &FaceStatus, after: &FaceStatus, seconds: f64) -> Self {
        let per_s = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let received =
            |c: &FaceCounters| c.in_interests + c.in_data + c.in_nacks + c.in_tag_packets + c.in_locator_packets;
        let sent =
            |c: &FaceCounters| c.out_interests + c.out_data + c.out_nacks + c.out_tag_packets + c.out_locator_packets;
        Rates {
            in_packets_per_s: per_s(received(&before.counters), received(&after.counters)),
            out_packets_per_s: per_s(sent(&before.counters), sent(&after.counters)),
            in_bytes_per_s: per_s(before.link.in_bytes, after.link.in_bytes),
            out_bytes_per_s: per_s(before.link.out_bytes, after.link.out_bytes),
            out_drops_per_s: per_s(before.link.out_drops, after.link.out_drops),
        }
    }

    fn add(&mut self, other: &Rates) {
        self.in_packets_per_s += other.in_packets_per_s;
        self.out_packets_per_s += other.out_packets_per_s;
        self.in_bytes_per_s += other.in_bytes_per_s;
        self.out_bytes_per_s += other.out_bytes_per_s;
        self.out_drops_per_s += other.out_drops_per_s;
    }
}

/// Whether a face's number is this text, or one of its URIs contains it.
fn fits(face: &FaceStatus, part: &str) -> bool {
    part.is_empty()
        || face.id.to_string() == part
        || face.remote.to_string().contains(part)
        || face.local.to_string().contains(part)
}

#[cfg(test)]
mod tests {
    use byname_face::FaceUri;

    use super::*;

    fn face(id: u64, in_data: u64, in_bytes: u64) -> FaceStatus {
        let mut face = FaceStatus::plain(FaceId(id), FaceUri::Fd(id), Scope::Local);
        (face.counters.in_data, face.link.in_bytes) = (in_data, in_bytes);
        face
    }

    #[test]
    fn rates_are_those_of_faces_that_were_there_before() {
        let before = Reading::new(vec![face(300, 5, 10), face(301, 7, 70)], LinkTotals::default(), REST_MIN, None);
        assert_eq!(before.rates(FaceId(300)), Rates::default());
        let later = vec![face(301, 17, 170), face(302, 9, 9)];
        let after = Reading::new(later, LinkTotals::default(), REST_MIN, Some(&before));
        let rates = after.rates(FaceId(301));
        assert!(rates.in_packets_per_s > 0.0 && (rates.in_bytes_per_s / rates.in_packets_per_s - 10.0).abs() < 1e-6);
        assert_eq!(after.rates(FaceId(302)), Rates::default());
        assert_eq!(after.all, rates);
        let mut found: Vec<&FaceStatus> = after.faces.iter().collect();
        after.sort(&mut found, "in_packets_per_s").expect("a known order");
        assert_eq!(found[1].id, FaceId(301));
        assert!(after.sort(&mut found, "beauty").is_err());
        assert!(fits(found[0], "302") && fits(found[0], "fd://") && !fits(found[0], "301"));
    }
}
