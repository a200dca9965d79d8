import { useMemo } from 'preact/hooks';
import { Chart } from '../chart';
import { bitRate, duration, nanoseconds, percent, short, whole } from '../format';
import { linkTo, useLive, usePolled } from '../store';
import type { FacePage, Live } from '../types';
import { Card, Empty, FaceLink, Meter, Page, Stat, Stats, Trouble } from '../ui';

export function Overview() {
  const { live, points, error } = useLive();
  const faces = usePolled<FacePage>('faces?sort=bytes_per_s&desc=1&limit=6', 2000);
  const at = useMemo(() => points.map((point) => point.at), [points]);
  const last = points[points.length - 1];
  const of = (value: (point: (typeof points)[number]) => number): number[] => points.map(value);
  const traffic = useMemo(
    () => [
      { label: 'Interests in', colour: '--blue', values: of((p) => p.inInterests), filled: true },
      { label: 'Data in', colour: '--teal', values: of((p) => p.inData) },
      { label: 'Nacks', colour: '--amber', values: of((p) => p.nacks) },
    ],
    [points],
  );
  const shares = useMemo(
    () => [
      { label: 'Content store hits', colour: '--teal', values: of((p) => p.hitRatio), filled: true },
      { label: 'Satisfied', colour: '--blue', values: of((p) => p.satisfied) },
    ],
    [points],
  );
  const rounds = useMemo(
    () => [
      { label: 'Half of the rounds', colour: '--blue', values: of((p) => p.roundP50), filled: true },
      { label: '99 %', colour: '--amber', values: of((p) => p.roundP99) },
    ],
    [points],
  );
  const drops = useMemo(() => [{ label: 'Drops', colour: '--red', values: of((p) => p.drops), filled: true }], [points]);
  const perS = (value: number): string => `${short(value)}/s`;
  return (
    <Page title="Overview" lead={live ? <Lead live={live} /> : 'Waiting for the router …'}>
      <Trouble text={error} />
      <Stats>
        <Stat label="Interests" value={last ? perS(last.inInterests) : '–'} note="received" />
        <Stat label="Data" value={last ? perS(last.outData) : '–'} note="sent" />
        <Stat label="Throughput" value={faces.data ? bitRate(faces.data.all.in_bytes_per_s) : '–'} note={faces.data ? `${bitRate(faces.data.all.out_bytes_per_s)} sent` : 'received'} />
        <Stat label="Hit ratio" value={last ? percent(last.hitRatio) : '–'} note="content store" />
        <Stat label="Pending" value={live ? whole(live.pit_entries) : '–'} note="Interests" />
        <Stat label="Load" value={last ? percent(last.load) : '–'} note={live && live.threads.length > 1 ? `${live.threads.length} threads` : 'one thread'} />
      </Stats>
      <div class="grid two">
        <Card title="Packets" note="per second">
          <Chart label="Packets per second" at={at} series={traffic} format={short} />
        </Card>
        <Card title="Answered" note="share of Interests">
          <Chart label="Share of Interests that were answered" at={at} series={shares} format={percent} max={1.02} />
        </Card>
        <Card title="Latency" note="time of a round of a packet thread">
          <Chart label="Time of a round" at={at} series={rounds} format={nanoseconds} />
        </Card>
        <Card title="Drops" note="packets per second">
          <Chart label="Drops per second" at={at} series={drops} format={short} />
          {live && <DropReasons live={live} />}
        </Card>
      </div>
      <div class="grid two">
        <Card title="Busiest faces" note={<a href={linkTo('faces')}>all {live ? whole(live.faces) : ''}</a>}>
          <BusiestFaces page={faces.data} />
        </Card>
        <Card title="Tables">
          {live && <Tables live={live} />}
        </Card>
      </div>
    </Page>
  );
}

function Lead(props: { live: Live }) {
  const { live } = props;
  return (
    <>
      Version {live.version}, process {live.process}, up {duration(live.uptime_ms)}.
    </>
  );
}

function DropReasons(props: { live: Live }) {
  const reasons = Object.entries(props.live.drops).sort((a, b) => b[1] - a[1]);
  if (reasons.length === 0) return <p class="note">Nothing was dropped since the start.</p>;
  return (
    <ul class="reasons">
      {reasons.slice(0, 6).map(([reason, count]) => (
        <li key={reason}>
          <span>{reason}</span> <span class="num">{whole(count)}</span>
        </li>
      ))}
    </ul>
  );
}

function BusiestFaces(props: { page: FacePage | null }) {
  const rows = props.page?.faces ?? [];
  const rate = (face: (typeof rows)[number]): number => face.in_bytes_per_s + face.out_bytes_per_s;
  const most = Math.max(1, ...rows.map(rate));
  if (props.page && rows.length === 0) return <Empty>There are no faces yet.</Empty>;
  return (
    <ul class="bars">
      {rows.map((face) => (
        <li key={face.face_id}>
          <FaceLink id={face.face_id} uri={face.remote_uri} />
          <Meter share={rate(face) / most} label={`${bitRate(rate(face))}`} />
          <span class="num">{bitRate(rate(face))}</span>
        </li>
      ))}
    </ul>
  );
}

function Tables(props: { live: Live }) {
  const { live } = props;
  const store = live.content_store;
  const rows: [string, number, string][] = [
    ['Routes', live.routes, 'routes'],
    ['FIB entries', live.fib_entries, 'routes'],
    ['Strategy choices', live.strategy_choices, 'strategies'],
    ['Descriptors', live.descriptors, 'tags'],
    ['Prefixes with measurements', live.measurements, 'strategies'],
    ['Prefix announcements', live.announcements, 'routes'],
  ];
  return (
    <dl class="pairs">
      <div>
        <dt>
          <a href={linkTo('content')}>Content store</a>
        </dt>
        <dd>
          <Meter share={store.entries / store.capacity} label={`${percent(store.entries / store.capacity)} full`} />
          <span class="num">
            {whole(store.entries)} of {whole(store.capacity)}
          </span>
        </dd>
      </div>
      {rows.map(([label, count, page]) => (
        <div key={label}>
          <dt>
            <a href={linkTo(page)}>{label}</a>
          </dt>
          <dd class="num">{whole(count)}</dd>
        </div>
      ))}
      <div>
        <dt>State</dt>
        <dd class="wrap">{live.state}</dd>
      </div>
    </dl>
  );
}
