import { useEffect, useRef, useState } from 'preact/hooks';
import { get, post, remove, RequestError, token } from '../api';
import { nanoseconds, strategyWord, whole } from '../format';
import { words } from '../store';
import type { TraceEvent, TracePage } from '../types';
import { Badge, Button, Card, Empty, FaceLink, Field, NameLink, Page, Trouble } from '../ui';

/** Events that the page keeps. */
const KEPT = 400;

export function Traces() {
  const [prefix, setPrefix] = useState('/');
  const [onlyDropped, setOnlyDropped] = useState(false);
  const [id, setId] = useState<string | null>(null);
  const [isPaused, setPaused] = useState(false);
  const [events, setEvents] = useState<(TraceEvent & { number: number })[]>([]);
  const [lost, setLost] = useState(0);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const count = useRef(0);

  const start = async (event: Event): Promise<void> => {
    event.preventDefault();
    setTrouble(null);
    try {
      const { id } = await post<{ id: string }>('traces', { prefix: prefix.trim(), only_dropped: onlyDropped });
      setEvents([]);
      setLost(0);
      setPaused(false);
      setId(id);
    } catch (error) {
      setTrouble(words(error));
    }
  };

  useEffect(() => {
    if (!id) return;
    let [isOver, isReading] = [false, false];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = (): void => void remove(`traces/${id}`).catch(() => {});
    const read = async (): Promise<void> => {
      try {
        isReading = true;
        const page = await get<TracePage>(`traces/${id}`);
        isReading = false;
        if (isOver) return stop();
        setLost(page.lost);
        const news = page.events.map((event) => ({ ...event, number: ++count.current }));
        if (!paused.current && news.length > 0) setEvents((last) => [...news.reverse(), ...last].slice(0, KEPT));
        timer = setTimeout(read, page.events.length > 0 ? 200 : 500);
      } catch (error) {
        isReading = false;
        if (isOver) return stop();
        setTrouble(error instanceof RequestError && error.status === 404 ? 'The router has ended the trace.' : words(error));
        setId(null);
      }
    };
    void read();
    return () => {
      isOver = true;
      clearTimeout(timer);
      // The router would say that a read of an ended trace finds nothing.
      if (!isReading) stop();
    };
  }, [id]);
  const paused = useRef(isPaused);
  paused.current = isPaused;

  const shown = events.find((event) => event.number === chosen) ?? null;
  return (
    <Page title="Traces" lead="What happens to packets, and why, as it happens. A trace costs the router nothing unless packets match, and little if they do.">
      <Card>
        <form class="form inline" onSubmit={start}>
          <Field label="Prefix">
            {(id) => <input id={id} required value={prefix} spellcheck={false} onInput={(event) => setPrefix(event.currentTarget.value)} />}
          </Field>
          <label class="check">
            <input type="checkbox" checked={onlyDropped} onChange={(event) => setOnlyDropped(event.currentTarget.checked)} /> Only what is dropped, refused or not answered
          </label>
          {id ? (
            <span class="row-end">
              <Button onClick={() => setPaused(!isPaused)}>{isPaused ? 'Go on' : 'Pause'}</Button>
              <Button onClick={() => setId(null)}>Stop</Button>
            </span>
          ) : (
            <Button type="submit" tone="main" disabled={!token()}>
              Start
            </Button>
          )}
        </form>
        <Trouble text={trouble} />
        {!token() && <p class="note">Traces show what others ask for, so they need the token: choose “Read only” to unlock this page.</p>}
      </Card>
      <Card
        title="Packets"
        note={
          <span role="status">
            {id ? (isPaused ? 'paused' : 'live') : events.length > 0 ? 'stopped' : ''}
            {events.length > 0 && `, ${whole(events.length)} shown`}
            {lost > 0 && `, ${whole(lost)} more found no room`}
          </span>
        }
      >
        {events.length === 0 && <Empty>{id ? 'No packet has matched yet.' : 'Start a trace to see packets here.'}</Empty>}
        <ol class="trace" tabIndex={events.length > 0 ? 0 : undefined} aria-label="Packets of the trace">
          {events.map((event) => (
            <li key={event.number} class={event.dropped ? 'bad' : ''}>
              <button type="button" aria-expanded={chosen === event.number} onClick={() => setChosen(chosen === event.number ? null : event.number)}>
                <time class="num">{clock(event.at_unix_us)}</time>
                <span class={`subject ${event.subject}`}>{event.subject}</span>
                <span class="name">{event.name}</span>
                <span class="note summary">{summary(event)}</span>
              </button>
              {shown?.number === event.number && <Way event={event} />}
            </li>
          ))}
        </ol>
      </Card>
    </Page>
  );
}

const clock = (us: number): string => {
  const at = new Date(us / 1000);
  return `${at.toTimeString().slice(0, 8)}.${String(Math.floor(us / 1000) % 1000).padStart(3, '0')}`;
};

function summary(event: TraceEvent): string {
  if (event.dropped) return `dropped: ${event.dropped}`;
  const parts = [event.store === 'hit' ? 'from the store' : null, event.pit, event.sent.length > 0 ? `→ ${event.sent.map((sent) => sent.face_id).join(', ')}` : null];
  return parts.filter(Boolean).join(' · ');
}

/** The decisions about one packet, in the order in which they were made. */
function Way(props: { event: TraceEvent }) {
  const { event } = props;
  const flags = [event.can_be_prefix && 'CanBePrefix', event.must_be_fresh && 'MustBeFresh'].filter(Boolean).join(', ');
  const times = Object.entries(event.times_ns);
  return (
    <dl class="way-of pairs">
      <div>
        <dt>Came from</dt>
        <dd>
          <FaceLink id={event.face_id} uri={event.remote_uri} />
        </dd>
      </div>
      <div>
        <dt>Packet</dt>
        <dd>
          {whole(event.bytes)} bytes, thread {event.thread}
          {flags && `, ${flags}`} {event.nack && <Badge tone="warn">{event.nack}</Badge>}
        </dd>
      </div>
      {event.pit && (
        <div>
          <dt>PIT</dt>
          <dd>
            {event.pit}
            {event.satisfied !== null && `, ${event.satisfied} satisfied`}
          </dd>
        </div>
      )}
      {event.store && (
        <div>
          <dt>Content store</dt>
          <dd>{event.store}</dd>
        </div>
      )}
      {(event.rule ?? event.way) && (
        <div>
          <dt>FIB</dt>
          <dd>{event.rule ? <NameLink name={event.rule} /> : event.way}</dd>
        </div>
      )}
      {event.strategy && (
        <div>
          <dt>Strategy</dt>
          <dd>
            {strategyWord(event.strategy)} {event.why && <span class="note">{event.why}</span>}
          </dd>
        </div>
      )}
      {event.sent.length > 0 && (
        <div>
          <dt>Sent</dt>
          <dd class="wrap">
            {event.sent.map((sent, place) => (
              <span key={place} class="neighbor">
                {sent.subject}
                {sent.nack && ` (${sent.nack})`} to <FaceLink id={sent.face_id} uri={sent.remote_uri} />
              </span>
            ))}
          </dd>
        </div>
      )}
      {event.dropped && (
        <div>
          <dt>Dropped</dt>
          <dd>
            <Badge tone="bad">{event.dropped}</Badge>
          </dd>
        </div>
      )}
      {times.length > 0 && (
        <div>
          <dt>Time</dt>
          <dd>{times.map(([stage, ns]) => `${stage} ${nanoseconds(ns)}`).join(', ')}</dd>
        </div>
      )}
    </dl>
  );
}
