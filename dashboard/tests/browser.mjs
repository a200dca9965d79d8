// The dashboard in headless Chromium, before a router under load: every page in light and dark and at 400 pixels, every
// action, what axe-core finds, and what the console says. Screenshots go to $SCREENSHOTS, or dashboard/shots.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { program, startRouter } from './router.mjs';

const SHOTS = process.env.SCREENSHOTS ?? new URL('../shots', import.meta.url).pathname;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const BROWSER = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => path && existsSync(path));
/** Pages, with a text that each has when its data is there. */
const PAGES = {
  overview: 'Busiest faces',
  faces: 'udp4://127.0.0.1:9',
  'routes?name=/demo/ping': 'An Interest for this name now',
  strategies: 'best-route',
  content: 'a packet',
  tags: 'Tree 1',
  threads: 'Thread 0',
  traces: 'Start a trace',
  audit: 'rib/register',
  map: '127.0.0.1',
};
const skip = !BROWSER ? 'no Chromium (Debian: apt install chromium)' : !program() ? 'no byname to test' : false;
if (skip) console.log(`skipped: the dashboard's pages are not tested: ${skip}`);

let router, browser, page;
const troubles = [];

before(async () => {
  if (skip) return;
  mkdirSync(SHOTS, { recursive: true });
  router = await startRouter();
  browser = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox', '--disable-gpu'] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  page = await context.newPage();
  page.setDefaultTimeout(8000);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && troubles.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => troubles.push(`page: ${error}`));
  page.on('request', (request) => request.url().startsWith(router.url) || troubles.push(`request to ${request.url()}`));
  page.on('requestfailed', (request) => request.failure()?.errorText.includes('ABORTED') || troubles.push(`failed: ${request.url()}`));
  if (process.env.ASSETS) {
    // Pages that are newer than the program, while they are developed.
    await context.route('**/assets/*', (route) => route.fulfill({ path: join(process.env.ASSETS, new URL(route.request().url()).pathname) }));
  }
  await page.goto(`${router.url}/#token=${router.token}`);
  await page.waitForFunction(() => location.hash === '#/');
  // Charts need some readings.
  await page.waitForTimeout(4000);
});

after(async () => {
  await browser?.close();
  router?.close();
});

const open = async (name) => {
  await page.evaluate((hash) => (location.hash = `#/${hash}`), name);
  await page.getByText(PAGES[name] ?? '', { exact: false }).filter({ visible: true }).first().waitFor();
};

async function shot(name) {
  await page.screenshot({ path: join(SHOTS, `${name.replace(/\W.*/, '')}.png`) });
}

async function accessible(name) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const told = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
  assert.deepEqual(told, [], name);
}

function nothingWrong() {
  assert.deepEqual(troubles.splice(0), []);
}

for (const [theme, width] of [['light', 1280], ['dark', 1280], ['light', 400]]) {
  test(`every page, ${theme}, ${width} pixels wide`, { skip }, async () => {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: width < 500 ? 800 : 860 });
    for (const name of Object.keys(PAGES)) {
      await open(name);
      await page.waitForTimeout(150);
      await page.screenshot({ path: join(SHOTS, `${name.replace(/\W.*/, '')}-${theme}-${width}.png`), fullPage: width < 500 && name !== 'audit' });
      await accessible(`${name} ${theme} ${width}`);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide at ${width}`);
    }
    nothingWrong();
  });
}

const button = (name) => page.getByRole('button', { name, exact: true });
const said = (text) => page.locator('.messages').getByText(text).first().waitFor();
const inDialog = () => page.getByRole('dialog');

test('faces are created and destroyed', { skip }, async () => {
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.emulateMedia({ colorScheme: 'light' });
  await open('faces');
  await button('New face').click();
  await inDialog().getByLabel('Peer').fill('udp4://127.0.0.1:');
  await inDialog().getByRole('button', { name: 'Create' }).click();
  await inDialog().getByRole('alert').waitFor();
  await accessible('a form with an error');
  await inDialog().getByLabel('Peer').fill('udp4://127.0.0.1:10');
  await inDialog().getByLabel('Lasts').selectOption('permanent');
  await shot('new-face');
  await inDialog().getByRole('button', { name: 'Create' }).click();
  await said(/Face \d+ was created/);
  await page.getByRole('searchbox').fill('127.0.0.1:10');
  const row = page.getByRole('row').filter({ hasText: 'udp4://127.0.0.1:10' });
  await row.getByRole('link').click();
  await inDialog().getByText('Link services').waitFor();
  await page.waitForTimeout(100);
  await accessible('a face');
  await shot('face');
  await button('Destroy …').click();
  await button('Destroy this face').click();
  await said(/was destroyed/);
  assert.ok(!router.run('face', 'list').includes('127.0.0.1:10'));
  troubles.splice(0, troubles.length, ...troubles.filter((one) => !/status of (400|404)/.test(one)));
  nothingWrong();
});

test('routes are found, explained, added and removed', { skip }, async () => {
  const face = /faceid=(\d+) remote=udp4:\/\/127\.0\.0\.1:9/.exec(router.run('face', 'list'))[1];
  await page.evaluate(() => (location.hash = '#/routes'));
  await page.getByRole('button', { name: 'Names below /example', exact: true }).click();
  await page.getByRole('button', { name: 'Names below /example/video', exact: true }).click();
  await page.getByRole('button', { name: 'Names below /example/video/0', exact: true }).click();
  await page.locator('.tree').getByText('item-10', { exact: true }).waitFor();
  await shot('tree');
  // The list grows while it is scrolled, and only what is seen exists.
  await page.locator('.tree').evaluate((list) => list.scrollTo(0, list.scrollHeight));
  await page.locator('.tree').getByText('localhost', { exact: true }).first().waitFor();
  assert.ok((await page.locator('.long-row').count()) < 80);
  await page.getByRole('searchbox').fill('item-1999');
  await page.getByText('1 found.').waitFor();
  await page.locator('.tree').getByText('item-1999').click();
  await page.getByText('Routes of this name').waitFor();
  await button('New route').click();
  await inDialog().getByLabel('Prefix', { exact: true }).fill('/new/route');
  await inDialog().getByLabel('Face').fill(face);
  await inDialog().getByLabel('Cost').fill('5');
  await inDialog().getByRole('button', { name: 'Add' }).click();
  await said('/new/route leads to face');
  assert.match(router.run('route', 'show', '/new/route'), /cost=5/);
  await page.getByRole('searchbox').fill('/new/route');
  await button('Route get').click();
  await button(`Remove the route to face ${face}`).click();
  await inDialog().getByRole('button', { name: 'Remove' }).click();
  await said('was removed');
  assert.throws(() => router.run('route', 'show', '/new/route'));
  nothingWrong();
});

test('strategies are set and unset', { skip }, async () => {
  await open('strategies');
  await button('Set a strategy').click();
  await inDialog().getByLabel('Prefix').fill('/demo');
  await inDialog().getByText('multicast').first().click();
  await accessible('the form of a strategy');
  await shot('strategy');
  await inDialog().getByRole('button', { name: 'Set', exact: true }).click();
  await said('/demo uses multicast');
  assert.match(router.run('strategy', 'show', '/demo'), /multicast/);
  await button('Unset the strategy of /demo').click();
  await inDialog().getByRole('button', { name: 'Unset' }).click();
  await said('next shorter prefix');
  assert.match(router.run('strategy', 'show', '/demo'), /best-route/);
  nothingWrong();
});

test('the content store is set and erased', { skip }, async () => {
  await open('content');
  await page.getByLabel('Capacity').fill('4321');
  await button('Set').click();
  await said('holds 4,321 packets');
  await page.getByLabel('Admit Data that passes').click();
  await said('no longer admits Data');
  assert.match(router.run('cs', 'info'), /admit=off/);
  await page.getByLabel('Prefix').fill('/demo');
  await button('Erase').click();
  await said('packets were erased');
  await page.getByLabel('Admit Data that passes').click();
  await said('admits Data again');
  assert.match(router.run('cs', 'info'), /capacity=4321.*admit=on/s);
  nothingWrong();
});

test('a trace shows packets as they happen', { skip }, async () => {
  await open('traces');
  await page.getByLabel('Prefix').fill('/demo');
  await button('Start').click();
  const first = page.locator('.trace button').first();
  await first.waitFor();
  await button('Pause').click();
  await page.locator('.trace button').filter({ hasText: 'interest' }).first().click();
  await page.getByText('Came from').waitFor();
  await page.waitForTimeout(100);
  await accessible('a trace');
  await shot('trace');
  await button('Stop').click();
  await button('Start').waitFor();
  nothingWrong();
});

test('what was done is in the audit log', { skip }, async () => {
  await open('audit');
  await page.getByRole('searchbox').fill('dashboard');
  for (const command of ['faces/create', 'rib/unregister', 'strategy-choice/set', 'cs/erase', 'trace/start']) {
    await page.locator('.audit').getByText(command).first().waitFor();
  }
  await shot('audit');
});

test('keys lead everywhere', { skip }, async () => {
  await open('overview');
  await page.locator('body').press('g');
  await page.locator('body').press('r');
  await page.getByRole('heading', { name: 'Routes', level: 1 }).waitFor();
  await page.locator('body').press('/');
  assert.ok(await page.getByRole('searchbox').evaluate((field) => field === document.activeElement));
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('?');
  await inDialog().getByText('Content store').waitFor();
  await accessible('the list of keys');
  await page.keyboard.press('Escape');
  await inDialog().waitFor({ state: 'detached' });
  nothingWrong();
});

test('without the token, a page can look and change nothing', { skip }, async () => {
  const stranger = await browser.newContext();
  const other = await stranger.newPage();
  other.setDefaultTimeout(8000);
  if (process.env.ASSETS) await stranger.route('**/assets/*', (route) => route.fulfill({ path: join(process.env.ASSETS, new URL(route.request().url()).pathname) }));
  await other.goto(`${router.url}/#/faces`);
  await other.getByText('udp4://127.0.0.1:9').first().waitFor();
  assert.ok(await other.getByRole('button', { name: 'New face' }).isDisabled());
  await other.getByRole('button', { name: 'Read only' }).click();
  await other.getByLabel('Token').fill('wrong');
  await other.getByRole('button', { name: 'Unlock' }).click();
  await other.getByRole('alert').waitFor();
  await other.getByLabel('Token').fill(`${router.url}/#token=${router.token}`);
  await other.getByRole('button', { name: 'Unlock' }).click();
  await other.getByRole('button', { name: 'Unlocked' }).waitFor();
  assert.ok(await other.getByRole('button', { name: 'New face' }).isEnabled());
  await stranger.close();
});

test('the map shows what routing knows', { skip }, async () => {
  // A line a - b - c - d, and e, which a loses.
  const of = (name, neighbours) =>
    `[routing]\nnetwork = "/net"\nname = "/net/${name}"\ninsecure = true\nmulticast = false\nadvertise_interval = "1 s"\n` +
    neighbours.map(({ port }) => `[[routing.neighbor]]\nface = "udp4://127.0.0.1:${port}"\n`).join('');
  const others = [];
  const start = async (name, neighbours) => {
    others.push(await startRouter({ routes: 0, faces: 0, clients: false, config: of(name, neighbours) }));
    return others.at(-1);
  };
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  try {
    const c = await start('c', [await start('d', [])]);
    const b = await start('b', [c]);
    const e = await start('e', []);
    const a = await start('a', [b, e]);
    if (process.env.ASSETS) await context.route('**/assets/*', (route) => route.fulfill({ path: join(process.env.ASSETS, new URL(route.request().url()).pathname) }));
    const map = await context.newPage();
    map.setDefaultTimeout(20_000);
    map.on('console', (message) => ['error', 'warning'].includes(message.type()) && troubles.push(`console: ${message.text()}`));
    map.on('pageerror', (error) => troubles.push(`page: ${error}`));
    await map.goto(`${a.url}/#/map`);
    const row = (name) => map.getByRole('list', { name: 'Routers' }).getByRole('listitem').filter({ hasText: `/net/${name}` });
    await row('d').filter({ hasText: 'cost 3' }).filter({ hasText: 'through b' }).waitFor();
    await row('c').filter({ hasText: 'cost 2' }).waitFor();
    await row('b').filter({ hasText: 'neighbour' }).filter({ hasText: 'hello up' }).waitFor();
    const picture = map.locator('svg.routing');
    for (const name of ['b', 'c', 'd', 'e']) await picture.getByText(name, { exact: true }).waitFor();
    // The links to b and e, and that of b to c. No neighbour tells of a link to d.
    await map.waitForFunction(() => document.querySelectorAll('svg.routing path.link:not(.down)').length === 3);
    assert.equal(await picture.locator('path.way').count(), 1);
    e.close();
    await row('e').filter({ hasText: 'not reachable' }).waitFor();
    await map.waitForFunction(() => document.querySelectorAll('svg.routing path.link:not(.down)').length === 2);
    for (const [theme, width] of [['light', 1280], ['dark', 1280], ['light', 400], ['dark', 400]]) {
      await map.emulateMedia({ colorScheme: theme });
      await map.setViewportSize({ width, height: 860 });
      await map.waitForTimeout(200);
      await map.screenshot({ path: join(SHOTS, `routing-${theme}-${width}.png`), fullPage: width < 500 });
      await map.evaluate(AXE);
      const found = await map.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(found.violations.map((one) => `${one.id}: ${one.help}`), [], `${theme} ${width}`);
      assert.ok((await map.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `too wide at ${width}`);
    }
    for (const router of others) assert.ok(!router.log().includes('panic'), router.log());
    nothingWrong();
  } finally {
    await context.close();
    for (const router of others) router.close();
  }
});

test('nothing panicked', { skip }, () => {
  assert.ok(!router.log().includes('panic'), router.log());
});
