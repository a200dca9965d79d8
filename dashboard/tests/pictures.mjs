// Takes the pictures of the dashboard that docs/dashboard.md shows, of routers that do something:
//
//     BYNAME_BIN=target/release/byname node dashboard/tests/pictures.mjs
//
// Writes docs/pictures/dashboard-*.png. $ASSETS may be the folder of pages that the program does not have yet. The map is that of a router in `byname demo net 9 --topology grid --routing`.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { program, startRouter } from './router.mjs';

const FOLDER = new URL('../../docs/pictures', import.meta.url).pathname;
const BROWSER = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => path && existsSync(path));
if (!BROWSER) throw new Error('no Chromium; set CHROMIUM to its path (Debian: apt install chromium)');
if (!program()) throw new Error('no byname; set BYNAME_BIN to its path');

/** Starts a network of the demonstration. Returns the address of the router in its middle, and how to end it. */
async function startNetwork() {
  const net = spawn(program(), ['demo', 'net', '9', '--topology', 'grid', '--routing', '--loopback'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  const end = () => net.kill('SIGTERM');
  await new Promise((ready, failed) => {
    net.on('exit', () => failed(new Error(`no network: ${told}`)));
    net.stdout.on('data', (text) => (told += text).includes('Ctrl-C ends it.') && ready());
  }).catch((error) => {
    end();
    throw error;
  });
  const list = JSON.parse(spawnSync(program(), ['demo', 'net', 'list', '--json'], { encoding: 'utf8' }).stdout);
  return { url: list.routers.find(({ name }) => name === 'r5').http, end };
}

const browser = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox', '--disable-gpu'] });
const router = await startRouter();
let network;
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 }, colorScheme: 'light' });
  if (process.env.ASSETS) await context.route('**/assets/*', (route) => route.fulfill({ path: join(process.env.ASSETS, new URL(route.request().url()).pathname) }));
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const take = (name) => page.screenshot({ path: join(FOLDER, `dashboard-${name}.png`) });

  await page.goto(`${router.url}/#token=${router.token}`);
  await page.getByText('Busiest faces').waitFor();
  // Charts show what has been since the page was opened.
  await page.waitForTimeout(45_000);
  await take('overview');

  await page.evaluate(() => (location.hash = '#/routes?name=/demo/ping'));
  await page.getByText('An Interest for this name now').waitFor();
  for (const name of ['/example', '/demo']) await page.getByRole('button', { name: `Names below ${name}`, exact: true }).click();
  await page.getByRole('button', { name: 'ping', exact: true }).waitFor();
  await take('routes');

  await page.evaluate(() => (location.hash = '#/traces'));
  await page.getByLabel('Prefix').fill('/demo');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.locator('.trace button').nth(12).waitFor();
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await page.locator('.trace button').filter({ hasText: 'interest' }).first().click();
  await page.getByText('Came from').waitFor();
  await take('trace');

  network = await startNetwork();
  await page.goto(`${network.url}/#/map`);
  await page.locator('svg.routing').getByText('r9', { exact: true }).waitFor();
  await take('map');
} finally {
  await browser.close();
  router.close();
  network?.end();
}
