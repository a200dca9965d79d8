//! One face to a neighbour: whether it works, and whether it is used.

pub(crate) mod bucket;
pub(crate) mod damping;
pub(crate) mod hello;

use byname_wire::FaceId;

use crate::config::Config;
use crate::note::DownReason;
use crate::status::HelloState;

use self::damping::Penalty;
use self::hello::Session;

/// A face to a neighbour.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) face: FaceId,
    /// URI as it was configured, or as the neighbour told it.
    pub(crate) uri: Option<String>,
    /// Whether the neighbour sends active sync Interests: it has configured this router.
    pub(crate) is_active: bool,
    /// Cost of the link, without policy.
    pub(crate) cost: u64,
    pub(crate) session: Session,
    penalty: Penalty,
    /// Whether routes go through it.
    pub(crate) is_used: bool,
    /// Whether it was working when that was last looked at.
    works: bool,
    face_is_up: bool,
    /// When the last sync Interest arrived.
    pub(crate) synced_ms: u64,
    /// Not used before this.
    hold_until_ms: u64,
    pub(crate) downs: u64,
    pub(crate) last_down: Option<DownReason>,
}

/// A change that [`Link::update`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Down(DownReason),
    /// It flaps: it works, and is not used for so long.
    Damped(u64),
    Used,
}

impl Link {
    /// A link on which a sync Interest has just arrived.
    pub(crate) fn new(face: FaceId, session: Session, now_ms: u64) -> Self {
        Link {
            face,
            uri: None,
            is_active: false,
            cost: 1,
            session,
            penalty: Penalty::default(),
            is_used: false,
            works: false,
            face_is_up: true,
            synced_ms: now_ms,
            hold_until_ms: 0,
            downs: 0,
            last_down: None,
        }
    }

    pub(crate) fn set_face(&mut self, is_up: bool) {
        self.face_is_up = is_up;
    }

    /// Forgets flaps.
    pub(crate) fn clear_damping(&mut self) {
        self.penalty = Penalty::default();
    }

    /// Milliseconds until it is used again, if it flaps.
    pub(crate) fn damped_ms(&self, config: &Config, now_ms: u64) -> Option<u64> {
        if !config.damping.enabled {
            return None;
        }
        self.penalty.suppressed_until(&config.damping).filter(|until| *until > now_ms).map(|until| until - now_ms)
    }

    /// Milliseconds since anything was heard.
    pub(crate) fn heard_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.synced_ms.max(self.session.heard_at_ms().unwrap_or(0)))
    }

    fn fault(&self, config: &Config, now_ms: u64) -> Option<DownReason> {
        if !self.face_is_up {
            return Some(DownReason::Face);
        }
        match self.session.state() {
            HelloState::Down | HelloState::Init => return Some(self.session.down_reason()),
            HelloState::Silent | HelloState::Up => {}
        }
        (now_ms >= self.silent_at_ms(config)).then_some(DownReason::Silent)
    }

    /// When it is silent.
    pub(crate) fn silent_at_ms(&self, config: &Config) -> u64 {
        self.synced_ms.saturating_add(config.timing.dead.as_millis() as u64)
    }

    /// Decides anew whether it is used.
    pub(crate) fn update(&mut self, config: &Config, now_ms: u64) -> Option<Change> {
        let fault = self.fault(config, now_ms);
        if let Some(why) = fault {
            let worked = std::mem::replace(&mut self.works, false);
            if !worked {
                return None;
            }
            self.is_used = false;
            self.downs += 1;
            self.last_down = Some(why);
            if config.damping.enabled && why != DownReason::Removed {
                self.penalty.add(&config.damping, now_ms);
            }
            return Some(Change::Down(why));
        }
        if !self.works {
            self.works = true;
            if self.downs > 0 {
                self.hold_until_ms = now_ms.saturating_add(config.hello.hold_down.as_millis() as u64);
            }
            if let Some(for_ms) = self.damped_ms(config, now_ms) {
                return Some(Change::Damped(for_ms));
            }
        }
        let is_free = now_ms >= self.hold_until_ms && self.damped_ms(config, now_ms).is_none();
        if is_free && !self.is_used {
            self.is_used = true;
            return Some(Change::Used);
        }
        None
    }

    /// When [`Link::update`] may find something.
    pub(crate) fn due_ms(&self, config: &Config, now_ms: u64) -> u64 {
        if !self.works {
            // Only an event brings it back. When it is silent, it is removed.
            return self.silent_at_ms(config);
        }
        let mut due = self.silent_at_ms(config);
        if !self.is_used {
            let damped = self.damped_ms(config, now_ms).map_or(0, |ms| now_ms.saturating_add(ms));
            due = due.min(self.hold_until_ms.max(damped).max(now_ms + 1));
        }
        due
    }
}
