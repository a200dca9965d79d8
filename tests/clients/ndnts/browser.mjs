// Opens the page of docs/browsers.md in headless Chromium, and fetches an object from its list.
//
// node browser.mjs FOLDER NAME: FOLDER has index.html, page.js and router.json. Prints what came as JSON.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { build } from "esbuild";
import { chromium } from "playwright-core";

const TYPES = { html: "text/html", js: "text/javascript", json: "application/json" };
const [folder, name] = process.argv.slice(2);

const { outputFiles } = await build({
  stdin: { contents: readFileSync(join(folder, "page.js"), "utf8"), resolveDir: import.meta.dirname },
  bundle: true, format: "esm", platform: "browser", write: false, logLevel: "warning",
});
const server = createServer((request, response) => {
  const path = request.url === "/" ? "index.html" : request.url.slice(1);
  const file = ["index.html", "router.json"].includes(path) && readFileSync(join(folder, path));
  const body = path === "app.js" ? outputFiles[0].text : file;
  response.writeHead(body ? 200 : 404, { "content-type": TYPES[path.split(".").pop()] ?? "text/plain" }).end(body || "");
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

// This concerns wss only: hashes decide over WebTransport.
const args = ["--no-sandbox", "--disable-gpu", "--ignore-certificate-errors"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
try {
  const page = await browser.newPage();
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  page.on("pageerror", (error) => said.push(`${error}`));
  await page.goto(`http://localhost:${server.address().port}/`);
  const state = page.locator("#state");
  await state.filter({ hasNotText: "connecting" }).waitFor({ timeout: 30_000 });
  const connected = await state.textContent();
  let result = { connected, said };
  if (connected.startsWith("connected")) {
    await page.getByRole("button", { name }).click();
    await state.filter({ hasNotText: /connected|fetches/ }).waitFor({ timeout: 60_000 });
    const bytes = await page.evaluate(async () => {
      const digest = await crypto.subtle.digest("SHA-256", globalThis.opened ?? new Uint8Array());
      return btoa(String.fromCharCode(...new Uint8Array(digest)));
    });
    result = { ...result, done: await state.textContent(), sha256: Buffer.from(bytes, "base64").toString("hex") };
  }
  console.log(JSON.stringify(result));
} finally {
  await browser.close();
  server.close();
}
