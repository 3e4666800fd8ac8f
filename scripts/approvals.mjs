#!/usr/bin/env node
// Refusals and approvals as the TypeScript SDK's client sees them: approvals.mjs BELLJAR
// WORKSPACE POLICY STATE. The client lists the tools first, so it checks every
// structured result against the tool's output schema. Ends with 1 at the first
// check that fails.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [belljar, workspace, policy, state] = process.argv.slice(2);

// What a program declares that wants structured results beside the texts.
const experimental = { "belljar.dev/structured": {} };

const text = (result) => result.content.map((c) => c.text ?? "").join("\n");

const transport = () =>
  new StdioClientTransport({
    command: belljar,
    args: ["serve", "--workspace", workspace, "--policy", policy, "--state", state],
    stderr: "inherit",
  });

const bash = (client, command) => client.callTool({ name: "Bash", arguments: { command } });

const client = new Client({ name: "approvals", version: "1" }, { capabilities: { experimental } });
await client.connect(transport());
await client.listTools();
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

// Elicitation: the client shows the question, and what its person says holds.
const asked = [];
async function asks(answer, slow = 300) {
  const client = new Client({ name: "approvals", version: "1" }, { capabilities: { experimental, elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    asked.push(request.params);
    // A person takes time: a no in no time is taken for the client's own.
    await setTimeout(slow);
    return answer;
  });
  await client.connect(transport());
  await client.listTools();
  return client;
}
const accepted = (text) => ({ action: "accept", content: { answer: text } });

const yes = await asks(accepted("yes, this once"));
const ran = await bash(yes, "echo publish 1");
assert.equal(ran.structuredContent.stdout, "publish 1\n");
assert.equal(asked.length, 1);
assert.match(asked[0].message, /runs:\s+echo publish 1\n/);
assert.equal(asked[0].requestedSchema.properties.answer.default, "no");
assert.equal((await bash(yes, "echo publish 1")).structuredContent.stdout, "publish 1\n");
assert.equal(asked.length, 2, "a yes for one call is used up");
await yes.close();

for (const [answer, name] of [
  [accepted("no"), "2"],
  [{ action: "decline" }, "3"],
]) {
  const no = await asks(answer);
  const refused = await bash(no, `echo publish ${name}`);
  assert.match(text(refused), /^DENIED by a person: approval ap-\w+ \(rule publish\) was declined/);
  assert.equal(refused.structuredContent.refusal.retry, "never");
  await no.close();
}

const session = await asks(accepted("yes, for this session"));
const before = asked.length;
for (const spelling of ["echo publish 4", "echo   publish '4'"]) {
  assert.equal((await bash(session, spelling)).structuredContent.stdout, "publish 4\n");
}
assert.equal(asked.length, before + 1, "a yes for the session is asked for once");
await session.close();

// A client that dismisses leaves the question open, and the answer of another
// surface is read by its id.
const cancels = await asks({ action: "cancel" });
const waits = await bash(cancels, "echo publish 5");
assert.match(text(waits), /^WAITING for approval ap-/);
const id = waits.structuredContent.refusal.approval_id;
execFileSync(belljar, ["approve", "yes", id, "--state", state]);
const told = await cancels.callTool({ name: "ReadBgOutput", arguments: { id } });
assert.equal(told.structuredContent.approval.state, "approved");
assert.equal((await bash(cancels, "echo publish 5")).structuredContent.stdout, "publish 5\n");
await cancels.close();

// A client without a person declines in no time, as some do that run in scripts:
// the people at the command line are asked all the same.
const machine = await asks({ action: "decline" }, 0);
const open = await bash(machine, "echo publish 6");
assert.match(text(open), /^WAITING for approval ap-/);
execFileSync(belljar, ["approve", "yes", open.structuredContent.refusal.approval_id, "--state", state]);
assert.equal((await bash(machine, "echo publish 6")).structuredContent.stdout, "publish 6\n");
await machine.close();
console.log("ok  approvals by elicitation and by the command line");
