import { bitRate, whole } from '../format';
import { usePolled } from '../store';
import type { MapPage } from '../types';
import { Badge, Card, Empty, FaceLink, Page, Trouble } from '../ui';
import { Routing } from './routing-map';

const WIDTH = 900;
const HEIGHT = 440;
const RINGS = [
  { count: 16, rx: 300, ry: 150 },
  { count: 44, rx: 410, ry: 205 },
];

type Neighbor = MapPage['neighbors'][number];

export function NetworkMap() {
  const { data, error } = usePolled<MapPage>('map', 2000);
  return (
    <Page title="Map" lead="The network as far as this router knows it: the routers that routing tells of, its neighbours, what passes between them and it, and the trees that they share.">
      <Trouble text={error} />
      {data && (
        <>
          {data.routing && <Routing map={data.routing} />}
          <Card title="Traffic">
            <Picture map={data} />
            <p class="note legend">
              <span>Lines are as wide as what passes.</span>
              <span class="on-narrow">Numbers are those of faces.</span>
              <span>
                <i class="line dashed" /> down
              </span>
              <span>
                <i class="line tree" /> on a tree
              </span>
              {data.total > data.neighbors.length && <span>The busiest {data.neighbors.length} of {whole(data.total)} neighbours are shown.</span>}
            </p>
          </Card>
          <Card title="Neighbours" note={whole(data.total)}>
            {data.total === 0 && <Empty>This router has no neighbours. A face to another router makes one.</Empty>}
            <ul class="rows">
              {data.neighbors.map((neighbor) => (
                <li key={neighbor.face_id}>
                  <FaceLink id={neighbor.face_id} uri={neighbor.remote_uri} />
                  <span class="grow">
                    {!neighbor.up && <Badge tone="warn">down</Badge>} {neighbor.group && <Badge>group</Badge>} {neighbor.face_id === data.hub && <Badge tone="good">hub</Badge>}
                    {neighbor.trees.map((tree) => (
                      <Badge key={tree}>tree {tree}</Badge>
                    ))}
                  </span>
                  <span class="num">{bitRate(neighbor.in_bytes_per_s + neighbor.out_bytes_per_s)}</span>
                </li>
              ))}
            </ul>
          </Card>
        </>
      )}
    </Page>
  );
}

function places(neighbors: Neighbor[]): { neighbor: Neighbor; x: number; y: number }[] {
  // The order does not follow the rates, so that nothing jumps.
  const sorted = [...neighbors].sort((a, b) => a.face_id - b.face_id);
  const inner = sorted.length <= RINGS[0]!.count ? sorted : sorted.filter((_, place) => place % 4 === 0);
  const outer = sorted.filter((neighbor) => !inner.includes(neighbor));
  const on = (list: Neighbor[], ring: (typeof RINGS)[number], shift: number) =>
    list.map((neighbor, place) => {
      const angle = (2 * Math.PI * (place + shift)) / list.length - Math.PI / 2;
      return { neighbor, x: WIDTH / 2 + ring.rx * Math.cos(angle), y: HEIGHT / 2 + ring.ry * Math.sin(angle) };
    });
  return [...on(inner, RINGS[0]!, inner.length === 1 ? 0.25 : 0.5), ...on(outer, RINGS[1]!, 0.25)];
}

const peerOf = (uri: string): string => uri.replace(/^\w+:\/\//, '').replace(/:6363$/, '');
const rate = (neighbor: Neighbor): number => neighbor.in_bytes_per_s + neighbor.out_bytes_per_s;

function Picture(props: { map: MapPage }) {
  const { map } = props;
  const placed = places(map.neighbors);
  const most = Math.max(1, ...map.neighbors.map(rate));
  const isCrowded = placed.length > RINGS[0]!.count;
  const spoken = `This router in the middle, ${whole(map.total)} neighbours around it, and ${whole(map.applications)} applications on this host`;
  return (
    <svg class="map" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={spoken}>
      {placed.map(({ neighbor, x, y }) => (
        <line
          key={neighbor.face_id}
          x1={WIDTH / 2}
          y1={HEIGHT / 2}
          x2={x}
          y2={y}
          class={`${neighbor.up ? '' : 'down'} ${neighbor.trees.length > 0 ? 'tree' : ''}`}
          stroke-width={1 + 7 * Math.sqrt(rate(neighbor) / most)}
        />
      ))}
      {placed.map(({ neighbor, x, y }) => (
        <g key={neighbor.face_id}>
          <circle cx={x} cy={y} r={isCrowded ? 7 : 10} class={neighbor.up ? 'peer' : 'peer down'} />
          {(!isCrowded || rate(neighbor) / most > 0.3) && (
            <>
              <text x={x} y={y + (y < HEIGHT / 2 ? -18 : 30)} class="peer-name on-wide">
                {peerOf(neighbor.remote_uri)}
              </text>
              <text x={x} y={y + (y < HEIGHT / 2 ? -18 : 34)} class="peer-name on-narrow">
                {neighbor.face_id}
              </text>
            </>
          )}
        </g>
      ))}
      <circle cx={WIDTH / 2} cy={HEIGHT / 2} r="34" class="self" />
      <text x={WIDTH / 2} y={HEIGHT / 2 + 5} class="self-name">
        router
      </text>
      {map.applications > 0 && (
        <text x={WIDTH / 2} y={HEIGHT / 2 + 56} class="peer-name">
          {whole(map.applications)} {map.applications === 1 ? 'application' : 'applications'} here
        </text>
      )}
    </svg>
  );
}
