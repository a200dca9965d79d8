import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, token, withQuery } from '../api';
import { bytes, duration, lastOf, nanoseconds, parentOf, strategyWord, whole } from '../format';
import { linkTo, useLive, usePlace, usePolled, words } from '../store';
import type { Explanation, RouteNode, RoutePage } from '../types';
import { Badge, Button, Card, CommandForm, Dialog, Empty, FaceLink, Field, LongList, NameLink, Page, Search, Trouble, useSettled } from '../ui';

const ROW = 38;
const PAGE = 100;
/** Names that one search finds at most. */
const FOUND_MAX = 200;

/** What is known of the children of a prefix. */
interface Branches {
  nodes: RouteNode[];
  next: string | null;
  isLoading: boolean;
}

/** A row of the tree: a name, or the place where more names may be loaded. */
type Row = { kind: 'name'; node: RouteNode; depth: number; isOpen: boolean } | { kind: 'more'; under: string; depth: number };

export function Routes() {
  const { query } = usePlace();
  const name = query.get('name');
  const { live } = useLive();
  const [search, setSearch] = useState('');
  const [isAdding, setAdding] = useState(false);
  const [version, setVersion] = useState(0);
  const part = useSettled(search.trim(), 250);
  const changed = (): void => setVersion((last) => last + 1);
  const choose = useCallback((name: string) => (location.hash = linkTo('routes', { name })), []);
  return (
    <Page
      title="Routes"
      lead={live ? `${whole(live.routes)} routes lead to ${whole(live.fib_entries)} FIB entries.` : ' '}
      actions={
        <Button tone="main" disabled={!token()} onClick={() => setAdding(true)}>
          New route
        </Button>
      }
    >
      <div class={`split ${name !== null ? 'has-detail' : ''}`}>
        <Card>
          <div class="tools">
            <Search label="Search names" placeholder="Part of a name, or a name such as /ndn/edu" value={search} onInput={setSearch} />
            <Button onClick={() => choose(search.trim().startsWith('/') ? search.trim() : '/')} title="Where an Interest for a name would go">
              Route get
            </Button>
          </div>
          {part ? <Found key={`${part} ${version}`} part={part} chosen={name} onChoose={choose} /> : <Tree version={version} chosen={name} onChoose={choose} />}
        </Card>
        {name !== null && <Detail key={name} name={name} version={version} onChanged={changed} />}
      </div>
      {isAdding && <AddRoute name={name ?? ''} onClose={() => setAdding(false)} onDone={() => (setAdding(false), changed())} />}
    </Page>
  );
}

function Tree(props: { version: number; chosen: string | null; onChoose: (name: string) => void }) {
  const [known, setKnown] = useState<Map<string, Branches>>(new Map());
  const [open, setOpen] = useState<Set<string>>(new Set(['/']));
  const [trouble, setTrouble] = useState<string | null>(null);
  const latest = useRef(known);
  latest.current = known;

  const load = useCallback(async (under: string, isFirst: boolean) => {
    const before = latest.current.get(under);
    if (before?.isLoading || (!isFirst && !before?.next)) return;
    const set = (branches: Branches): void => setKnown((last) => (latest.current = new Map(last).set(under, branches)));
    set({ nodes: before?.nodes ?? [], next: before?.next ?? null, isLoading: true });
    try {
      const page = await get<RoutePage>(withQuery('routes', { under, after: isFirst ? null : before?.next, limit: PAGE }));
      const nodes = isFirst ? page.nodes : [...(before?.nodes ?? []), ...page.nodes];
      set({ nodes, next: page.next, isLoading: false });
      setTrouble(null);
    } catch (error) {
      set({ nodes: before?.nodes ?? [], next: before?.next ?? null, isLoading: false });
      setTrouble(words(error));
    }
  }, []);

  useEffect(() => {
    latest.current = new Map();
    setKnown(latest.current);
    open.forEach((name) => void load(name, true));
  }, [props.version]);

  const toggle = (name: string): void => {
    const isOpen = open.has(name);
    setOpen((last) => {
      const next = new Set(last);
      if (isOpen) next.delete(name);
      else next.add(name);
      return next;
    });
    if (!isOpen && !known.has(name)) void load(name, true);
  };

  const rows = useMemo(() => {
    const all: Row[] = [];
    const add = (under: string, depth: number): void => {
      const branches = known.get(under);
      for (const node of branches?.nodes ?? []) {
        const isOpen = open.has(node.name) && node.below > 0;
        all.push({ kind: 'name', node, depth, isOpen });
        if (isOpen) add(node.name, depth + 1);
      }
      if (branches?.next || branches?.isLoading) all.push({ kind: 'more', under, depth });
    };
    add('/', 0);
    return all;
  }, [known, open]);

  if (rows.length === 0 && !trouble) return <Empty>{known.get('/')?.isLoading ? 'Loading …' : 'There are no routes.'}</Empty>;
  return (
    <>
      <Trouble text={trouble} />
      <LongList
        rows={rows}
        rowHeight={ROW}
        label="Tree of names"
        class="tree"
        row={(row) =>
          row.kind === 'more' ? (
            <More depth={row.depth} onSeen={() => void load(row.under, false)} />
          ) : (
            <NodeRow node={row.node} depth={row.depth} isOpen={row.isOpen} isChosen={row.node.name === props.chosen} text={lastOf(row.node.name)} onToggle={() => toggle(row.node.name)} onChoose={() => props.onChoose(row.node.name)} />
          )
        }
      />
    </>
  );
}

/** Loads the next part as soon as it comes into view. */
function More(props: { depth: number; onSeen: () => void }) {
  useEffect(() => props.onSeen());
  return (
    <span class="note tree-row" style={{ paddingLeft: `${props.depth * 1.25 + 2}rem` }}>
      Loading …
    </span>
  );
}

function NodeRow(props: {
  node: RouteNode;
  depth: number;
  isOpen: boolean;
  isChosen: boolean;
  text: string;
  onToggle?: () => void;
  onChoose: () => void;
}) {
  const { node } = props;
  const below = node.below_more ? `${node.below}+` : String(node.below);
  return (
    <div class={`tree-row ${props.isChosen ? 'chosen' : ''}`} style={{ paddingLeft: `${props.depth * 1.25}rem` }}>
      {props.onToggle && node.below > 0 ? (
        <button type="button" class="twist" aria-expanded={props.isOpen} aria-label={`Names below ${node.name}`} onClick={props.onToggle}>
          {props.isOpen ? '▾' : '▸'}
        </button>
      ) : (
        <span class="twist" />
      )}
      <button type="button" class="tree-name name" title={node.name} onClick={props.onChoose}>
        {props.text}
      </button>
      {node.below > 0 && <span class="note num">{below} below</span>}
      <span class="tree-hops">
        {node.nexthops.slice(0, 3).map((hop) => (
          <FaceLink key={hop.face_id} id={hop.face_id} />
        ))}
        {node.nexthops.length > 3 && <span class="note">+{node.nexthops.length - 3}</span>}
      </span>
    </div>
  );
}

/** Searches all names, a part at a time, until enough are found. */
function Found(props: { part: string; chosen: string | null; onChoose: (name: string) => void }) {
  const [nodes, setNodes] = useState<RouteNode[]>([]);
  const [state, setState] = useState<'searching' | 'done' | 'enough' | string>('searching');
  const isName = props.part.startsWith('/');
  useEffect(() => {
    const ending = new AbortController();
    const search = async (): Promise<void> => {
      let after: string | null = null;
      const found: RouteNode[] = [];
      try {
        do {
          // A name is looked up where it is; everything else is searched for in all names.
          const query: Record<string, string | number | null> = isName ? { under: props.part.replace(/\/$/, '') || '/', after, limit: 100 } : { part: props.part, after, limit: 100 };
          const page: RoutePage = await get<RoutePage>(withQuery('routes/find', query), ending.signal);
          found.push(...page.nodes);
          after = page.next;
          setNodes([...found]);
        } while (after && found.length < FOUND_MAX);
        setState(after ? 'enough' : 'done');
      } catch (error) {
        if (!ending.signal.aborted) setState(words(error));
      }
    };
    void search();
    return () => ending.abort();
  }, []);
  const text = { searching: `Searching, ${nodes.length} found …`, done: `${nodes.length} found.`, enough: `The first ${nodes.length}; more of the name finds fewer.` }[state as 'done'] ?? state;
  return (
    <>
      <p class="note" role="status">
        {text}
      </p>
      <LongList
        rows={nodes}
        rowHeight={ROW}
        label="Names that were found"
        class="tree"
        row={(node) => <NodeRow node={node} depth={0} isOpen={false} isChosen={node.name === props.chosen} text={node.name} onChoose={() => props.onChoose(node.name)} />}
      />
    </>
  );
}

const TURNS = { first: 'first', 'at-random': 'at random', later: 'if those before fail', never: 'not used' } as const;

function Detail(props: { name: string; version: number; onChanged: () => void }) {
  const { data, error, reload } = usePolled<Explanation>(withQuery('explain', { name: props.name }), 2000);
  const own = usePolled<RoutePage>(withQuery('routes', { under: props.name, self: true, limit: 1 }), 5000);
  const [removing, setRemoving] = useState<{ face_id: number; origin: string } | null>(null);
  useEffect(() => (reload(), own.reload()), [props.version]);
  const node = own.data?.nodes[0];
  return (
    <aside class="detail card" aria-label={`Route get ${props.name}`}>
      <header class="card-head">
        <h2 class="name">{props.name}</h2>
        <a class="button quiet" href={linkTo('routes')} aria-label="Close">
          ✕
        </a>
      </header>
      {props.name !== '/' && (
        <p class="note">
          above: <NameLink name={parentOf(props.name)} />
        </p>
      )}
      <Trouble text={error} />
      {node && node.name === props.name && node.routes.length > 0 && (
        <>
          <h3>Routes of this name</h3>
          <ul class="plain">
            {node.routes.map((route) => (
              <li key={`${route.face_id} ${route.origin}`} class="route">
                <span>
                  <FaceLink id={route.face_id} /> <span class="note">{route.origin}, cost {route.cost}</span>{' '}
                  {route.capture && <Badge>capture</Badge>} {!route.child_inherit && <Badge>no inherit</Badge>} {route.stale && <Badge tone="warn">stale</Badge>}
                  {route.expires_in_ms !== null && <span class="note"> {duration(route.expires_in_ms)} left</span>}
                </span>
                {route.face_id >= 256 && (
                  <Button tone="quiet" disabled={!token()} aria-label={`Remove the route to face ${route.face_id}`} onClick={() => setRemoving(route)}>
                    Remove
                  </Button>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {data && <Explained of={data} />}
      {removing && (
        <Dialog title="Remove a route" onClose={() => setRemoving(null)}>
          <CommandForm
            command="rib/unregister"
            button="Remove"
            tone="danger"
            parameters={() => ({ name: props.name, face_id: removing.face_id, origin: removing.origin })}
            done={() => `The route of ${props.name} to face ${removing.face_id} was removed.`}
            onDone={() => (setRemoving(null), props.onChanged())}
          >
            <p>
              <span class="name">{props.name}</span> will not lead to face {removing.face_id} any more.
            </p>
          </CommandForm>
        </Dialog>
      )}
    </aside>
  );
}

function Explained(props: { of: Explanation }) {
  const { of } = props;
  const store = of.content_store;
  const freshness = store.fresh_for_ms === 0 ? 'stale' : `fresh for ${duration(store.fresh_for_ms ?? 0)}`;
  const stored = store.stored ? `has it: ${bytes(store.bytes ?? 0)}, ${freshness}` : store.stored_below ? 'has Data below it' : 'has it not';
  return (
    <>
      <h3>An Interest for this name now</h3>
      <ol class="way">
        <li>
          <b>Home</b> thread {of.thread} of {of.threads}
        </li>
        <li>
          <b>Content store</b> {store.serve ? stored : `is off; it ${stored}`}
        </li>
        <li>
          <b>PIT</b>{' '}
          {of.pending.length === 0
            ? 'no Interest of this name is pending'
            : of.pending.map((pending, place) => (
                <span key={place}>
                  pending for {duration(pending.expires_in_ms)}, {pending.downstreams.length + pending.further_downstreams} waiting, {pending.upstreams.length} asked.{' '}
                </span>
              ))}
        </li>
        <li>
          <b>FIB</b> {of.rule === null ? 'no rule covers it' : <NameLink name={of.rule} />}
        </li>
        <li>
          <b>Strategy</b> {strategyWord(of.strategy.name)}, chosen for <NameLink name={of.strategy.prefix} />
        </li>
        <li>
          <b>Nexthops</b>
          {of.nexthops.length === 0 && ' none: it is refused with a Nack (no route)'}
          <ol class="hops">
            {of.nexthops.map((hop) => (
              <li key={hop.face_id} class={hop.turn}>
                <FaceLink id={hop.face_id} uri={hop.remote_uri} />
                <span class="note">
                  {TURNS[hop.turn]}, cost {hop.cost}
                  {hop.rtt_us !== null && `, RTT ${nanoseconds(hop.rtt_us * 1000)}`}
                  {hop.silent > 0 && `, left the last ${hop.silent} unanswered`}
                </span>
              </li>
            ))}
          </ol>
        </li>
      </ol>
      {of.routes.length > 0 && (
        <>
          <h3>Routes behind the rule</h3>
          <ul class="plain">
            {of.routes.map((route, place) => (
              <li key={place} class={route.used ? '' : 'faint'}>
                <NameLink name={route.prefix} /> to <FaceLink id={route.face_id} />{' '}
                <span class="note">
                  {route.origin ?? 'fib'}, cost {route.cost}
                  {!route.used && ', not used'}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function AddRoute(props: { name: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(props.name === '/' ? '' : props.name);
  const [face, setFace] = useState('');
  const [cost, setCost] = useState('0');
  const [inherit, setInherit] = useState(true);
  const [capture, setCapture] = useState(false);
  const [minutes, setMinutes] = useState('');
  const parameters = (): object => ({
    name: name.trim(),
    face_id: Number(face),
    origin: 'static',
    cost: Number(cost),
    child_inherit: inherit,
    capture,
    ...(minutes ? { expires_in_ms: Number(minutes) * 60_000 } : {}),
  });
  return (
    <Dialog title="New route" onClose={props.onClose}>
      <CommandForm command="rib/register" button="Add" parameters={parameters} done={() => `${name} leads to face ${face}.`} onDone={props.onDone}>
        <Field label="Prefix">
          {(id) => <input id={id} required placeholder="/ndn" value={name} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <div class="columns">
          <Field label="Face" hint="Its number">
            {(id, hint) => <input id={id} aria-describedby={hint} required type="number" min="256" value={face} onInput={(event) => setFace(event.currentTarget.value)} />}
          </Field>
          <Field label="Cost" hint="Lower is better">
            {(id, hint) => <input id={id} aria-describedby={hint} type="number" min="0" value={cost} onInput={(event) => setCost(event.currentTarget.value)} />}
          </Field>
          <Field label="Minutes" hint="Empty: for ever">
            {(id, hint) => <input id={id} aria-describedby={hint} type="number" min="1" value={minutes} onInput={(event) => setMinutes(event.currentTarget.value)} />}
          </Field>
        </div>
        <label class="check">
          <input type="checkbox" checked={inherit} onChange={(event) => setInherit(event.currentTarget.checked)} /> Longer names use it, too
        </label>
        <label class="check">
          <input type="checkbox" checked={capture} onChange={(event) => setCapture(event.currentTarget.checked)} /> Longer names use no shorter prefix
        </label>
      </CommandForm>
    </Dialog>
  );
}
