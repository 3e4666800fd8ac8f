#!/usr/bin/env node
// X5: what a client of the TypeScript SDK reads, watches and completes, in both
// eras of the protocol, over stdio and over HTTP: resources.mjs BELLJAR
// WORKSPACE. Ends with 1 at the first check that fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [belljar, workspace] = process.argv.slice(2);
writeFileSync(`${workspace}/hello.md`, "# hello\n");
writeFileSync(`${workspace}/empty.txt`, "");

async function resources(name, era, transport) {
  const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
  const capabilities = { experimental: { "belljar.dev/structured": {} } };
  const client = new Client({ name: "resources", version: "1" }, { capabilities, versionNegotiation: { mode } });
  const news = [];
  let heard;
  client.setNotificationHandler("notifications/resources/updated", (n) => {
    news.push(n.params.uri);
    heard?.();
  });
  await client.connect(transport);
  const offered = client.getServerCapabilities();
  assert.equal(offered.resources.subscribe, true);
  assert.ok(offered.completions && offered.prompts.listChanged);
  assert.ok("io.modelcontextprotocol/tasks" in offered.extensions);

  // Files, by the policy's path rules and the box's view.
  const { resources: listed } = await client.listResources();
  assert.ok(listed.some((r) => r.uri === "file:///workspace/"));
  const { resourceTemplates } = await client.listResourceTemplates();
  for (const want of ["file:///workspace/{+path}", "output://{id}{?offset,length}", "job://{task_id}"]) {
    assert.ok(resourceTemplates.some((t) => t.uriTemplate === want), want);
  }
  const { contents } = await client.readResource({ uri: "file:///workspace/hello.md" });
  assert.deepEqual([contents[0].text, contents[0].mimeType], ["# hello\n", "text/markdown"]);
  // What is empty is a text all the same.
  const empty = await client.readResource({ uri: "file:///workspace/empty.txt" });
  assert.equal(empty.contents[0].text, "");
  for (const uri of ["file:///workspace/none", "file:///etc/passwd", "file:///workspace/../etc/passwd"]) {
    await assert.rejects(client.readResource({ uri }), /not found/i, uri);
  }

  // A job: watched until it ends, and its number completed.
  const { structuredContent: job } = await client.callTool({
    name: "BackgroundBash",
    arguments: { command: "echo up; sleep 0.3; echo down" },
  });
  const uri = `job://${job.task_id}`;
  const watch = era === "modern" ? await client.listen({ resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
  const values = async (ref) =>
    (await client.complete({ ref, argument: { name: "task_id", value: "" } })).completion.values;
  assert.ok((await values({ type: "ref/prompt", name: "follow-task" })).includes(String(job.task_id)));
  assert.ok((await values({ type: "ref/resource", uri: "job://{task_id}" })).includes(String(job.task_id)));
  const record = async () => JSON.parse((await client.readResource({ uri })).contents[0].text);
  for (;;) {
    const next = new Promise((resolve) => (heard = resolve));
    const now = await record();
    if (now.status !== "running") {
      assert.equal(now.output, "up\ndown\n");
      break;
    }
    if (news.length > 0) news.length = 0;
    else await next;
  }
  assert.ok(news.every((u) => u === uri));
  if (era === "modern") await watch.close();
  else await client.unsubscribeResource({ uri });

  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map((p) => p.name), prompts.map((p) => p.name).sort());
  const { messages } = await client.getPrompt({ name: "plan", arguments: { goal: "to see the sea" } });
  assert.match(messages[0].content.text, /to see the sea/);
  await assert.rejects(client.getPrompt({ name: "plan" }), (e) => e.code === -32602);

  await client.close();
  console.log(`ok  resources, prompts and completion over ${name}, ${era} era`);
}

for (const era of ["legacy", "modern"]) {
  await resources("stdio", era, new StdioClientTransport({ command: belljar, args: ["serve", "--workspace", workspace], stderr: "inherit" }));
}

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
  for (const era of ["legacy", "modern"]) {
    await resources("http", era, new StreamableHTTPClientTransport(new URL(url)));
  }
} finally {
  server.kill("SIGTERM");
}
const [code] = await once(server, "exit");
assert.equal(code, 0, "the server's exit status after SIGTERM");
