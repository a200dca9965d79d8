//! Several ports on one interface, one for each of several packet threads.
//!
//! Each port has a socket of its own, and the faces of some peers. The sockets are opened together and closed together:
//! when one fails, the other threads are woken and close theirs, and the first port that finds the interface up again
//! opens sockets for all. An interface that comes back with fewer queues leaves some ports without a socket.
//!
//! Each peer has one face, on one of the ports, its *owner*. The system steers frames of packet sockets to the owner
//! ([`fanout`]). A card that chooses among its queues by itself may send a peer's frames to any port, and to another
//! port later. So these ports know the owners of all stations, in a table that a port asks only about stations without
//! a face of its own. It hands frames of other owners over, through a bounded queue. The group belongs to the first
//! port.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byname_forward::dispatch::WORKERS_MAX;
use smallvec::SmallVec;

use super::EthernetConfig;
use super::transport::Peer;
use crate::desk::Desk;
use crate::frames::OpenError;
use crate::frames::datagram::Path;
use crate::frames::fanout::{socket_of, socket_of_path};
use crate::frames::interface::Interface;
use crate::frames::socket::{FrameSocket, SocketConfig};
use crate::mac_address::MacAddress;
use crate::waker::LoopWaker;

const _: () = assert!(WORKERS_MAX <= u64::BITS as usize);

/// What the ports of an interface share.
struct Sharing<S: FrameSocket> {
    name: String,
    config: SocketConfig,
    own: S::Config,
    /// Number of times that the sockets were opened or have failed: even while they are open.
    version: AtomicU64,
    sockets: Mutex<Sockets<S>>,
    /// Number of sockets of the present or last version.
    count: AtomicUsize,
    owners: Owners,
    /// Where each port gets the frames that others hand over.
    desks: Vec<Desk<Box<[u8]>>>,
}

/// Sockets, from being opened until they are closed.
struct Sockets<S> {
    /// The interface as it was found at last.
    interface: Option<Interface>,
    /// Sockets that their ports have still to take, by the number of the port.
    waiting: Vec<Option<S>>,
    /// Number of sockets that ports have taken.
    taken: usize,
}

/// The port that owns each station with a face. Strangers choose addresses, so the map's hash is keyed.
#[derive(Clone, Default)]
struct Owners(Arc<Mutex<HashMap<MacAddress, usize>>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, HashMap<MacAddress, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port's ownership of a station, until this is dropped.
pub(super) struct Claim {
    owners: Owners,
    station: MacAddress,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.owners.lock().remove(&self.station);
    }
}

/// One port's part of an interface.
pub(super) struct Part<S: FrameSocket> {
    number: usize,
    /// Paths of all ports' peers by UDP.
    paths: Vec<Path>,
    sharing: Arc<Sharing<S>>,
    /// The version that this port has followed.
    seen: u64,
    /// Ports that got frames in this burst, as a set of bits.
    given: u64,
    /// Frames that were lost because an owner's queue was full.
    pub(super) lost: u64,
}

/// A port's configuration, its part of the interface, and its socket.
pub(super) type Share<S> = (EthernetConfig, Part<S>, Option<S>);

impl<S: FrameSocket> Part<S> {
    /// Parts for several ports, with these sockets if the interface is up.
    pub(super) fn of_all(
        config: &EthernetConfig,
        own: &S::Config,
        interface: &Interface,
        ports: usize,
        sockets: Option<Vec<S>>,
    ) -> Vec<Share<S>> {
        let (version, taken) = sockets.as_ref().map_or((1, 0), |sockets| (0, sockets.len()));
        let waiting = (0..ports).map(|_| None).collect();
        let sharing = Arc::new(Sharing {
            name: config.interface.clone(),
            config: config.socket(),
            own: own.clone(),
            version: AtomicU64::new(version),
            sockets: Mutex::new(Sockets { interface: Some(interface.clone()), waiting, taken }),
            count: AtomicUsize::new(ports),
            owners: Owners::default(),
            desks: (0..ports).map(|_| Desk::new()).collect(),
        });
        let paths: Vec<Path> = config.datagrams.iter().map(|peer| peer.path).collect();
        let mut sockets = sockets.into_iter().flatten();
        let share = |number| {
            let (sharing, paths) = (Arc::clone(&sharing), paths.clone());
            let part = Part { number, paths, sharing, seen: version, given: 0, lost: 0 };
            (config.part(number, ports), part, sockets.next())
        };
        (0..ports).map(share).collect()
    }

    /// Whether the group belongs to this port.
    pub(super) fn has_group(&self) -> bool {
        self.number == 0
    }

    /// Lets other threads wake this one.
    pub(super) fn start(&self, waker: &LoopWaker) {
        self.sharing.desks[self.number].open(waker);
    }

    /// Whether other ports have left something to do here.
    pub(super) fn has_news(&self) -> bool {
        self.has_changed() || !self.sharing.desks[self.number].is_empty()
    }

    /// Whether the sockets were opened or have failed since this port last followed.
    pub(super) fn has_changed(&self) -> bool {
        self.sharing.version.load(Ordering::Acquire) != self.seen
    }

    /// Closes this port's socket, and makes the others close theirs.
    pub(super) fn close(&mut self, socket: S) {
        let mut sockets = self.lock();
        drop(socket);
        sockets.taken -= 1;
        sockets.waiting.iter_mut().for_each(|waiting| *waiting = None);
        // The next odd number. Only holders of the lock change it.
        let version = self.sharing.version.load(Ordering::Relaxed) | 1;
        self.sharing.version.store(version, Ordering::Release);
        drop(sockets);
        self.seen = version;
        self.wake_others();
    }

    /// Takes this port's socket if another port has opened the sockets again, or opens them all. Returns `None` if there
    /// are fewer sockets than ports now, and none for this one.
    ///
    /// # Errors
    /// If the interface is down or gone, or other ports have not closed their sockets yet.
    pub(super) fn recover(&mut self) -> Result<Option<(Interface, S)>, OpenError> {
        let sharing = Arc::clone(&self.sharing);
        let mut sockets = sharing.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let version = sharing.version.load(Ordering::Relaxed);
        self.seen = version;
        let failed = |kind: std::io::ErrorKind| OpenError::of_system(&sharing.name, kind.into());
        if !version.is_multiple_of(2) {
            if sockets.taken > 0 {
                return Err(failed(std::io::ErrorKind::ResourceBusy));
            }
            let interface = S::find(&sharing.name, &sharing.own)?;
            if !interface.up {
                return Err(failed(std::io::ErrorKind::NetworkDown));
            }
            let count = S::count(&interface, &sharing.own, sharing.desks.len());
            let opened = S::for_threads(&interface, &sharing.config, &sharing.own, count)?;
            sharing.count.store(opened.len(), Ordering::Relaxed);
            let none = std::iter::repeat_with(|| None);
            sockets.waiting = opened.into_iter().map(Some).chain(none).take(sharing.desks.len()).collect();
            sockets.interface = Some(interface);
            self.seen = version + 1;
            sharing.version.store(version + 1, Ordering::Release);
            self.wake_others();
        }
        let Some(socket) = sockets.waiting[self.number].take() else { return Ok(None) };
        sockets.taken += 1;
        Ok(sockets.interface.clone().map(|interface| (interface, socket)))
    }

    /// Whether a new face to this peer belongs to this port, if management wants one.
    pub(super) fn is_for(&self, peer: &Peer) -> bool {
        let owner = match peer {
            Peer::Station(station) if station.is_group() => 0,
            Peer::Station(station) => {
                let claimed = if S::STEERS { None } else { self.sharing.owners.lock().get(station).copied() };
                claimed.unwrap_or_else(|| socket_of(*station, self.sharing.count.load(Ordering::Relaxed)))
            }
            Peer::Datagrams(path) => self.owner_of_path(path).unwrap_or(self.number),
        };
        owner == self.number
    }

    /// The port that owns the datagrams of a path.
    fn owner_of_path(&self, path: &Path) -> Option<usize> {
        let number = self.paths.iter().position(|known| known == path)?;
        Some(socket_of_path(number, self.sharing.desks.len()))
    }

    /// Makes this port the owner of a station without a face here, unless another port is. The result must live as long
    /// as the face. `None` in place of a claim: no claim is necessary.
    ///
    /// # Errors
    /// The number of the owner.
    pub(super) fn claim(&self, station: MacAddress) -> Result<Option<Claim>, usize> {
        if S::STEERS {
            // The system may steer to another socket for a moment, while sockets are opened or closed.
            return match socket_of(station, self.sharing.desks.len()) {
                owner if owner == self.number => Ok(None),
                owner => Err(owner),
            };
        }
        match self.sharing.owners.lock().entry(station) {
            Entry::Occupied(owner) => Err(*owner.get()),
            Entry::Vacant(place) => {
                place.insert(self.number);
                Ok(Some(Claim { owners: self.sharing.owners.clone(), station }))
            }
        }
    }

    /// The port that owns a peer by UDP, if that is another.
    pub(super) fn other_of_path(&self, path: &Path) -> Option<usize> {
        self.owner_of_path(path).filter(|owner| *owner != self.number)
    }

    /// Gives a frame to another port. Drops and counts it if that has too many already.
    pub(super) fn hand_over(&mut self, owner: usize, frame: &[u8]) {
        match self.sharing.desks[owner].give(frame.into()) {
            true => self.given |= 1 << owner,
            false => self.lost += 1,
        }
    }

    /// Whether peers by UDP of any port send to this address.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.paths.iter().any(|path| path.here.ip() == address)
    }

    /// Gives a frame to the other ports with peers by UDP at this address.
    pub(super) fn hand_over_to_peers_of(&mut self, address: IpAddr, frame: &[u8]) {
        let is_there = |path: &&Path| path.there.ip() == address;
        let owners = self.paths.iter().filter(is_there).filter_map(|path| self.other_of_path(path));
        let mut owners: SmallVec<[usize; 4]> = owners.collect();
        owners.sort_unstable();
        owners.dedup();
        owners.into_iter().for_each(|owner| self.hand_over(owner, frame));
    }

    /// Wakes the ports that got frames in this burst.
    pub(super) fn end_burst(&mut self) {
        let mut given = std::mem::take(&mut self.given);
        while given != 0 {
            self.sharing.desks[given.trailing_zeros() as usize].wake();
            given &= given - 1;
        }
    }

    /// The next frame that another port has handed over.
    pub(super) fn take(&self) -> Option<Box<[u8]>> {
        self.sharing.desks[self.number].take()
    }

    fn lock(&self) -> MutexGuard<'_, Sockets<S>> {
        self.sharing.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_others(&self) {
        let others = self.sharing.desks.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.for_each(|(_, desk)| desk.wake());
    }

    /// Number of stations that ports own.
    #[cfg(test)]
    pub(super) fn claims(&self) -> usize {
        self.sharing.owners.lock().len()
    }
}
