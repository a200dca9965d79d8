/** Segmented files, with NDNts's segmented-object. */

import { createHash } from "node:crypto";

import { Name } from "@ndn/packet";
import { discoverVersion, fetch, FileChunkSource, serve } from "@ndn/segmented-object";

import { clientOf, waitAdvertised } from "./uplink.mjs";

/** Serves a file under `prefix`, which includes the version component. */
export async function serveFile({ client: id, prefix, producer_prefix: producerPrefix, path, chunk_size: chunkSize = 8000 }) {
  const client = clientOf(id);
  const name = new Name(prefix);
  const root = new Name(producerPrefix ?? prefix);
  serve(name, new FileChunkSource(path, { chunkSize }), {
    producerPrefix: root,
    freshnessPeriod: 10_000,
    pOpts: { fw: client.fw, concurrency: 64 },
  });
  return { advertised: await waitAdvertised(client, root) };
}

/** Fetches a file and returns its length and SHA-256. `discover` finds the version first. */
export async function fetchFile({ client: id, name, discover = false }) {
  const { fw } = clientOf(id);
  const began = performance.now();
  let versioned = new Name(name);
  if (discover) {
    versioned = await discoverVersion(versioned, { cOpts: { fw } });
  }
  const result = fetch(versioned, { fw });
  const hash = createHash("sha256");
  let length = 0;
  for await (const chunk of result.chunks()) {
    hash.update(chunk);
    length += chunk.length;
  }
  return {
    name: `${versioned}`, length, sha256: hash.digest("hex"), segments: result.count,
    seconds: (performance.now() - began) / 1000,
  };
}
