#!/usr/bin/env node
// Refusals as the TypeScript SDK's client sees them: approvals.mjs BELLJAR
// WORKSPACE POLICY STATE. The client lists the tools first, so it checks every
// structured result against the tool's output schema. Ends with 1 at the first
// check that fails.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [belljar, workspace, policy, state] = process.argv.slice(2);

const text = (result) => result.content.map((c) => c.text ?? "").join("\n");

async function connect(capabilities) {
  const client = new Client({ name: "approvals", version: "1" }, { capabilities });
  await client.connect(
    new StdioClientTransport({
      command: belljar,
      args: ["serve", "--workspace", workspace, "--policy", policy, "--state", state],
      stderr: "inherit",
    }),
  );
  await client.listTools();
  return client;
}

const bash = (client, command) => client.callTool({ name: "Bash", arguments: { command } });

const client = await connect({});
const denied = await bash(client, "true; rm -rf /");
assert.equal(denied.isError, true);
assert.match(text(denied), /^DENIED by policy rule no-rm .*Nothing was run\.\nPart 2 of 2: rm -rf \/\n/);
const { refusal } = denied.structuredContent;
assert.equal(refusal.decision, "denied");
assert.equal(refusal.rule, "no-rm");
assert.deepEqual(refusal.part, { argv: ["rm", "-rf", "/"], start: 6, end: 14 });
assert.equal(refusal.retry, "never");
assert.equal(typeof refusal.source.line, "number");

const allowed = await bash(client, "echo hi");
assert.equal(allowed.structuredContent.refusal, undefined);
assert.equal(allowed.structuredContent.stdout, "hi\n");

const blocked = await bash(client, "curl -sS http://x.example/ 2>&1 || getent hosts x.example; exit 1");
assert.match(text(blocked), /BLOCKED by the sandbox: .*The host is not down\./);
await client.close();
console.log("ok  refusals as structuredContent, checked against the output schemas");
