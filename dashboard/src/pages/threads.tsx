import { nanoseconds, percent, short, whole } from '../format';
import { addUp, lessBefore, quantile, useLive } from '../store';
import type { Live, Stage, Thread } from '../types';
import { Card, Empty, Meter, Page, Stat, Stats, Trouble } from '../ui';

/** What each stage does, in the order in which packets pass. */
const STAGES: Record<string, [string, string]> = {
  receive: ['--c1', 'Ports take packets from the kernel, and link services reassemble them'],
  dispatch: ['--c2', 'Packets find the thread that is their home'],
  timers: ['--c3', 'Expired Interests leave the PIT'],
  parse: ['--c4', 'Packets are parsed, and the prefixes of their names hashed'],
  'pit-cs': ['--c5', 'Packets meet the PIT and the content store'],
  fib: ['--c6', 'Interests are looked up in the FIB'],
  strategy: ['--c7', 'Strategies decide where Interests go'],
  addressed: ['--c8', 'Packets with tags or locators are forwarded'],
  send: ['--c9', 'Link services and ports send'],
};

export function Threads() {
  const { live, before, error } = useLive();
  return (
    <Page title="Threads" lead="Packet threads take packets from ports, forward them and send them. One round in about a thousand is timed.">
      <Trouble text={error} />
      {live && (
        <Card title="Where the time goes" note="since the start, all threads">
          <Flame stages={together(live.threads)} />
        </Card>
      )}
      {live?.threads.map((thread, number) => (
        <OneThread key={number} number={number} thread={thread} before={before?.threads[number]} live={live} last={before} />
      ))}
    </Page>
  );
}

function together(threads: Thread[]): Stage[] {
  const sums = new Map<string, Stage>();
  for (const stage of threads.flatMap((thread) => thread.stages)) {
    const sum = sums.get(stage.stage) ?? { stage: stage.stage, packets: 0, ns: 0 };
    sums.set(stage.stage, { stage: stage.stage, packets: sum.packets + stage.packets, ns: sum.ns + stage.ns });
  }
  const order = Object.keys(STAGES);
  return [...sums.values()].sort((a, b) => order.indexOf(a.stage) - order.indexOf(b.stage));
}

/** A bar as in a flame graph: the whole above, and its stages below, as wide as their shares. */
function Flame(props: { stages: Stage[] }) {
  const all = props.stages.reduce((sum, stage) => sum + stage.ns, 0);
  if (all === 0) return <Empty>No round was timed yet. That takes about a thousand rounds with packets.</Empty>;
  return (
    <div class="flame">
      <div class="flame-row" aria-hidden="true">
        <span class="flame-whole" style={{ width: '100%' }}>
          a round with packets
        </span>
      </div>
      <div class="flame-row" aria-hidden="true">
        {props.stages.map((stage) => (
          <span key={stage.stage} class="flame-part" style={{ width: `${(100 * stage.ns) / all}%`, background: `var(${STAGES[stage.stage]?.[0] ?? '--c9'})` }} title={`${stage.stage}: ${percent(stage.ns / all)}`}>
            {stage.ns / all > 0.07 ? stage.stage : ''}
          </span>
        ))}
      </div>
      <table class="stages">
        <thead>
          <tr>
            <th>Stage</th>
            <th class="number">Share</th>
            <th class="number">A packet</th>
            <th class="minor">What happens</th>
          </tr>
        </thead>
        <tbody>
          {props.stages.map((stage) => (
            <tr key={stage.stage}>
              <td>
                <i class="dot" style={{ background: `var(${STAGES[stage.stage]?.[0] ?? '--c9'})` }} /> {stage.stage}
              </td>
              <td class="number">{percent(stage.ns / all)}</td>
              <td class="number">{stage.packets > 0 ? nanoseconds(stage.ns / stage.packets) : '–'}</td>
              <td class="note minor">{STAGES[stage.stage]?.[1]}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function OneThread(props: { number: number; thread: Thread; before: Thread | undefined; live: Live; last: Live | null }) {
  const { thread, before, live, last } = props;
  const seconds = last ? Math.max(0.001, (live.at_ms - last.at_ms) / 1000) : NaN;
  const per = (of: (thread: Thread) => number): number => (before ? Math.max(0, of(thread) - of(before)) / seconds : NaN);
  const busy = per((thread) => thread.busy_ns) / 1e9;
  const fresh = before ? lessBefore(thread.round_ns, before.round_ns) : thread.round_ns;
  const counts = addUp([fresh]).some((count) => count > 0) ? fresh : thread.round_ns;
  return (
    <Card title={`Thread ${props.number}`} note={thread.node === null ? '' : `memory node ${thread.node}`}>
      <Stats>
        <Stat label="Load" value={percent(busy)} note={<Meter share={busy} label={`Load ${percent(busy)}`} tone={busy > 0.9 ? 'bad' : ''} />} />
        <Stat label="Interests" value={`${short(per((thread) => thread.in_interests))}/s`} note={`${short(per((thread) => thread.in_data))}/s Data`} />
        <Stat label="Pending" value={whole(thread.pit_entries)} note="Interests" />
        <Stat label="Stored" value={whole(thread.cs_entries)} note="Data packets" />
        <Stat label="Faces" value={whole(thread.faces)} note="owned" />
        <Stat label="A round" value={nanoseconds(quantile(counts, live.round_ns_bounds, 0.5))} note={`99 %: ${nanoseconds(quantile(counts, live.round_ns_bounds, 0.99))}`} />
      </Stats>
      <Rounds title="Time of rounds" counts={thread.round_ns} bounds={live.round_ns_bounds} format={nanoseconds} />
      <Rounds title="Packets of rounds" counts={thread.round_packets} bounds={live.round_packets_bounds} format={whole} />
      {thread.rings && (
        <dl class="pairs">
          <div>
            <dt>Packets at home, given away, taken</dt>
            <dd class="num">
              {whole(thread.rings.home)}, {whole(thread.rings.foreign)}, {whole(thread.rings.taken)}
            </dd>
          </div>
          <div>
            <dt>Waiting in rings, dropped there</dt>
            <dd class="num">
              {whole(thread.rings.input_depth + thread.rings.output_depth)}, {whole(thread.rings.input_drops + thread.rings.output_drops)}
            </dd>
          </div>
        </dl>
      )}
    </Card>
  );
}

/** A small histogram. */
function Rounds(props: { title: string; counts: number[]; bounds: number[]; format: (value: number) => string }) {
  const most = Math.max(1, ...props.counts);
  const all = props.counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  const label = (place: number): string => (place < props.bounds.length ? `≤ ${props.format(props.bounds[place]!)}` : `> ${props.format(props.bounds[place - 1]!)}`);
  const spoken = props.counts.map((count, place) => (count > 0 ? `${label(place)}: ${percent(count / all)}` : '')).filter(Boolean).join('; ');
  return (
    <figure class="histogram" role="img" aria-label={`${props.title}. ${spoken}`}>
      <figcaption class="note">{props.title}</figcaption>
      <div class="histogram-bars">
        {props.counts.map((count, place) => (
          <span key={place} title={`${label(place)}: ${whole(count)}`}>
            <i style={{ height: `${count === 0 ? 0 : Math.max(2, (100 * count) / most)}%` }} />
            <small>{place < props.bounds.length ? props.format(props.bounds[place]!) : 'more'}</small>
          </span>
        ))}
      </div>
    </figure>
  );
}
