// Measures what the dashboard costs, on a quiet machine:
//
//     BYNAME_BIN=target/release/byname node dashboard/tests/measure.mjs [ROUTES] [FACES] [SECONDS] [--record]
//
// Frames in a second while the tree of routes and the list of faces scroll; the share of a processor that the web thread
// and the control thread take while a page is open; and the pings in a second that the router answers, and the time that
// its packet thread takes for each, with and without the requests of an open page, alternating. A browser on the same
// machine would take processor time from the router, so this process sends the requests of the page Overview then. Prints
// one JSON object; with `--record`, one line for docs/records.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cpus, loadavg, release } from 'node:os';
import { chromium } from 'playwright-core';
import { program, startRouter } from './router.mjs';

const words = process.argv.slice(2);
const [routes = 1_000_000, faces = 10_000, seconds = 10] = words.filter((word) => word !== '--record').map(Number);
const browserPath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'].find((path) => path && existsSync(path));
const ROUNDS = 5;
/** Clients that ping, each up to a thousand times a second: about all that two processors can serve. */
const CLIENTS = 48;
/** Name of the only packet thread. */
const PACKETS = 'byname-packets';

/** The result as one line, with the fields that the lines of byname-lab have. `commit` is that of the router. */
function record(result, load, date) {
  const version = spawnSync(program(), ['--version'], { encoding: 'utf8' }).stdout;
  const [, commit = null, dirty] = /\(([0-9a-f]{7,})([^)]*)\)/.exec(version) ?? [];
  const line = {
    experiment: 'dashboard',
    date,
    cpu: result.processor,
    cores: result.processors,
    kernel: release(),
    commit,
    clean: commit === null ? null : dirty === '',
    profile: /\/(release|debug)\/byname$/.exec(program())?.[1] ?? null,
    command: `node dashboard/tests/measure.mjs ${words.join(' ')}`,
    load_average: +load.toFixed(2),
    quick: false,
    parameters: { routes, faces, seconds, rounds: ROUNDS, clients: CLIENTS },
    routes,
    faces,
  };
  for (const [page, of] of Object.entries(result.frames)) {
    line[`frames_per_s_${page}`] = of.per_s;
    line[`frame_longest_ms_${page}`] = of.longest_ms;
  }
  for (const [page, of] of Object.entries(result.shares)) {
    for (const thread of ['web', 'control']) line[`${thread}_share_${page}`] = of[`byname-${thread}`];
  }
  for (const figure of ['satisfied_per_s', 'packet_us']) {
    for (const name of ['open', 'closed', 'ratio']) line[`${figure}_${name}`] = result[figure][name];
  }
  return JSON.stringify(line);
}

const wait = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

/** Processor time of each thread of a process, in seconds, by name. */
function threadTimes(pid) {
  const times = {};
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const of = (file) => readFileSync(`/proc/${pid}/task/${task}/${file}`, 'utf8').trim();
    const name = of('comm');
    times[name] = (times[name] ?? 0) + Number(of('schedstat').split(' ')[0]) / 1e9;
  }
  return times;
}

async function shares(pid, during) {
  const before = threadTimes(pid);
  const begun = performance.now();
  await during();
  const took = (performance.now() - begun) / 1000;
  const after = threadTimes(pid);
  return Object.fromEntries(Object.entries(after).map(([name, time]) => [name, +((time - (before[name] ?? 0)) / took).toFixed(5)]));
}

/** Frames in a second, and the longest time between two, while a list scrolls up and down. */
const frames = (page, selector, forSeconds) =>
  page.evaluate(
    ([selector, ms]) =>
      new Promise((resolve) => {
        const list = document.querySelector(selector) ?? document.scrollingElement;
        const begun = performance.now();
        let [count, last, longest] = [0, begun, 0];
        const frame = (now) => {
          longest = Math.max(longest, now - last);
          last = now;
          count++;
          const most = Math.max(1, list.scrollHeight - list.clientHeight);
          list.scrollTop = Math.abs((((now - begun) * 1.5) % (2 * most)) - most);
          if (now - begun < ms) requestAnimationFrame(frame);
          else resolve({ per_s: +((1000 * (count - 1)) / (now - begun)).toFixed(1), longest_ms: +longest.toFixed(1) });
        };
        requestAnimationFrame(frame);
      }),
    [selector, forSeconds * 1000],
  );

const [load, date] = [loadavg()[0], new Date().toISOString().replace(/\.\d+/, '')];
const router = await startRouter({
  routes,
  faces,
  clients: false,
  config: '[state]\nenabled = false\n',
});
const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
try {
  // As many pings as the router answers: each ping waits for its answer, so many clients ask at a time.
  router.start('ping-server', '/load');
  await wait(2);
  const ask = () => router.start('ping', '/load', '--interval', '1', '--quiet');
  for (let n = 0; n < 8; n++) ask();
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  const show = async (hash) => {
    await page.goto('about:blank');
    await page.goto(`${router.url}/#token=${router.token}`);
    await page.evaluate((hash) => (location.hash = hash), hash);
    await wait(3);
  };
  const result = { processor: cpus()[0].model, processors: cpus().length, routes, faces, frames: {}, shares: {} };
  await show('#/routes');
  for (const name of ['/example', '/example/video', '/example/video/0']) {
    await page.getByRole('button', { name: `Names below ${name}`, exact: true }).click();
    await wait(0.5);
  }
  result.frames.routes = await frames(page, '.tree', seconds);
  await show('#/faces');
  result.frames.faces = await frames(page, 'html', seconds);
  for (const name of ['overview', 'faces', 'routes']) {
    await show(`#/${name}`);
    result.shares[name] = await shares(router.pid, () => wait(seconds));
  }
  await page.goto('about:blank');
  result.shares.closed = await shares(router.pid, () => wait(seconds));
  const live = async () => JSON.parse(await (await fetch(`${router.url}/api/v1/live`)).text());
  const found = { open: [], closed: [] };
  const measure = async (list) => {
    const before = [await live(), threadTimes(router.pid)[PACKETS]];
    await wait(seconds);
    const after = [await live(), threadTimes(router.pid)[PACKETS]];
    const satisfied = after[0].satisfied_interests - before[0].satisfied_interests;
    list.push({ per_s: (satisfied * 1000) / (after[0].at_ms - before[0].at_ms), us: ((after[1] - before[1]) * 1e6) / satisfied });
  };
  for (let n = 8; n < CLIENTS; n++) ask();
  await wait(2);
  for (let round = 0; round < ROUNDS; round++) {
    const asked = [
      setInterval(() => fetch(`${router.url}/api/v1/live`).then((answer) => answer.text()), 1000),
      setInterval(() => fetch(`${router.url}/api/v1/faces?sort=bytes_per_s&desc=1&limit=6`).then((answer) => answer.text()), 2000),
    ];
    await measure(found.open);
    asked.forEach(clearInterval);
    await measure(found.closed);
  }
  for (const [figure, of, digits] of [['satisfied_per_s', 'per_s', 0], ['packet_us', 'us', 3]]) {
    const [open, closed] = [found.open, found.closed].map((list) => median(list.map((round) => round[of])));
    result[figure] = { open: +open.toFixed(digits), closed: +closed.toFixed(digits), ratio: +(open / closed).toFixed(4) };
  }
  result.rounds = found;
  console.log(words.includes('--record') ? record(result, load, date) : JSON.stringify(result, null, 2));
} finally {
  await browser.close();
  router.close();
}
