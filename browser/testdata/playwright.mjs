// A peer for the benchmark: a page in a new context for each line of standard
// input (URL, selector), and how long it took. Arguments: the module, Chrome.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [module, program] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(module);
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [url, selector] = line.split(" ");
  const start = performance.now();
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(url);
  if (selector) await page.waitForSelector(selector);
  const html = await page.content();
  await context.close();
  const took = performance.now() - start;
  console.log(took.toFixed(3), html.length);
}
await browser.close();
