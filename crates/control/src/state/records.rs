//! Records of faces, routes, strategy choices and other state, as they outlive a process.
//!
//! Each record is an [`Element`]: a table of fields in TLV. A decoder skips fields that it does not know, so a later
//! version may add fields. A change that older versions would misread raises [`VERSION`]. A [`Snapshot`] begins with its
//! version; the store has the version in a table of its own.
//!
//! Records name a face by a number that its keeper chooses: the store numbers faces by itself, a snapshot may use the
//! number of the [`FaceId`](byname_forward::FaceId). Times are milliseconds since the Unix epoch, which another process
//! understands, too.

use byname_wire::{DecodeError, Descriptor, Name};

use crate::element::{Element, StrategyName, element};

/// Version of the meaning of all records.
pub const VERSION: u64 = 1;

/// TLV-TYPE numbers. Numbers of a struct's fields never change, and those of removed fields are not used again.
mod types {
    pub const SNAPSHOT: u64 = 128;
    pub const FACE: u64 = 129;
    pub const ROUTE: u64 = 130;
    pub const STRATEGY: u64 = 131;
    pub const CONTENT_STORE: u64 = 132;
    pub const ADVERTISEMENT: u64 = 133;
    pub const TOLD: u64 = 134;
    pub const FLAT: u64 = 135;

    pub const VERSION: u64 = 160;
    pub const FACE_NUMBER: u64 = 161;
    pub const MAKER: u64 = 162;
    pub const REMOTE: u64 = 163;
    pub const LOCAL: u64 = 164;
    pub const PERSISTENCY: u64 = 165;
    pub const FLAGS: u64 = 166;
    pub const MTU: u64 = 167;
    pub const MARKING_INTERVAL_NS: u64 = 168;
    pub const MARKING_THRESHOLD_BYTES: u64 = 169;
    pub const NAME: u64 = 170;
    pub const LAYER: u64 = 171;
    pub const ORIGIN: u64 = 172;
    pub const COST: u64 = 173;
    pub const EXPIRES_UNIX_MS: u64 = 174;
    pub const STRATEGY_NAME: u64 = 175;
    pub const CAPACITY_PACKETS: u64 = 176;
    pub const ADMIT: u64 = 177;
    pub const SERVE: u64 = 178;
    pub const STALE_UNTIL_UNIX_MS: u64 = 179;
    pub const TAGS: u64 = 181;
    pub const DESTINATION: u64 = 182;
    pub const LABEL: u64 = 183;
}

/// Values of [`FaceRecord::maker`].
pub mod maker {
    /// A management command made the face. A new process makes it again.
    pub const COMMAND: u64 = 0;
    /// The configuration or a port made the face. In a new process it comes back by itself, or not at all.
    pub const ROUTER: u64 = 1;
}

/// Values of [`RouteRecord::layer`].
pub mod layer {
    /// A route of the RIB.
    pub const RIB: u64 = 0;
    /// A nexthop that a `fib` command set. It has no origin and no flags.
    pub const FIB: u64 = 1;
}

element! {
    /// A face that is not on demand.
    FaceRecord = types::FACE, {
        /// The number by which routes name it.
        number: u64 = types::FACE_NUMBER,
        /// Who made it; see [`maker`].
        maker: u64 = types::MAKER,
        /// URI of the peer.
        remote: String = types::REMOTE,
        /// URI of the local end. For a face that a command made, only if the command gave one.
        local: Option<String> = types::LOCAL,
        /// 0 persistent, 2 permanent.
        persistency: u64 = types::PERSISTENCY,
        /// Bits of [`LinkFlags`](byname_face::LinkFlags).
        flags: u64 = types::FLAGS,
        /// Largest frame to send, in bytes. `None`: the port's own limit.
        mtu: Option<u64> = types::MTU,
        /// See `byname_face::FaceStatus`. `None`: the port's default.
        base_congestion_marking_interval_ns: Option<u64> = types::MARKING_INTERVAL_NS,
        /// See `byname_face::FaceStatus`. `None`: the port's default.
        default_congestion_threshold_bytes: Option<u64> = types::MARKING_THRESHOLD_BYTES,
    }
}

element! {
    /// A route, or a nexthop without a route.
    RouteRecord = types::ROUTE, {
        /// Its prefix.
        name: Name = types::NAME,
        /// Number of the face; see [`FaceRecord::number`].
        face: u64 = types::FACE_NUMBER,
        /// See [`layer`].
        layer: u64 = types::LAYER,
        /// See `mgmt::tlv::origin`.
        origin: u64 = types::ORIGIN,
        /// Lower is better.
        cost: u64 = types::COST,
        /// See `mgmt::tlv::route_flags`.
        flags: u64 = types::FLAGS,
        /// When it expires. `None`: never.
        expires_unix_ms: Option<u64> = types::EXPIRES_UNIX_MS,
        /// When it is removed if it is stale and nobody registers it again. The store does not have this: all its routes
        /// that are not static come back stale.
        stale_until_unix_ms: Option<u64> = types::STALE_UNTIL_UNIX_MS,
    }
}

element! {
    /// A strategy choice.
    StrategyRecord = types::STRATEGY, {
        /// The namespace.
        prefix: Name = types::NAME,
        /// Full name of the strategy's instance.
        strategy: StrategyName = types::STRATEGY_NAME,
    }
}

element! {
    /// Settings of the content store that commands have changed. `None`: not changed.
    ContentStoreRecord = types::CONTENT_STORE, {
        /// Most packets.
        capacity_packets: Option<u64> = types::CAPACITY_PACKETS,
        /// Whether Data is admitted: 0 or 1.
        admit: Option<u64> = types::ADMIT,
        /// Whether it answers Interests: 0 or 1.
        serve: Option<u64> = types::SERVE,
    }
}

element! {
    /// A descriptor that the application behind a face advertises.
    AdvertisementRecord = types::ADVERTISEMENT, {
        /// Number of the face; see [`FaceRecord::number`].
        face: u64 = types::FACE_NUMBER,
        /// The descriptor.
        descriptor: Descriptor = types::TAGS,
    }
}

element! {
    /// A prefix that a destination of readvertisement was told.
    ToldRecord = types::TOLD, {
        /// Label of the destination.
        destination: String = types::DESTINATION,
        /// The prefix.
        prefix: Name = types::NAME,
    }
}

element! {
    /// A flat name that a command has changed.
    FlatRecord = types::FLAT, {
        /// The namespace's prefix and the flat name.
        name: Name = types::NAME,
        /// The name whose route it follows. `None`: it counts as unknown.
        label: Option<Name> = types::LABEL,
    }
}

element! {
    /// All records, for another process.
    Snapshot = types::SNAPSHOT, {
        /// [`VERSION`] of the process that wrote it.
        version: u64 = types::VERSION,
        /// Faces.
        faces: Vec<FaceRecord> = types::FACE,
        /// Routes.
        routes: Vec<RouteRecord> = types::ROUTE,
        /// Strategy choices.
        strategies: Vec<StrategyRecord> = types::STRATEGY,
        /// Settings of the content store: one record or none.
        content_store: Vec<ContentStoreRecord> = types::CONTENT_STORE,
        /// Descriptors of applications.
        advertisements: Vec<AdvertisementRecord> = types::ADVERTISEMENT,
        /// Prefixes that destinations of readvertisement were told.
        told: Vec<ToldRecord> = types::TOLD,
        /// Flat names that commands have changed.
        flat: Vec<FlatRecord> = types::FLAT,
    }
}

impl Snapshot {
    /// Decodes a snapshot that this version understands.
    ///
    /// # Errors
    /// If the bytes are no snapshot, or one of a later version.
    pub fn read(wire: &[u8]) -> Result<Self, SnapshotError> {
        let snapshot = Snapshot::decode(wire)?;
        if snapshot.version > VERSION {
            return Err(SnapshotError::Version { version: snapshot.version });
        }
        Ok(snapshot)
    }
}

/// Why a snapshot cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is malformed.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// A later version wrote it.
    #[error("version {version} of the records; this byname knows up to {VERSION}")]
    Version {
        /// Its version.
        version: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot() -> Snapshot {
        let face = FaceRecord {
            number: 7,
            maker: maker::COMMAND,
            remote: "udp4://192.0.2.1:6363".to_owned(),
            mtu: Some(1400),
            flags: 4,
            persistency: 2,
            ..FaceRecord::default()
        };
        let name: Name = "/a/b".parse().expect("a literal name");
        let route = RouteRecord {
            name: name.clone(),
            face: 7,
            origin: 255,
            cost: 10,
            flags: 1,
            expires_unix_ms: Some(1_795_000_000_000),
            ..RouteRecord::default()
        };
        let nexthop = RouteRecord { name: Name::default(), layer: layer::FIB, face: 7, ..RouteRecord::default() };
        let strategy = "/localhost/nfd/strategy/multicast/v=5".parse().expect("a literal name");
        Snapshot {
            version: VERSION,
            faces: vec![face.clone(), FaceRecord { number: 8, maker: maker::ROUTER, ..face }],
            routes: vec![route, nexthop],
            strategies: vec![StrategyRecord { prefix: name.clone(), strategy: StrategyName(strategy) }],
            advertisements: vec![AdvertisementRecord { face: 7, descriptor: Descriptor::of(["a", "b"]).expect("two") }],
            flat: vec![FlatRecord { name: name.clone(), label: Some(name.clone()) }],
            told: vec![ToldRecord { destination: "hub".to_owned(), prefix: name }],
            content_store: vec![ContentStoreRecord { capacity_packets: Some(5), admit: Some(0), serve: None }],
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was() {
        assert_eq!(Snapshot::read(&snapshot().encode()), Ok(snapshot()));
        let empty = Snapshot { version: VERSION, ..Snapshot::default() };
        assert_eq!(Snapshot::read(&empty.encode()), Ok(empty));
    }

    #[test]
    fn a_later_version_is_refused_and_a_later_field_is_skipped() {
        let later = Snapshot { version: VERSION + 1, ..snapshot() };
        assert_eq!(Snapshot::read(&later.encode()), Err(SnapshotError::Version { version: VERSION + 1 }));
        let mut face = Vec::new();
        snapshot().faces[0].encode_value(&mut face);
        byname_wire::tlv::push_tlv(&mut face, 60_001, b"of a later version");
        assert_eq!(FaceRecord::decode_value(&face), Ok(snapshot().faces[0].clone()));
    }

    #[test]
    fn a_snapshot_cut_at_any_length_is_an_error() {
        let wire = snapshot().encode();
        for len in 0..wire.len() {
            assert!(Snapshot::read(&wire[..len]).is_err(), "{len} of {} bytes", wire.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_snapshot(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let _ = Snapshot::read(&bytes);
            let mut wire = snapshot().encode();
            let at = at.min(wire.len());
            let end = (at + bytes.len()).min(wire.len());
            wire[at..end].copy_from_slice(&bytes[..end - at]);
            if let Ok(read) = Snapshot::read(&wire) {
                prop_assert_eq!(Snapshot::read(&read.encode()), Ok(read));
            }
        }
    }
}
