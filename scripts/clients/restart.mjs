// Clients that are not ours, each in 50 sessions over HTTP, against a belljar that is
// killed and started again: restart.mjs BELLJAR DIR [SESSIONS]. The first call of each
// session after that must be answered, without a word to its client.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { clients } from "./drivers.mjs";

const [belljar, dir, sessions = "50"] = process.argv.slice(2);
mkdirSync(`${dir}/workspace`, { recursive: true });

// The second TypeScript SDK, as it comes: it begins a session.
async function second({ url }) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client({ name: "sdk-2", version: "1" }, { capabilities: {} });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return { call: (name, args) => client.callTool({ name, arguments: args }), close: () => client.close() };
}

const all = {
  "TypeScript SDK 1.10.2": clients["TypeScript SDK 1.10.2"],
  "TypeScript SDK 1.32.2": clients["TypeScript SDK 1.32.2"],
  // Its stream connects again by itself, and finds its session; 1.32 leaves out by which event.
  "TypeScript SDK 1.0.4 by SSE": (at) => clients["TypeScript SDK 1.0.4"]({ ...at, sse: at.url.replace(/mcp$/, "sse") }),
  "TypeScript SDK 2 (client 2.4.0)": second,
  "mcporter 0.12.3": clients["mcporter 0.12.3"],
};

// serve starts the server on an address, and returns it with its address.
async function serve(address) {
  const args = ["serve", "--workspace", `${dir}/workspace`, "--state", `${dir}/state`, "--http", address, "--legacy-sse"];
  const server = spawn(belljar, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) {
    said += chunk;
    if (/http:\S+\/mcp/.test(said)) break;
  }
  assert.match(said, /http:\S+\/mcp/, `the server did not start: ${said}`);
  server.stderr.resume();
  return { server, url: said.match(/http:\S+\/mcp/)[0] };
}

const list = (client) => client.call("TaskManager", { action: "list" });
const listed = (result) => assert.doesNotMatch(JSON.stringify(result), /"isError":true/);
let { server, url } = await serve("127.0.0.1:0");
let lost = 0;
for (const [name, connect] of Object.entries(all)) {
  const open = [];
  for (let i = 0; i < Number(sessions); i++) open.push(await connect({ url }));
  for (const client of open) listed(await list(client));
  server.kill("SIGKILL");
  await once(server, "exit");
  ({ server, url } = await serve(new URL(url).host));
  const began = performance.now();
  const given = await Promise.allSettled(open.map(async (client) => listed(await list(client))));
  const took = (performance.now() - began) / open.length;
  const good = given.filter((g) => g.status === "fulfilled").length;
  lost += open.length - good;
  console.log(`${good === open.length ? "ok " : "FAIL"} ${name}: ${good} of ${open.length} first calls after a kill, ${took.toFixed(1)} ms each`);
  for (const why of new Set(given.filter((g) => g.reason).map((g) => String(g.reason).slice(0, 200)))) console.log(`  ${why}`);
  await Promise.allSettled(open.map((client) => client.close()));
}
server.kill("SIGTERM");
await once(server, "exit");
process.exit(lost > 0 ? 1 : 0); // some clients leave sockets open
