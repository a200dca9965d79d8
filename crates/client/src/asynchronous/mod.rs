//! The asynchronous client, on tokio: a [`Session`] and its socket in a task, and handles to it.
//!
//! The task ends when all handles are gone.

mod driver;
mod management;
mod watcher;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byname_mgmt::ControlResponse;
use byname_mgmt::tags::decode_locators;
use byname_wire::data::DataBuilder;
use byname_wire::interest::InterestBuilder;
use byname_wire::tagnet::Address;
use byname_wire::{Descriptor, NackReason, Name};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::client::ClientOptions;
use crate::failure::{ClientCounters, Failure};
use crate::fetch::resume::{FileError, PartFile};
use crate::fetch::segments::single;
use crate::fetch::{Chunk, Discovery, FetchError, FetchOptions, Object};
use crate::link::{DataPacket, ExchangeError};
use crate::management::{ManagementError, RegisterOptions};
use crate::outbox::PacketTooLarge;
use crate::publish::Publication;
use crate::session::{FetchId, GroupId, Request};
use crate::signed::RequestDoubt;
use crate::socket::ConnectError;
use crate::sync::{SyncOptions, Update};
use crate::tags::{FanOutLimit, Message};
use driver::{Call, Driver, Taker};
pub use management::{MakeFaceError, RouterFaces};

/// Calls that wait for the task.
const CALLS: usize = 256;
/// Segments, updates and messages that wait for the application. A transfer pauses then; of the others, new ones are lost.
const ROOM: usize = 256;
/// Requests that wait for a producer. Further ones are refused. A producer of segments has many consumers, whose windows come at once.
const REQUESTS: usize = 2048;
/// Lifetime of each question about an object.
const FIND_LIFETIME: std::time::Duration = std::time::Duration::from_secs(1);

/// The client's task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the client has ended: it was closed, or the connection is gone and it was told not to connect again")]
pub struct Ended;

/// The reason why a call brought nothing.
#[derive(Debug, Error)]
pub enum CallError {
    /// The client has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// An Interest brought no Data.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The router did not do what it was asked for.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// An object was not fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A file for an object cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A message is too large.
    #[error(transparent)]
    TooLarge(#[from] PacketTooLarge),
    /// A signed Interest is not accepted.
    #[error(transparent)]
    Request(#[from] Box<RequestDoubt>),
}

/// An asynchronous application of named data. Clones share one connection.
///
/// ```no_run
/// use byname_client::{AsyncClient, ClientOptions, interest};
///
/// # async fn hello() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let client = AsyncClient::connect(ClientOptions::of_environment()?).await?;
/// let data = client.express(interest(&"/example/hello".parse()?), 3).await?;
/// println!("{}", String::from_utf8_lossy(data.data().content));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncClient {
    calls: mpsc::Sender<Call>,
    wake: Arc<Notify>,
}

impl AsyncClient {
    /// Connects, and starts a task on the current runtime.
    ///
    /// # Errors
    /// No router answers.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub async fn connect(options: ClientOptions) -> Result<AsyncClient, ConnectError> {
        let (sender, calls) = mpsc::channel(CALLS);
        let wake = Arc::new(Notify::new());
        let driver = Driver::connect(options, calls, wake.clone()).await?;
        tokio::spawn(driver.run());
        Ok(AsyncClient { calls: sender, wake })
    }

    /// Sends an Interest and waits for its Data. Each of `tries` has a new nonce and waits for the Interest's lifetime.
    ///
    /// # Errors
    /// There is no Data, or it is not trusted.
    pub async fn express(&self, interest: InterestBuilder, tries: u32) -> Result<DataPacket, CallError> {
        let answer = self.ask(move |driver, sender| driver.express(&interest, tries, sender)).await?;
        Ok(answer?)
    }

    /// Sends an Interest that is signed by the client's key, and waits for its Data. Each of `tries` is signed again, and
    /// waits for the Interest's lifetime.
    ///
    /// # Errors
    /// The key cannot sign, there is no Data, or it is not trusted.
    pub async fn express_signed(&self, interest: InterestBuilder, tries: u32) -> Result<DataPacket, CallError> {
        let answer = self.ask(move |driver, sender| driver.express_signed(interest, tries, sender)).await?;
        Ok(answer?)
    }

    /// Checks who has signed an Interest of a [`Producer`], by the client's validator, and that it is no replay. Returns the
    /// Interest and the name of the key. [`crate::signed`] has the rules.
    ///
    /// # Errors
    /// The Interest is not accepted, or the client has ended.
    pub async fn check(&self, request: Request) -> Result<(Request, Name), CallError> {
        Ok(self.ask(move |driver, done| driver.check(request, done)).await??)
    }

    /// Wants the Interests below a prefix. Waits until the prefix is registered at the router. While 2,048 Interests wait to be
    /// taken, further ones are refused, with the reason *congestion*.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub async fn produce(&self, prefix: &Name, options: RegisterOptions) -> Result<Producer, CallError> {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let registered = self.register(prefix, options, Taker::Application(sender)).await?;
        Ok(Producer { registered, requests })
    }

    /// Publishes an object, until the result is dropped. Waits until its name is registered at the router. The task
    /// itself answers, and reads segments of files from them.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub async fn publish(
        &self,
        publication: Publication,
        options: RegisterOptions,
    ) -> Result<AsyncPublication, CallError> {
        let (prefix, name) = (publication.name().clone(), publication.versioned_name().clone());
        let registered = self.register(&prefix, options, Taker::Publication(Box::new(publication))).await?;
        Ok(AsyncPublication { _registered: registered, name })
    }

    async fn register(
        &self,
        prefix: &Name,
        options: RegisterOptions,
        taker: Taker,
    ) -> Result<RegisteredPrefix, CallError> {
        let wanted = prefix.clone();
        self.ask(move |driver, done| driver.produce(wanted, options, taker, done)).await??;
        Ok(RegisteredPrefix { client: self.clone(), prefix: prefix.clone() })
    }

    /// Answers an Interest of a [`Producer`] with Data, signed by the client's key. [`AsyncClient::take_failures`] has
    /// answers that cannot be signed or are too large.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn reply(&self, request: Request, data: DataBuilder) -> Result<(), Ended> {
        self.tell(move |driver| driver.reply(&request, &data)).await
    }

    /// Refuses an Interest of a [`Producer`] with a Nack.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn refuse(&self, request: Request, reason: NackReason) -> Result<(), Ended> {
        self.tell(move |driver| driver.refuse(&request, reason)).await
    }

    /// Sends a management command with its parameters in ApplicationParameters, and waits for the answer, whatever its
    /// code.
    ///
    /// # Errors
    /// The router does not answer.
    pub async fn command(&self, module: &str, verb: &str, parameters: &[u8]) -> Result<ControlResponse, CallError> {
        let (module, verb, parameters) = (module.to_owned(), verb.to_owned(), parameters.to_vec());
        Ok(self.ask(move |driver, done| driver.command(&module, &verb, &parameters, done)).await??)
    }

    /// What the client could not do, and what nobody took from it in time.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn counters(&self) -> Result<ClientCounters, Ended> {
        self.ask(Driver::tell_counters).await
    }

    /// The newest Interests that the client could not answer, without those that were taken before: at most 100.
    /// [`AsyncClient::counters`] counts all.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn take_failures(&self) -> Result<Vec<Failure>, Ended> {
        self.ask(Driver::take_failures).await
    }

    /// Ends the client, for all its handles. The router forgets its prefixes as the connection closes.
    ///
    /// # Errors
    /// The client has ended already.
    pub async fn close(&self) -> Result<(), Ended> {
        self.tell(Driver::close).await?;
        // The task drops the other end of the channel.
        self.calls.closed().await;
        Ok(())
    }

    /// Finds the newest version of an object.
    ///
    /// # Errors
    /// There is none, or it is not trusted.
    pub async fn find(&self, name: &Name, how: Discovery) -> Result<Object, CallError> {
        let name = name.clone();
        Ok(self.ask(move |driver, sender| driver.find(name, how, FIND_LIFETIME, sender)).await??)
    }

    /// Begins to fetch the segments below a name, which has a version.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn fetch_segments(&self, object: &Name, options: FetchOptions) -> Result<AsyncFetching, Ended> {
        let (sender, chunks) = mpsc::channel(ROOM);
        let object = object.clone();
        let id = self.ask(move |driver, done| driver.fetch(object, options, sender, done)).await?;
        Ok(AsyncFetching { client: self.clone(), id, chunks })
    }

    /// Fetches the newest version of an object into memory, if it has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The object cannot be had, is not trusted, or is too large.
    pub async fn fetch(&self, name: &Name, bytes_max: u64) -> Result<Vec<u8>, CallError> {
        let options = FetchOptions { bytes_max, segments_max: bytes_max.saturating_add(1), ..FetchOptions::default() };
        let object = match self.find(name, Discovery::Auto).await? {
            Object::Segmented(object) => object,
            Object::Single(packet) => return Ok(single(&packet, &options)?.to_vec()),
        };
        let mut bytes = Vec::new();
        let mut fetching = self.fetch_segments(&object, options).await?;
        while let Some(chunk) = fetching.next().await {
            bytes.extend_from_slice(chunk?.content());
        }
        Ok(bytes)
    }

    /// Fetches the newest version of an object into a file. An interrupted transfer resumes from `FILE.part`. Returns
    /// the SHA-256 of the file, in hexadecimal. Threads that may block write the file.
    ///
    /// # Errors
    /// The object cannot be had or is not trusted, or the file cannot be written. What has arrived is kept for the next
    /// attempt.
    pub async fn fetch_file(&self, name: &Name, path: &Path, options: FetchOptions) -> Result<String, CallError> {
        let object = self.find(name, Discovery::Auto).await?;
        let (path, of) = (path.to_owned(), object.name().to_string());
        let mut file = on_file(path.clone(), move |path| PartFile::open(path, &of)).await?;
        let object = match object {
            Object::Segmented(object) => object,
            Object::Single(packet) => {
                // A single packet is never resumed: it is here completely or not at all.
                let content = single(&packet, &options)?.to_vec();
                return Ok(on_file(path, move |_| {
                    if file.segments() == 0 {
                        file.append(&content)?;
                    }
                    file.finish()
                })
                .await?);
            }
        };
        let options = FetchOptions { first: file.segments(), last: file.last(), ..options };
        let mut fetching = self.fetch_segments(&object, options).await?;
        while let Some(first) = fetching.next().await {
            // All that is here: each call to another thread costs more than a segment.
            let mut arrived = vec![first];
            while let Ok(more) = fetching.chunks.try_recv() {
                arrived.push(more);
            }
            fetching.client.wake.notify_one();
            let failure;
            (file, failure) = on_file(path.clone(), move |_| append(file, arrived)).await?;
            if let Some(error) = failure {
                return Err(error.into());
            }
        }
        Ok(on_file(path, |_| file.finish()).await?)
    }

    /// Becomes a member of a group, as `node`. Routers must send the group's Interests to all members, by the strategy
    /// multicast.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn join(&self, group: &Name, node: &Name, options: SyncOptions) -> Result<AsyncGroup, Ended> {
        let (sender, updates) = mpsc::channel(ROOM);
        let (group, node) = (group.clone(), node.clone());
        let (id, boot) = self.ask(move |driver, done| driver.join(group, node, options, sender, done)).await?;
        Ok(AsyncGroup { client: self.clone(), id, boot, updates })
    }

    /// Advertises descriptors, until they are withdrawn. After a lost connection they are advertised again.
    ///
    /// # Errors
    /// The router refuses.
    pub async fn advertise(&self, descriptors: &[Descriptor]) -> Result<(), CallError> {
        let descriptors = descriptors.to_vec();
        self.ask(move |driver, done| driver.advertise(&descriptors, done)).await?.and_then(succeeded)?;
        Ok(())
    }

    /// Withdraws descriptors.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub async fn withdraw(&self, descriptors: &[Descriptor]) -> Result<(), CallError> {
        let descriptors = descriptors.to_vec();
        self.ask(move |driver, done| driver.withdraw(&descriptors, done)).await?.and_then(succeeded)?;
        Ok(())
    }

    /// Returns this application's addresses, one on each of the router's trees. They end with the connection.
    ///
    /// # Errors
    /// The router does not answer, or refuses.
    pub async fn addresses(&self) -> Result<Vec<Address>, CallError> {
        let response = self.ask(Driver::ask_addresses).await?.and_then(succeeded)?;
        let malformed = |error| ManagementError::Malformed { command: "tags/locators".to_owned(), error };
        Ok(decode_locators(&response.body).map_err(malformed)?)
    }

    /// Sends to the applications that advertised a subset of `descriptor`, on the tree of `source`.
    ///
    /// # Errors
    /// The packet is too large, or the client has ended.
    pub async fn send_to_tags(
        &self,
        descriptor: &Descriptor,
        limit: FanOutLimit,
        source: Address,
        payload: &[u8],
    ) -> Result<(), CallError> {
        let (descriptor, payload) = (descriptor.clone(), payload.to_vec());
        let sent =
            self.ask(move |driver, done| driver.send_to_tags(&descriptor, limit, source, &payload, done)).await?;
        Ok(sent?)
    }

    /// Sends to one application.
    ///
    /// # Errors
    /// The packet is too large, or the client has ended.
    pub async fn send_to(&self, destination: Address, source: Address, payload: &[u8]) -> Result<(), CallError> {
        let payload = payload.to_vec();
        Ok(self.ask(move |driver, done| driver.send_to(destination, source, &payload, done)).await??)
    }

    /// The messages that arrive from now on. An earlier receiver gets no more.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn messages(&self) -> Result<mpsc::Receiver<Message>, Ended> {
        let (sender, messages) = mpsc::channel(ROOM);
        self.tell(move |driver| driver.messages_to(sender)).await?;
        Ok(messages)
    }

    async fn tell(&self, call: impl FnOnce(&mut Driver) + Send + 'static) -> Result<(), Ended> {
        self.calls.send(Box::new(call)).await.map_err(|_| Ended)
    }

    async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Driver, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, Ended> {
        let (sender, answer) = oneshot::channel();
        self.tell(move |driver| call(driver, sender)).await?;
        answer.await.map_err(|_| Ended)
    }
}

/// Appends segments to a file. After a failure of the transfer, saves it for the next attempt.
fn append(mut file: PartFile, arrived: Vec<Result<Chunk, FetchError>>) -> io::Result<(PartFile, Option<FetchError>)> {
    for chunk in arrived {
        match chunk {
            Ok(chunk) => file.append_chunk(&chunk)?,
            Err(error) => {
                file.save()?;
                return Ok((file, Some(error)));
            }
        }
    }
    Ok((file, None))
}

/// Works on a file in a thread that may block.
async fn on_file<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FileError> {
    let at = path.clone();
    let done = tokio::task::spawn_blocking(move || work(&at)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| FileError { path, error })
}

fn succeeded(response: ControlResponse) -> Result<ControlResponse, ManagementError> {
    if response.code == 200 {
        return Ok(response);
    }
    let (command, code, text) = ("tags".to_owned(), response.code, response.text);
    Err(ManagementError::Refused { command, code, text, body: None })
}

/// A prefix that is withdrawn when this is dropped.
struct RegisteredPrefix {
    client: AsyncClient,
    prefix: Name,
}

impl Drop for RegisteredPrefix {
    fn drop(&mut self) {
        let prefix = self.prefix.clone();
        // If the task has no room, the prefix stays until the client ends.
        let _ = self.client.calls.try_send(Box::new(move |driver| driver.withdraw_prefix(&prefix)));
    }
}

/// A published object. Dropping this withdraws it.
pub struct AsyncPublication {
    _registered: RegisteredPrefix,
    name: Name,
}

impl AsyncPublication {
    /// The name with the version.
    pub fn versioned_name(&self) -> &Name {
        &self.name
    }
}

/// The Interests below a prefix. If the application is slow, new ones are lost. Dropping this withdraws the prefix.
pub struct Producer {
    registered: RegisteredPrefix,
    requests: mpsc::Receiver<Request>,
}

impl Producer {
    /// The next Interest. `None`: the client has ended.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Answers an Interest with Data, signed by the client's key.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn reply(&self, request: Request, data: DataBuilder) -> Result<(), Ended> {
        self.registered.client.reply(request, data).await
    }
}

/// An object on its way. Dropping this ends the transfer.
pub struct AsyncFetching {
    client: AsyncClient,
    id: FetchId,
    chunks: mpsc::Receiver<Result<Chunk, FetchError>>,
}

impl AsyncFetching {
    /// The next segment, in order. `None`: the object is complete. After an error there are no more.
    pub async fn next(&mut self) -> Option<Result<Chunk, FetchError>> {
        let next = self.chunks.recv().await;
        // There is room again.
        self.client.wake.notify_one();
        next
    }
}

impl Drop for AsyncFetching {
    fn drop(&mut self) {
        let id = self.id;
        self.chunks.close();
        let _ = self.client.calls.try_send(Box::new(move |driver| driver.end_fetch(id)));
    }
}

/// A group that the application is a member of. Dropping this leaves it.
pub struct AsyncGroup {
    client: AsyncClient,
    id: GroupId,
    boot: u64,
    updates: mpsc::Receiver<Vec<Update>>,
}

impl AsyncGroup {
    /// Boot time of this member, for the names of its publications.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// What members have published. `None`: the client has ended.
    pub async fn updates(&mut self) -> Option<Vec<Update>> {
        self.updates.recv().await
    }

    /// Tells the group of a new publication. Returns its number.
    ///
    /// # Errors
    /// The client has ended.
    pub async fn publish(&self) -> Result<u64, Ended> {
        self.member().publish().await
    }

    /// This member, for tasks that publish while another one waits for updates.
    pub fn member(&self) -> Member {
        Member { client: self.client.clone(), id: self.id, boot: self.boot }
    }
}

/// This application in a group, from [`AsyncGroup::member`].
#[derive(Clone)]
pub struct Member {
    client: AsyncClient,
    id: GroupId,
    boot: u64,
}

impl Member {
    /// Boot time of this member, for the names of its publications.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Tells the group of a new publication. Returns its number.
    ///
    /// # Errors
    /// The client has ended, or has left the group.
    pub async fn publish(&self) -> Result<u64, Ended> {
        let id = self.id;
        self.client.ask(move |driver, done| driver.publish_in(id, done)).await
    }
}

impl Drop for AsyncGroup {
    fn drop(&mut self) {
        let id = self.id;
        let _ = self.client.calls.try_send(Box::new(move |driver| driver.leave(id)));
    }
}
