import { useEffect, useState } from 'preact/hooks';
import { token, withQuery } from '../api';
import { bitRate, bytes, duration, short, whole } from '../format';
import { linkTo, usePlace, usePolled } from '../store';
import type { Face, FacePage } from '../types';
import { Badge, Button, Card, CommandForm, Dialog, Empty, Field, Page, Search, Trouble, useSettled } from '../ui';

const PAGE = 50;

const COLUMNS: { id: string; title: string; sort?: string; number?: boolean; minor?: boolean }[] = [
  { id: 'id', title: 'Face', sort: 'face_id' },
  { id: 'remote', title: 'Peer', sort: 'remote_uri' },
  { id: 'in', title: 'In', sort: 'in_packets_per_s', number: true },
  { id: 'out', title: 'Out', sort: 'out_packets_per_s', number: true },
  { id: 'rate', title: 'Rate', sort: 'bytes_per_s', number: true },
  { id: 'drops', title: 'Drops', sort: 'out_drops', number: true, minor: true },
  { id: 'thread', title: 'Thread', sort: 'thread', number: true, minor: true },
];

export function Faces() {
  const { query } = usePlace();
  const chosen = query.get('face');
  const [search, setSearch] = useState('');
  const [sort, setSort] = useState({ by: 'bytes_per_s', desc: true });
  const [offset, setOffset] = useState(0);
  const [isCreating, setCreating] = useState(false);
  const part = useSettled(search);
  useEffect(() => setOffset(0), [part, sort]);
  const path = withQuery('faces', { search: part, sort: sort.by, desc: sort.desc, offset, limit: PAGE });
  const { data, error, reload } = usePolled<FacePage>(path, 2000);
  const sortBy = (by: string): void => setSort((last) => ({ by, desc: last.by === by ? !last.desc : by !== 'face_id' && by !== 'remote_uri' }));
  return (
    <Page
      title="Faces"
      lead={data ? `${whole(data.total)} faces, ${whole(data.up)} of them up. Received ${bytes(data.in_bytes)}, sent ${bytes(data.out_bytes)} since the start.` : ' '}
      actions={
        <Button tone="main" disabled={!token()} onClick={() => setCreating(true)}>
          New face
        </Button>
      }
    >
      <Trouble text={error} />
      <Card>
        <div class="tools">
          <Search label="Search faces" placeholder="Number or URI" value={search} onInput={setSearch} />
          <Pager offset={offset} found={data?.found ?? 0} onMove={setOffset} />
        </div>
        <div class="table-frame" tabIndex={0} role="group" aria-label="Faces">
          <table>
            <thead>
              <tr>
                {COLUMNS.map((column) => (
                  <th key={column.id} class={`${column.number ? 'number' : ''} ${column.minor ? 'minor' : ''}`} aria-sort={sort.by === column.sort ? (sort.desc ? 'descending' : 'ascending') : undefined}>
                    <button type="button" onClick={() => sortBy(column.sort!)}>
                      {column.title}
                    </button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {data?.faces.map((face) => (
                <tr key={face.face_id}>
                  <td class="num">
                    <a href={linkTo('faces', { face: String(face.face_id) })}>{face.face_id}</a>
                  </td>
                  <td>
                    <span class="name">{face.remote_uri}</span> {!face.up && <Badge tone="warn">down</Badge>}
                    {face.persistency === 'permanent' && <Badge>permanent</Badge>}
                    {face.scope === 'local' && <Badge>local</Badge>}
                  </td>
                  <td class="number">{short(face.in_packets_per_s)}/s</td>
                  <td class="number">{short(face.out_packets_per_s)}/s</td>
                  <td class="number">{bitRate(face.in_bytes_per_s + face.out_bytes_per_s)}</td>
                  <td class={`number minor ${face.out_drops ? 'warn' : ''}`}>{whole(face.out_drops)}</td>
                  <td class="number minor">{face.thread}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {data?.faces.length === 0 && <Empty>No face matches.</Empty>}
        </div>
      </Card>
      {isCreating && <CreateFace onClose={() => setCreating(false)} onDone={() => (setCreating(false), reload())} />}
      {chosen && <FaceDetail key={chosen} id={chosen} onClose={() => (location.hash = linkTo('faces'))} onDone={reload} />}
    </Page>
  );
}

function Pager(props: { offset: number; found: number; onMove: (offset: number) => void }) {
  const { offset, found, onMove } = props;
  if (found <= PAGE && offset === 0) return <span class="note">{whole(found)} found</span>;
  return (
    <div class="pager">
      <span class="note">
        {whole(Math.min(found, offset + 1))}–{whole(Math.min(found, offset + PAGE))} of {whole(found)}
      </span>
      <Button tone="quiet" aria-label="Earlier faces" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - PAGE))}>
        ‹
      </Button>
      <Button tone="quiet" aria-label="Later faces" disabled={offset + PAGE >= found} onClick={() => onMove(offset + PAGE)}>
        ›
      </Button>
    </div>
  );
}

function CreateFace(props: { onClose: () => void; onDone: () => void }) {
  const [remote, setRemote] = useState('udp4://');
  const [local, setLocal] = useState('');
  const [persistency, setPersistency] = useState('persistent');
  const [mtu, setMtu] = useState('');
  const parameters = (): object => ({
    remote_uri: remote.trim(),
    persistency,
    ...(local.trim() ? { local_uri: local.trim() } : {}),
    ...(mtu ? { mtu: Number(mtu) } : {}),
  });
  return (
    <Dialog title="New face" onClose={props.onClose}>
      <CommandForm command="faces/create" button="Create" parameters={parameters} done={(answer) => `Face ${answer['face_id']} was created.`} onDone={props.onDone}>
        <Field label="Peer" hint="udp4, udp6, tcp4, tcp6, ws, ether or memif, with a numeric address: udp4://192.0.2.1:6363">
          {(id, hint) => <input id={id} aria-describedby={hint} required value={remote} spellcheck={false} onInput={(event) => setRemote(event.currentTarget.value)} />}
        </Field>
        <Field label="Lasts">
          {(id) => (
            <select id={id} value={persistency} onChange={(event) => setPersistency(event.currentTarget.value)}>
              <option value="persistent">until its socket fails</option>
              <option value="permanent">until it is destroyed; it reconnects</option>
            </select>
          )}
        </Field>
        <div class="columns">
          <Field label="Local URI" hint="Only for Ethernet: dev://eth0">
            {(id, hint) => <input id={id} aria-describedby={hint} value={local} spellcheck={false} onInput={(event) => setLocal(event.currentTarget.value)} />}
          </Field>
          <Field label="MTU" hint="Bytes of a frame; empty: the port's own">
            {(id, hint) => <input id={id} aria-describedby={hint} type="number" min="64" value={mtu} onInput={(event) => setMtu(event.currentTarget.value)} />}
          </Field>
        </div>
      </CommandForm>
    </Dialog>
  );
}

function FaceDetail(props: { id: string; onClose: () => void; onDone: () => void }) {
  const { data, error } = usePolled<FacePage>(withQuery('faces', { id: props.id }), 2000);
  const face: Face | undefined = data?.faces[0];
  const [isEnding, setEnding] = useState(false);
  const isOwn = Number(props.id) < 256;
  return (
    <Dialog side title={`Face ${props.id}`} onClose={props.onClose}>
      <Trouble text={error} />
      {data && !face && <Empty>There is no such face any more.</Empty>}
      {face && (
        <>
          <p class="name big">{face.remote_uri}</p>
          <dl class="pairs">
            <Pair label="Local end" value={<span class="name">{face.local_uri}</span>} />
            <Pair label="State" value={<Badge tone={face.up ? 'good' : 'warn'}>{face.up ? 'up' : 'down'}</Badge>} />
            <Pair label="Kind" value={`${face.scope}, ${face.persistency}, ${face.link_type}`} />
            <Pair label="Thread" value={face.thread} />
            <Pair label="MTU" value={face.mtu === null ? 'no limit' : bytes(face.mtu)} />
            {face.expires_in_ms !== null && <Pair label="Ends in" value={duration(face.expires_in_ms)} />}
            <Pair
              label="Link services"
              value={[face.local_fields && 'local fields', face.reliability && 'reliability', face.congestion_marking && 'congestion marking'].filter(Boolean).join(', ') || 'none'}
            />
          </dl>
          <table class="counts">
            <thead>
              <tr>
                <td />
                <th class="number">In</th>
                <th class="number">Out</th>
              </tr>
            </thead>
            <tbody>
              <Count label="Now" values={[`${short(face.in_packets_per_s)}/s`, `${short(face.out_packets_per_s)}/s`]} />
              <Count label="Rate" values={[bitRate(face.in_bytes_per_s), bitRate(face.out_bytes_per_s)]} />
              <Count label="Interests" values={[whole(face.in_interests), whole(face.out_interests)]} />
              <Count label="Data" values={[whole(face.in_data), whole(face.out_data)]} />
              <Count label="Nacks" values={[whole(face.in_nacks), whole(face.out_nacks)]} />
              <Count label="Bytes" values={[bytes(face.in_bytes), bytes(face.out_bytes)]} />
              <Count label="Lost" values={[`${whole(face.in_malformed)} malformed`, `${whole(face.out_drops)} dropped`]} />
            </tbody>
          </table>
          {!isOwn && !isEnding && (
            <div class="form-end">
              <Button tone="danger" disabled={!token()} onClick={() => setEnding(true)}>
                Destroy …
              </Button>
            </div>
          )}
          {isEnding && (
            <CommandForm
              command="faces/destroy"
              button="Destroy this face"
              tone="danger"
              parameters={() => ({ face_id: face.face_id })}
              done={() => `Face ${face.face_id} was destroyed.`}
              onDone={() => (props.onDone(), props.onClose())}
            >
              <p>Its routes end with it, and what its peer has asked for stays unanswered.</p>
            </CommandForm>
          )}
        </>
      )}
    </Dialog>
  );
}

function Pair(props: { label: string; value: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{props.label}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}

function Count(props: { label: string; values: [string, string] }) {
  return (
    <tr>
      <th scope="row">{props.label}</th>
      <td class="number">{props.values[0]}</td>
      <td class="number">{props.values[1]}</td>
    </tr>
  );
}
