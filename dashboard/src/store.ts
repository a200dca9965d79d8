// What the pages share: the router's numbers with their history, polling, the address, and short messages.

import { useEffect, useRef, useState } from 'preact/hooks';
import { get, RequestError } from './api';
import type { Live } from './types';

/** Readings that charts show. */
export const HISTORY = 180;

/** One point of the charts: rates since the reading before. */
export interface Point {
  at: number;
  inInterests: number;
  inData: number;
  outData: number;
  nacks: number;
  drops: number;
  hitRatio: number;
  satisfied: number;
  roundP50: number;
  roundP99: number;
  load: number;
}

export interface LiveState {
  live: Live | null;
  before: Live | null;
  points: Point[];
  error: string | null;
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((all, count) => all + count, 0);

/** The value below which `share` of the values in these buckets lie, by linear interpolation. */
export function quantile(counts: number[], bounds: number[], share: number): number {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return NaN;
  let left = all * share;
  for (let place = 0; place < counts.length; place++) {
    const count = counts[place]!;
    if (left <= count && count > 0) {
      const low = place === 0 ? 0 : bounds[place - 1]!;
      const high = bounds[place] ?? low * 2;
      return low + ((high - low) * left) / count;
    }
    left -= count;
  }
  return bounds[bounds.length - 1]!;
}

/** Sums lists of counts, place by place. */
export const addUp = (lists: number[][]): number[] =>
  lists.reduce<number[]>((all, list) => list.map((count, place) => count + (all[place] ?? 0)), []);

export const lessBefore = (now: number[], before: number[]): number[] =>
  now.map((count, place) => Math.max(0, count - (before[place] ?? 0)));

function pointOf(now: Live, before: Live): Point {
  const seconds = Math.max(0.001, (now.at_ms - before.at_ms) / 1000);
  const per = (of: (live: Live) => number): number => Math.max(0, of(now) - of(before)) / seconds;
  const hits = per((live) => live.content_store.hits);
  const misses = per((live) => live.content_store.misses);
  const good = per((live) => live.satisfied_interests);
  const bad = per((live) => live.unsatisfied_interests);
  const rounds = (live: Live): number[] => addUp(live.threads.map((thread) => thread.round_ns));
  const fresh = lessBefore(rounds(now), rounds(before));
  const busy = per((live) => live.threads.reduce((all, thread) => all + thread.busy_ns, 0));
  return {
    at: now.at_ms / 1000,
    inInterests: per((live) => live.packets.in_interests),
    inData: per((live) => live.packets.in_data),
    outData: per((live) => live.packets.out_data),
    nacks: per((live) => live.packets.in_nacks + live.packets.out_nacks),
    drops: per((live) => sum(live.drops)),
    hitRatio: hits + misses > 0 ? hits / (hits + misses) : NaN,
    satisfied: good + bad > 0 ? good / (good + bad) : NaN,
    roundP50: quantile(fresh, now.round_ns_bounds, 0.5),
    roundP99: quantile(fresh, now.round_ns_bounds, 0.99),
    load: busy / 1e9 / Math.max(1, now.threads.length),
  };
}

let state: LiveState = { live: null, before: null, points: [], error: null };
const listeners = new Set<(state: LiveState) => void>();

function publish(next: LiveState): void {
  state = next;
  listeners.forEach((listener) => listener(state));
}

async function readLive(): Promise<void> {
  try {
    const live = await get<Live>('live');
    const before = state.live;
    // A router that was restarted counts from zero.
    const isSame = before !== null && before.process === live.process && live.at_ms > before.at_ms;
    if (before && before.at_ms === live.at_ms) return publish({ ...state, error: null });
    const points = isSame ? [...state.points, pointOf(live, before)].slice(-HISTORY) : [];
    publish({ live, before: isSame ? before : null, points, error: null });
  } catch (error) {
    publish({ ...state, error: words(error) });
  }
}

/** Reads once a second while the page is visible. */
export function startLive(): void {
  const loop = async (): Promise<void> => {
    if (!document.hidden) await readLive();
    setTimeout(loop, 1000);
  };
  void loop();
}

export function useLive(): LiveState {
  const [current, setCurrent] = useState(state);
  useEffect(() => {
    listeners.add(setCurrent);
    setCurrent(state);
    return () => void listeners.delete(setCurrent);
  }, []);
  return current;
}

export const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export interface Polled<T> {
  data: T | null;
  error: string | null;
  reload: () => void;
}

/** Reads a path now and then every `everyMs`, while the page is visible. `null`: reads nothing. */
export function usePolled<T>(path: string | null, everyMs: number): Polled<T> {
  const [result, setResult] = useState<{ path: string | null; data: T | null; error: string | null }>({ path, data: null, error: null });
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    if (path === null) return;
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      clearTimeout(timer);
      try {
        if (!document.hidden) {
          const data = await get<T>(path, ending.signal);
          if (!ending.signal.aborted) setResult({ path, data, error: null });
        }
      } catch (error) {
        if (ending.signal.aborted) return;
        // What was there stays, unless it is gone.
        setResult((last) => ({ path, data: error instanceof RequestError && error.status === 404 ? null : last.data, error: words(error) }));
      }
      if (!ending.signal.aborted && everyMs > 0) timer = setTimeout(read, everyMs);
    };
    again.current = () => void read();
    void read();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs]);
  return { data: result.data, error: result.error, reload: () => again.current() };
}

/** The page of the address, and what follows it: `#/routes?name=/a`. */
export interface Place {
  page: string;
  query: URLSearchParams;
}

function placeNow(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return { page: path || 'overview', query: new URLSearchParams(query) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const changed = (): void => setPlace(placeNow());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return place;
}

export const linkTo = (page: string, query: Record<string, string> = {}): string => {
  const text = new URLSearchParams(query).toString();
  return text ? `#/${page}?${text}` : `#/${page}`;
};

export interface Message {
  id: number;
  kind: 'good' | 'bad';
  text: string;
}

let messages: Message[] = [];
let lastId = 0;
const readers = new Set<(messages: Message[]) => void>();

/** Shows a short message for a while. */
export function say(kind: Message['kind'], text: string): void {
  const message = { id: ++lastId, kind, text };
  const set = (next: Message[]): void => {
    messages = next;
    readers.forEach((reader) => reader(messages));
  };
  set([...messages.slice(-3), message]);
  setTimeout(() => set(messages.filter((one) => one.id !== message.id)), kind === 'bad' ? 9000 : 4500);
}

export function useMessages(): Message[] {
  const [current, setCurrent] = useState(messages);
  useEffect(() => {
    readers.add(setCurrent);
    return () => void readers.delete(setCurrent);
  }, []);
  return current;
}
