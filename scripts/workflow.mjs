#!/usr/bin/env node
// Tasks, plans and questions as the TypeScript SDK's client drives them:
// workflow.mjs BELLJAR WORKSPACE STATE. Ends with 1 at the first check that fails.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client as Next } from "@modelcontextprotocol/client";
import { StdioClientTransport as NextTransport } from "@modelcontextprotocol/client/stdio";

const [belljar, workspace, state] = process.argv.slice(2);
const args = ["serve", "--workspace", workspace, "--state", state];
// What a program declares that wants structured results beside the texts.
const experimental = { "belljar.dev/structured": {} };
const text = (result) => result.content.map((c) => c.text ?? "").join("\n");

// The person at the client answers each form by what it asks.
const answers = [];
async function thought() {
  await setTimeout(300); // a no in no time would be the client's own
  return answers.shift();
}
async function connect() {
  const client = new Client({ name: "claude-code", version: "1" }, { capabilities: { experimental, elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, thought);
  await client.connect(new StdioClientTransport({ command: belljar, args, stderr: "inherit" }));
  await client.listTools(); // results are checked against the output schemas then
  return { client, call: (name, args) => client.callTool({ name, arguments: args }) };
}

let { client, call } = await connect();
const made = await call("TaskManager", { action: "create", text: "Release" });
const task_id = made.structuredContent.current_task_id;
const step = await call("TaskManager", { action: "add", text: "Tag" });
await call("TaskManager", { action: "complete", step_id: step.structuredContent.step_id });
assert.equal(text(await call("PlanMode", { action: "enter", goal: "Release" })), "Plan mode activated. Write your plan as markdown.");
assert.match(text(await call("Bash", { command: "touch /workspace/planned" })), /Read-only file system/);
await client.close();

// Another process goes on with the tasks and with the plan.
({ client, call } = await connect());
assert.match(text(await call("TaskManager", { action: "pending" })), /task \d+: Release/);
assert.match(text(await client.readResource({ uri: "todo://list" }).then((r) => ({ content: r.contents }))), /Release/);
assert.match(text(await call("PlanMode", { action: "status" })), /^Plan mode: ACTIVE\nGoal: Release\nDuration: /);
assert.match(text(await call("Bash", { command: "touch /workspace/planned" })), /Read-only file system/);
answers.push({ action: "accept", content: { answer: "no", note: "shorter" } });
assert.match(text(await call("PlanMode", { action: "exit", plan: "# Long" })), /^Plan rejected. User feedback: shorter\n/);
answers.push({ action: "accept", content: { answer: "yes, this once" } });
assert.match(text(await call("PlanMode", { action: "exit", plan: "# Short", plan_file: "r.md" })), /^Plan approved.\nPlan saved to r.md\nExiting plan mode. Returning to execution.$/);
assert.equal((await client.readResource({ uri: "plan:///r.md" })).contents[0].text, "# Short");
assert.equal((await call("Bash", { command: "touch /workspace/planned" })).structuredContent.exit_code, 0);
await call("TaskManager", { action: "complete", task_id });

const questions_json = JSON.stringify({ questions: [{ text: "Which?", options: ["A", "B"] }, { id: "who", question: "Who?" }] });
answers.push({ action: "accept", content: { q1: "B", who: "me" } });
const said = await call("AskUserQuestion", { questions_json });
assert.deepEqual(said.structuredContent.answers_by_id, { q1: "B", who: "me" });
answers.push({ action: "decline" });
assert.equal((await call("AskUserQuestion", { questions_json })).structuredContent.outcome, "decline");
await call("TaskManager", { action: "pending" }); // which shows that the answer arrived: else it is told again
await client.close();
console.log("ok  tasks, plans and questions, legacy era");

// The next major version of the SDK speaks the modern era, and answers a result
// that asks by making the call again.
const next = new Next({ name: "workflow", version: "1" }, { capabilities: { experimental, elicitation: { form: {} } }, versionNegotiation: { mode: { pin: "2026-07-28" } } });
next.setRequestHandler("elicitation/create", thought);
await next.connect(new NextTransport({ command: belljar, args, stderr: "inherit" }));
await next.listTools();
const modern = (name, args) => next.callTool({ name, arguments: args });
async function answered(name, args, content) {
  answers.push({ action: "accept", content });
  const result = await modern(name, args);
  assert.equal(answers.length, 0, "nobody was asked");
  return result;
}
assert.match(text(await modern("TaskManager", { action: "create", text: "Modern" })), /^Created task /);
const free = await answered("AskUserQuestion", { questions_json }, { q1_other: "C", who: "you" });
assert.deepEqual(free.structuredContent.answers_by_id, { q1: "C", who: "you" });
await modern("PlanMode", { action: "enter", goal: "m" });
const left = await answered("PlanMode", { action: "exit", plan: "# M" }, { answer: "yes, this once" });
assert.match(text(left), /^Plan approved.\n/);
await next.close();
console.log("ok  tasks, plans and questions, modern era");
