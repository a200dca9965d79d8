// A router under load for the browser tests: a neighbour, a producer, clients, and many routes.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = new URL('../../', import.meta.url).pathname;

export function program() {
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target');
  const candidates = [process.env.BYNAME_BIN, join(target, 'release/byname'), join(target, 'debug/byname')];
  return candidates.find((path) => path && existsSync(path));
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** One `byname run` with its folder and its helpers. `close` ends all of them. */
export async function startRouter({ routes = 2000, faces = 4, config = '', clients = true } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'byname-dashboard-'));
  const [port, http, websocket] = [await freePort(), await freePort(), await freePort()];
  const socket = join(folder, 'nfd.sock');
  writeFileSync(
    join(folder, 'byname.toml'),
    `[faces.udp]\nport = ${port}\nipv6 = false\n[faces.tcp]\nport = ${port}\nipv6 = false\n` +
      `[faces.websocket]\nport = ${websocket}\nipv6 = false\n[faces.unix]\npath = "${socket}"\n` +
      `[metrics]\nlisten = "127.0.0.1:${http}"\n${config}`,
  );
  const children = [];
  const environment = { ...process.env, STATE_DIRECTORY: join(folder, 'state'), NDN_CLIENT_TRANSPORT: `unix://${socket}` };
  const start = (...words) => {
    const child = spawn(program(), words, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    child.text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (child.text = (child.text + bytes).slice(-20_000)));
    children.push(child);
    return child;
  };
  const run = (...words) => {
    const done = spawnSync(program(), words, { env: environment, encoding: 'utf8', maxBuffer: 1 << 30 });
    if (done.status !== 0) throw new Error(`byname ${words.join(" ")}: ${(done.stdout + done.stderr).slice(-1000)}`);
    return done.stdout;
  };
  const close = () => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const router = start('run', '--config', join(folder, 'byname.toml'));
    const until = Date.now() + 30_000;
    while (!router.text.includes(`(process ${router.pid})`)) {
      if (router.exitCode !== null || Date.now() > until) throw new Error(`no router: ${router.text}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const lines = ['face create udp4://127.0.0.1:9'];
    for (let n = 0; n < faces; n++) lines.push(`face create udp4://127.1.${n >> 8}.${n & 255}:9`);
    const words = ['video', 'news', 'maps', 'mail', 'music'];
    for (let n = 0; n < routes; n++) lines.push(`route add /example/${words[n % 5]}/${(n >> 8) % 64}/item-${n} udp4://127.0.0.1:9`);
    writeFileSync(join(folder, 'batch'), `${lines.join('\n')}\n`);
    run('-f', join(folder, 'batch'));
    if (clients) {
      start('ping-server', '/demo');
      while (spawnSync(program(), ['route', 'show', '/demo/ping'], { env: environment }).status !== 0) {
        if (Date.now() > until) throw new Error(`the producer does not register: ${router.text}`);
      }
      start('ping', '/demo', '--interval', '4', '--quiet');
      // Answered by the content store, and refused.
      for (let n = 0; n < 2; n++) start('ping', '/demo', '--interval', '10', '--allow-stale', '--start', '1', '--identifier', 'again', '--quiet');
      start('--transport', `udp://127.0.0.1:${port}`, 'ping', '/demo', '--interval', '9', '--quiet');
      start('--transport', `tcp://127.0.0.1:${port}`, 'ping', '/demo', '--interval', '25', '--quiet');
      start('ping', '/nowhere', '--interval', '50', '--timeout', '40', '--quiet');
    }
    const token = readFileSync(join(folder, 'state/dashboard.token'), 'utf8').trim();
    return { url: `http://127.0.0.1:${http}`, token, port, folder, pid: router.pid, run, start, close, log: () => router.text };
  } catch (error) {
    close();
    throw error;
  }
}
