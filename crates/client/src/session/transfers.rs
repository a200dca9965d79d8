//! Searches for objects, and their transfers.

use std::time::Duration;

use byname_trust::validator::RequestId;
use byname_wire::{Data, NackReason, Name, NameRef};

use super::{Event, ExchangeError, FetchId, FindId, Now, Object, Outbox, Purpose, Segments, Session};
use crate::fetch::discovery::{Question, questions};
use crate::fetch::{Chunk, Discovery, FetchCounters, FetchError, FetchOptions};
use crate::link::DataPacket;
use crate::outbox::Fields;
use crate::verify::Verdict;

/// Tries for each question of a search.
const SEARCH_TRIES: u32 = 2;

/// The search for an object.
pub(super) struct Search {
    name: Name,
    lifetime: Duration,
    /// The question that is asked now, and the ones after it.
    questions: &'static [Question],
}

/// The transfer of an object.
pub(super) struct Transfer {
    segments: Segments,
    /// The next packet waits for certificates.
    check: Option<RequestId>,
    failure: Option<FetchError>,
    /// Since when nothing has arrived, if a connection was lost since then, or the transfer began without one.
    stalled_since: Option<Duration>,
}

impl Transfer {
    pub fn on_connection_lost(&mut self, now: Duration) {
        self.stalled_since.get_or_insert(now);
        self.segments.on_connection_lost();
    }

    pub fn on_data(&mut self, data: &Data<'_>, is_marked: bool, now: Duration) {
        if self.segments.on_data(data, is_marked, now) {
            self.stalled_since = None;
        }
    }

    pub fn on_nack(&mut self, name: NameRef<'_>, reason: NackReason, now: Duration) {
        // After a restart, the producer may come back later than this application. The segment's timeout is soon enough.
        if reason == NackReason::NoRoute && self.stalled_since.is_some() {
            return;
        }
        if let Err(error) = self.segments.on_nack(name, reason, now) {
            self.failure.get_or_insert(error);
        }
    }

    pub fn poll(&mut self, now: Duration, outbox: &mut Outbox) {
        if self.failure.is_none()
            && let Err(error) = self.segments.poll(now, |interest| outbox.push(interest, Fields::default()))
        {
            self.failure = Some(error);
        }
    }

    /// There is no connection. The transfer ends when it has made no progress for `outage_max`.
    pub fn wait_for_connection(&mut self, outage_max: Duration, now: Duration) {
        if self.failure.is_none() && self.offline_deadline(outage_max).is_some_and(|end| end <= now) {
            let waited = now.saturating_sub(self.stalled_since.unwrap_or(now));
            self.failure = Some(FetchError::Offline { waited });
        }
    }

    pub fn next_deadline(&self, now: Duration) -> Option<Duration> {
        self.failure.is_none().then(|| now + self.segments.wait(now))
    }

    /// When [`Transfer::wait_for_connection`] has something to do.
    pub fn offline_deadline(&self, outage_max: Duration) -> Option<Duration> {
        let is_open = self.failure.is_none() && !self.segments.is_complete();
        self.stalled_since.filter(|_| is_open).map(|since| since.saturating_add(outage_max))
    }
}

impl Session {
    /// Looks for the newest version of an object. The result is an [`Event::Found`]. `lifetime` is that of each
    /// question.
    pub fn find(&mut self, name: Name, how: Discovery, lifetime: Duration, now: Now, outbox: &mut Outbox) -> FindId {
        let id = FindId(self.new_id());
        let questions = questions(name.as_ref(), how);
        if questions.is_empty() {
            self.events.push_back(Event::Found { id, result: Ok(Object::Segmented(name)) });
        } else {
            self.searches.insert(id, Search { name, lifetime, questions });
            self.ask(id, now, outbox);
        }
        id
    }

    /// Begins to fetch the segments below a name. [`Session::take_chunk`] hands them out.
    pub fn fetch(&mut self, object: Name, options: FetchOptions, now: Now, outbox: &mut Outbox) -> FetchId {
        let id = FetchId(self.new_id());
        let stalled_since = self.peer.is_none().then_some(now.elapsed);
        let segments = Segments::new(object, options);
        let mut transfer = Transfer { segments, check: None, failure: None, stalled_since };
        if self.peer.is_some() {
            transfer.poll(now.elapsed, outbox);
        }
        self.transfers.insert(id, transfer);
        id
    }

    /// Takes the next segment in order. `None`: it is not there yet, or the object is complete
    /// ([`Session::is_fetched`]). While nobody takes segments, only a bounded number of them is requested.
    ///
    /// # Errors
    /// The transfer has failed, and ends.
    pub fn take_chunk(&mut self, id: FetchId, now: Now) -> Result<Option<Chunk>, FetchError> {
        let outcome = self.next_chunk(id, now);
        if outcome.is_err() {
            self.end_fetch(id);
        }
        outcome
    }

    fn next_chunk(&mut self, id: FetchId, now: Now) -> Result<Option<Chunk>, FetchError> {
        let transfer = self.transfers.get_mut(&id).ok_or(FetchError::Ended)?;
        while let Some(packet) = transfer.segments.next_packet() {
            let verdict = match transfer.check {
                Some(check) => self.checker.take(check).map_or(Verdict::Waiting(check), Verdict::Known),
                None => match Data::decode(packet) {
                    Ok(data) => self.checker.check(&data, now.moment()),
                    Err(_) => Verdict::Known(Ok(())),
                },
            };
            match verdict {
                Verdict::Waiting(check) => {
                    transfer.check = Some(check);
                    break;
                }
                Verdict::Known(outcome) => {
                    transfer.check = None;
                    match outcome {
                        Ok(()) => return transfer.segments.accept(),
                        Err(doubt) => transfer.segments.reject(doubt)?,
                    }
                }
            }
        }
        // What waits for certificates is handed out before a failure of later segments shows.
        let is_waiting = transfer.check.is_some();
        let failure = transfer.failure.take_if(|error| !is_waiting || matches!(error, FetchError::Offline { .. }));
        failure.map_or(Ok(None), Err)
    }

    /// Whether all segments have been handed out.
    pub fn is_fetched(&self, id: FetchId) -> bool {
        self.transfers.get(&id).is_some_and(|transfer| transfer.segments.is_complete())
    }

    /// Numbers of a transfer.
    pub fn fetch_counters(&self, id: FetchId) -> FetchCounters {
        self.transfers.get(&id).map_or_else(FetchCounters::default, |transfer| transfer.segments.counters())
    }

    /// Forgets a transfer.
    pub fn end_fetch(&mut self, id: FetchId) {
        if let Some(check) = self.transfers.remove(&id).and_then(|transfer| transfer.check) {
            self.checker.forget(check);
        }
    }

    fn ask(&mut self, id: FindId, now: Now, outbox: &mut Outbox) {
        let Some(Search { name, lifetime, questions: [question, ..] }) = self.searches.get(&id) else { return };
        let interest = question.interest(name, *lifetime).encode();
        self.ask_for(Purpose::Find(id), interest, SEARCH_TRIES, now, outbox);
    }

    /// Takes the answer to a question, and asks the next one if there is none.
    pub(super) fn on_found(
        &mut self,
        id: FindId,
        result: Result<DataPacket, ExchangeError>,
        now: Now,
        outbox: &mut Outbox,
    ) {
        let Some(search) = self.searches.get_mut(&id) else { return };
        let [question, later @ ..] = search.questions else { return };
        let is_offline = matches!(result, Err(ExchangeError::Offline { .. }));
        let result = result.and_then(|answer| {
            let name = answer.data().name.to_name();
            question.object(&search.name, answer).map_err(|error| ExchangeError::Malformed { name, error })
        });
        if result.is_err() && !is_offline && !later.is_empty() {
            search.questions = later;
            return self.ask(id, now, outbox);
        }
        self.searches.remove(&id);
        self.events.push_back(Event::Found { id, result });
    }
}
