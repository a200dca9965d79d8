//! The commands of the protocol, with their required and optional fields.

use super::tlv::ControlParameters;
use crate::security::Module;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Command {
    FaceCreate,
    FaceUpdate,
    FaceDestroy,
    FaceMove,
    FibAddNexthop,
    FibRemoveNexthop,
    RibRegister,
    RibUnregister,
    RibAnnounce,
    RibSuspend,
    RibResume,
    RibBatch,
    CsConfig,
    CsErase,
    StrategySet,
    StrategyUnset,
    FlatSet,
    FlatReset,
    FlatBatch,
    TagsAdvertise,
    TagsWithdraw,
    TagsLocators,
    TagsPlace,
    ConfigReload,
    ConfigConfirm,
    ConfigAddNeighbor,
    ConfigRemoveNeighbor,
    TraceStart,
    TraceRead,
    TraceStop,
}

/// Fields of [`ControlParameters`] as bits.
mod field {
    pub const NAME: u32 = 1;
    pub const FACE_ID: u32 = 1 << 1;
    pub const URI: u32 = 1 << 2;
    pub const LOCAL_URI: u32 = 1 << 3;
    pub const ORIGIN: u32 = 1 << 4;
    pub const COST: u32 = 1 << 5;
    pub const CAPACITY: u32 = 1 << 6;
    pub const COUNT: u32 = 1 << 7;
    pub const FLAGS: u32 = 1 << 8;
    pub const MASK: u32 = 1 << 9;
    pub const STRATEGY: u32 = 1 << 10;
    pub const EXPIRATION_PERIOD: u32 = 1 << 11;
    pub const FACE_PERSISTENCY: u32 = 1 << 12;
    pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 1 << 13;
    pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 1 << 14;
    pub const MTU: u32 = 1 << 15;
    pub const THREAD: u32 = 1 << 16;
    pub const LABEL: u32 = 1 << 17;

    /// Names of the fields, lowest bit first.
    pub const NAMES: [&str; 18] = [
        "Name",
        "FaceId",
        "Uri",
        "LocalUri",
        "Origin",
        "Cost",
        "Capacity",
        "Count",
        "Flags",
        "Mask",
        "Strategy",
        "ExpirationPeriod",
        "FacePersistency",
        "BaseCongestionMarkingInterval",
        "DefaultCongestionThreshold",
        "Mtu",
        "Thread",
        "Label",
    ];
}

/// Largest FacePersistency.
const PERSISTENCY_MAX: u64 = 2;

impl Command {
    /// Its module and verb.
    pub fn name(self) -> &'static str {
        match self {
            Command::FaceCreate => "faces/create",
            Command::FaceUpdate => "faces/update",
            Command::FaceDestroy => "faces/destroy",
            Command::FaceMove => "faces/move",
            Command::FibAddNexthop => "fib/add-nexthop",
            Command::FibRemoveNexthop => "fib/remove-nexthop",
            Command::RibRegister => "rib/register",
            Command::RibUnregister => "rib/unregister",
            Command::RibAnnounce => "rib/announce",
            Command::RibSuspend => "rib/suspend",
            Command::RibResume => "rib/resume",
            Command::RibBatch => "rib/batch",
            Command::CsConfig => "cs/config",
            Command::CsErase => "cs/erase",
            Command::StrategySet => "strategy-choice/set",
            Command::StrategyUnset => "strategy-choice/unset",
            Command::FlatSet => "flat/set",
            Command::FlatReset => "flat/reset",
            Command::FlatBatch => "flat/batch",
            Command::ConfigReload => "config/reload",
            Command::ConfigConfirm => "config/confirm",
            Command::ConfigAddNeighbor => "config/add-neighbor",
            Command::ConfigRemoveNeighbor => "config/remove-neighbor",
            Command::TraceStart => "trace/start",
            Command::TraceRead => "trace/read",
            Command::TraceStop => "trace/stop",
            Command::TagsAdvertise => "tags/advertise",
            Command::TagsWithdraw => "tags/withdraw",
            Command::TagsLocators => "tags/locators",
            Command::TagsPlace => "tags/place",
        }
    }

    /// The command of a module and verb, and the module whose rights it needs.
    pub fn from_names(module: &[u8], verb: &[u8]) -> Option<(Command, Module)> {
        let module = Module::from_name(module)?;
        let command = match (module, verb) {
            (Module::Faces, b"create") => Command::FaceCreate,
            (Module::Faces, b"update") => Command::FaceUpdate,
            (Module::Faces, b"destroy") => Command::FaceDestroy,
            (Module::Faces, b"move") => Command::FaceMove,
            (Module::Fib, b"add-nexthop") => Command::FibAddNexthop,
            (Module::Fib, b"remove-nexthop") => Command::FibRemoveNexthop,
            (Module::Rib, b"register") => Command::RibRegister,
            (Module::Rib, b"unregister") => Command::RibUnregister,
            (Module::Rib, b"announce") => Command::RibAnnounce,
            (Module::Rib, b"suspend") => Command::RibSuspend,
            (Module::Rib, b"resume") => Command::RibResume,
            (Module::Rib, b"batch") => Command::RibBatch,
            (Module::Cs, b"config") => Command::CsConfig,
            (Module::Cs, b"erase") => Command::CsErase,
            (Module::StrategyChoice, b"set") => Command::StrategySet,
            (Module::StrategyChoice, b"unset") => Command::StrategyUnset,
            (Module::Flat, b"set") => Command::FlatSet,
            (Module::Flat, b"reset") => Command::FlatReset,
            (Module::Flat, b"batch") => Command::FlatBatch,
            (Module::Tags, b"advertise") => Command::TagsAdvertise,
            (Module::Tags, b"withdraw") => Command::TagsWithdraw,
            (Module::Tags, b"locators") => Command::TagsLocators,
            // It changes where packets of others go, as routes do.
            (Module::Tags, b"place") => return Some((Command::TagsPlace, Module::Rib)),
            (Module::Config, b"reload") => Command::ConfigReload,
            (Module::Config, b"confirm") => Command::ConfigConfirm,
            (Module::Config, b"add-neighbor") => Command::ConfigAddNeighbor,
            (Module::Config, b"remove-neighbor") => Command::ConfigRemoveNeighbor,
            (Module::Trace, b"start") => Command::TraceStart,
            (Module::Trace, b"read") => Command::TraceRead,
            (Module::Trace, b"stop") => Command::TraceStop,
            _ => return None,
        };
        Some((command, module))
    }

    /// Its required fields and its optional fields.
    fn fields(self) -> (u32, u32) {
        use field::*;
        const LINK: u32 =
            FLAGS | MASK | FACE_PERSISTENCY | BASE_CONGESTION_MARKING_INTERVAL | DEFAULT_CONGESTION_THRESHOLD | MTU;
        match self {
            Command::FaceCreate => (URI, LOCAL_URI | LINK),
            Command::FaceUpdate => (0, FACE_ID | LINK),
            Command::FaceDestroy | Command::RibResume => (FACE_ID, 0),
            Command::RibSuspend => (FACE_ID, EXPIRATION_PERIOD),
            Command::FaceMove => (THREAD, FACE_ID),
            Command::FibAddNexthop => (NAME, FACE_ID | COST),
            Command::FibRemoveNexthop => (NAME, FACE_ID),
            Command::RibRegister => (NAME, FACE_ID | ORIGIN | COST | FLAGS | EXPIRATION_PERIOD),
            Command::RibUnregister => (NAME, FACE_ID | ORIGIN),
            Command::RibAnnounce | Command::RibBatch | Command::FlatBatch => (0, 0),
            Command::TagsAdvertise | Command::TagsWithdraw | Command::TagsLocators | Command::TagsPlace => (0, 0),
            Command::CsConfig => (0, CAPACITY | FLAGS | MASK),
            Command::CsErase => (NAME, COUNT),
            Command::StrategySet => (NAME | STRATEGY, 0),
            Command::StrategyUnset | Command::FlatReset => (NAME, 0),
            Command::FlatSet => (NAME, LABEL),
            Command::ConfigReload => (0, FLAGS | EXPIRATION_PERIOD),
            Command::ConfigAddNeighbor => (URI, COST | MTU),
            Command::ConfigRemoveNeighbor => (URI, 0),
            Command::TraceStart => (NAME, FLAGS),
            Command::TraceRead => (COUNT, 0),
            Command::ConfigConfirm | Command::TraceStop => (0, 0),
        }
    }

    /// Checks the parameters of this command.
    pub fn validate(self, parameters: &ControlParameters) -> Result<(), String> {
        let present = present(parameters);
        let (required, optional) = self.fields();
        if let Some(name) = lowest_name(required & !present) {
            return Err(format!("{name} is required but missing"));
        }
        if let Some(name) = lowest_name(present & !(required | optional)) {
            return Err(format!("{name} is forbidden but present"));
        }
        if optional & field::MASK != 0 && parameters.flags.is_some() != parameters.mask.is_some() {
            return Err("Flags must be accompanied by Mask".into());
        }
        let is_root = || parameters.name.as_ref().is_some_and(|name| name.as_ref().is_empty());
        match self {
            Command::FaceDestroy | Command::RibSuspend | Command::RibResume if parameters.face_id == Some(0) => {
                Err("FaceId must be valid".into())
            }
            Command::CsErase if parameters.count == Some(0) => Err("Count must be positive".into()),
            Command::StrategyUnset if is_root() => Err("Name must not be /".into()),
            _ if parameters.face_persistency.is_some_and(|p| p > PERSISTENCY_MAX) => {
                Err("FacePersistency is unknown".into())
            }
            _ => Ok(()),
        }
    }
}

fn present(p: &ControlParameters) -> u32 {
    let fields = [
        p.name.is_some(),
        p.face_id.is_some(),
        p.uri.is_some(),
        p.local_uri.is_some(),
        p.origin.is_some(),
        p.cost.is_some(),
        p.capacity.is_some(),
        p.count.is_some(),
        p.flags.is_some(),
        p.mask.is_some(),
        p.strategy.is_some(),
        p.expiration_period_ms.is_some(),
        p.face_persistency.is_some(),
        p.base_congestion_marking_interval_ns.is_some(),
        p.default_congestion_threshold_bytes.is_some(),
        p.mtu.is_some(),
        p.thread.is_some(),
        p.label.is_some(),
    ];
    fields.iter().rev().fold(0, |bits, &present| bits << 1 | u32::from(present))
}

fn lowest_name(bits: u32) -> Option<&'static str> {
    field::NAMES.get(bits.trailing_zeros() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_checked() {
        let name = Some("/a".parse().expect("a name"));
        let mut parameters = ControlParameters::default();
        assert_eq!(Command::RibRegister.validate(&parameters), Err("Name is required but missing".into()));
        assert_eq!(Command::FaceUpdate.validate(&parameters), Ok(()));
        parameters.name = name;
        assert_eq!(Command::RibRegister.validate(&parameters), Ok(()));
        assert_eq!(Command::FaceUpdate.validate(&parameters), Err("Name is forbidden but present".into()));
        parameters.mtu = Some(1);
        assert_eq!(Command::RibRegister.validate(&parameters), Err("Mtu is forbidden but present".into()));
        let half = ControlParameters { flags: Some(1), ..ControlParameters::default() };
        assert_eq!(Command::CsConfig.validate(&half), Err("Flags must be accompanied by Mask".into()));
        let zero = ControlParameters { face_id: Some(0), ..ControlParameters::default() };
        assert!(Command::FaceDestroy.validate(&zero).is_err());
        assert!(Command::FaceUpdate.validate(&zero).is_ok());
        let root = ControlParameters { name: Some(Default::default()), ..ControlParameters::default() };
        assert!(Command::StrategyUnset.validate(&root).is_err());
        assert_eq!(Command::FaceMove.validate(&zero), Err("Thread is required but missing".into()));
        let thread = ControlParameters { thread: Some(1), ..zero };
        assert!(Command::FaceMove.validate(&thread).is_ok());
        assert_eq!(Command::FaceUpdate.validate(&thread), Err("Thread is forbidden but present".into()));
        let strange = ControlParameters { face_persistency: Some(3), ..ControlParameters::default() };
        assert!(Command::FaceUpdate.validate(&strange).is_err());
    }

    #[test]
    fn verbs_belong_to_modules() {
        assert_eq!(Command::from_names(b"rib", b"register"), Some((Command::RibRegister, Module::Rib)));
        assert_eq!(Command::from_names(b"fib", b"register"), None);
        assert_eq!(Command::from_names(b"bir", b"register"), None);
    }
}
