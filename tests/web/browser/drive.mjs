// Drives the console in a real browser, as somebody does who sees it for the first time.
//   node drive.mjs NODE_MODULES CHROMIUM BASE TOKEN COMMAND      BASE such as http://127.0.0.1:7420
// TOKEN is that of an administrator, COMMAND a JSON array that starts an MCP server. Prints one JSON object.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [modules, program, base, token, command] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const found = { errors: [], outside: [], axe: [], overflow: [], steps: [], paint_ms: [], bytes: 0 };

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"], headless: true });

let storageState;
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 820 }, storageState, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on("console", (m) => { if (m.type() === "error" && !/status of (400|401|403|404)/.test(m.text())) found.errors.push(`${page.url()}: ${m.text()}`); });
  page.on("pageerror", (e) => found.errors.push(`${page.url()}: ${e}`));
  page.on("request", (r) => { if (!r.url().startsWith(base) && !r.url().startsWith("data:")) found.outside.push(r.url()); });
  return page;
}
const at = (page, path) => page.goto(`${base}/console${path}`, { waitUntil: "load" });
const step = (name) => found.steps.push(name);
const api = (path, body) => fetch(`${base}/api/v1/${path}`, { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${token}` }, body: JSON.stringify(body) });

async function logIn(page) {
  await at(page, "");
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("Logged in as").waitFor();
}

// The first visit: what is transferred, and when something is seen
{
  const page = await open();
  page.on("response", async (r) => { try { found.bytes += (await r.body()).length; } catch { /* a stream */ } });
  await logIn(page);
  storageState = await page.context().storageState();
  step("logs in");
  for (let turn = 0; turn < 5; turn++) {
    await at(page, "");
    found.paint_ms.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 1e9));
  }
  await page.context().close();
}

// What a newcomer does, without reading anything
const page = await open();
const says = (text) => page.getByText(text).first().waitFor();
await at(page, "");
await page.getByRole("link", { name: "Servers", exact: true }).click();
await page.getByRole("link", { name: "Add a server" }).click();
const [start, ...args] = JSON.parse(command);
await page.locator("#text").fill(JSON.stringify({ mcpServers: { echo: { command: start, args } } }));
await page.locator("form", { has: page.locator("#text") }).getByRole("button", { name: "Test it" }).click();
await says(/It works: \d+ tools/);
await page.getByRole("button", { name: "Add it" }).click();
await says("echo was added.");
step("adds a server");

await page.getByRole("link", { name: "Tools", exact: true }).click();
await page.getByLabel("What for").pressSequentially("write a note down");
await page.locator("#tools").getByText("As a model finds them").first().waitFor();
await page.locator("#tools").getByRole("link", { name: "notes:add" }).first().click();
step("finds a tool");

await page.locator("#a0").fill("from a browser");
await page.getByRole("button", { name: "Run it" }).click();
await page.locator("#result").getByText("added 'from a browser'").first().waitFor();
step("tries it");

await page.getByRole("link", { name: "Tokens", exact: true }).click();
await page.locator("#name").fill("anna");
await page.getByRole("checkbox", { name: /member/ }).check();
await page.getByRole("button", { name: "Make the token" }).click();
await says("This is the only time it is shown.");
await page.getByRole("link", { name: "What it may do" }).click();
await page.locator("#patterns").fill("notes:add");
await page.getByRole("button", { name: "Deny" }).click();
await says("The rule for anna holds now.");
step("restricts a token");

await page.locator("#why").fill("notes:add");
await page.getByRole("button", { name: "Explain" }).click();
await says("anna cannot see notes:add");
if (!(await page.locator(".gate.shut").count())) throw new Error("no gate is shut");
step("sees why something is invisible");

await api("execute", { toolKey: "notes:find", arguments: {} });
await at(page, "");
await page.getByRole("link", { name: "Decide" }).first().click();
await page.getByRole("button", { name: "Approve notes:find" }).click();
await says("The call of notes:find may run once now.");
step("approves a call");

await page.getByRole("link", { name: "Audit", exact: true }).click();
await page.locator("table.audit a").first().click();
await says("Receipt");
await at(page, "/audit");
await page.getByRole("link", { name: "Verify" }).click();
await page.getByRole("button", { name: "Check it now" }).click();
await says("Nothing was changed, removed or moved");
step("verifies the audit");

await page.getByRole("link", { name: "Projects", exact: true }).click();
await page.locator("#name").fill("web");
await page.getByRole("button", { name: "Make it" }).click();
await page.locator("#optimization").selectOption("bm25");
await page.getByRole("checkbox", { name: "echo" }).check();
await page.getByRole("button", { name: "Save" }).click();
await says("The project web was saved.");
step("sets the optimization of a project");

await page.getByRole("link", { name: "Search", exact: true }).click();
await page.getByLabel("Request", { exact: true }).fill("write a note down");
await page.getByRole("button", { name: "Search" }).click();
await page.getByRole("button", { name: /Right.*notes:add/ }).first().click();
await says("notes:add is marked right");
step("marks what was found");

await Promise.all([page.waitForResponse((r) => r.url().endsWith("/events")), at(page, "/servers")]);
await api("servers/echo/disable", {});
await page.locator("#servers").getByText("switched off").first().waitFor();
step("hears of a change without loading the page");
await api("servers/echo/enable", {});

// The same by keyboard alone
await at(page, "");
await page.keyboard.press("Tab");
await page.keyboard.press("Enter");
if ((await page.evaluate(() => document.activeElement.id)) !== "content") throw new Error("the skip link leads nowhere");
await at(page, "");
for (let turn = 0; turn < 30; turn++) {
  await page.keyboard.press("Tab");
  if ((await page.evaluate(() => document.activeElement.textContent)) === "Search") break;
}
await page.keyboard.press("Enter");
await page.waitForURL(/search$/);
for (let turn = 0; turn < 30; turn++) {
  await page.keyboard.press("Tab");
  if ((await page.evaluate(() => document.activeElement.id)) === "q") break;
}
await page.keyboard.type("write a note down");
await page.keyboard.press("Enter");
await says("The answer a model gets");
const ring = await page.evaluate(() => { const a = document.querySelector(".hits a"); a.focus(); return getComputedStyle(a).outlineStyle; });
step("searches by keyboard alone");
await page.context().close();

// Every page, light and dark, wide and on a phone
const pages = ["", "/servers", "/server?name=echo", "/server?name=notes", "/servers/add", "/tools", "/tools?q=note", "/tool?key=notes:add", "/search?q=note", "/intents?message=hello", "/projects", "/project?name=web", "/tokens", "/token?name=anna", "/permissions", "/guards", "/why?tool=notes:add&token=anna", "/approvals", "/audit", "/audit/verify", "/cost", "/sessions", "/nothing", ...(process.env.MORE_PAGES ?? "").split(" ").filter(Boolean)];
const every = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
for (const [scheme, width, rules] of [["light", 1180, { type: "rule", values: ["color-contrast"] }], ["dark", 390, every]]) {
  const one = await open({ colorScheme: scheme, viewport: { width, height: 800 } });
  for (const path of pages) {
    await at(one, path);
    await one.evaluate(axe);
    const result = await one.evaluate((rules) => globalThis.axe.run(document, { runOnly: rules }), rules);
    for (const v of result.violations) found.axe.push(`${scheme} ${path} ${v.id}: ${v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160)).join(" | ")}`);
    const wide = await one.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 1) found.overflow.push(`${width} ${path}: ${wide} px`);
  }
  await one.context().close();
}

// Without scripts
{
  const plain = await open({ javaScriptEnabled: false });
  await at(plain, "/tools?q=note");
  await plain.getByRole("link", { name: "notes:add" }).first().click();
  await plain.locator("#a0").fill("no script");
  await plain.getByRole("button", { name: "Run it" }).click();
  await plain.locator("#result").getByText("added 'no script'").first().waitFor();
  step("works without scripts");
  await plain.context().close();
}
found.focus = ring;
await browser.close();
console.log(JSON.stringify(found));
