//! Signatures that are being checked.

use std::collections::BTreeMap;

use byname_wire::{Data, FaceId, Name};

use crate::action::Action;
use crate::event::{ValidationId, Validity};
use crate::fetcher::Segment;
use crate::link::hello::Hello;
use crate::names;
use crate::trees::Message;

use super::{NEIGHBOURS, Router};

/// A caller that has not answered after this time never will.
const LONGEST_MS: u64 = 60_000;

/// What a packet says, if its signature is right.
#[derive(Debug)]
pub(super) enum Check {
    AdvertisementSync {
        router: Name,
        face: FaceId,
        is_active: bool,
        boot: u64,
        seq: u64,
    },
    Hello {
        router: Name,
        face: FaceId,
        hello: Hello,
    },
    /// A state vector that can be decoded.
    PrefixSync {
        vector: Vec<u8>,
        is_private: bool,
    },
    Trees {
        router: Name,
        face: FaceId,
        message: Message,
    },
    Segment(Segment),
}

#[derive(Debug)]
struct Pending {
    check: Check,
    name: Name,
    face: Option<FaceId>,
    kind: usize,
    since_ms: u64,
}

/// All signatures that are being checked.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pending: BTreeMap<ValidationId, Pending>,
    last_id: u64,
}

impl Checks {
    /// Whether one more fits. Half of all are for packets of neighbours to neighbours. One face has a quarter of each
    /// half.
    fn has_room(&self, max: usize, face: Option<FaceId>, kind: usize) -> bool {
        let half = (max / 2).max(1);
        let of_kind = self.pending.values().filter(|pending| pending.kind == kind);
        if of_kind.clone().count() >= half {
            return false;
        }
        face.is_none() || of_kind.filter(|pending| pending.face == face).count() < (half / 4).max(1)
    }

    /// Segments whose checks were forgotten by the caller.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<Segment> {
        let is_over = |pending: &Pending| now_ms.saturating_sub(pending.since_ms) > LONGEST_MS;
        let over: Vec<ValidationId> =
            self.pending.iter().filter(|(_, pending)| is_over(pending)).map(|(id, _)| *id).collect();
        let checks = over.into_iter().filter_map(|id| self.pending.remove(&id)).map(|pending| pending.check);
        checks
            .filter_map(|check| match check {
                Check::Segment(segment) => Some(segment),
                _ => None,
            })
            .collect()
    }
}

impl Router {
    /// Asks whether a packet is trusted.
    pub(super) fn check(&mut self, check: Check, data: &Data<'_>, face: Option<FaceId>, kind: usize) {
        // Segments were asked for, and the fetcher bounds them.
        let is_segment = matches!(check, Check::Segment(_));
        if !is_segment && !self.checks.has_room(self.config.limits.validations, face, kind) {
            self.counters.flooded += 1;
            return;
        }
        self.checks.last_id += 1;
        let id = ValidationId(self.checks.last_id);
        let name = data.name.to_name();
        let kind = if is_segment { usize::MAX } else { kind };
        let pending = Pending { check, name, face, kind, since_ms: self.now_ms() };
        self.checks.pending.insert(id, pending);
        // Packets of the network come from routers further away. Their certificates are not the neighbour's.
        let face = face.filter(|_| kind == NEIGHBOURS || is_segment);
        self.act(Action::Validate { id, wire: data.wire.to_vec(), judged_name: names::judged(data.name), face });
    }

    pub(super) fn on_checked(&mut self, id: ValidationId, validity: Validity) {
        let Some(Pending { check, name, .. }) = self.checks.pending.remove(&id) else { return };
        let is_trusted = validity == Validity::Trusted;
        self.refused(name, validity);
        match check {
            Check::Segment(segment) => {
                let now_ms = self.now_ms();
                if let Some((purpose, content)) = self.fetcher.checked(segment, is_trusted, now_ms) {
                    self.on_fetched(purpose, content);
                }
            }
            _ if !is_trusted => {}
            Check::AdvertisementSync { router, face, is_active, boot, seq } => {
                self.on_trusted_sync(&router, face, is_active, (boot, seq));
            }
            Check::Hello { router, face, hello } => self.on_trusted_hello(&router, face, &hello),
            Check::Trees { router, face, message } => self.on_trusted_trees(&router, face, message),
            Check::PrefixSync { vector, is_private } => self.on_trusted_vector(&vector, is_private),
        }
    }
}
