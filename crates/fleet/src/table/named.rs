//! Chunks and manifests as named data: `/NETWORK/32=fleet/sha256=…`, in segments.
//!
//! The name has the digest of the content, so there are no versions, caches may keep segments for as long as they like, and it
//! does not matter who answers: whoever fetches a chunk checks its digest. The component is a generic one with the text
//! `sha256=` and 64 hexadecimal digits.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use byname_client::fetch::FetchOptions;
use byname_client::management::RegisterOptions;
use byname_client::transport::Transport;
use byname_client::{AsyncClient, CallError, ClientOptions, ConnectError};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type;
use byname_wire::{Component, NackReason, Name, NameRef};

use thiserror::Error;

use super::Digest;
use super::store::{FILE_BYTES_MAX, Store};

/// Bytes of content in a segment: a block is eight of them, and 600 bytes are left for its name and signature.
const SEGMENT_BYTES: usize = 8_192;
/// FreshnessPeriod of segments, in ms: they never change.
const FRESHNESS_MS: u64 = 86_400_000;
/// Bytes of chunks that are kept in memory, since their other segments are asked for soon. The last one is kept in any case.
const RECENT_BYTES: usize = 16 << 20;
/// What the digest follows in its component.
const WORD: &[u8] = b"sha256=";

/// The prefix of all chunks in a network.
pub fn prefix(network: &Name) -> Name {
    network.join(Component { typ: component_type::KEYWORD, value: b"fleet" })
}

/// The name of a chunk or manifest, below [`prefix`].
pub fn name(prefix: &Name, digest: Digest) -> Name {
    prefix.join(Component::generic(&[WORD, digest.to_string().as_bytes()].concat()))
}

/// The chunk and the segment that a name asks for.
pub fn asked(prefix: &Name, name: NameRef<'_>) -> Option<(Digest, u64)> {
    let depth = prefix.as_ref().len();
    let (chunk, segment) = (name.component(isize::try_from(depth).ok()?)?, name.component(-1)?);
    let fits = name.len() == depth + 2 && prefix.as_ref().is_prefix_of(&name);
    if !fits || chunk.typ != component_type::GENERIC || segment.typ != component_type::SEGMENT {
        return None;
    }
    let digits = std::str::from_utf8(chunk.value.strip_prefix(WORD)?).ok()?;
    Some((digits.parse().ok()?, segment.number()?))
}

/// Serves the chunks of a folder, for as long as the client lives. Refuses those that the folder does not have, so that the
/// router asks others.
///
/// # Errors
/// The router does not let this prefix be served, or the connection is gone.
pub async fn serve(client: &AsyncClient, store: &Store, network: &Name) -> Result<(), CallError> {
    let prefix = prefix(network);
    let mut producer = client.produce(&prefix, RegisterOptions::default()).await?;
    let mut recent: VecDeque<(Digest, Arc<Vec<u8>>)> = VecDeque::new();
    while let Some(request) = producer.next().await {
        let name = request.interest().name.to_name();
        let found = match asked(&prefix, name.as_ref()) {
            Some((digest, segment)) => found(store, &mut recent, digest)
                .unwrap_or_else(|error| {
                    tracing::warn!("{}: {error}", store.folder().display());
                    None
                })
                .and_then(|bytes| segment_of(&bytes, name, segment)),
            None => None,
        };
        match found {
            Some(data) => producer.reply(request, data).await?,
            None => client.refuse(request, NackReason::NoRoute).await?,
        }
    }
    Ok(())
}

/// The reason why chunks are not served any more.
#[derive(Debug, Error)]
pub enum ServeError {
    /// There is no router.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The router refuses, or has ended.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Connects to a router at one of these addresses, and serves the chunks of a folder until `stop` is ready. Outlives the router.
///
/// # Errors
/// There is no router now, or it does not let this prefix be served.
pub async fn serve_until(
    router: Vec<Transport>,
    store: &Store,
    network: &Name,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut options = ClientOptions::new(router);
    options.session.outage_max = Duration::MAX;
    let client = AsyncClient::connect(options).await?;
    tokio::select! {
        served = serve(&client, store, network) => Ok(served?),
        () = stop => Ok(()),
    }
}

fn found(
    store: &Store,
    recent: &mut VecDeque<(Digest, Arc<Vec<u8>>)>,
    digest: Digest,
) -> io::Result<Option<Arc<Vec<u8>>>> {
    if let Some((_, bytes)) = recent.iter().find(|(of, _)| *of == digest) {
        return Ok(Some(bytes.clone()));
    }
    let Some(bytes) = store.read(digest)?.map(Arc::new) else { return Ok(None) };
    recent.push_front((digest, bytes.clone()));
    while recent.len() > 1 && recent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > RECENT_BYTES {
        recent.pop_back();
    }
    Ok(Some(bytes))
}

fn segment_of(bytes: &[u8], name: Name, segment: u64) -> Option<DataBuilder> {
    let at = usize::try_from(segment).ok()?;
    let content = bytes.chunks(SEGMENT_BYTES).nth(at)?;
    let last = Name::default().join_number(component_type::SEGMENT, last_segment(bytes.len()));
    let data = DataBuilder::new(name).freshness_ms(FRESHNESS_MS).content(content.to_vec());
    last.as_ref().component(0).map(|last| data.final_block(last))
}

/// The last segment of so many bytes.
fn last_segment(bytes: usize) -> u64 {
    (bytes.div_ceil(SEGMENT_BYTES) as u64).saturating_sub(1)
}

/// Fetches a chunk or manifest, and checks its digest. Returns why, in words, if nobody has it. If its length is known, no segments behind
/// its end are asked for.
///
/// # Errors
/// Nobody answers, or what came is something else.
pub async fn fetch(
    client: &AsyncClient,
    network: &Name,
    digest: Digest,
    bytes: Option<usize>,
) -> Result<Vec<u8>, String> {
    let options = FetchOptions {
        // Longer than the time after which a segment is asked for again: the router then asks the next one who may have it, although
        // the first is silent.
        last: bytes.map(last_segment),
        lifetime: Duration::from_secs(4),
        tries: 4,
        bytes_max: FILE_BYTES_MAX as u64,
        segments_max: FILE_BYTES_MAX as u64,
        ..FetchOptions::default()
    };
    let name = name(&prefix(network), digest);
    let mut fetching = client.fetch_segments(&name, options).await.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    while let Some(chunk) = fetching.next().await {
        bytes.extend_from_slice(chunk.map_err(|error| error.to_string())?.content());
    }
    digest.check(&bytes).map_err(|error| format!("{name}: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_chunk_and_segment() {
        let prefix = prefix(&"/net".parse().unwrap());
        let digest = Digest::of(b"chunk");
        let chunk = name(&prefix, digest);
        assert_eq!(chunk.to_string(), format!("/net/32=fleet/sha256%3D{digest}"));
        let seventh = chunk.join_number(component_type::SEGMENT, 7);
        assert_eq!(asked(&prefix, seventh.as_ref()), Some((digest, 7)));
        let short = prefix.join(Component::generic(b"sha256=00")).join_number(component_type::SEGMENT, 7);
        let longer = seventh.join_number(component_type::SEGMENT, 7);
        let other: Name = seventh.to_string().replacen("/net", "/ten", 1).parse().unwrap();
        for name in [&prefix, &chunk, &short, &longer, &other, &Name::default()] {
            assert_eq!(asked(&prefix, name.as_ref()), None, "{name}");
        }
    }

    #[test]
    fn segments_end_where_the_chunk_ends() {
        let bytes: Vec<u8> = (0..2 * SEGMENT_BYTES).map(|at| at as u8).collect();
        let at = |segment| segment_of(&bytes, "/x".parse().unwrap(), segment).map(|data| data.encode());
        for segment in 0..2 {
            let packet = at(segment).unwrap();
            let data = byname_wire::Data::decode(&packet).unwrap();
            assert_eq!(data.content, &bytes[segment as usize * SEGMENT_BYTES..][..SEGMENT_BYTES]);
            assert_eq!(data.final_block.and_then(|last| last.number()), Some(1));
        }
        assert_eq!((at(2), at(u64::MAX)), (None, None));
    }
}
