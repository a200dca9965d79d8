//! `byname fleet copy`: chunks of a folder into an object store, or into another folder. Also the places that other commands take
//! chunks from.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use byname_fleet::table::Digest;
use byname_fleet::table::source::{Objects, Source};
use byname_fleet::table::store::Store;
use tokio::task::JoinSet;

use crate::exit::{self, Failure};

/// Chunks that are written at a time.
const AT_ONCE: usize = 8;
/// Pause between looks at the folder.
const LOOK: Duration = Duration::from_secs(1);

/// Folders, and object stores, as `--chunks-from` has them.
pub fn places(texts: &[String]) -> anyhow::Result<(Vec<Store>, Vec<Objects>)> {
    let (mut folders, mut stores) = (Vec::new(), Vec::new());
    for text in texts {
        match parse(text)? {
            Source::Folder(folder) => folders.push(folder),
            Source::Objects(store) => stores.push(store),
        }
    }
    Ok((folders, stores))
}

fn parse(text: &str) -> anyhow::Result<Source> {
    text.parse().map_err(|error| Failure::new(exit::USAGE, format!("{error}")).into())
}

/// Copies what `to` lacks; with `follow`, also what comes later, until a signal ends it.
pub async fn copy(from: &Store, to: &str, follow: bool) -> anyhow::Result<u8> {
    let to = parse(to)?;
    let mut known = BTreeSet::new();
    let mut said = String::new();
    loop {
        match copy_new(from, &to, &mut known).await {
            Ok(copied) => {
                if copied.chunks > 0 || !follow {
                    println!(
                        "{} chunks copied to {to}, {} bytes; {} are there",
                        copied.chunks,
                        copied.bytes,
                        known.len()
                    );
                }
                said.clear();
            }
            Err(error) if !follow => return Err(error),
            Err(error) => {
                let text = format!("{error:#}; trying again");
                // Not the same line every second.
                if text != said {
                    eprintln!("{text}");
                    said = text;
                }
            }
        }
        if !follow {
            return Ok(exit::OK);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            ended = tokio::signal::ctrl_c() => {
                ended.context("cannot wait for Ctrl-C")?;
                return Ok(exit::OK);
            }
        }
    }
}

/// What was copied.
#[derive(Default)]
struct Copied {
    chunks: u64,
    bytes: u64,
}

/// Copies chunks that are not `known` to be there, and notes those that are now.
async fn copy_new(from: &Store, to: &Source, known: &mut BTreeSet<Digest>) -> anyhow::Result<Copied> {
    let here = from.digests().with_context(|| from.folder().display().to_string())?;
    known.retain(|digest| here.contains(digest));
    let mut new = here.into_iter().filter(|digest| !known.contains(digest)).collect::<Vec<_>>().into_iter();
    let mut under_way: JoinSet<anyhow::Result<(Digest, Option<u64>)>> = JoinSet::new();
    let mut copied = Copied::default();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(digest) = new.next()
        {
            // It may have gone meanwhile, or be damaged: that is no chunk then.
            let read = from.read(digest).with_context(|| from.folder().display().to_string())?;
            let Some(bytes) = read else { continue };
            let to = to.clone();
            under_way.spawn(async move {
                let is_new = to.write(digest, &bytes).await?;
                Ok((digest, is_new.then_some(bytes.len() as u64)))
            });
        }
        let Some(done) = under_way.join_next().await else { return Ok(copied) };
        let (digest, bytes) = done.context("a copy was broken off")??;
        known.insert(digest);
        copied.chunks += u64::from(bytes.is_some());
        copied.bytes += bytes.unwrap_or(0);
    }
}
