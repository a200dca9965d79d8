//! The router's faces, as its dataset and its notifications tell.

use std::collections::BTreeMap;

use byname_control::mgmt::tlv::{Element, FaceEventKind, FaceEventNotification, FaceStatus, decode_list};

/// LinkType of point-to-point links.
const POINT_TO_POINT: u64 = 0;

/// What has become of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It is there, and leads to all on a link.
    Multicast(u64),
    /// It can send again.
    Up(u64),
    /// It cannot send for now.
    Down(u64),
    /// It is gone.
    Destroyed(u64),
}

/// All faces.
#[derive(Debug, Default)]
pub struct Faces {
    /// URIs of their peers, by id.
    known: BTreeMap<u64, String>,
    /// Number of the last event.
    last_event: Option<u64>,
}

impl Faces {
    /// Takes the dataset `faces/list`.
    pub fn list(&mut self, content: &[u8]) -> Vec<News> {
        let Ok(statuses) = decode_list::<FaceStatus>(content) else { return Vec::new() };
        let before = std::mem::take(&mut self.known);
        let mut news = Vec::new();
        for status in statuses {
            if status.link_type != POINT_TO_POINT && !before.contains_key(&status.face_id) {
                news.push(News::Multicast(status.face_id));
            }
            self.known.insert(status.face_id, status.uri);
        }
        let gone = before.into_keys().filter(|id| !self.known.contains_key(id));
        news.extend(gone.map(News::Destroyed));
        news
    }

    /// Takes an event. Returns what it says, and whether events were missed.
    pub fn event(&mut self, seq: u64, content: &[u8]) -> (Option<News>, bool) {
        let missed = self.last_event.is_none_or(|last| seq != last + 1 && seq != last);
        let is_repeated = self.last_event == Some(seq);
        self.last_event = Some(seq);
        let Ok(event) = FaceEventNotification::decode(content) else { return (None, missed) };
        let id = event.face_id;
        let news = match FaceEventKind::from_number(event.face_event_kind) {
            _ if is_repeated => None,
            Some(FaceEventKind::Created) => {
                self.known.insert(id, event.uri);
                (event.link_type != POINT_TO_POINT).then_some(News::Multicast(id))
            }
            Some(FaceEventKind::Destroyed) => self.known.remove(&id).map(|_| News::Destroyed(id)),
            Some(FaceEventKind::Up) => Some(News::Up(id)),
            Some(FaceEventKind::Down) => Some(News::Down(id)),
            None => None,
        };
        (news, missed)
    }

    /// The URI of a face's peer.
    pub fn uri(&self, face: u64) -> Option<&str> {
        self.known.get(&face).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(faces: &[(u64, u64)]) -> Vec<u8> {
        let status = |(face_id, link_type): &(u64, u64)| {
            let status = FaceStatus {
                face_id: *face_id,
                link_type: *link_type,
                uri: format!("fd://{face_id}"),
                ..Default::default()
            };
            status.encode()
        };
        faces.iter().flat_map(status).collect()
    }

    fn event(kind: FaceEventKind, face_id: u64, link_type: u64) -> Vec<u8> {
        FaceEventNotification { face_event_kind: kind.number(), face_id, link_type, ..Default::default() }.encode()
    }

    #[test]
    fn lists_and_events_tell_what_is_new() {
        let mut faces = Faces::default();
        assert_eq!(faces.list(&list(&[(256, 0), (257, 1)])), [News::Multicast(257)]);
        assert_eq!(faces.uri(256), Some("fd://256"));
        assert_eq!(faces.event(9, &event(FaceEventKind::Created, 258, 0)), (None, true), "the first may follow others");
        assert_eq!(faces.event(10, &event(FaceEventKind::Down, 256, 0)), (Some(News::Down(256)), false));
        assert_eq!(faces.event(10, &event(FaceEventKind::Down, 256, 0)), (None, false));
        assert_eq!(faces.event(11, &event(FaceEventKind::Destroyed, 256, 0)), (Some(News::Destroyed(256)), false));
        assert_eq!(faces.event(13, &event(FaceEventKind::Created, 260, 1)), (Some(News::Multicast(260)), true));
        assert_eq!(faces.list(&list(&[(257, 1), (260, 1)])), [News::Destroyed(258)]);
        assert_eq!(faces.list(b"x"), [], "garbage changes nothing");
        assert_eq!(faces.uri(257), Some("fd://257"));
    }
}
