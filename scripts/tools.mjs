#!/usr/bin/env node
// X5: each tool through its life, as a client of the TypeScript SDK drives it, in
// both eras of the protocol, over stdio and over HTTP: tools.mjs BELLJAR DIR. The
// pages and the search engine are stand-ins on this machine's loopback. It prints
// how often each tool was tried in which way, and ends with 1 where a check fails.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { certificate, dot, engine, greet, put } from "./agents/standin.mjs";

const [belljar, dir] = process.argv.slice(2);
const text = (result) => result.content.map((c) => c.text ?? "").join("\n");
// Calls of each tool, which the tests of mcp/tools write.
const cases = JSON.parse(readFileSync(new URL("testdata/tools.json", import.meta.url)));
// What a text must fit: a pattern, or a part of the text.
const pattern = (want) => (want instanceof RegExp ? want : new RegExp(want.replace(/[^\w\s]/g, "\\$&")));

// The stand-ins, for engines are asked by https only. What is slow never answers.
certificate(dir);
let waiting = 0;
const web = createServer({ key: readFileSync(`${dir}/key.pem`), cert: readFileSync(`${dir}/cert.pem`) }, (request, response) => {
  const url = new URL(request.url, "https://host.belljar.internal");
  if (url.pathname === "/slow" || url.searchParams.get("q") === "slow") {
    waiting++;
    request.socket.on("close", () => waiting--);
    return;
  }
  if (url.pathname === "/search") {
    const results = [{ title: `About ${url.searchParams.get("q")}`, url: "https://example.org/a", text: "It is known." }];
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ results }));
    return;
  }
  response.setHeader("Content-Type", "text/html");
  response.end("<title>A page</title><main><h1>Head</h1><p>Body of the page, which is long enough to be read as one.</p></main>");
});
web.listen(0, "127.0.0.1");
await once(web, "listening");
const place = `host.belljar.internal:${web.address().port}`;

const workspace = `${dir}/workspace`;
put(`${workspace}/src/main.go`, "package main\n");
put(`${workspace}/dot.png`, dot);
put(`${workspace}/.claude/skills/greet/SKILL.md`, greet);
put(`${workspace}/.claude/skills/broken/SKILL.md`, "---\nname: [\n---\n");
put(`${dir}/config/belljar/engines/standin.yaml`, engine(place));
put(`${dir}/policy.yaml`, `version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow_private: ["${place}", "host.belljar.internal:443"]}}}
`);
const env = { ...process.env, SSL_CERT_FILE: `${dir}/cert.pem`, XDG_CONFIG_HOME: `${dir}/config` };
const serve = (state) => ["serve", "--workspace", workspace, "--policy", `${dir}/policy.yaml`, "--state", `${dir}/${state}`];

// A client that waits for what never comes says what it tried last.
let trying = "";
const patience = setTimeout(() => {
  console.error(`FAIL nothing more came after: ${trying}`);
  process.exit(1);
}, 60_000);

// An answer as a person gives one: a no in no time is taken for the client's own.
const thought = (answer) => answer && new Promise((resolve) => setTimeout(() => resolve(answer), 300));

const counts = new Map(); // "tool way" to how many checks passed
const count = (what, way) => counts.set(`${what}\t${way}`, (counts.get(`${what}\t${way}`) ?? 0) + 1);

class Run {
  news = [];
  answers = []; // what the person at the client says, in order; none is silence
  asked = 0;

  async connect(era, transport) {
    this.era = era;
    const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
    this.client = new Client({ name: "tools", version: "1" }, { capabilities: { experimental: { "belljar.dev/structured": {} }, elicitation: { form: {} } }, versionNegotiation: { mode } });
    this.client.setRequestHandler("elicitation/create", () => {
      this.asked++;
      this.noticed?.();
      return thought(this.answers.shift()) ?? new Promise(() => {});
    });
    this.client.setNotificationHandler("notifications/resources/updated", (n) => {
      this.news.push(n.params.uri);
      this.noticed?.();
    });
    await this.client.connect(transport);
    // Results are checked against the output schemas from here on.
    this.tools = (await this.client.listTools()).tools.map((t) => t.name);
  }

  async until(done) {
    while (!done()) await new Promise((resolve) => (this.noticed = resolve));
  }

  call(name, args, options) {
    patience.refresh();
    trying = `${this.name}, ${this.era} era, ${name} ${JSON.stringify(args).slice(0, 99)}`;
    return this.client.callTool({ name, arguments: args }, options);
  }

  // What works, with a pattern or a part of its text.
  async works(name, args, want, check) {
    const result = await this.call(name, args);
    assert.equal(result.isError ?? false, false, `${name} ${JSON.stringify(args)}: ${text(result)}`);
    assert.match(text(result), pattern(want), `${name} ${JSON.stringify(args).slice(0, 99)}: ${text(result)}`);
    check?.(result.structuredContent, result);
    count(name, "works");
    return result.structuredContent;
  }

  // What is refused, in words that say what was wrong.
  async refuses(name, args, want) {
    const result = await this.call(name, args);
    assert.equal(result.isError, true, `${name} ${JSON.stringify(args)}: ${text(result)}`);
    assert.match(text(result), pattern(want), `${name} ${JSON.stringify(args).slice(0, 99)}: ${text(result)}`);
    count(name, "refuses");
  }

  // What a client gives up when started says that it runs.
  async cancels(name, args, started) {
    const aborter = new AbortController();
    const given = assert.rejects(this.call(name, args, { signal: aborter.signal, onprogress: () => this.noticed?.() }));
    await started();
    aborter.abort("enough");
    await given;
    count(name, "cancels");
  }

  async watch(...uris) {
    if (this.era === "modern") {
      const watch = await this.client.listen({ resourceSubscriptions: uris });
      return () => watch.close();
    }
    for (const uri of uris) await this.client.subscribeResource({ uri });
    return () => Promise.all(uris.map((uri) => this.client.unsubscribeResource({ uri })));
  }

  async complete(ref, name, value) {
    return (await this.client.complete({ ref, argument: { name, value } })).completion.values;
  }

  async read(uri) {
    return (await this.client.readResource({ uri })).contents[0].text;
  }

  // What needs nothing of the session.
  async simple() {
    for (const c of cases.filter((c) => this.tools.includes(c.tool))) {
      await this.refuses(c.tool, JSON.parse(c.refuses), c.answer);
      if (c.works) await this.works(c.tool, JSON.parse(c.works), c.says);
    }
  }

  async shells() {
    await this.works("Bash", { command: "echo hi; exit 3" }, /^hi\n\[belljar exit=3 /, (s) => assert.equal(s.exit_code, 3));
    await this.refuses("Bash", { command: "true", timeuot: 1 }, /"timeuot" is not known; did you mean "timeout"\?/);
    // It writes all the time, for no other command of its box sees it run.
    const slow = { command: "while :; do date +%N >/workspace/up; sleep 0.05; done" };
    await this.cancels("Bash", slow, async () => {
      while (!/\d/.test(await this.read("file:///workspace/up").catch(() => ""))) continue;
    });
    await this.works("Bash", { command: "for i in $(seq 20); do a=$(cat up); sleep 0.5; [ \"$a\" = \"$(cat up)\" ] && exec rm up; done; exit 1" }, /exit=0/);

    const { task_id } = await this.works("BackgroundBash", { command: "echo one; sleep 4244" }, /task/);
    await this.refuses("BackgroundBash", { command: "sleep 1 &" }, /&/);
    await this.works("ListBgTasks", {}, new RegExp(`task ${task_id}\\] running`));
    await this.works("ReadBgOutput", { task_id, wait_ms: 2000 }, /one|running/);
    await this.refuses("ReadBgOutput", { task_id: 4711 }, /4711/);
    const asking = this.call("ReadBgOutput", { task_id }); // both calls are under way
    await this.cancels("ReadBgOutput", { task_id, wait_ms: 60000 }, () => asking);
    await this.works("KillBgTask", { task_id, grace_ms: 0 }, /killed/);
    await this.works("KillBgTask", { task_id }, /already|had ended/, (s) => assert.equal(s.already_finished, true));
    await this.refuses("KillBgTask", { task_id: 4711 }, /4711/);
  }

  async pages() {
    await this.works("ReadImage", { file_path: "/workspace/dot.png" }, /1.*1/, (_, r) => assert.ok(r.content.some((c) => c.type === "image")));
    await this.refuses("ReadImage", { file_path: "/workspace/none.png" }, /none\.png/);
    await this.refuses("ReadImage", { file_path: "/workspace/src/main.go" }, /image/);
    await this.works("ReadDocs", { url: `https://${place}/page`, render: "never" }, /# Head/);
    await this.refuses("ReadDocs", { url: "http://127.0.0.1:1/" }, /BLOCKED|not allowed|refused/);
    await this.cancels("ReadDocs", { url: `https://${place}/slow?${this.era}`, render: "never" }, this.reached);
    await this.works("WebSearch", { query: `owls ${this.name}`, engines: ["standin"], timeout_ms: 9000 }, /About owls[^]*1\/1 engines answered/);
    await this.refuses("WebSearch", { query: "owls", engines: ["gogle"] }, /no such engine "gogle"/);
    await this.cancels("WebSearch", { query: "slow", engines: ["standin"], timeout_ms: 9000 }, this.reached);
  }

  // A stand-in has what it will not answer.
  reached = async () => {
    while (waiting === 0) await new Promise((resolve) => setImmediate(resolve));
  };

  async work() {
    const close = await this.watch("todo://list", "plan:///r.md");
    await this.works("TaskManager", { action: "create", text: "Release" }, /^Created task \d+: Release/);
    await this.until(() => this.news.includes("todo://list"));
    count("resources/updated", "works");
    const { step_id } = await this.works("TaskManager", { action: "add", text: "Tag" }, /^Added step/);
    await this.works("TaskManager", { action: "complete", step_id }, /^Completed step/);
    await this.refuses("TaskManager", { action: "switch", task_id: 4711 }, /4711/);
    assert.match(await this.read("todo://list"), /Release/);
    count("resources/read", "works");

    await this.refuses("PlanMode", { action: "exit" }, /not active|not planning|enter/);
    await this.works("PlanMode", { action: "enter", goal: "Release", plan_file: "r.md" }, /^Plan mode activated\. Write your plan as markdown\.$/);
    await this.works("Bash", { command: "touch /workspace/planned" }, /Read-only file system/);
    await this.answered({ answer: "no", note: "shorter" });
    await this.works("PlanMode", { action: "exit", plan: "# Long" }, /^Plan rejected\. User feedback: shorter\n/);
    await this.answered({ answer: "yes, this once" });
    await this.works("PlanMode", { action: "exit", plan: "# Short" }, /^Plan approved\.\nPlan saved to r\.md\nExiting plan mode\. Returning to execution\.$/);
    await this.until(() => this.news.includes("plan:///r.md"));
    count("resources/updated", "works");
    assert.equal(await this.read("plan:///r.md"), "# Short");
    count("resources/read", "works");
    await close();
  }

  answered(content) {
    this.answers.push({ action: "accept", content });
  }

  async talk() {
    const questions_json = JSON.stringify({ questions: [{ id: "which", question: "Which?", options: ["A", "B"] }] });
    this.answered({ which: "B" });
    await this.works("AskUserQuestion", { questions_json }, /B/, (s) => assert.deepEqual(s.answers_by_id, { which: "B" }));
    this.answers.push({ action: "decline" });
    await this.works("AskUserQuestion", { questions_json: questions_json.replace("Which", "Whom") }, /./, (s) => assert.equal(s.outcome, "decline"));
    assert.equal(this.answers.length, 0, "somebody was not asked");
    const when = { questions_json: questions_json.replace("Which", "When") };
    if (this.era === "legacy") {
      const before = this.asked;
      await this.cancels("AskUserQuestion", when, () => this.until(() => this.asked > before));
    } else {
      // No call is under way while the client asks: it says that it was given up.
      this.answers.push({ action: "cancel" });
      assert.equal((await this.call("AskUserQuestion", when)).structuredContent.outcome, "cancel");
      count("AskUserQuestion", "cancels");
    }

    await this.refuses("InvokeSkill", { skill_name: "broken" }, /broken/);
    await this.refuses("InvokeSkill", { skill_name: "../greet" }, /no such skill/);

    const close = await this.watch("callback://pending");
    await this.works("SetCallback", { message: `look at ${this.name}`, delay_seconds: 1, repeat_count: 1 }, /^Callback scheduled: fires every 1s, repeats 1 times?\.\nIts callback_id is \d\.$/);
    await this.works("SetCallback", { action: "list" }, /^Active callbacks \(1\/8\):/);
    for (;;) {
      await this.until(() => this.news.includes("callback://pending"));
      this.news.length = 0; // it tells of callbacks that are set, too
      const { pending } = JSON.parse(await this.read("callback://pending"));
      if (pending?.length > 0) break;
    }
    count("resources/updated", "works");
    count("resources/read", "works");
    await this.works("TaskManager", { action: "list" }, new RegExp(`look at ${this.name}`)); // it comes behind any result
    await this.works("SetCallback", { message: "again", delay_seconds: 1, repeat_count: 1 }, /^Callback scheduled/);
    await this.works("SetCallback", { action: "wait", wait_ms: 9000 }, /again/, (s) => assert.equal(s.messages.length, 1));
    await this.refuses("SetCallback", { message: "x".repeat(3000), delay_seconds: 60 }, /2048/);
    for (let i = 0; i < 8; i++) await this.works("SetCallback", { message: "later", delay_seconds: 3600 }, /^Callback scheduled/);
    await this.refuses("SetCallback", { message: "later", delay_seconds: 3600 }, /^Error: all callback slots full \(max 8\)/);
    await this.cancels("SetCallback", { action: "wait", wait_ms: 60000 }, () => this.read("callback://pending"));
    await this.works("SetCallback", { action: "cancel" }, /^Cancelled 8 callbacks\.$/);
    await close();
  }

  async completions() {
    for (const [what, ref, name, typed, want] of [
      ["a skill's name", { type: "ref/resource", uri: "skill://{name}/{+path}" }, "name", "gr", ["greet"]],
      ["a file's path", { type: "ref/resource", uri: "file:///workspace/{+path}" }, "path", "src/m", ["src/main.go"]],
      ["a path outside", { type: "ref/resource", uri: "file:///workspace/{+path}" }, "path", "../", []],
    ]) {
      assert.deepEqual(await this.complete(ref, name, typed), want, what);
      count("completion/complete", "works");
    }
    const { task_id } = (await this.call("BackgroundBash", { command: "sleep 4245" })).structuredContent;
    assert.ok((await this.complete({ type: "ref/prompt", name: "follow-task" }, "task_id", "")).includes(String(task_id)));
    count("completion/complete", "works");
    await this.call("KillBgTask", { task_id, grace_ms: 0 });
    assert.equal(await this.read("file:///workspace/src/main.go"), "package main\n");
    count("resources/read", "works");
    await assert.rejects(this.client.readResource({ uri: "file:///workspace/none" }), /not found/i);
    count("resources/read", "refuses");
    const { messages } = await this.client.getPrompt({ name: "greet", arguments: { arguments: "a prompt" } });
    assert.match(messages.at(-1).content.text, /Say hello to a prompt\./);
    count("prompts/get", "works");
    await assert.rejects(this.client.getPrompt({ name: "none" }), /none/);
    count("prompts/get", "refuses");
  }

  async all(name) {
    this.name = name;
    for (const part of ["simple", "shells", "pages", "work", "talk", "completions"]) {
      try {
        await this[part]();
      } catch (err) {
        throw new Error(`${name}, ${this.era} era, ${part}: ${err.message}`, { cause: err });
      }
    }
    for (const tool of this.tools) {
      assert.ok(counts.has(`${tool}\tworks`) && counts.has(`${tool}\trefuses`), `${tool} was not tried`);
    }
    await this.client.close();
  }
}

const eras = ["legacy", "modern"];
for (const era of eras) {
  const run = new Run();
  await run.connect(era, new StdioClientTransport({ command: belljar, args: serve(`stdio-${era}`), env, stderr: "inherit" }));
  await run.all(`stdio-${era}`);
}
for (const era of eras) {
  const server = spawn(belljar, [...serve(`http-${era}`), "--http", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"], env });
  let said = "";
  for await (const chunk of server.stderr) {
    said += chunk;
    if (/http:\S+\/mcp/.test(said)) break;
  }
  const run = new Run();
  await run.connect(era, new StreamableHTTPClientTransport(new URL(said.match(/http:\S+\/mcp/)[0])));
  await run.all(`http-${era}`);
  server.kill("SIGTERM");
  const [code] = await once(server, "exit");
  assert.equal(code, 0, "the server's exit status after SIGTERM");
}
clearTimeout(patience);
web.closeAllConnections();
web.close();

const ways = ["works", "refuses", "cancels"];
const rows = [...new Set([...counts.keys()].map((k) => k.split("\t")[0]))].toSorted();
console.log(`    ${"checks, stdio and http, both eras".padEnd(36)}${ways.map((w) => w.padStart(8)).join("")}`);
for (const row of rows) {
  console.log(`    ${row.padEnd(36)}${ways.map((w) => String(counts.get(`${row}\t${w}`) ?? "-").padStart(8)).join("")}`);
}
const total = [...counts.values()].reduce((a, b) => a + b, 0);
console.log(`ok  each tool through its life: ${rows.filter((r) => !r.includes("/")).length} tools, ${total} checks`);
