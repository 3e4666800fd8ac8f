// Clients that are not ours against belljar, by each transport that they have: main.mjs BELLJAR
// DIR DOC [CLIENT...]. It prints a table of what works, and ends with 1 where the
// table between the marks in DOC is another; UPDATE=1 writes it there instead.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { clients } from "./drivers.mjs";
import { mcpGo } from "./mcpgo.mjs";

const [belljar, dir, doc, ...only] = process.argv.slice(2);
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
const all = { ...clients, "mcp-go 1.2.1": mcpGo };

// A server of somebody else, which belljar runs in a box: it adds two numbers.
const adds = `require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const properties = { a: { type: "integer" }, b: { type: "integer" } };
  const result = {
    initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "adds", version: "1" } },
    "tools/list": { tools: [{ name: "add", inputSchema: { type: "object", properties } }] },
    "tools/call": { content: [{ type: "text", text: "sum=" + (params?.arguments?.a + params?.arguments?.b) }] },
  }[method];
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error: { code: -32601, message: method } }) }));
})`;

// What a client gives back, as text to look into; each has a form of its own.
const text = (result) => (typeof result === "string" ? result : JSON.stringify(result)).replaceAll("\\n", "\n");

// Each ability, tried with a connected client. It returns "no" where the client does
// not offer it, and throws at a fault.
const abilities = {
  // A list waits two seconds for the server adds, which takes longer on a busy machine.
  async list(c) {
    let names;
    for (const end = Date.now() + 30_000; ; await setTimeout(500)) {
      names = (await c.list()).map((t) => t.name);
      if (names.includes("mcp_adds_add") || Date.now() > end) break;
    }
    for (const name of ["Bash", "ReadImage", "SetCallback", "mcp_adds_add"]) assert.ok(names.includes(name), `${name} is not listed`);
  },
  async call(c) {
    assert.match(text(await c.call("Bash", { command: "echo hi; exit 3" })), /hi\n\[belljar exit=3 /);
    assert.match(text(await c.call("mcp_adds_add", { a: 2, b: 3 })), /sum=5/);
  },
  async background(c) {
    const [, id] = text(await c.call("BackgroundBash", { command: "echo up; sleep 600" })).match(/task_id=(\d+)/);
    if (c.single) return;
    assert.match(text(await c.call("ReadBgOutput", { task_id: Number(id) })), /status=running/);
    assert.match(text(await c.call("KillBgTask", { task_id: Number(id), grace_ms: 0 })), /status=killed/);
  },
  async progress(c) {
    if (!c.options.includes("onprogress")) return "no";
    let heard = 0;
    await c.call("Bash", { command: "for i in 1 2 3; do echo line $i; sleep 0.4; done" }, { onprogress: () => heard++ });
    assert.ok(heard > 0, "no progress came");
  },
  // No other command of its box sees the command, but this machine does. A command that is quiet
  // for a while may go on all the same, on a busy machine.
  async cancel(c) {
    if (!c.options.includes("signal")) return "no";
    const seconds = `600.${process.pid}${++cancels}`;
    const becomes = async (wanted, patience) => {
      for (const end = Date.now() + patience; Date.now() < end; await setTimeout(20)) {
        if (runs(`sleep\0${seconds}\0`) === wanted) return true;
      }
      return false;
    };
    const aborter = new AbortController();
    const given = c.call("Bash", { command: `sleep ${seconds}` }, { signal: aborter.signal }).then(() => "ended", () => "given up");
    assert.ok(await becomes(true, 20_000), "the command does not run");
    aborter.abort();
    assert.equal(await Promise.race([given, setTimeout(10_000, "waiting")]), "given up");
    assert.ok(await becomes(false, 10_000), "the call goes on in the server");
  },
  async image(c) {
    const given = await c.call("ReadImage", { file_path: "/workspace/dot.png" });
    assert.ok(text(given).includes(dot), "the image is lost");
  },
  async resources(c) {
    if (!c.read) return "no";
    assert.ok((await c.resources()).some((r) => r.uri === "file:///workspace/"), "the workspace is not listed");
    assert.match(text(await c.read("file:///workspace/hello.md")), /# hello/);
  },
  async "empty resource"(c) {
    if (!c.read) return "no";
    assert.match(text(await c.read("file:///workspace/empty.txt")), /"text": ?""/);
  },
  async prompts(c) {
    if (!c.prompts) return "no";
    assert.ok((await c.prompts()).some((p) => p.name === "plan"), "plan is not listed");
    assert.match(text(await c.prompt("plan", { goal: "to see the sea" })), /to see the sea/);
  },
};

let cancels = 0;

// runs says whether a process of this machine has a command line.
function runs(line) {
  return readdirSync("/proc").some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8") === line;
    } catch {
      return false; // it has ended meanwhile
    }
  });
}

// Nothing takes longer than this, or it hangs.
const within = (promise, what) => Promise.race([promise, setTimeout(60_000, undefined, { ref: false }).then(() => assert.fail(`${what} hangs`))]);

let runCount = 0;
async function run(connect, transport) {
  const base = `${dir}/${++runCount}`;
  const workspace = `${base}/workspace`;
  mkdirSync(workspace, { recursive: true });
  writeFileSync(`${workspace}/hello.md`, "# hello\n");
  writeFileSync(`${workspace}/empty.txt`, "");
  writeFileSync(`${workspace}/dot.png`, Buffer.from(dot, "base64"));
  const upstreams = `${base}/upstreams.json`;
  writeFileSync(upstreams, JSON.stringify({ mcpServers: { adds: { command: "node", args: ["-e", adds] } } }));
  const args = ["serve", "--workspace", workspace, "--state", `${base}/state`, "--upstreams", upstreams];
  let server;
  let at = { command: belljar, args };
  if (transport !== "stdio") {
    server = spawn(belljar, [...args, "--http", "127.0.0.1:0", "--legacy-sse", "--websocket"], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
      said += chunk;
      if (/http:\S+\/mcp/.test(said)) break;
    }
    server.stderr.resume();
    at = { url: said.match(/http:\S+\/mcp/)[0] };
    if (transport === "SSE") at.sse = at.url.replace(/mcp$/, "sse");
    if (transport === "WebSocket") at.ws = at.url.replace(/^http/, "ws");
  }
  const row = {};
  let client;
  try {
    client = await within(connect(at), "connecting");
    if (!client) {
      return Object.fromEntries(Object.keys(abilities).map((name) => [name, "no"]));
    }
    for (const [name, ability] of Object.entries(abilities)) {
      try {
        row[name] = (await within(ability(client, workspace), name)) ?? "ok";
      } catch (err) {
        row[name] = "FAULT";
        console.log(`  ${name}: ${err.message.split("\n").slice(0, 6).join("\n    ")}`);
      }
    }
  } catch (err) {
    console.log(`  connecting: ${err.message}`);
    for (const name of Object.keys(abilities)) row[name] = "FAULT";
  } finally {
    await within(Promise.resolve(client?.close()), "closing").catch((err) => console.log(`  ${err.message}`));
    if (server) {
      server.kill("SIGTERM");
      const [code] = await once(server, "exit");
      assert.equal(code, 0, "the server's exit status after SIGTERM");
    }
    rmSync(base, { recursive: true });
  }
  return row;
}

const rows = [["client", "transport", ...Object.keys(abilities)], ["---", "---", ...Object.keys(abilities).map(() => "---")]];
for (const [name, connect] of Object.entries(all)) {
  if (only.length > 0 && !only.some((part) => name.includes(part))) continue;
  for (const transport of connect.transports ?? ["stdio", "HTTP"]) {
    const row = await run(connect, transport);
    rows.push([name, transport, ...Object.values(row)]);
    console.log(name, transport, Object.values(row).join(" "));
  }
}
if (only.length > 0) process.exit(0);

const table = rows.map((cells) => `| ${cells.join(" | ")} |\n`).join("");
const marks = /(<!-- make clients -->\n)[^]*?(<!-- end -->)/;
const page = readFileSync(doc, "utf8");
if (process.env.UPDATE === "1") writeFileSync(doc, page.replace(marks, (_, begin, end) => `${begin}${table}${end}`));
else if (!page.includes(table)) {
  console.log(`FAIL the table in ${doc} differs:\n${table}`);
  process.exit(1);
}
console.log("ok  clients");
process.exit(0); // some clients leave sockets open
