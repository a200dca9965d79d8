//! The resources of this machine: memory, interfaces, places for files.

use std::fs;
use std::path::{Path, PathBuf};

use byname_control::config::Room;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};

/// The memory that this process can get; `None` if the system does not tell.
pub fn room() -> Option<Room> {
    let limit = getrlimit(Resource::As).current.and_then(|bytes| usize::try_from(bytes).ok());
    room_at(Path::new("/"), limit)
}

/// Like [`room`], from the files below `root`. `address_space` is the limit of `ulimit -v`.
fn room_at(root: &Path, address_space: Option<usize>) -> Option<Room> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: usize = line.split_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    let total = of("MemTotal")?.saturating_add(of("SwapTotal").unwrap_or(0));
    let free = of("MemAvailable")?.saturating_add(of("SwapFree").unwrap_or(0));
    let said = |bytes, said_by: &str| (bytes, said_by.to_owned());
    let mut limits = vec![said(total, "this machine has")];
    limits.extend(group_limit(root).map(|bytes| said(bytes, "the control group of this process has")));
    limits.extend(address_space.map(|bytes| said(bytes, "`ulimit -v` leaves this process")));
    let (bytes, said_by) = limits.into_iter().min_by_key(|(bytes, _)| *bytes)?;
    Some(Room { bytes, said_by, free: free.min(bytes) })
}

/// The smallest memory limit of this process's control group and its ancestors.
fn group_limit(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        // The format is NUMBER:CONTROLLERS:PATH. In cgroup v2, CONTROLLERS is empty.
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (folder, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let folder = root.join(folder);
        let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
        // `max` does not parse: it means no limit.
        let limit = |group: &Path| fs::read_to_string(folder.join(group).join(file)).ok()?.trim().parse().ok();
        ancestors.filter_map(limit).min()
    });
    limits.min()
}

/// The names of all interfaces; `None` if the system does not tell.
pub fn interfaces() -> Option<Vec<String>> {
    let table = fs::read_to_string("/proc/net/dev").ok()?;
    Some(table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect())
}

/// The reason why a file cannot be created.
#[derive(Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its folder does not exist.
    Missing(PathBuf),
    /// This path should be a folder, but is something else.
    NoFolder(PathBuf),
    /// This user may not create files in this folder.
    Forbidden(PathBuf),
}

/// Returns the reason why a file cannot be created at `path`. If `makes_folder`, missing folders are created later, so
/// they are no obstacle.
pub fn obstacle(path: &Path, makes_folder: bool) -> Option<Obstacle> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let there = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Some(Obstacle::NoFolder(there.to_owned()));
    }
    if there != folder && !makes_folder {
        return Some(Obstacle::Missing(folder.to_owned()));
    }
    access(there, Access::WRITE_OK | Access::EXEC_OK).is_err().then(|| Obstacle::Forbidden(there.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    const MEMINFO: &str =
        "MemTotal:       1000 kB\nMemFree:  5 kB\nMemAvailable:   400 kB\nSwapTotal: 24 kB\nSwapFree: 8 kB\n";

    #[test]
    fn the_least_of_what_limits_memory_counts() {
        let plain = root(&[("proc/meminfo", MEMINFO)]);
        let room = room_at(plain.path(), None).expect("meminfo is there");
        assert_eq!((room.bytes, room.free, room.said_by.as_str()), (1024 << 10, 408 << 10, "this machine has"));
        let room = room_at(plain.path(), Some(99)).expect("meminfo is there");
        assert_eq!((room.bytes, room.free), (99, 99));
        assert!(room.said_by.contains("ulimit -v"));
        assert_eq!(room_at(Path::new("/nonexistent"), None), None);
        assert!(super::room().expect("Linux tells").bytes > 1 << 20);
    }

    #[test]
    fn groups_of_both_versions_are_looked_at_with_those_around_them() {
        let second = root(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/system.slice/byname.service\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "5000\n"),
            ("sys/fs/cgroup/system.slice/byname.service/memory.max", "max\n"),
        ]);
        let room = room_at(second.path(), None).expect("meminfo is there");
        assert_eq!((room.bytes, room.said_by.as_str()), (5000, "the control group of this process has"));
        let first = root(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:cpu,memory:/docker/1\n3:cpuset:/\n"),
            ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "7000\n"),
        ]);
        assert_eq!(room_at(first.path(), None).expect("meminfo is there").bytes, 7000);
    }

    #[test]
    fn obstacles_to_files() {
        let folder = root(&[("file", "")]);
        let at = |path: &str| folder.path().join(path);
        assert_eq!(obstacle(&at("new"), false), None);
        assert_eq!(obstacle(&at("a/b/new"), true), None);
        assert_eq!(obstacle(&at("a/b/new"), false), Some(Obstacle::Missing(at("a/b"))));
        assert_eq!(obstacle(&at("file/new"), true), Some(Obstacle::NoFolder(at("file"))));
        assert!(interfaces().expect("Linux tells").contains(&"lo".to_owned()));
    }
}
