//! Changes the intent of a fleet. There is one writer at a time.
//!
//! A writer creates the key `leader`, with a lease. Each of its transactions has the condition that this very key still exists:
//! its create revision fences off writers whose lease has ended.

mod chunks;
mod tables;

use std::io;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::etcd::messages::{Compare, RequestOp, Response, TxnRequest, delete, put, read};
use crate::etcd::{Connection, EtcdError, Lease};
use crate::key::{Key, Space};
use crate::label::Label;
use crate::table::sort::SortError;
use crate::table::{BadTable, Digest};
use crate::value::{BadValue, FORMAT, Head, Report, Settled, Value};

/// Lease of `leader`.
const LEASE: Duration = Duration::from_secs(10);
/// The lease is renewed when this has passed.
const RENEW: Duration = Duration::from_secs(3);
/// Pause between two looks at what nodes report, and at who leads.
const LOOK: Duration = Duration::from_millis(20);
/// Most keys of one transaction: etcd's limit, less one for `want/head`.
pub const TRANSACTION_KEYS_MAX: usize = 127;
/// Most bytes of the keys and values of one transaction, less than etcd's limit of 1.5 MiB.
const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// The reason why the intent was not changed.
#[derive(Debug, Error)]
pub enum WriteError {
    /// etcd did not answer, or refused.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// Somebody else is writing.
    #[error("{by} is writing this fleet's intent; try again when it is done, or wait longer (--wait)")]
    Busy {
        /// The other writer.
        by: String,
    },
    /// The lease has ended, and another writer may have begun.
    #[error(
        "the right to write was lost, because this writer was silent for more than {} s; nothing more was \
         written: look at `byname fleet status`, and run the command again",
        LEASE.as_secs()
    )]
    Fenced,
    /// There is no such table.
    #[error("the fleet has no table {0}: load one by `byname fleet table load {0} FILE`")]
    NoTable(Label),
    /// The table's head or a delta cannot be read.
    #[error("the table {table} is damaged ({reason}): load it again by `byname fleet table load {table} FILE`")]
    Damaged {
        /// The table.
        table: Label,
        /// The reason.
        reason: String,
    },
    /// Another table does not go together with it.
    #[error("the table {table} {why}")]
    Conflict {
        /// The table.
        table: Label,
        /// Why.
        why: &'static str,
    },
    /// A chunk of the table is not in the writer's folder.
    #[error(
        "chunk {digest} of the table {table} is not in {folder}: run this with the --chunks of the command that \
         loaded the table, or load it again"
    )]
    NoChunk {
        /// The table.
        table: Label,
        /// The chunk.
        digest: Digest,
        /// The folder.
        folder: String,
    },
    /// The folder of chunks cannot be used.
    #[error("the folder {folder}: {error}")]
    Folder {
        /// The folder.
        folder: String,
        /// The reason.
        error: io::Error,
    },
    /// The table is too large.
    #[error("the table: {0}")]
    Table(#[from] BadTable),
    /// A row is none.
    #[error(transparent)]
    Row(#[from] BadValue),
    /// Rows cannot be sorted.
    #[error(transparent)]
    Sort(#[from] SortError),
    /// A thread that makes chunks has ended.
    #[error("a thread that makes chunks has ended")]
    Ended,
}

/// One change of the intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// Its value. `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

pub use chunks::EachRow;
pub use tables::{Building, TableChanged, WholeTable, built_heads, read_table, table_heads};

/// The one writer of a fleet.
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    space: Space,
    by: String,
    lease: Lease,
    renewed: Instant,
    /// Revision in which this writer created `leader`.
    created: i64,
}

/// How far the nodes are.
#[derive(Debug)]
pub struct Nodes {
    /// Nodes with a lease that have all routes of the revision.
    pub ready: Vec<(Label, Report)>,
    /// Those that do not.
    pub late: Vec<(Label, Report)>,
}

impl Writer {
    /// Becomes the writer. Waits so long for another one to end. `by` says who this is.
    ///
    /// # Errors
    /// Somebody else is writing, or etcd does not answer.
    pub async fn begin(connection: Connection, space: Space, by: String, wait: Duration) -> Result<Self, WriteError> {
        let lease = connection.lease(LEASE).await?;
        let (key, begun) = (space.leader(), Instant::now());
        let mut renewed = begun;
        loop {
            let request = TxnRequest {
                compare: vec![Compare::created_in(key.clone(), 0)],
                success: vec![put(key.clone(), by.clone().into_bytes(), lease.id)],
                failure: vec![read(key.clone())],
            };
            let answer = connection.transaction(request).await?;
            if answer.succeeded {
                let created = answer.header.map_or(0, |header| header.revision);
                return Ok(Writer { connection, space, by, lease, renewed: begun, created });
            }
            if begun.elapsed() >= wait {
                // Without this, it would end by itself.
                let _ = lease.revoke().await;
                let other = answer.responses.into_iter().find_map(|response| match response.response? {
                    Response::Range(range) => range.kvs.into_iter().next(),
                    _ => None,
                });
                let by = other.map_or_else(|| "somebody".to_owned(), |kv| kv.value.escape_ascii().to_string());
                return Err(WriteError::Busy { by });
            }
            tokio::time::sleep(LOOK).await;
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                lease.renew().await?;
            }
        }
    }

    /// Makes these changes, in transactions of at most [`TRANSACTION_KEYS_MAX`] keys and 1 MiB. Returns the revision of the intent.
    ///
    /// # Errors
    /// etcd does not answer, or another writer has begun. Earlier transactions remain.
    pub async fn write(&mut self, changes: Vec<Write>) -> Result<i64, WriteError> {
        let head = Head { format: FORMAT, by: self.by.clone() };
        let mut revision = 0;
        let mut left = &changes[..];
        while !left.is_empty() {
            let (changes, later) = left.split_at(fitting(left));
            left = later;
            let mut operations = vec![put(self.space.key(&Key::Head), head.encode(), 0)];
            operations.extend(changes.iter().map(|change| {
                let key = self.space.key(&change.key);
                match &change.value {
                    Some(value) => put(key, value.clone(), 0),
                    None => delete(key),
                }
            }));
            revision = self.transaction(operations).await?;
        }
        Ok(revision)
    }

    /// Waits until all live nodes have all routes of this revision, at most so long. Then lets agents remove what is left over;
    /// also if some nodes are late.
    ///
    /// # Errors
    /// etcd does not answer, or another writer has begun.
    pub async fn settle(&mut self, revision: i64, patience: Duration) -> Result<Nodes, WriteError> {
        let begun = Instant::now();
        loop {
            let nodes = nodes(&self.connection, &self.space).await?;
            let (ready, late): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|(_, report)| report.added >= revision);
            if late.is_empty() || begun.elapsed() >= patience {
                let value = Settled { revision }.encode();
                self.transaction(vec![put(self.space.key(&Key::Settled), value, 0)]).await?;
                return Ok(Nodes { ready, late });
            }
            self.renew().await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets others write.
    ///
    /// # Errors
    /// etcd does not answer. The lease ends by itself then.
    pub async fn end(self) -> Result<(), WriteError> {
        Ok(self.lease.revoke().await?)
    }

    /// Lets others write, over another connection: for a writer whose own has failed. Otherwise its lease would end by itself,
    /// and later still if etcd elects a leader meanwhile. A transaction whose answer was lost is made before this returns, or
    /// never.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn end_over(&self, connection: &Connection) -> Result<(), EtcdError> {
        connection.revoke(self.lease.id).await
    }

    async fn transaction(&mut self, operations: Vec<RequestOp>) -> Result<i64, WriteError> {
        self.renew().await?;
        let request = TxnRequest {
            compare: vec![Compare::created_in(self.space.leader(), self.created)],
            success: operations,
            failure: Vec::new(),
        };
        let answer = self.connection.transaction(request).await?;
        if !answer.succeeded {
            return Err(WriteError::Fenced);
        }
        Ok(answer.header.map_or(0, |header| header.revision))
    }

    async fn renew(&mut self) -> Result<(), WriteError> {
        if self.renewed.elapsed() >= RENEW {
            self.renewed = Instant::now();
            if !self.lease.renew().await? {
                return Err(WriteError::Fenced);
            }
        }
        Ok(())
    }
}

/// Most nodes of a fleet that are listed.
const NODES_MAX: usize = 100_000;

/// What all nodes with a lease report. Damaged reports are those of nodes of which nothing is known.
///
/// # Errors
/// etcd does not answer.
pub async fn nodes(connection: &Connection, space: &Space) -> Result<Vec<(Label, Report)>, EtcdError> {
    let all = connection.read_all(&space.nodes(), NODES_MAX).await?;
    let node = |kv: crate::etcd::messages::KeyValue| {
        let label = space.node_of(&kv.key).ok()?;
        Some((label, Report::decode(&kv.value).unwrap_or_default()))
    };
    Ok(all.kvs.into_iter().filter_map(node).collect())
}

/// How many of these changes one transaction makes.
fn fitting(changes: &[Write]) -> usize {
    let mut bytes = 0;
    let fits = |change: &&Write| {
        bytes += change.key.to_string().len() + change.value.as_ref().map_or(0, Vec::len);
        bytes <= TRANSACTION_BYTES_MAX
    };
    // No change alone is larger than etcd takes.
    changes.iter().take(TRANSACTION_KEYS_MAX).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_no_more_than_etcd_takes() {
        let write = |bytes: usize| Write { key: Key::Policy(None), value: Some(vec![b'x'; bytes]) };
        assert_eq!(fitting(&vec![write(10); 300]), TRANSACTION_KEYS_MAX);
        assert_eq!(fitting(&vec![write(64 << 10); 300]), 15);
        assert_eq!(fitting(&[write(2 << 20), write(1)]), 1);
        assert_eq!(fitting(&[Write { key: Key::Head, value: None }]), 1);
    }
}
