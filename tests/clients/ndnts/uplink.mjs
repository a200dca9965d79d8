/** Clients. Each is a logical forwarder with one uplink to a router. */

import { Forwarder } from "@ndn/fw";
import { L3Face } from "@ndn/l3face";
import { enableNfdPrefixReg, PrefixAnn } from "@ndn/nfdmgmt";
import { TcpTransport, UdpTransport, UnixTransport } from "@ndn/node-transport";
import { delay } from "@ndn/util";
import { WsTransport } from "@ndn/ws-transport";

import { signerOf } from "./keys.mjs";

const clients = new Map();
let lastId = 0;

/** Opens an NDNts transport for a URI as in NDN_CLIENT_TRANSPORT. */
export async function openTransport(uri) {
  const { protocol, hostname, port, pathname } = new URL(uri);
  const host = hostname.replaceAll(/^\[|]$/g, "");
  switch (protocol) {
    case "unix:":
      return UnixTransport.connect(pathname);
    case "udp:":
      return UdpTransport.connect({ host, port: Number(port) });
    case "tcp:":
      return TcpTransport.connect(host, Number(port));
    case "ws:":
      return WsTransport.connect(uri);
  }
  throw new Error(`no NDNts transport for ${uri}`);
}

/**
 * Connects a client.
 *
 * `local` overrides NDNts's guess of the face's scope. The scope decides whether
 * it registers under /localhost or /localhop. `register: false` turns prefix
 * registration off.
 */
export async function connect({ uplink, local, register = true, signer, origin, cost, capture, announcements = false }) {
  const fw = Forwarder.create();
  const transport = await openTransport(uplink);
  const attributes = { advertiseFrom: false, ...(local === undefined ? {} : { local }) };
  const face = fw.addFace(new L3Face(transport, attributes));
  face.addRoute("/");

  let registration;
  if (register) {
    registration = enableNfdPrefixReg(face, {
      signer: signerOf(signer),
      retry: { retries: 4, minTimeout: 200, maxTimeout: 1000 },
      ...(origin === undefined ? {} : { origin }),
      ...(cost === undefined ? {} : { cost }),
      ...(capture === undefined ? {} : { flagCapture: capture }),
      ...(announcements ? { PrefixAnn } : {}),
    });
  }
  const id = ++lastId;
  clients.set(id, { fw, face, registration, producers: new Map() });
  return { client: id, local: Boolean(face.attributes.local) };
}

export function clientOf(id) {
  const client = clients.get(id);
  if (!client) {
    throw new Error(`no client ${id}`);
  }
  return client;
}

/** NDNts's state of a registration after the router answered 200. */
const ADVERTISED = 1;

/** Waits for the registration of a prefix. Returns null for a client without registration. */
export async function waitAdvertised({ registration }, prefix, timeoutMs = 5000) {
  if (!registration) {
    return null;
  }
  const deadline = Date.now() + timeoutMs;
  while (registration.table.get(prefix)?.status !== ADVERTISED) {
    if (Date.now() > deadline) {
      return false;
    }
    await delay(10);
  }
  return true;
}

export async function closeClient({ client: id }) {
  const { fw } = clientOf(id);
  clients.delete(id);
  fw.close();
}
