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

/// How far routes may go through a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Not at all.
    Down,
    /// It works, and was down recently, or flaps: it costs more, by [`HELD_COST`].
    Held,
    /// Wherever it is best.
    Used,
}

/// What a link costs more that was down recently, or flaps. So it is left alone where another way is not much longer, and
/// a destination that has no other way does not lose this one.
pub(crate) const HELD_COST: u64 = 4;

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
    pub(crate) standing: Standing,
    /// Whether it was working when that was last looked at.
    works: bool,
    face_is_up: bool,
    /// When the last sync Interest arrived.
    pub(crate) synced_ms: u64,
    /// It costs more until then.
    hold_until_ms: u64,
    /// Hellos are late. The forwarder uses other nexthops where it has some, and nobody else is told.
    pub(crate) is_doubted: bool,
    /// Whether the face leads to all who share a medium.
    pub(crate) is_group: bool,
    /// The neighbour has a face of its own: nothing is sent on this one, and nothing is concluded from its silence.
    pub(crate) is_at_rest: bool,
    pub(crate) downs: u64,
    pub(crate) last_down: Option<DownReason>,
}

/// A change that [`Link::update`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Down(DownReason),
    /// It works again. `damped_ms`: it flaps, and costs more for so long.
    Held {
        damped_ms: Option<u64>,
    },
    Used,
    /// Hellos are late.
    Doubted,
    /// They are there.
    Trusted,
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
            standing: Standing::Down,
            works: false,
            face_is_up: true,
            synced_ms: now_ms,
            hold_until_ms: 0,
            is_doubted: false,
            is_group: false,
            is_at_rest: false,
            downs: 0,
            last_down: None,
        }
    }

    /// Leaves a link on a medium alone, with a session for the time when it is needed again.
    pub(crate) fn rest(&mut self, session: Session) {
        (self.session, self.is_at_rest) = (session, true);
        (self.standing, self.works, self.is_doubted) = (Standing::Down, false, false);
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
        if self.is_at_rest {
            return None;
        }
        let fault = self.fault(config, now_ms);
        if let Some(why) = fault {
            let worked = std::mem::replace(&mut self.works, false);
            if !worked {
                return None;
            }
            (self.standing, self.is_doubted) = (Standing::Down, false);
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
        }
        let damped_ms = self.damped_ms(config, now_ms);
        if now_ms >= self.hold_until_ms && damped_ms.is_none() {
            if self.standing != Standing::Used {
                // If hellos are late now, the next look says so anew.
                (self.standing, self.is_doubted) = (Standing::Used, false);
                return Some(Change::Used);
            }
            return self.doubt(config, now_ms);
        }
        if self.standing < Standing::Held {
            self.standing = Standing::Held;
            return Some(Change::Held { damped_ms });
        }
        self.doubt(config, now_ms)
    }

    fn doubt(&mut self, config: &Config, now_ms: u64) -> Option<Change> {
        let is_late = self.session.is_late(&config.hello, now_ms);
        let was_late = std::mem::replace(&mut self.is_doubted, is_late);
        (is_late != was_late).then_some(if is_late { Change::Doubted } else { Change::Trusted })
    }

    /// When [`Link::update`] may find something.
    pub(crate) fn due_ms(&self, config: &Config, now_ms: u64) -> u64 {
        if !self.works {
            // Only an event brings it back. When it is silent, it is removed.
            return self.silent_at_ms(config);
        }
        let mut due = self.silent_at_ms(config);
        if self.standing != Standing::Used {
            let damped = self.damped_ms(config, now_ms).map_or(0, |ms| now_ms.saturating_add(ms));
            due = due.min(self.hold_until_ms.max(damped).max(now_ms + 1));
        }
        due
    }
}
