// Pictures of pages, light and dark: node shoot.mjs NODE_MODULES CHROMIUM BASE TOKEN FOLDER PAGES
// PAGES is a JSON object: name of the picture -> path below /console.
import { createRequire } from "node:module";

const [modules, program, base, token, folder, pages] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"], headless: true });
for (const colorScheme of ["light", "dark"]) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 720 }, colorScheme });
  const page = await context.newPage();
  await page.goto(`${base}/console`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("Logged in as").waitFor();
  await page.goto(`${base}/console`); // what is counted beside the first page is there now
  for (const [name, path] of Object.entries(JSON.parse(pages))) {
    await page.goto(`${base}/console${path}`, { waitUntil: "load" });
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
  }
  await context.close();
}
await browser.close();
