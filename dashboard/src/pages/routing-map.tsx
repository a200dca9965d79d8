// The network as routing knows it: routers, the links between them, what they cost, and which of them are down.

import { whole } from '../format';
import type { RoutingLink, RoutingMap, RoutingRouter } from '../types';
import { Badge, Card, FaceLink } from '../ui';

const WIDTH = 720;
const HEIGHT = 460;
/** Rings around this router: its neighbours, theirs, and all others. */
const RINGS = [
  { rx: 125, ry: 85 },
  { rx: 225, ry: 145 },
  { rx: 315, ry: 200 },
];
/** How far a link between others stays away from this router. */
const CLEAR = 70;
/** With more routers than this, names are in the list only. */
const NAMED_MAX = 24;
/** How often all pairs of nodes are tried the other way round. */
const ROUNDS_MAX = 8;

interface Node {
  name: string;
  router: RoutingRouter | null;
  ring: number;
  /** The node that it hangs on in the picture; `null`: this router. */
  parent: string | null;
  x: number;
  y: number;
}

interface Edge {
  from: string;
  to: string;
  cost: number | null;
  kind: 'link' | 'way';
  isDown: boolean;
}

/** The last parts of a router's name, which the network does not have. */
function shortName(network: string, router: string): string {
  const short = router.startsWith(`${network}/`) ? router.slice(network.length + 1) : router;
  return short.length > 16 ? `${short.slice(0, 15)}…` : short;
}

/** The links to each neighbour; those in use first. */
function byNeighbour(map: RoutingMap): Map<string, RoutingLink[]> {
  const all = new Map<string, RoutingLink[]>();
  for (const link of map.links) all.set(link.router, [...(all.get(link.router) ?? []), link]);
  return all;
}

/** The neighbour of the best way to a router. */
function neighbourTo(map: RoutingMap, router: RoutingRouter): string | null {
  const hop = router.nexthops[0];
  return (hop && map.links.find((link) => link.face_id === hop.face_id)?.router) ?? null;
}

function nodesOf(map: RoutingMap): Node[] {
  const neighbours = byNeighbour(map);
  const known = new Map(map.routers.map((router) => [router.router, router]));
  const owner = new Map<string, string>();
  for (const router of map.routers) {
    for (const link of router.links) if (!owner.has(link.router)) owner.set(link.router, router.router);
  }
  const names = [...new Set([...neighbours.keys(), ...known.keys()])].sort();
  const nodes = names.map((name): Node => {
    const router = known.get(name) ?? null;
    const parent = neighbours.has(name) ? null : (owner.get(name) ?? (router && neighbourTo(map, router)));
    const ring = neighbours.has(name) ? 0 : owner.has(name) ? 1 : 2;
    return { name, router, ring, parent, x: 0, y: 0 };
  });
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const linked: Pair[] = [];
  for (const router of map.routers) {
    for (const link of router.links) {
      const [from, to] = [byName.get(router.router), byName.get(link.router)];
      if (from && to) linked.push([from, to]);
    }
  }
  place(nodes, linked);
  return nodes;
}

type Pair = [Node, Node];

/** What hangs together: a neighbour, and the nodes behind it. */
interface Sector {
  node: Node | null;
  children: Node[];
}

/** Gives each neighbour a sector as wide as what hangs on it. Few links cross if linked nodes are near each other. */
function place(nodes: Node[], linked: Pair[]): void {
  const inner = nodes.filter((node) => node.ring === 0);
  const hanging = (on: string | null): Node[] => nodes.filter((node) => node.ring > 0 && node.parent === on);
  const orphans = nodes.filter((node) => node.ring > 0 && !inner.some((one) => one.name === node.parent));
  const sectors: Sector[] = inner.map((node) => ({ node, children: hanging(node.name) }));
  if (orphans.length > 0) sectors.push({ node: null, children: orphans });
  layOut(sectors);
  // Nobody sees crossings among so many.
  if (nodes.length > NAMED_MAX) return;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const lists = [sectors, ...sectors.map((sector) => sector.children)];
    // All lists are tried, whether or not one has changed.
    const changed = lists.map((list: unknown[]) => shorten(list, sectors, linked));
    if (!changed.includes(true)) break;
  }
}

/** Swaps two items of a list while that makes links shorter. Returns whether it did. */
function shorten(list: unknown[], sectors: Sector[], linked: Pair[]): boolean {
  const swap = (a: number, b: number): void => {
    [list[a], list[b]] = [list[b], list[a]];
    layOut(sectors);
  };
  const length = (): number => linked.reduce((sum, [from, to]) => sum + (from.x - to.x) ** 2 + (from.y - to.y) ** 2, 0);
  let best = length();
  let changed = false;
  for (let a = 0; a < list.length; a++) {
    for (let b = a + 1; b < list.length; b++) {
      swap(a, b);
      const now = length();
      if (now < best - 1) {
        best = now;
        changed = true;
      } else {
        swap(a, b);
      }
    }
  }
  return changed;
}

/** Goes round with the sectors in their order. */
function layOut(sectors: Sector[]): void {
  const at = (node: Node, turn: number): void => {
    const { rx, ry } = RINGS[node.ring]!;
    node.x = WIDTH / 2 + rx * Math.sin(2 * Math.PI * turn);
    node.y = HEIGHT / 2 - ry * Math.cos(2 * Math.PI * turn);
  };
  const weights = sectors.map((sector) => Math.max(1, sector.children.length));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  let begin = 0.125;
  sectors.forEach(({ node, children }, index) => {
    const wide = weights[index]! / all;
    if (node) at(node, begin + wide / 2);
    children.forEach((child, n) => at(child, begin + (wide * (n + 0.5)) / children.length));
    begin += wide;
  });
}

function edgesOf(map: RoutingMap, nodes: Node[]): Edge[] {
  const edges: Edge[] = [];
  for (const [to, links] of byNeighbour(map)) {
    edges.push({ from: map.router, to, cost: links[0]!.cost, kind: 'link', isDown: !links.some((link) => link.used) });
  }
  const linked = new Set<string>();
  for (const { router, links } of map.routers) {
    for (const link of links) {
      const pair = [router, link.router].sort().join(' ');
      if (!linked.has(pair)) edges.push({ from: router, to: link.router, cost: link.cost, kind: 'link', isDown: false });
      linked.add(pair);
    }
  }
  for (const node of nodes) {
    if (node.ring === 2 && node.parent) edges.push({ from: node.parent, to: node.name, cost: null, kind: 'way', isDown: false });
  }
  return edges;
}

interface Spot {
  x: number;
  y: number;
}

/** A way between two nodes that keeps clear of this router in the middle, and the place of its cost. */
function curve(from: Spot, to: Spot, isOwn: boolean): { path: string; middle: Spot } {
  const straight = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  if (isOwn) return { path: `M${from.x} ${from.y}L${to.x} ${to.y}`, middle: straight };
  const length = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
  const along = { x: (to.x - from.x) / length, y: (to.y - from.y) / length };
  const middle = { x: WIDTH / 2 - from.x, y: HEIGHT / 2 - from.y };
  const [ahead, aside] = [middle.x * along.x + middle.y * along.y, middle.x * along.y - middle.y * along.x];
  // Away from the middle, if the line passes near it.
  const push = ahead > 0 && ahead < length && Math.abs(aside) < CLEAR ? 2 * (CLEAR - Math.abs(aside)) * (aside > 0 ? -1 : 1) : 0;
  const bend = { x: straight.x + along.y * push, y: straight.y - along.x * push };
  return {
    path: `M${from.x} ${from.y}Q${bend.x} ${bend.y} ${to.x} ${to.y}`,
    middle: { x: (straight.x + bend.x) / 2, y: (straight.y + bend.y) / 2 },
  };
}

function Picture(props: { map: RoutingMap }) {
  const { map } = props;
  const nodes = nodesOf(map);
  const edges = edgesOf(map, nodes);
  const isCrowded = nodes.length > NAMED_MAX;
  const places = new Map(nodes.map((node) => [node.name, { x: node.x, y: node.y }]));
  places.set(map.router, { x: WIDTH / 2, y: HEIGHT / 2 });
  const reachable = map.routers.filter((router) => router.cost !== null).length;
  const spoken = `This router in the middle, and ${whole(map.routers_total)} other routers, of which ${whole(reachable)} are reachable. The list below has the same.`;
  return (
    <svg class="map routing" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={spoken}>
      {edges.map((edge) => {
        const [from, to] = [places.get(edge.from), places.get(edge.to)];
        if (!from || !to) return null;
        const { path, middle } = curve(from, to, edge.from === map.router);
        return (
          <g key={`${edge.kind} ${edge.from} ${edge.to}`}>
            <path d={path} class={`${edge.kind} ${edge.isDown ? 'down' : ''}`} stroke-width={edge.kind === 'link' ? 3 : 1.5} />
            {edge.cost !== null && !isCrowded && (
              <text x={middle.x} y={middle.y + 5} class="peer-name cost">
                {edge.cost}
              </text>
            )}
          </g>
        );
      })}
      {nodes.map((node) => (
        <g key={node.name}>
          <title>{node.name}</title>
          <circle cx={node.x} cy={node.y} r={isCrowded ? 6 : 10} class={`peer ${node.router?.cost == null ? 'down' : ''}`} />
          {!isCrowded && (
            <text x={node.x} y={node.y + (node.y < HEIGHT / 2 ? -17 : 30)} class="peer-name">
              {shortName(map.network, node.name)}
            </text>
          )}
        </g>
      ))}
      <circle cx={WIDTH / 2} cy={HEIGHT / 2} r="30" class="self" />
      <text x={WIDTH / 2} y={HEIGHT / 2 + 5} class="self-name">
        {shortName(map.network, map.router).slice(0, 7)}
      </text>
    </svg>
  );
}

/** Why a link is not in use. */
function trouble(link: RoutingLink): string | null {
  if (link.used) return null;
  if (link.damped_ms !== null) return 'flaps, left alone';
  return link.last_down ? `down: ${link.last_down}` : 'not in use';
}

function RouterRow(props: { name: string; router: RoutingRouter | null; links: RoutingLink[]; via: string | null; network: string }) {
  const { name, router, links, via } = props;
  return (
    <li>
      <span class="name">{name}</span>
      <span class="grow">
        {router?.cost == null && <Badge tone="bad">not reachable</Badge>} {links.length > 0 && <Badge tone="good">neighbour</Badge>}
        {router?.stale && <Badge tone="warn">of its earlier start</Badge>}
        {links.map((link) => (
          <span class="link" key={link.face_id}>
            <FaceLink id={link.face_id} uri={link.uri} /> <span class="note">link cost {link.cost}, hello {link.hello}</span>
            {trouble(link) && <Badge tone="warn">{trouble(link)}</Badge>}
          </span>
        ))}
        {links.length === 0 && via && <span class="note">through {shortName(props.network, via)}</span>}
      </span>
      {router && <span class="note">{whole(router.prefixes)} {router.prefixes === 1 ? 'prefix' : 'prefixes'}</span>}
      <span class="num">{router?.cost == null ? '–' : `cost ${router.cost}`}</span>
    </li>
  );
}

export function Routing(props: { map: RoutingMap }) {
  const { map } = props;
  const neighbours = byNeighbour(map);
  const known = new Map(map.routers.map((router) => [router.router, router]));
  const names = [...new Set([...map.routers.map((router) => router.router), ...neighbours.keys()])];
  const reachable = map.routers.filter((router) => router.cost !== null).length;
  return (
    <Card title={`Routing in ${map.network}`} note={`${map.router}, ${whole(map.routers_total)} other ${map.routers_total === 1 ? 'router' : 'routers'}`}>
      <Picture map={map} />
      <p class="note legend">
        <span>Numbers on links are costs.</span>
        <span>
          <i class="line dashed" /> down
        </span>
        <span>
          <i class="line way" /> the way to a router, over links that no neighbour tells of
        </span>
        {map.routers_total > map.routers.length && <span>The nearest {map.routers.length} routers are shown.</span>}
        {map.links_total > map.links.length && <span>{map.links.length} of {whole(map.links_total)} links to neighbours are shown.</span>}
        {reachable < map.routers.length && <span>{whole(map.routers.length - reachable)} not reachable.</span>}
      </p>
      {names.length === 0 && <p class="empty">No other router has been heard yet.</p>}
      <ul class="rows routers" aria-label="Routers">
        {names.map((name) => {
          const router = known.get(name) ?? null;
          return <RouterRow key={name} name={name} router={router} links={neighbours.get(name) ?? []} via={router && neighbourTo(map, router)} network={map.network} />;
        })}
      </ul>
    </Card>
  );
}
