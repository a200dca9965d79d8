// The answers of the API, as docs/dashboard.md describes them.

export interface Packets {
  in_interests: number;
  in_data: number;
  in_nacks: number;
  in_tag_packets: number;
  in_locator_packets: number;
  out_interests: number;
  out_data: number;
  out_nacks: number;
  out_tag_packets: number;
  out_locator_packets: number;
}

export interface ContentStore {
  capacity: number;
  admit: boolean;
  serve: boolean;
  entries: number;
  bytes: number;
  hits: number;
  misses: number;
}

export interface Rings {
  home: number;
  foreign: number;
  taken: number;
  input_depth: number;
  input_drops: number;
  output_depth: number;
  output_drops: number;
}

export interface Stage {
  stage: string;
  packets: number;
  ns: number;
}

export interface Thread {
  load: number;
  busy_ns: number;
  sleeps: number;
  rests: number;
  node: number | null;
  faces: number;
  pit_entries: number;
  cs_entries: number;
  in_interests: number;
  in_data: number;
  satisfied_interests: number;
  unsatisfied_interests: number;
  rings: Rings | null;
  stages: Stage[];
  round_ns: number[];
  round_packets: number[];
  drops: Record<string, number>;
}

export interface Live {
  version: string;
  at_ms: number;
  uptime_ms: number;
  process: number;
  state: string;
  routes: number;
  fib_entries: number;
  pit_entries: number;
  descriptors: number;
  announcements: number;
  strategy_choices: number;
  measurements: number;
  hot_names: number;
  faces: number;
  satisfied_interests: number;
  unsatisfied_interests: number;
  packets: Packets;
  content_store: ContentStore;
  drops: Record<string, number>;
  threads: Thread[];
  round_ns_bounds: number[];
  round_packets_bounds: number[];
}

export interface Rates {
  in_packets_per_s: number;
  out_packets_per_s: number;
  in_bytes_per_s: number;
  out_bytes_per_s: number;
  out_drops_per_s: number;
}

export interface Face extends Rates {
  face_id: number;
  remote_uri: string;
  local_uri: string;
  scope: string;
  persistency: string;
  link_type: string;
  up: boolean;
  mtu: number | null;
  expires_in_ms: number | null;
  local_fields: boolean;
  reliability: boolean;
  congestion_marking: boolean;
  base_congestion_marking_interval_ns: number;
  default_congestion_threshold_bytes: number;
  thread: number;
  in_interests: number;
  in_data: number;
  in_nacks: number;
  out_interests: number;
  out_data: number;
  out_nacks: number;
  in_bytes: number;
  out_bytes: number;
  in_malformed: number;
  reassembly_timeouts: number;
  out_drops: number;
  congestion_marks: number;
  retransmissions: number;
}

export interface FacePage {
  total: number;
  found: number;
  up: number;
  age_ms: number;
  all: Rates;
  in_bytes: number;
  out_bytes: number;
  closed: Record<string, number>;
  faces: Face[];
}

export interface Route {
  face_id: number;
  origin: string;
  cost: number;
  child_inherit: boolean;
  capture: boolean;
  expires_in_ms: number | null;
  stale: boolean;
}

export interface RouteNode {
  name: string;
  routes: Route[];
  nexthops: { face_id: number; cost: number }[];
  below: number;
  below_more: boolean;
}

export interface RoutePage {
  routes: number;
  nodes: RouteNode[];
  next: string | null;
}

export interface Explanation {
  name: string;
  rule: string | null;
  routes: (Omit<Route, 'origin'> & { prefix: string; remote_uri: string | null; origin: string | null; used: boolean })[];
  strategy: { name: string; prefix: string; parameters: Record<string, string> };
  nexthops: {
    face_id: number;
    remote_uri: string | null;
    cost: number;
    turn: 'first' | 'at-random' | 'later' | 'never';
    rtt_us: number | null;
    silent: number;
  }[];
  content_store: {
    serve: boolean;
    stored: boolean;
    bytes: number | null;
    fresh_for_ms: number | null;
    stored_below: boolean | null;
  };
  pending: {
    can_be_prefix: boolean;
    must_be_fresh: boolean;
    expires_in_ms: number;
    downstreams: { face_id: number; remote_uri: string | null; expires_in_ms: number }[];
    further_downstreams: number;
    upstreams: { face_id: number; remote_uri: string | null; since_ms: number; nack: string | null }[];
  }[];
  thread: number;
  threads: number;
}

export interface StrategyPage {
  choices: { prefix: string; strategy: string }[];
  next: number | null;
  known: string[];
}

export interface TreePage {
  trees: {
    tree: number;
    label: string | null;
    neighbors: { face_id: number; remote_uri: string | null; signed: boolean }[];
  }[];
  descriptors: number;
}

export interface DescriptorPage {
  descriptors: { tags: string[]; nexthops: { tree: number; face_id: number }[] }[];
  next: number | null;
}

export interface AuditLine {
  time: string;
  command: string;
  face: number;
  remote: string | null;
  key: string | null;
  claimed_key?: string;
  code: number;
  text?: string;
  parameters?: Record<string, unknown>;
}

export interface AuditPage {
  last: number;
  lines: AuditLine[];
}

export interface TraceEvent {
  at_unix_us: number;
  thread: number;
  subject: string;
  nack: string | null;
  name: string;
  face_id: number;
  remote_uri: string | null;
  bytes: number;
  nonce: number | null;
  can_be_prefix: boolean;
  must_be_fresh: boolean;
  pit: string | null;
  satisfied: number | null;
  store: string | null;
  way: string | null;
  rule: string | null;
  strategy: string | null;
  why: string | null;
  sent: { face_id: number; remote_uri: string | null; subject: string; nack: string | null }[];
  dropped: string | null;
  times_ns: Record<string, number>;
}

export interface TracePage {
  events: TraceEvent[];
  lost: number;
}

/** A face to a neighbour in routing. */
export interface RoutingLink {
  router: string;
  face_id: number;
  uri: string | null;
  cost: number;
  used: boolean;
  hello: 'up' | 'init' | 'down' | 'silent';
  damped_ms: number | null;
  downs: number;
  last_down: string | null;
  heard_ms: number;
}

export interface RoutingRouter {
  router: string;
  cost: number | null;
  nexthops: { face_id: number; cost: number }[];
  prefixes: number;
  stale: boolean;
  links: { router: string; cost: number }[];
}

export interface RoutingMap {
  network: string;
  router: string;
  links_total: number;
  links: RoutingLink[];
  routers_total: number;
  routers: RoutingRouter[];
}

export interface MapPage {
  neighbors: (Rates & {
    face_id: number;
    remote_uri: string;
    local_uri: string;
    group: boolean;
    up: boolean;
    trees: number[];
  })[];
  total: number;
  applications: number;
  hub: number | null;
  trees: { tree: number; label: string | null }[];
  routing: RoutingMap | null;
}
