//! A parcel: what the old process tells, in a file in memory that the service manager keeps with the descriptors.
//!
//! The file has the messages one after the other. Each is the length of its body, the number of its descriptors, the
//! identity of each descriptor, and the body in MessagePack. The service manager may return the descriptors in any order,
//! and may have lost some, so they are found by their identity.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use byname_face::handover::DESCRIPTORS_MAX;
use rustix::fs::{FileType, MemfdFlags, fstat, memfd_create};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first bytes of the file.
const MAGIC: &[u8; 8] = b"bynamefd";
/// Longest body of a message, in bytes.
const BODY_BYTES_MAX: u64 = 128 << 20;

/// Device and number of the file behind a descriptor.
type Identity = (u64, u64);

fn identity(descriptor: impl AsFd) -> io::Result<Identity> {
    let stat = fstat(descriptor)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A parcel that is being packed.
pub struct Parcel {
    file: BufWriter<File>,
    descriptors: Vec<OwnedFd>,
    descriptors_max: usize,
}

impl Parcel {
    /// An empty parcel for at most this many descriptors, with that of its file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(descriptors_max: usize) -> io::Result<Self> {
        let file = memfd_create("byname-parcel", MemfdFlags::CLOEXEC)?;
        let mut file = BufWriter::new(File::from(file));
        file.write_all(MAGIC)?;
        Ok(Parcel { file, descriptors: Vec::new(), descriptors_max: descriptors_max.saturating_sub(1) })
    }

    /// How many more descriptors have room.
    pub fn room(&self) -> usize {
        self.descriptors_max - self.descriptors.len()
    }

    /// Adds a message with its descriptors.
    ///
    /// # Errors
    /// If the system refuses, or there is no room for the descriptors.
    pub fn put(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if descriptors.len() > self.room() || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::other("too many descriptors for the service manager"));
        }
        let body = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
        self.file.write_all(&(body.len() as u64).to_be_bytes())?;
        self.file.write_all(&(descriptors.len() as u64).to_be_bytes())?;
        for descriptor in descriptors {
            let (device, number) = identity(descriptor)?;
            self.file.write_all(&device.to_be_bytes())?;
            self.file.write_all(&number.to_be_bytes())?;
            self.descriptors.push(descriptor.try_clone_to_owned()?);
        }
        self.file.write_all(&body)
    }

    /// The finished parcel: its file, and the descriptors.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn close(self) -> io::Result<Vec<OwnedFd>> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(std::iter::once(OwnedFd::from(file)).chain(self.descriptors).collect())
    }
}

/// A parcel that is being opened.
pub struct OpenParcel {
    file: BufReader<File>,
    descriptors: HashMap<Identity, OwnedFd>,
}

impl OpenParcel {
    /// Finds the parcel among these descriptors. `None` if there is none.
    pub fn among(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mut parcel = None;
        let mut others = HashMap::new();
        for descriptor in descriptors {
            let Ok(stat) = fstat(&descriptor) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let mut file = BufReader::new(File::from(descriptor));
                let mut magic = [0; MAGIC.len()];
                let is_it = file.rewind().and_then(|()| file.read_exact(&mut magic)).is_ok() && magic == *MAGIC;
                parcel = if is_it { Some(file) } else { parcel };
            } else {
                others.insert((stat.st_dev, stat.st_ino), descriptor);
            }
        }
        parcel.map(|file| OpenParcel { file, descriptors: others })
    }

    /// Closes the descriptors that no message had.
    pub fn close_rest(&mut self) {
        self.descriptors.clear();
    }

    /// Whether there is no further message.
    pub fn is_at_end(&mut self) -> bool {
        self.file.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    /// The next message, and its descriptors as far as the service manager has kept them. `None` at the end.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<(T, Vec<Option<OwnedFd>>)>> {
        const DAMAGED: &str = "the parcel from the service manager is damaged";
        if self.is_at_end() {
            return Ok(None);
        }
        let mut number = || {
            let mut bytes = [0; 8];
            self.file.read_exact(&mut bytes).map(|()| u64::from_be_bytes(bytes)).context(DAMAGED)
        };
        let (bytes, count) = (number()?, number()?);
        if bytes > BODY_BYTES_MAX || count > DESCRIPTORS_MAX as u64 {
            bail!(DAMAGED);
        }
        let identities = (0..count).map(|_| Ok((number()?, number()?))).collect::<anyhow::Result<Vec<Identity>>>()?;
        let mut body = Vec::new();
        // Reserves no more memory than the file has bytes.
        self.file.by_ref().take(bytes).read_to_end(&mut body)?;
        if body.len() as u64 != bytes {
            bail!(DAMAGED);
        }
        let message = rmp_serde::from_slice(&body).context(DAMAGED)?;
        Ok(Some((message, identities.iter().map(|identity| self.descriptors.remove(identity)).collect())))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn parcel(messages: &[(&str, &[&UnixStream])]) -> Vec<OwnedFd> {
        let mut parcel = Parcel::new(10).expect("memory");
        for (text, sockets) in messages {
            let descriptors: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
            parcel.put(text, &descriptors).expect("room");
        }
        parcel.close().expect("memory")
    }

    #[test]
    fn descriptors_are_found_in_any_order_and_may_be_missing() {
        let (one, mut other) = UnixStream::pair().expect("sockets");
        let (gone, _) = UnixStream::pair().expect("sockets");
        let mut kept = parcel(&[("a", &[&gone, &one]), ("b", &[])]);
        kept.remove(1);
        kept.reverse();
        let mut opened = OpenParcel::among(kept).expect("a parcel");
        let (text, mut descriptors) = opened.next::<String>().expect("whole").expect("a message");
        assert_eq!((text.as_str(), descriptors.len(), descriptors[0].is_some()), ("a", 2, false));
        let mut one_again = UnixStream::from(descriptors.remove(1).expect("kept"));
        drop(one);
        one_again.write_all(b"hello").expect("sent");
        drop(one_again);
        let mut text = String::new();
        other.read_to_string(&mut text).expect("received");
        assert_eq!(text, "hello");
        assert_eq!(opened.next::<String>().expect("whole").map(|(text, _)| text).as_deref(), Some("b"));
        assert!(opened.next::<String>().expect("whole").is_none());
    }

    #[test]
    fn a_parcel_that_is_cut_or_changed_is_an_error_and_other_files_are_none() {
        let mut whole = Vec::new();
        let mut file = File::from(parcel(&[("some text", &[])]).remove(0));
        file.rewind().and_then(|()| file.read_to_end(&mut whole)).expect("read");
        let open = |bytes: &[u8]| {
            let mut file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
            file.write_all(bytes).expect("written");
            OpenParcel::among(vec![file.into()])
        };
        assert!(open(&whole).expect("a parcel").next::<String>().is_ok());
        for len in 0..whole.len() {
            match open(&whole[..len]) {
                Some(mut parcel) => assert!(len == MAGIC.len() || parcel.next::<String>().is_err(), "{len}"),
                None => assert!(len < MAGIC.len(), "{len}"),
            }
        }
        for at in MAGIC.len()..MAGIC.len() + 16 {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            assert!(open(&changed).expect("a parcel").next::<String>().is_err(), "{at}");
        }
        assert!(OpenParcel::among(Vec::new()).is_none());
        let (one, other) = UnixStream::pair().expect("sockets");
        let mut small = Parcel::new(2).expect("memory");
        assert_eq!(small.room(), 1);
        assert!(small.put(&"x", &[one.as_fd(), other.as_fd()]).is_err());
    }
}
