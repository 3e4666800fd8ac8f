// MiniWoB++ solved by scripts that use the two tools of belljar and see nothing else of a
// page: miniwob.mjs BELLJAR DIR MINIWOB [TASK]... MINIWOB is a checkout of
// Farama-Foundation/miniwob-plusplus. A task counts if all its seeds give the whole reward,
// which a page logs on its console. It prints a table, and ends with 1 where fewer tasks are
// solved than REFS and PLACE say, or a task that was named is not.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import { extname, join, normalize } from "node:path";
import { belljar } from "./mcp.mjs";
import { placed, solvers } from "./solvers.mjs";
import { Page } from "./page.mjs";

const [program, dir, checkout, ...only] = process.argv.slice(2);
const seeds = Number(process.env.SEEDS ?? 3);
const least = { refs: Number(process.env.REFS ?? 85), place: Number(process.env.PLACE ?? 20) };

const root = join(checkout, "miniwob", "html");
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".png": "image/png", ".gif": "image/gif", ".svg": "image/svg+xml", ".json": "application/json" };
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  const file = join(root, normalize(decodeURIComponent(url.pathname)));
  try {
    if (!file.startsWith(root) || !statSync(file).isFile()) throw new Error("no file");
    let body = readFileSync(file);
    const seed = /^\/seed\/(\d+)$/.exec(url.searchParams.get("s") ?? "")?.[1];
    if (seed) {
      // The page is as it is, but for the numbers that it draws and the time that it gives, which
      // many pages would set again.
      body = body.toString().replace(/(<script[^>]*core\/core\.js[^>]*><\/script>)/, `$1<script>Object.defineProperty(core, "EPISODE_MAX_TIME", { value: 1e8 }); Math.seedrandom("${seed}")</script>`);
    }
    response.setHeader("Content-Type", types[extname(file)] ?? "application/octet-stream").end(body);
  } catch {
    response.writeHead(404).end();
  }
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

const client = await belljar(program, dir, server.address().port);
const tasks = readdirSync(join(root, "miniwob")).filter((f) => f.endsWith(".html")).map((f) => f.slice(0, -5)).filter((t) => only.length === 0 || only.includes(t));
const solved = { refs: [], place: [] }, rest = { refs: [], place: [] };
let calls = 0;
for (const task of tasks) {
  const kind = placed.has(task) ? "place" : "refs";
  let good = 0, why = "";
  for (let seed = 1; seed <= seeds && good === seed - 1; seed++) {
    const page = new Page(client);
    try {
      if (!solvers[task]) throw new Error("no solver");
      await page.do({ do: "open", url: `${client.site}/miniwob/${task}.html?s=/seed/${seed}` });
      await page.start();
      await solvers[task](page);
      const raw = await page.reward();
      if (raw !== undefined && raw >= 0.99) good++;
      else why = `seed ${seed}: reward ${raw} of: ${page.task}`;
    } catch (err) {
      why = `seed ${seed}: ${err.message.split("\n").slice(0, process.env.VERBOSE ? 30 : 3).join(" | ")}`;
    }
    calls += page.calls;
  }
  if (good === seeds) solved[kind].push(task);
  else rest[kind].push(task);
  console.log(`${good === seeds ? "ok  " : "FAIL"} ${task} ${why}`);
}
for (const kind of ["refs", "place"]) {
  console.log(`${kind}: ${solved[kind].length} of ${solved[kind].length + rest[kind].length} tasks, ${seeds} seeds each${rest[kind].length ? `; not: ${rest[kind].join(" ")}` : ""}`);
}
console.log(`${calls} calls`);
await client.close();
server.close();
const short = only.length > 0 ? rest.refs.length + rest.place.length > 0 : solved.refs.length < least.refs || solved.place.length < least.place;
if (short) console.log(only.length > 0 ? "FAIL" : `FAIL: want ${least.refs} and ${least.place}`);
process.exitCode = short ? 1 : 0;
