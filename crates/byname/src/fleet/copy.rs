//! `byname fleet copy`: chunks of a folder into an object store, or into another folder. Also the places that other commands take
//! chunks from.

use std::collections::BTreeSet;
use std::sync::Arc;

use byname_fleet::Stop;
use byname_fleet::table::copy::{self, Copied};
use byname_fleet::table::source::{Objects, Source};
use byname_fleet::table::store::Store;

use crate::exit::{self, Failure};
use crate::process;

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
    let tell =
        |Copied { chunks, bytes, there }| println!("{chunks} chunks copied to {to}, {bytes} bytes; {there} are there");
    if !follow {
        tell(copy::copy(from, &to, &mut BTreeSet::new()).await?);
        return Ok(exit::OK);
    }
    let stop = Arc::new(Stop::default());
    let on_signal = stop.clone();
    process::on_signal(move || on_signal.now(), || {})?;
    let mut said = String::new();
    let told = |copied| match copied {
        Ok(copied) => {
            tell(copied);
            said.clear();
        }
        Err(error) => {
            let text = format!("{error}; trying again");
            // Not the same line every second.
            if text != said {
                eprintln!("{text}");
                said = text;
            }
        }
    };
    copy::follow(from, &to, stop.asked(), told).await;
    Ok(exit::OK)
}
