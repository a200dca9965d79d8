//! The files that hold the records: an SQLite database in WAL mode, and a log in front of it.
//!
//! Changes are on the disk when [`Store::apply`] returns: they are in the log (`log`). [`Store::fold`] writes them into
//! the database, in transactions with `synchronous = FULL`. At the start, the records are those of the database with the
//! changes of the log. The database is locked while it is open, so that two routers never share one.
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

use byname_wire::NameRef;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};
use thiserror::Error;

use super::change::Change;
use super::log::{self, Log, LogError};
use super::merge::merge;
use super::records::{AdvertisementRecord, RouteRecord, Snapshot, ToldRecord, VERSION};
use crate::element::Element;

/// SQLite's `application_id` of our files: "byna".
const APPLICATION: i64 = 0x6279_6e61;
/// Size of a page of the file.
const PAGE_BYTES: u64 = 4096;
/// Longest value that is read, in bytes. A name has at most 8,800.
const VALUE_BYTES_MAX: i32 = 65_536;
/// Length that the log of changes is cut to after it has been copied into the database, in bytes.
const LOG_BYTES: i64 = 16 << 20;
/// Suffix of the log: its name is that of the database with this suffix.
const LOG_SUFFIX: &str = "-log";
/// Suffixes of all files beside the database: SQLite's log, and ours.
const SUFFIXES: [&str; 2] = ["-wal", LOG_SUFFIX];
/// Kinds of rows in the table `records`.
const FACE: i64 = 1;
const STRATEGY: i64 = 2;
const CONTENT_STORE: i64 = 3;
/// The generation of the log.
const LOG: i64 = 4;
const ADVERTISEMENT: i64 = 5;
const TOLD: i64 = 6;
const FLAT: i64 = 7;
/// Longest log that is folded when the store closes, so that the end of the process is not delayed.
const CLOSING_BYTES: u64 = 4 << 20;

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
    log: Log,
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
            // After an orderly end there are no other files.
            for suffix in SUFFIXES {
                let _ = fs::copy(with_suffix(path, suffix), with_suffix(&copy, suffix));
            }
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

    /// Makes these changes. They are on the disk when this returns.
    ///
    /// # Errors
    /// If they could not be written. Then none of them is in the store.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.log.append(changes).map_err(|error| io_error(&with_suffix(&self.path, LOG_SUFFIX), &error))
    }

    /// Bytes of changes that are in the log only.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Writes about `changes_max` changes from the log into the database.
    ///
    /// # Errors
    /// If they could not be written. They stay in the log.
    pub fn fold(&mut self, changes_max: usize) -> Result<(), StoreError> {
        let fail = |error| log_error(&self.path, error);
        let next = self.log.next(changes_max).map_err(fail)?;
        let next_generation = next.is_last.then(new_generation);
        let written = self.connection.transaction().and_then(|transaction| {
            for change in &next.changes {
                write(&transaction, change)?;
            }
            next_generation.map_or(Ok(()), |generation| put_generation(&transaction, generation))?;
            transaction.commit()
        });
        written.map_err(|error| classify(&self.path, &error))?;
        self.log.folded(next);
        next_generation.map_or(Ok(()), |generation| self.log.begin(generation)).map_err(LogError::Io).map_err(fail)
    }

    /// Closes the store. If there are not too many changes in the log, the database has them afterwards.
    pub fn close(mut self) {
        let is_short = self.log_bytes() <= CLOSING_BYTES;
        while is_short && self.log_bytes() > 0 {
            if let Err(error) = self.fold(usize::MAX) {
                tracing::warn!("changes of the state stay in its log: {error}");
                return;
            }
        }
        let (log, is_empty) = (with_suffix(&self.path, LOG_SUFFIX), self.log_bytes() == 0);
        drop(self);
        if is_empty && let Err(error) = log::remove(&log) {
            tracing::warn!("{}: {error}", log.display());
        }
    }

    /// Closes the store and gives its file another name, which this returns.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn abandon(self) -> io::Result<PathBuf> {
        let Store { connection, log, path } = self;
        drop((connection, log));
        set_aside(&path, "outdated")
    }

    fn read(path: &Path) -> Result<(Store, Snapshot), StoreError> {
        let fail = |error: rusqlite::Error| classify(path, &error);
        let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
        // SQLite takes a file that is shorter than a page for an empty one.
        if fs::metadata(path).is_ok_and(|meta| meta.is_file() && (1..PAGE_BYTES).contains(&meta.len())) {
            return Err(damaged("it has been cut".to_owned()));
        }
        let mut connection = Connection::open(path).map_err(fail)?;
        prepare(&connection).map_err(fail)?;
        let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let (application, version) = (number("application_id").map_err(fail)?, number("user_version").map_err(fail)?);
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fail)?;
        match (application, version) {
            (0, 0) if tables == 0 => create(&mut connection).map_err(fail)?,
            (APPLICATION, 1) => {}
            (APPLICATION, version) if version > 1 => {
                return Err(StoreError::Version { path: path.to_owned(), version });
            }
            (APPLICATION, _) => return Err(damaged("its version makes no sense".to_owned())),
            _ => return Err(StoreError::Foreign { path: path.to_owned() }),
        }
        let checked: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
        if checked != "ok" {
            return Err(damaged(checked));
        }
        let (mut records, generation) = match records(&connection) {
            Ok(read) => read,
            Err(Unreadable::Sqlite(error)) => return Err(fail(error)),
            Err(Unreadable::Row) => return Err(damaged("a row does not have its checksum".to_owned())),
        };
        let (log, changes) =
            Log::open(&with_suffix(path, LOG_SUFFIX), generation).map_err(|error| log_error(path, error))?;
        merge(&mut records, changes);
        Ok((Store { connection, log, path: path.to_owned() }, records))
    }

    /// Limits the size of the log, as a full disk would.
    #[cfg(test)]
    pub(super) fn limit_log(&mut self, bytes_max: Option<u64>) {
        self.log.limit(bytes_max);
    }
}

/// Sets how the connection works, and takes the lock.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
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

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    put_generation(&transaction, new_generation())?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", 1)?;
    transaction.commit()
}

/// All records, routes in the order of their faces, and the generation of the log.
fn records(connection: &Connection) -> Result<(Snapshot, u64), Unreadable> {
    let mut generation = None;
    let mut snapshot = Snapshot { version: VERSION, ..Snapshot::default() };
    let mut statement = connection.prepare("SELECT kind, key, value, crc FROM records")?;
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
            ADVERTISEMENT => snapshot.advertisements.push(decoded(value)?),
            TOLD => snapshot.told.push(decoded(value)?),
            FLAT => snapshot.flat.push(decoded(value)?),
            LOG => generation = Some(u64::from_le_bytes(value.try_into().map_err(|_| Unreadable::Row)?)),
            _ => return Err(Unreadable::Row),
        }
    }
    let mut statement =
        connection.prepare("SELECT face, layer, origin, cost, flags, expires, crc, name FROM routes")?;
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
    Ok((snapshot, generation.ok_or(Unreadable::Row)?))
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

fn put(transaction: &Transaction<'_>, kind: i64, key: &[u8], value: &[u8]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute(params![kind, key, value, checksum(&[&kind.to_le_bytes(), key, value])]).map(drop)
}

fn put_generation(transaction: &Transaction<'_>, generation: u64) -> rusqlite::Result<()> {
    put(transaction, LOG, &[], &generation.to_le_bytes())
}

/// A number that no log of this or another database has had.
fn new_generation() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Wraps in the year 2554.
    (since_epoch.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_right(16)
}

fn write(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    let put = |kind: i64, key: &[u8], value: &[u8]| put(transaction, kind, key, value);
    let remove = |kind: i64, key: &[u8]| {
        let mut statement = transaction.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key = ?2")?;
        statement.execute(params![kind, key]).map(drop)
    };
    match change {
        Change::Face(face) => put(FACE, &face.number.to_be_bytes(), &face.encode()),
        Change::ForgetFace(number) => {
            let mut statement = transaction.prepare_cached("DELETE FROM routes WHERE face = ?1")?;
            statement.execute([number.cast_signed()])?;
            let mut statement =
                transaction.prepare_cached("DELETE FROM records WHERE kind = ?1 AND key >= ?2 AND key < ?3")?;
            let keys = [*number, number.saturating_add(1)].map(u64::to_be_bytes);
            statement.execute(params![ADVERTISEMENT, keys[0], keys[1]])?;
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
        Change::Advertisement(one) => put(ADVERTISEMENT, &advertisement_key(one), &one.encode()),
        Change::ForgetAdvertisement(one) => remove(ADVERTISEMENT, &advertisement_key(one)),
        Change::Told(told) => put(TOLD, &told_key(told), &told.encode()),
        Change::ForgetTold(told) => remove(TOLD, &told_key(told)),
        Change::Flat(flat) => put(FLAT, flat.name.value(), &flat.encode()),
        Change::ForgetFlat(name) => remove(FLAT, name.value()),
    }
}

fn advertisement_key(AdvertisementRecord { face, descriptor }: &AdvertisementRecord) -> Vec<u8> {
    let tags = descriptor.tags().iter().flat_map(|tag| tag.0.to_be_bytes());
    face.to_be_bytes().into_iter().chain(tags).collect()
}

fn told_key(ToldRecord { destination, prefix }: &ToldRecord) -> Vec<u8> {
    [destination.as_bytes(), &[0], prefix.value()].concat()
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

fn log_error(path: &Path, error: LogError) -> StoreError {
    match error {
        LogError::Io(error) => io_error(&with_suffix(path, LOG_SUFFIX), &error),
        LogError::Version(version) => StoreError::Version { path: path.to_owned(), version: version.into() },
        damaged @ LogError::Damaged(_) => StoreError::Damaged { path: path.to_owned(), why: damaged.to_string() },
    }
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

/// Renames a file that must not be used any more, with the files beside it.
fn set_aside(path: &Path, condition: &str) -> io::Result<PathBuf> {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let with = |suffix: &str| with_suffix(path, suffix);
    let mut names = (seconds..).map(|number| format!(".{condition}-{number}"));
    let aside = names.find(|aside| !with(aside).exists()).expect("there are fewer files than numbers");
    fs::rename(path, with(&aside))?;
    for suffix in SUFFIXES {
        if with(suffix).exists() {
            fs::rename(with(suffix), with(&format!("{aside}{suffix}")))?;
        }
    }
    Ok(with(&aside))
}

#[cfg(test)]
mod tests;
