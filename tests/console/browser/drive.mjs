// Drives the console in a real browser, as somebody does who sees it for the first time.
//   node drive.mjs NODE_MODULES CHROMIUM BASE TOKEN COMMAND      BASE such as http://127.0.0.1:7420
// TOKEN is that of an administrator, COMMAND a JSON array that starts an MCP server. Prints one JSON object.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [modules, program, base, token, command] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const found = { errors: [], outside: [], axe: [], overflow: [], steps: [], requests: [], blocking: [], bytes: 0 };

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

// The first visit: what is transferred, and what has to be there before anything is seen
{
  const page = await open();
  const network = await page.context().newCDPSession(page);
  network.on("Network.loadingFinished", (event) => (found.bytes += event.encodedDataLength));
  await network.send("Network.enable");
  page.on("request", (r) => found.requests.push(new URL(r.url()).pathname));
  await at(page, "");
  await page.waitForLoadState("load");
  found.blocking = await page.evaluate(() => performance.getEntriesByType("resource").filter((r) => r.renderBlockingStatus === "blocking").map((r) => new URL(r.name).pathname.split("/").pop()));
  found.requests = found.requests.filter((path) => !path.endsWith("/events"));
  const seen = found.requests.length;
  await logIn(page);
  await page.waitForLoadState("load");
  storageState = await page.context().storageState();
  found.requests.length = seen;
  step("logs in");
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
await page.locator("form", { has: page.locator("#text") }).getByRole("button", { name: "Test", exact: true }).click();
await says(/OK: \d+ tools/);
await page.getByRole("button", { name: "Add server" }).click();
await says("echo was added.");
step("adds a server");

await page.getByRole("link", { name: "Tools", exact: true }).click();
await page.getByLabel("Search", { exact: true }).pressSequentially("write a note down");
await page.locator("#tools").getByText("Search results").first().waitFor();
await page.locator("#tools").getByRole("link", { name: "notes:add" }).first().click();
step("finds a tool");

await page.locator("#a0").fill("from a browser");
await page.getByRole("button", { name: "Run", exact: true }).click();
await page.locator("#result").getByText("added 'from a browser'").first().waitFor();
step("tries it");

await page.getByRole("link", { name: "Access tokens", exact: true }).click();
await page.getByRole("link", { name: "Create a token" }).click();
await page.locator("#name").fill("anna");
await page.getByRole("checkbox", { name: /member/ }).check();
await page.getByRole("button", { name: "Create token" }).click();
await says("It is shown only once.");
await page.getByRole("link", { name: "Permissions", exact: true }).last().click();
await page.locator("#patterns").fill("notes:add");
await page.getByRole("button", { name: "Deny" }).click();
await says("Rule for anna added.");
step("restricts a token");

await page.locator("#why").fill("notes:add");
await page.getByRole("button", { name: "Explain" }).click();
await says("anna cannot see notes:add");
if (!(await page.locator(".gate.shut").count())) throw new Error("no gate is shut");
step("sees why something is invisible");

for (const [path, field] of [["/permissions?new=1", "#patterns"], ["/guards?new=1", "#tools"]]) {
  await at(page, path);
  await page.locator(field).pressSequentially("notes:*");
  await page.locator("#preview").getByText("notes:add, notes:find").waitFor();
}
step("sees what a rule matches while typing it");

await api("execute", { toolKey: "notes:find", arguments: {} });
await at(page, "");
await page.getByRole("link", { name: "Review" }).first().click();
await page.getByRole("button", { name: "Approve notes:find" }).click();
await says("The call of notes:find was approved for one run.");
step("approves a call");

await api("execute", { toolKey: "notes:find", arguments: { words: "all" } });
await at(page, "/approvals");
await page.getByText("Edit the arguments").click();
await page.getByLabel("Arguments as JSON").fill('{"words": "some"');
await page.getByRole("button", { name: "Approve with edited arguments" }).click();
await says(/The arguments are not valid JSON/);
await page.getByLabel("Arguments as JSON").fill('{"words": "some"}');
await page.getByRole("button", { name: "Approve with edited arguments" }).click();
await says("The call of notes:find was approved for one run.");
step("approves a call with other arguments");

await api("execute", { toolKey: "notes:find", arguments: { words: "one" } });
await Promise.all([page.waitForResponse((r) => r.url().endsWith("/events")), at(page, "/approvals")]);
await page.getByLabel("Comment").fill("typed meanwhile");
await api("execute", { toolKey: "notes:find", arguments: { words: "more" } });
await says("The data has changed since you started typing");
if ((await page.getByLabel("Comment").inputValue()) !== "typed meanwhile") throw new Error("what was typed is lost");
step("keeps what is being typed when something changes");

await page.getByRole("link", { name: "Audit", exact: true }).click();
await page.locator("table.audit a").first().click();
await says("Audit record");
await at(page, "/audit");
await page.getByRole("link", { name: "Verify" }).click();
await page.getByRole("button", { name: "Verify now" }).click();
await says("The audit log is intact");
step("verifies the audit");

await page.getByRole("link", { name: "Projects", exact: true }).click();
await page.locator("#name").fill("web");
await page.getByRole("button", { name: "Create", exact: true }).click();
await page.locator("#optimization").selectOption("bm25");
await page.getByRole("checkbox", { name: "echo" }).check();
await page.getByRole("button", { name: "Save" }).click();
await says("Project web saved.");
step("sets the optimization of a project");

await page.getByRole("link", { name: "Search", exact: true }).click();
await page.getByLabel("Request", { exact: true }).fill("write a note down");
await page.getByRole("button", { name: "Search" }).click();
await page.getByRole("button", { name: /^Relevant.*notes:add/ }).first().click();
await says("notes:add is now rated as relevant");
step("marks what was found");

await page.getByText("Weights for this search only").click();
await page.getByLabel("Semantic vs. keyword").fill("0.2");
await page.getByRole("button", { name: "Search" }).click();
await says(/Shown with custom weights|Weights apply to hybrid search only/);
const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "download them" }).click()]);
if (file.suggestedFilename() !== "marks.zip") throw new Error(file.suggestedFilename());
step("looks with other weights and downloads the marks");

await page.getByRole("link", { name: "Intents", exact: true }).click();
await page.getByLabel("User message").fill("hmm, the thing from before");
await page.getByRole("button", { name: "Detect intent" }).click();
await page.locator("section.result").waitFor();
for (let turn = 0; turn < 40 && !(await page.getByText("Use as example prompts").count()); turn++) await at(page, "/intents");
await page.getByText("Use as example prompts").click();
await page.locator("pre", { hasText: "hmm, the thing from before" }).waitFor();
await page.getByRole("button", { name: "Copy" }).first().click();
await says(/Copied|Selected/);
step("turns a message into a prompt");

await fetch(`${base}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${token}`, "x-toolgate-thread": "first" }, body: JSON.stringify({ model: "main", messages: [{ role: "user", content: "Is there a note?" }] }) });
await page.getByRole("link", { name: "Chat", exact: true }).click();
await page.getByRole("link", { name: "first" }).click();
await says("One note is there.");
await page.getByText("Settings of this thread").click();
await page.getByLabel("Built-in tool groups").selectOption("none");
await page.getByRole("button", { name: "Save" }).click();
await says("Saved. The settings take effect with the next turn.");
step("reads a thread and sets it");

await Promise.all([page.waitForResponse((r) => r.url().endsWith("/events")), at(page, "/servers")]);
await api("servers/echo/disable", {});
await page.locator("#servers").getByText("disabled").first().waitFor();
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
await Promise.all([page.waitForURL(/search$/), page.keyboard.press("Enter")]);
for (let turn = 0; turn < 30; turn++) {
  await page.keyboard.press("Tab");
  if ((await page.evaluate(() => document.activeElement.id)) === "q") break;
}
await page.keyboard.type("write a note down");
await page.keyboard.press("Enter");
await says("Answer for the model");
const ring = await page.evaluate(() => { const a = document.querySelector(".hits a"); a.focus(); return getComputedStyle(a).outlineStyle; });
step("searches by keyboard alone");
await page.locator("main").focus();
await page.keyboard.press("Control+k");
await page.keyboard.type("notes:add");
await page.locator("#palette-hits").getByRole("link", { name: /notes:add/ }).first().waitFor();
await page.evaluate(axe);
for (const v of await page.evaluate(async () => (await globalThis.axe.run(document.getElementById("palette"))).violations)) found.axe.push(`palette ${v.id}`);
await page.keyboard.press("Enter");
await page.waitForURL(/tool\?key=notes/);
await page.keyboard.press("Control+k");
await page.keyboard.type("audit"); // Enter comes before the answer
await page.keyboard.press("Enter");
await page.waitForURL(/\/audit$/);
await page.locator("#q").pressSequentially("notes");
await page.locator("#audit-actions a[href*='export?q=notes']").waitFor();
await page.locator("main").focus();
await page.keyboard.press("g");
await page.keyboard.press("s");
await page.waitForURL(/\/servers$/);
await page.keyboard.press("j");
if (!(await page.evaluate(() => document.activeElement.closest("tbody tr")))) throw new Error("no row has the focus");
step("goes anywhere with the palette and single keys");
await page.context().close();

// A phone shows cards, which have no headers to click on
{
  const phone = await open({ viewport: { width: 390, height: 800 } });
  await at(phone, "/tools");
  await phone.getByLabel("Sort").selectOption("-tokens");
  await phone.waitForURL(/sort=-tokens/);
  await phone.locator("#tools .group").waitFor({ state: "detached" });
  await phone.setViewportSize({ width: 1180, height: 800 });
  if (await phone.getByLabel("Sort").isVisible()) throw new Error("the order can be chosen twice");
  step("sorts tools on a phone");
  await phone.setViewportSize({ width: 390, height: 800 });
  await at(phone, "/servers");
  await phone.getByLabel("Select notes").click(); // the name, laid over the box, took the taps
  await phone.getByText("1 selected").waitFor();
  step("selects servers on a phone");
  await phone.context().close();
}

// Every page, dark and on a phone, then light and wide; loaded once, by two at a time
const pages = ["", "/go?q=note", "/servers", "/server?name=echo", "/server?name=notes", "/servers/add", "/tools", "/tools?q=note", "/tools?sort=-calls", "/connect", "/packs", "/pack?name=schema&check=1", "/settings", "/setting?name=mode", "/options/preview?patterns=notes", "/audit?live=1&q=notes", "/search?q=note&compare=words",  "/tool?key=notes:add", "/search?q=note&dense_weight=0.2", "/intents?message=hello", "/projects", "/project?name=web", "/tokens", "/token?name=anna", "/permissions", "/why?tool=notes:add&token=anna", "/guards", "/logins", "/approvals", "/audit", "/audit/verify", "/cost", "/chat", "/thread?name=first", "/prompts", "/prompt?name=vs-grade", "/connections", "/connections/log", "/evaluation", "/sessions", "/nothing", ...(process.env.MORE_PAGES ?? "").split(" ").filter(Boolean)];
const every = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const looks = [["dark", 390, { type: "tag", values: every }], ["light", 1180, { type: "rule", values: ["color-contrast", "label-content-name-mismatch"] }]];
await api("execute", { toolKey: "notes:find", arguments: { words: "last" } }); // waits on the page of approvals
async function judge() {
  const one = await open();
  for (let path = pages.shift(); path !== undefined; path = pages.shift()) {
    await one.setViewportSize({ width: 390, height: 800 });
    await at(one, path);
    await look(one, path);
  }
  await one.context().close();
}
async function look(one, path) {
  await one.evaluate(axe);
  await one.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
  for (const [scheme, width, runOnly] of looks) {
    await one.emulateMedia({ colorScheme: scheme });
    await one.setViewportSize({ width, height: 800 });
    const violations = await one.evaluate(async (runOnly) => (await globalThis.axe.run(document, { runOnly, resultTypes: ["violations"] })).violations, runOnly);
    for (const v of violations) found.axe.push(`${scheme} ${path} ${v.id}: ${v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160)).join(" | ")}`);
    const wide = await one.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 1) found.overflow.push(`${width} ${path}: ${wide} px`);
  }
}
await Promise.all([judge(), judge()]);

// What somebody else does meanwhile
{
  const late = await open();
  await Promise.all([late.waitForResponse((r) => r.url().endsWith("/events")), at(late, "/server?name=echo")]);
  await fetch(`${base}/api/v1/servers/echo`, { method: "DELETE", headers: { authorization: `Bearer ${token}` } });
  await late.getByText("This page no longer exists").waitFor();
  await late.getByRole("button", { name: "Reconnect" }).click();
  await late.getByText(/may have been removed/).first().waitFor();
  step("is told that a server was removed meanwhile");
  await at(late, "/projects?new=1");
  await late.locator("#name").fill("typed <before>");
  await late.context().clearCookies();
  await late.getByRole("button", { name: "Create", exact: true }).click();
  await late.getByText("Your input is kept").waitFor();
  await look(late, "the page that asks who it is");
  await late.getByLabel("Token").fill(token);
  await late.getByRole("button", { name: "Log in" }).click();
  await late.getByText("Your input is kept").waitFor();
  if (!(await late.content()).includes("typed &lt;before&gt;")) throw new Error("what was typed is lost");
  await look(late, "what was typed");
  step("loses nothing when the session ends");
  await late.context().close();
}

// Without scripts
{
  const plain = await open({ javaScriptEnabled: false });
  await at(plain, "/tools?q=note");
  await plain.getByRole("link", { name: "notes:add" }).first().click();
  await plain.locator("#a0").fill("no script");
  await plain.getByRole("button", { name: "Run", exact: true }).click();
  await plain.locator("#result").getByText("added 'no script'").first().waitFor();
  step("works without scripts");
  await plain.context().close();
}
found.focus = ring;
await browser.close();
console.log(JSON.stringify(found));
