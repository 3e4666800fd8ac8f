#!/usr/bin/env node
// X5: a whole session of the TypeScript SDK's client with belljar, over stdio and
// over HTTP: session.mjs BELLJAR WORKSPACE. Ends with 1 at the first check
// that fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";

const [belljar, workspace] = process.argv.slice(2);

// What a program declares that wants structured results beside the texts.
const structured = { "belljar.dev/structured": {} };

const text = (result) => result.content.map((c) => c.text ?? "").join("\n");

async function session(name, transport) {
  const client = new Client({ name: "session", version: "1" }, { capabilities: { experimental: structured } });
  await client.connect(transport);
  const call = (tool, args, options) =>
    client.callTool({ name: tool, arguments: args }, undefined, options);

  // Listing first: the client then checks every structured result against
  // the tool's output schema.
  const { tools } = await client.listTools();
  for (const name of ["BackgroundBash", "Bash", "KillBgTask", "ListBgTasks", "ReadBgOutput"]) {
    assert.ok(tools.some((t) => t.name === name), `${name} is not listed`);
  }
  assert.deepEqual(tools.map((t) => t.name), tools.map((t) => t.name).toSorted());
  for (const t of tools) {
    assert.ok(t.title && t.outputSchema && typeof t.annotations.readOnlyHint === "boolean", t.name);
  }

  // A single request can do without, as a client that declares nothing does.
  const plain = await client.request(
    { method: "tools/call", params: { name: "Bash", arguments: { command: "echo plain" }, _meta: { "belljar.dev/structured": false } } },
    CallToolResultSchema,
  );
  assert.match(text(plain), /^plain\n\[belljar exit=0 /);
  assert.equal(plain.structuredContent, undefined);

  const hi = await call("Bash", { command: "cd /tmp && echo hi" });
  assert.equal(hi.isError ?? false, false);
  assert.match(text(hi), /^hi\n\[belljar exit=0 duration_ms=\d+ cwd=\/tmp\]$/);
  assert.equal(hi.structuredContent.stdout, "hi\n");
  assert.match(text(await call("Bash", { command: "pwd" })), /^\/tmp\n/);

  const failing = await call("Bash", { command: "exit 9" });
  assert.equal(failing.isError ?? false, false);
  assert.equal(failing.structuredContent.exit_code, 9);

  const seen = [];
  await call(
    "Bash",
    { command: "for i in 1 2 3; do echo line $i; sleep 0.4; done" },
    { onprogress: (p) => seen.push(p) },
  );
  assert.ok(seen.length >= 2, `progress came ${seen.length} times`);
  assert.match(seen.map((p) => p.message).join(""), /line 1\nline 2\n/);
  assert.ok(seen.every((p, i) => i === 0 || p.progress > seen[i - 1].progress));

  // A cancel kills the command and what it started. That one writes all the time, for
  // no other command of its box sees it run.
  const beat = "while :; do date +%N >/workspace/beat; sleep 0.05; done";
  const aborter = new AbortController();
  await assert.rejects(
    call(
      "Bash",
      { command: `(${beat}) & echo started; wait` },
      { signal: aborter.signal, onprogress: () => aborter.abort("enough") },
    ),
  );
  const quiet = "cd /workspace; for i in $(seq 20); do a=$(cat beat); sleep 0.5; [ \"$a\" = \"$(cat beat)\" ] && exit 0; done; exit 1";
  assert.equal((await call("Bash", { command: quiet })).structuredContent.exit_code, 0, "a cancelled command still runs");

  const long = await call("Bash", { command: "seq 100000" });
  assert.match(text(long), /bytes left out here; read output:\/\//);
  const { output_uri: uri, output_bytes: size } = long.structuredContent;
  const tail = await client.readResource({ uri: `${uri}?offset=${size - 7}&length=7` });
  assert.equal(tail.contents[0].text, "100000\n");

  const task = await call("BackgroundBash", { command: "echo up; sleep 60" });
  const task_id = task.structuredContent.task_id;
  assert.match(text(await call("ListBgTasks", {})), /\[task \d+\] running/);
  const waiting = await call("ReadBgOutput", { task_id, wait_ms: 100 });
  assert.equal(waiting.structuredContent.status, "running");
  const killed = await call("KillBgTask", { task_id });
  assert.equal(killed.structuredContent.status, "killed");
  const gone = await call("KillBgTask", { task_id });
  assert.equal(gone.structuredContent.already_finished, true);

  await client.close();
  console.log(`ok  session over ${name}`);
}

await session(
  "stdio",
  new StdioClientTransport({
    command: belljar,
    args: ["serve", "--workspace", workspace],
    stderr: "inherit",
  }),
);

const server = spawn(belljar, ["serve", "--workspace", workspace, "--http", "127.0.0.1:0"], {
  stdio: ["ignore", "ignore", "pipe"],
});
try {
  let said = "";
  for await (const chunk of server.stderr) {
    said += chunk;
    if (/http:\S+\/mcp/.test(said)) break;
  }
  const [url] = said.match(/http:\S+\/mcp/);
  await session("http", new StreamableHTTPClientTransport(new URL(url)));
} finally {
  server.kill("SIGTERM");
}
const [code] = await once(server, "exit");
assert.equal(code, 0, "the server's exit status after SIGTERM");
