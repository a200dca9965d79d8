/**
 * An NDNts program that runs requests of the tests.
 *
 * It reads one JSON request from each line, {id, op, ...}, and writes one JSON
 * answer on each line, {id, ok} or {id, error}. It holds any number of clients.
 * Each client is an NDNts logical forwarder with one uplink to the router under
 * test. NDNts is not patched: this file only calls its public interface.
 */

import { createInterface } from "node:readline";

import { announce, csErase, dataset, invokeCommand } from "./management.mjs";
import { fetchFile, serveFile } from "./files.mjs";
import { connect, closeClient } from "./uplink.mjs";
import { exchangeRaw } from "./raw.mjs";
import { makeKey } from "./keys.mjs";
import { fetchData, produceData, stopProducer } from "./traffic.mjs";

const operations = {
  connect,
  close: closeClient,
  produce: produceData,
  stop: stopProducer,
  fetch: fetchData,
  exchange_raw: exchangeRaw,
  make_key: makeKey,
  invoke: invokeCommand,
  dataset,
  cs_erase: csErase,
  announce,
  serve_file: serveFile,
  fetch_file: fetchFile,
};

function answer(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function handle(line) {
  const { id, op, ...args } = JSON.parse(line);
  try {
    const operation = operations[op];
    if (!operation) {
      throw new Error(`unknown operation ${op}`);
    }
    answer({ id, ok: await operation(args) ?? null });
  } catch (err) {
    answer({ id, error: String(err?.stack ?? err) });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void handle(line));
lines.on("close", () => process.exit(0));
