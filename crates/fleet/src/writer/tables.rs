//! Writes tables: whole ones as chunks with a head, and changes as deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use byname_wire::NameRef;

use crate::etcd::messages::RangeRequest;
use crate::etcd::{Connection, EtcdError};
use crate::intent::built::FLAT_MAX;
use crate::key::{Key, Space};
use crate::label::Label;
use crate::table::Digest;
use crate::table::delta::{Delta, RowChange};
use crate::table::manifest::Manifest;
use crate::table::store::Store;
use crate::table::stream::{self, Changes};
use crate::value::{BadValue, BuiltHead, DELTAS_MAX, TableForm, TableHead, TableKind, Value};

use super::chunks::{self, EachRow, Next};
use super::{LOOK, RENEW, Write, WriteError, Writer};

/// More deltas than this are worth a new manifest.
const DELTAS_AT_ONCE: usize = 16;

/// What was written for a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableChanged {
    /// Revision of the intent.
    pub revision: i64,
    /// Chunks of the table, if it has a new manifest.
    pub chunks: usize,
    /// Chunks that the manifest before did not have.
    pub chunks_new: usize,
    /// Bytes of these, and of the manifest.
    pub bytes_new: u64,
    /// Deltas that were written.
    pub deltas: usize,
}

/// How far builders are with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Building {
    /// Nobody builds tables of this kind.
    Needless,
    /// Its file is built, since this revision of the intent.
    Done(i64),
    /// Its file is one of an earlier state, or there is none.
    Late,
}

impl Writer {
    /// Waits until a builder has made the file of a table, at most so long.
    ///
    /// # Errors
    /// etcd does not answer, or another writer has begun.
    pub async fn wait_built(&mut self, table: &Label, patience: Duration) -> Result<Building, WriteError> {
        let begun = Instant::now();
        loop {
            let head = head(&self.connection, &self.space, table).await?;
            let Some(head) = head.filter(|head| head.kind != TableKind::Routes) else { return Ok(Building::Needless) };
            let key = self.space.key(&Key::Built(table.clone()));
            let answer = self.connection.range(RangeRequest { key, ..RangeRequest::default() }).await?;
            if let Some(kv) = answer.kvs.first()
                && BuiltHead::decode(&kv.value).is_ok_and(|built| built.state() == head.state())
            {
                return Ok(Building::Done(kv.mod_revision));
            }
            if begun.elapsed() >= patience {
                return Ok(Building::Late);
            }
            self.renew().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes the rows that `rows` passes on the rows of a table. They come sorted by key, and each key once. Chunks are in the folder
    /// before the head is in etcd. `progress` is called with the number of rows in chunks.
    ///
    /// # Errors
    /// Those of `rows`, or a row is none, the folder cannot be used, or the head cannot be written.
    pub async fn load_table(
        &mut self,
        store: &Store,
        table: &Label,
        form: &TableForm,
        rows: impl FnOnce(&mut EachRow<'_>) -> Result<(), WriteError> + Send + 'static,
        progress: &mut dyn FnMut(u64),
    ) -> Result<TableChanged, WriteError> {
        self.check_form(table, form).await?;
        let before = match head(&self.connection, &self.space, table).await {
            // A damaged table is replaced, too. Its deltas are found by their keys.
            Ok(head) => head,
            Err(WriteError::Damaged { .. }) => None,
            Err(other) => return Err(other),
        };
        let (manifest, mut changed) = self.store(store, before.as_ref(), form, rows, progress).await?;
        let epoch = before.as_ref().map_or(1, |head| head.epoch.saturating_add(1));
        let last = before.as_ref().map_or(0, |head| head.last);
        // The epoch is part of the state: the same rows may be loaded again.
        let state = Digest(byname_wire::digest::sha256(&[&manifest.0, &epoch.to_be_bytes()]));
        let TableForm { kind, flat } = form.clone();
        let head = TableHead { kind, flat, epoch, manifest, base: last, base_state: state, last, state };
        changed.revision = self.replace_head(table, &head).await?;
        Ok(changed)
    }

    /// Changes rows of a table, by deltas, or by a new manifest if there are too many. Each key is there once. It is the name that
    /// people write: tags may be in any order.
    ///
    /// # Errors
    /// There is no such table, it cannot have such rows, two changes are about the same tags, chunks of it are missing in the folder and needed, or etcd does not answer.
    pub async fn change_table(
        &mut self,
        store: &Store,
        table: &Label,
        changes: &[RowChange],
        progress: &mut dyn FnMut(u64),
    ) -> Result<TableChanged, WriteError> {
        let mut head = head(&self.connection, &self.space, table).await?.ok_or(WriteError::NoTable(table.clone()))?;
        let form = TableForm { kind: head.kind, flat: head.flat.clone() };
        let changes = &keyed(&form, changes)?;
        let mut check = form.check()?;
        for (key, value) in changes {
            value.as_ref().map_or(Ok(()), |value| check.row(key, value))?;
        }
        let deltas = Delta::encode(head.epoch, head.state, changes);
        let mut changed = TableChanged { deltas: deltas.len(), ..TableChanged::default() };
        if deltas.len() > DELTAS_AT_ONCE {
            let mut whole = read_table(&self.connection, &self.space, store, table).await?;
            whole.changes.extend(changes.iter().cloned());
            return self.load_table(store, table, &form, move |each| whole.each(each), progress).await;
        }
        if head.last - head.base + deltas.len() as u64 > DELTAS_MAX {
            // The same state, in a new manifest.
            let whole = read_table(&self.connection, &self.space, store, table).await?;
            let manifest;
            (manifest, changed) = self.store(store, Some(&head), &form, move |each| whole.each(each), progress).await?;
            changed.deltas = deltas.len();
            head = TableHead { manifest, base: head.last, base_state: head.state, ..head };
            self.replace_head(table, &head).await?;
        }
        for (delta, state) in deltas {
            head = TableHead { last: head.last + 1, state, ..head };
            let key = Key::Delta { table: table.clone(), sequence: head.last };
            let writes = vec![
                Write { key, value: Some(delta) },
                Write { key: Key::Table(table.clone()), value: Some(head.encode()) },
            ];
            changed.revision = self.write(writes).await?;
        }
        Ok(changed)
    }

    /// Removes a table.
    ///
    /// # Errors
    /// There is none, or etcd does not answer.
    pub async fn drop_table(&mut self, table: &Label) -> Result<i64, WriteError> {
        let mut writes = self.removals_of_deltas(table).await?;
        let key = self.space.key(&Key::Table(table.clone()));
        if one(&self.connection, key).await?.is_none() && writes.is_empty() {
            return Err(WriteError::NoTable(table.clone()));
        }
        writes.insert(0, Write { key: Key::Table(table.clone()), value: None });
        writes.push(Write { key: Key::Built(table.clone()), value: None });
        self.write(writes).await
    }

    /// Whether all routers could have this table beside the others.
    async fn check_form(&self, table: &Label, form: &TableForm) -> Result<(), WriteError> {
        let heads = table_heads(&self.connection, &self.space).await?;
        let heads = || heads.iter().filter_map(|(other, head)| Some((other, head.as_ref()?)));
        for (other, head) in heads() {
            let conflict = match (other == table, form.kind, head.kind) {
                (true, wanted, is) if wanted != is => {
                    Some("is of another kind: load the new one as another table first")
                }
                (true, ..)
                    if form.flat.as_ref().map(|flat| &flat.prefix) != head.flat.as_ref().map(|flat| &flat.prefix) =>
                {
                    Some("has names of another prefix: load the new one as another table first")
                }
                (false, TableKind::Built, TableKind::Built) => {
                    Some("is built already, and routers have one built table of prefixes: put all rules into one table")
                }
                (false, TableKind::Tags, TableKind::Tags) => {
                    Some("is built already, and routers have one built table of tags: put all sets into one table")
                }
                (false, TableKind::Flat, TableKind::Flat) if form.same_prefix(head.flat.as_ref()) => {
                    Some("has the flat names of this prefix already: put all of them into one table")
                }
                _ => None,
            };
            if let Some(why) = conflict {
                return Err(WriteError::Conflict { table: other.clone(), why });
            }
        }
        let flat = heads().filter(|(other, head)| *other != table && head.kind == TableKind::Flat).count();
        if form.kind == TableKind::Flat && flat >= FLAT_MAX {
            return Err(WriteError::Conflict {
                table: table.clone(),
                why: "is one more table of flat names than routers have: at most 16",
            });
        }
        Ok(())
    }

    /// Writes a head whose manifest has all deltas, and removes these.
    async fn replace_head(&mut self, table: &Label, head: &TableHead) -> Result<i64, WriteError> {
        let mut writes = vec![Write { key: Key::Table(table.clone()), value: Some(head.encode()) }];
        writes.extend(self.removals_of_deltas(table).await?);
        self.write(writes).await
    }

    async fn removals_of_deltas(&self, table: &Label) -> Result<Vec<Write>, WriteError> {
        let deltas = deltas(&self.connection, &self.space, table).await?;
        let removal = |(sequence, _)| Write { key: Key::Delta { table: table.clone(), sequence }, value: None };
        Ok(deltas.into_iter().map(removal).collect())
    }

    /// Writes the chunks of a table and its manifest. If that fails, the new chunks go again.
    async fn store(
        &mut self,
        store: &Store,
        before: Option<&TableHead>,
        form: &TableForm,
        rows: impl FnOnce(&mut EachRow<'_>) -> Result<(), WriteError> + Send + 'static,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Digest, TableChanged), WriteError> {
        let folder = |error| WriteError::Folder { folder: store.folder().display().to_string(), error };
        store.remove_parts().map_err(folder)?;
        let old = before.and_then(|head| {
            let bytes = store.read(head.manifest).ok()??;
            Manifest::decode(head.manifest, &bytes).ok()
        });
        let old: BTreeSet<Digest> =
            old.iter().flat_map(|manifest| &manifest.chunks).map(|listed| listed.digest).collect();
        let mut stream = chunks::Stream::begin(store, form.check()?, rows);
        let (mut manifest, mut rows_done) = (Manifest::default(), 0);
        let mut changed = TableChanged::default();
        let stored: Result<Digest, WriteError> = loop {
            match stream.next(RENEW).await {
                Ok(Next::Chunk { listed, bytes }) => {
                    if !old.contains(&listed.digest) {
                        changed.chunks_new += 1;
                        changed.bytes_new += bytes;
                    }
                    rows_done += listed.rows as u64;
                    manifest.chunks.push(listed);
                    progress(rows_done);
                }
                Ok(Next::Pause) => {}
                Ok(Next::End) => {
                    break manifest.encode().map_err(WriteError::Table).and_then(|bytes| {
                        let digest = Digest::of(&bytes);
                        changed.bytes_new += bytes.len() as u64;
                        store.write(digest, &bytes).map_err(folder)?;
                        Ok(digest)
                    });
                }
                Err(error) => break Err(error),
            }
            // Many chunks take longer than a lease. If it has ended, another writer may need the same chunks: they stay.
            self.renew().await?;
        };
        changed.chunks = manifest.chunks.len();
        match stored {
            Ok(digest) => Ok((digest, changed)),
            Err(error) => {
                stream.undo(store).await;
                Err(error)
            }
        }
    }
}

/// Changes by the keys that rows of such a table have, sorted.
fn keyed(form: &TableForm, changes: &[RowChange]) -> Result<Vec<RowChange>, WriteError> {
    let key = |name: &[u8]| {
        let name = NameRef::new(name).map_err(|error| BadValue::Row(error.to_string()))?;
        Ok::<Box<[u8]>, BadValue>(form.key(name)?.into())
    };
    let keyed = changes.iter().map(|(name, value)| Ok((key(name)?, value.clone())));
    let mut keyed = keyed.collect::<Result<Vec<RowChange>, BadValue>>()?;
    keyed.sort();
    match keyed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => {
            let text = format!("{} is there twice", crate::value::row_prefix(&pair[0].0)?);
            Err(BadValue::Row(text).into())
        }
        None => Ok(keyed),
    }
}

/// All tables with their heads. A damaged head is `None`.
///
/// # Errors
/// etcd does not answer.
pub async fn table_heads(connection: &Connection, space: &Space) -> Result<Vec<(Label, Option<TableHead>)>, EtcdError> {
    let mut prefix = space.want();
    prefix.extend(b"tables/");
    let all = connection.read_all(&prefix, usize::MAX).await?;
    let head = |kv: crate::etcd::messages::KeyValue| match space.decode(&kv.key) {
        Ok(Key::Table(table)) => Some((table, TableHead::decode(&kv.value).ok())),
        _ => None,
    };
    Ok(all.kvs.into_iter().filter_map(head).collect())
}

/// Heads of the files that builders have made. A damaged head is `None`.
///
/// # Errors
/// etcd does not answer.
pub async fn built_heads(
    connection: &Connection,
    space: &Space,
) -> Result<BTreeMap<Label, Option<BuiltHead>>, EtcdError> {
    let mut prefix = space.want();
    prefix.extend(b"built/");
    let all = connection.read_all(&prefix, usize::MAX).await?;
    let head = |kv: crate::etcd::messages::KeyValue| match space.decode(&kv.key) {
        Ok(Key::Built(table)) => Some((table, BuiltHead::decode(&kv.value).ok())),
        _ => None,
    };
    Ok(all.kvs.into_iter().filter_map(head).collect())
}

/// A whole table: chunks in a folder, and the deltas after them.
#[derive(Debug)]
pub struct WholeTable {
    table: Label,
    store: Store,
    manifest: Manifest,
    changes: Changes,
}

impl WholeTable {
    /// Calls `each` with the key and the value of each row, in the order of keys.
    ///
    /// # Errors
    /// Those of `each`, or a chunk is damaged or not in the folder.
    pub fn each(&self, each: &mut EachRow<'_>) -> Result<(), WriteError> {
        let bad = |reason| WriteError::Damaged { table: self.table.clone(), reason };
        let read = |digest| read_chunk(&self.store, &self.table, digest);
        stream::each(&self.manifest, &self.changes, &read, &bad, each)
    }
}

fn read_chunk(store: &Store, table: &Label, digest: Digest) -> Result<Vec<u8>, WriteError> {
    let folder = || store.folder().display().to_string();
    match store.read(digest) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(WriteError::NoChunk { table: table.clone(), digest, folder: folder() }),
        Err(error) => Err(WriteError::Folder { folder: folder(), error }),
    }
}

/// A table, from the folder and from deltas in etcd.
///
/// # Errors
/// There is no such table, it is damaged, or its manifest is not in the folder.
pub async fn read_table(
    connection: &Connection,
    space: &Space,
    store: &Store,
    table: &Label,
) -> Result<WholeTable, WriteError> {
    let head = head(connection, space, table).await?.ok_or(WriteError::NoTable(table.clone()))?;
    let manifest = Manifest::decode(head.manifest, &read_chunk(store, table, head.manifest)?)?;
    let deltas: BTreeMap<u64, Vec<u8>> = deltas(connection, space, table).await?.into_iter().collect();
    let delta = |sequence| deltas.get(&sequence).map(|delta| &delta[..]);
    let changes = stream::changes(&head.base_state(), &head.state(), delta)
        .map_err(|reason| WriteError::Damaged { table: table.clone(), reason })?;
    Ok(WholeTable { table: table.clone(), store: store.clone(), manifest, changes })
}

async fn head(connection: &Connection, space: &Space, table: &Label) -> Result<Option<TableHead>, WriteError> {
    let Some(value) = one(connection, space.key(&Key::Table(table.clone()))).await? else { return Ok(None) };
    let damaged =
        |error: crate::value::BadValue| WriteError::Damaged { table: table.clone(), reason: error.to_string() };
    TableHead::decode(&value).map(Some).map_err(damaged)
}

async fn one(connection: &Connection, key: Vec<u8>) -> Result<Option<Vec<u8>>, EtcdError> {
    let answer = connection.range(RangeRequest { key, ..RangeRequest::default() }).await?;
    Ok(answer.kvs.into_iter().next().map(|kv| kv.value))
}

/// The deltas in etcd, in their order.
async fn deltas(connection: &Connection, space: &Space, table: &Label) -> Result<Vec<(u64, Vec<u8>)>, EtcdError> {
    let mut prefix = space.want();
    prefix.extend(format!("tables/{table}/deltas/").bytes());
    let all = connection.read_all(&prefix, usize::MAX).await?;
    let delta = |kv: crate::etcd::messages::KeyValue| match space.decode(&kv.key) {
        Ok(Key::Delta { sequence, .. }) => Some((sequence, kv.value)),
        _ => None,
    };
    Ok(all.kvs.into_iter().filter_map(delta).collect())
}
