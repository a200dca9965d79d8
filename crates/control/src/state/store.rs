//! The file that holds the records: an SQLite database in WAL mode.
//!
//! A commit is one transaction, and is on the disk when [`Store::apply`] returns (`synchronous = FULL`). The store is
//! locked while it is open, so that two routers never share one.
//!
//! # The choice of SQLite
//!
//! Three embedded stores did the same work on the machine that the commit names: a table of half a million routes, then
//! commits of 64 changes each, with fsync, to neighbouring names or to random ones; then a million routes read.
//!
//! | store | changes/s, neighbours | random | read 1,000,000 | size | 1,500 damaged files |
//! | --- | --- | --- | --- | --- | --- |
//! | SQLite 0.43 | 285,000 | 76,000 | 0.11 s | 54 MB | never failed but with an error |
//! | redb 4.6 | 170,000 | 36,000 | 0.09 s | 125 MB | panics, and one that aborts the process |
//! | fjall 3.1 | 250,000 | 132,000 | 1.0 s | 80 MB | not tried |
//!
//! redb's panics decided: a damaged store must not keep a router from starting. SQLite does not notice a bit that flips
//! inside a value, so each row has a checksum.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use byname_wire::{Name, NameRef};
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};
use thiserror::Error;

use super::records::{ContentStoreRecord, FaceRecord, RouteRecord, Snapshot, StrategyRecord, VERSION};
use crate::mgmt::tlv::Element;

/// SQLite's `application_id` of our files: "byna".
const APPLICATION: i64 = 0x6279_6e61;
/// Size of a page of the file.
const PAGE_BYTES: u64 = 4096;
/// Longest value that is read, in bytes. A name has at most 8,800.
const VALUE_BYTES_MAX: i32 = 65_536;
/// Length that the log of changes is cut to after it has been copied into the database, in bytes.
const LOG_BYTES: i64 = 16 << 20;
/// Kinds of rows in the table `records`.
const FACE: i64 = 1;
const STRATEGY: i64 = 2;
const CONTENT_STORE: i64 = 3;

const SCHEMA: &str = "
    CREATE TABLE routes (
        face INTEGER NOT NULL, layer INTEGER NOT NULL, origin INTEGER NOT NULL, name BLOB NOT NULL,
        cost INTEGER NOT NULL, flags INTEGER NOT NULL, expires INTEGER, crc INTEGER NOT NULL,
        PRIMARY KEY (face, layer, origin, name)
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE records (
        kind INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID, STRICT;";

/// A change of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds a face or replaces the one with this number.
    Face(FaceRecord),
    /// Removes a face and its routes.
    ForgetFace(u64),
    /// Adds a route, or replaces the one with the same name, face, layer and origin.
    Route(RouteRecord),
    /// Removes the route with this name, face, layer and origin.
    ForgetRoute(RouteRecord),
    /// Sets the strategy of a prefix.
    Strategy(StrategyRecord),
    /// Removes the strategy of a prefix.
    ForgetStrategy(Name),
    /// Replaces the settings of the content store.
    ContentStore(ContentStoreRecord),
}

/// Why a store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("{} is in use by another router: give each its own `file` under [state]", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A later version wrote it.
    #[error(
        "{} has version {version} of the format; this byname knows up to {VERSION}. Run the later byname, or move the \
         file away", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file belongs to another program.
    #[error("{} is a database of another program: set another `file` under [state]", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The contents are damaged.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file cannot be read or written.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// A store that has been opened.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// Its records.
    pub records: Snapshot,
    /// The damaged file that was set aside, and what was wrong with it.
    pub set_aside: Option<(PathBuf, String)>,
}

impl Store {
    /// Opens the store in this file and reads it. Makes the file, and its folder, if there is none. Gives a damaged
    /// file another name, and starts an empty one.
    ///
    /// # Errors
    /// If the file is in use, not ours, of a later version, or cannot be read and written.
    pub fn open(path: &Path) -> Result<Opened, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
        }
        match Store::read(path) {
            Ok((store, records)) => Ok(Opened { store, records, set_aside: None }),
            Err(StoreError::Damaged { why, .. }) => {
                let aside = set_aside(path, "damaged").map_err(|error| io_error(path, &error))?;
                let (store, records) = Store::read(path)?;
                Ok(Opened { store, records, set_aside: Some((aside, why)) })
            }
            Err(error) => Err(error),
        }
    }

    /// The records of a store that cannot be written, from a copy among the temporary files. `None` if there is no such
    /// store, or it cannot be read.
    pub fn read_only(path: &Path) -> Option<Snapshot> {
        let folder = std::env::temp_dir().join(format!("byname-state-{}", std::process::id()));
        // Fails if there is something of this name, so nobody else can have made it.
        fs::DirBuilder::new().mode(0o700).create(&folder).ok()?;
        let copy = folder.join("copy.db");
        let read = fs::copy(path, &copy).ok().and_then(|_| {
            // There is none after an orderly end.
            let _ = fs::copy(with_suffix(path, "-wal"), with_suffix(&copy, "-wal"));
            Store::read(&copy).ok()
        });
        let records = read.map(|(_, records)| records);
        let _ = fs::remove_dir_all(&folder);
        records
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes these changes, all or none. They are on the disk when this returns.
    ///
    /// # Errors
    /// If they could not be written. Then none of them is in the store.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let written = self.connection.transaction().and_then(|transaction| {
            for change in changes {
                write(&transaction, change)?;
            }
            transaction.commit()
        });
        written.map_err(|error| classify(&self.path, &error))
    }

    /// Closes the store and gives its file another name, which this returns.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn abandon(self) -> io::Result<PathBuf> {
        let Store { connection, path } = self;
        drop(connection);
        set_aside(&path, "outdated")
    }

    fn read(path: &Path) -> Result<(Store, Snapshot), StoreError> {
        let fail = |error: rusqlite::Error| classify(path, &error);
        let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
        // SQLite takes a file that is shorter than a page for an empty one.
        if fs::metadata(path).is_ok_and(|meta| meta.is_file() && (1..PAGE_BYTES).contains(&meta.len())) {
            return Err(damaged("it has been cut".to_owned()));
        }
        let connection = Connection::open(path).map_err(fail)?;
        let mut store = Store { connection, path: path.to_owned() };
        store.prepare().map_err(fail)?;
        let number = |pragma| store.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let (application, version) = (number("application_id").map_err(fail)?, number("user_version").map_err(fail)?);
        let tables: i64 =
            store.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fail)?;
        match (application, version) {
            (0, 0) if tables == 0 => store.create().map_err(fail)?,
            (APPLICATION, 1) => {}
            (APPLICATION, version) if version > 1 => {
                return Err(StoreError::Version { path: path.to_owned(), version });
            }
            (APPLICATION, _) => return Err(damaged("its version makes no sense".to_owned())),
            _ => return Err(StoreError::Foreign { path: path.to_owned() }),
        }
        let checked: String =
            store.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
        if checked != "ok" {
            return Err(damaged(checked));
        }
        match store.records() {
            Ok(records) => Ok((store, records)),
            Err(Unreadable::Sqlite(error)) => Err(fail(error)),
            Err(Unreadable::Row) => Err(damaged("a row does not have its checksum".to_owned())),
        }
    }

    /// Limits the size of the file, as a full disk would.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: Option<u32>) {
        let pages = pages.unwrap_or(u32::MAX - 1);
        self.connection.pragma_update(None, "max_page_count", pages).expect("it can be set");
    }

    /// Sets how the connection works, and takes the lock.
    fn prepare(&mut self) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES.cast_signed())?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        // The lock is taken with the first transaction.
        connection.execute_batch("BEGIN IMMEDIATE; COMMIT")
    }

    fn create(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", 1)?;
        transaction.commit()
    }

    /// All records, routes in the order of their faces.
    fn records(&self) -> Result<Snapshot, Unreadable> {
        let mut snapshot = Snapshot { version: VERSION, ..Snapshot::default() };
        let mut statement = self.connection.prepare("SELECT kind, key, value, crc FROM records")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (kind, key, value) = (row.get::<_, i64>(0)?, blob(row, 1)?, blob(row, 2)?);
            if checksum(&[&kind.to_le_bytes(), key, value]) != row.get::<_, i64>(3)? {
                return Err(Unreadable::Row);
            }
            match kind {
                FACE => snapshot.faces.push(decoded(value)?),
                STRATEGY => snapshot.strategies.push(decoded(value)?),
                CONTENT_STORE => snapshot.content_store.push(decoded(value)?),
                _ => return Err(Unreadable::Row),
            }
        }
        let mut statement =
            self.connection.prepare("SELECT face, layer, origin, cost, flags, expires, crc, name FROM routes")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            let name = NameRef::new(blob(row, 7)?).map_err(|_| Unreadable::Row)?;
            let route = RouteRecord {
                name: name.to_name(),
                face: number(0)?,
                layer: number(1)?,
                origin: number(2)?,
                cost: number(3)?,
                flags: number(4)?,
                expires_unix_ms: row.get::<_, Option<i64>>(5)?.map(i64::cast_unsigned),
                ..RouteRecord::default()
            };
            if checksum_of(&route) != row.get::<_, i64>(6)? {
                return Err(Unreadable::Row);
            }
            snapshot.routes.push(route);
        }
        Ok(snapshot)
    }
}

/// Why records cannot be read.
#[derive(Debug, Error)]
enum Unreadable {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("a row is damaged")]
    Row,
}

fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Unreadable> {
    row.get_ref(column)?.as_blob().map_err(|_| Unreadable::Row)
}

fn decoded<T: Element>(value: &[u8]) -> Result<T, Unreadable> {
    T::decode(value).map_err(|_| Unreadable::Row)
}

fn write(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    let put = |kind: i64, key: &[u8], value: &[u8]| {
        let mut statement = transaction.prepare_cached("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4)")?;
        statement.execute(params![kind, key, value, checksum(&[&kind.to_le_bytes(), key, value])]).map(drop)
    };
    let remove = |kind: i64, key: &[u8]| {
        let mut statement = transaction.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?;
        statement.execute(params![kind, key]).map(drop)
    };
    match change {
        Change::Face(face) => put(FACE, &face.number.to_be_bytes(), &face.encode()),
        Change::ForgetFace(number) => {
            let mut statement = transaction.prepare_cached("DELETE FROM routes WHERE face = ?1")?;
            statement.execute([number.cast_signed()])?;
            remove(FACE, &number.to_be_bytes())
        }
        Change::Route(route) => put_route(transaction, route),
        Change::ForgetRoute(route) => {
            let mut statement = transaction
                .prepare_cached("DELETE FROM routes WHERE face = ?1 AND layer = ?2 AND origin = ?3 AND name = ?4")?;
            let RouteRecord { name, face, layer, origin, .. } = route;
            let key = [face, layer, origin].map(|number| number.cast_signed());
            statement.execute(params![key[0], key[1], key[2], name.value()]).map(drop)
        }
        Change::Strategy(choice) => put(STRATEGY, choice.prefix.value(), &choice.encode()),
        Change::ForgetStrategy(prefix) => remove(STRATEGY, prefix.value()),
        Change::ContentStore(settings) => put(CONTENT_STORE, &[], &settings.encode()),
    }
}

/// Writes a route, unless it is there already: daemons repeat their registrations.
fn put_route(transaction: &Transaction<'_>, route: &RouteRecord) -> rusqlite::Result<()> {
    let RouteRecord { name, face, layer, origin, cost, flags, expires_unix_ms, .. } = route;
    let crc = checksum_of(route);
    let mut there = transaction
        .prepare_cached("SELECT crc FROM routes WHERE face = ?1 AND layer = ?2 AND origin = ?3 AND name = ?4")?;
    let [face, layer, origin, cost, flags] = [face, layer, origin, cost, flags].map(|number| number.cast_signed());
    let key = params![face, layer, origin, name.value()];
    if there.query_row(key, |row| row.get::<_, i64>(0)).optional()? == Some(crc) {
        return Ok(());
    }
    let mut statement =
        transaction.prepare_cached("INSERT OR REPLACE INTO routes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let expires = expires_unix_ms.map(u64::cast_signed);
    statement.execute(params![face, layer, origin, name.value(), cost, flags, expires, crc]).map(drop)
}

fn checksum_of(route: &RouteRecord) -> i64 {
    let RouteRecord { name, face, layer, origin, cost, flags, expires_unix_ms, .. } = route;
    let numbers = [*face, *layer, *origin, *cost, *flags, expires_unix_ms.unwrap_or(u64::MAX)];
    let mut bytes = [0; 48];
    for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    checksum(&[&bytes, name.value()])
}

fn checksum(parts: &[&[u8]]) -> i64 {
    i64::from(parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)))
}

fn io_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), why: error.to_string() }
}

/// Tells errors of the contents from those of the file system.
fn classify(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            StoreError::InUse { path }
        }
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::OperationAborted
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::CannotOpen
            | ErrorCode::NoLargeFileSupport,
        ) => StoreError::Io { path, why: error.to_string() },
        _ => StoreError::Damaged { path, why: error.to_string() },
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Renames a file that must not be used any more, with its log of changes.
fn set_aside(path: &Path, condition: &str) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let with = |suffix: &str| with_suffix(path, suffix);
    let mut names = (seconds..).map(|number| format!(".{condition}-{number}"));
    let suffix = names.find(|suffix| !with(suffix).exists()).expect("there are fewer files than numbers");
    fs::rename(path, with(&suffix))?;
    let log = with("-wal");
    if log.exists() {
        fs::rename(log, with(&format!("{suffix}-wal")))?;
    }
    Ok(with(&suffix))
}

#[cfg(test)]
mod tests;
