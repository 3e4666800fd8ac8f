// What belljar's tools and their results cost a model in each agent, in tokens of
// o200k_base: tokens.mjs BELLJAR DIR COUNTS. It writes the counts to the file COUNTS,
// as {agent: {row: tokens}}; tokens.mjs BEFORE AFTER prints two such files as tables.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const cells = (row) => `| ${row.join(" | ")} |`;

if (process.argv.length === 4) {
  const [before, after] = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file)));
  const names = Object.keys(after);
  for (const what of ["definition", "result"]) {
    console.log(`${cells([what, ...names])}\n${cells(["---", ...names.map(() => "---")])}`);
    for (const row of Object.keys(after[names[0]][what])) {
      console.log(cells([row, ...names.map((name) => `${before[name][what][row] ?? "-"} → ${after[name][what][row]}`)]));
    }
    console.log();
  }
  process.exit();
}

// The script stands apart from the packages that npm brought.
const { encode } = createRequire(`${process.cwd()}/bin/agents/x.js`)("gpt-tokenizer");
const { agents } = await import("./clients.mjs");
const { own } = await import("./model.mjs");
const { close, run } = await import("./stage.mjs");
const count = (text) => encode(text, { allowedSpecial: "all" }).length;

const source = "func add(a, b int) int { return a + b } // the sum of both\n".repeat(68);
const rows = [
  ["Bash echo hi", "Bash", { command: "echo hi" }],
  ["Bash cat, 4 kB of source", "Bash", { command: "cat", stdin: source }],
  ["Bash exit 9", "Bash", { command: "exit 9" }],
  ["Bash timeout", "Bash", { command: "echo begun; sleep 600", timeout: 1000 }],
  ["Bash no network", "Bash", { command: "curl -sS --max-time 20 https://blocked.example/" }],
  ["Bash seq 100000 (cut)", "Bash", { command: "seq 100000" }],
  ["BackgroundBash", "BackgroundBash", { command: "echo up; sleep 600" }],
  ["ReadBgOutput", "ReadBgOutput", { task_id: 1, wait_ms: 200 }],
  ["ListBgTasks, one", "ListBgTasks", {}],
  ["KillBgTask", "KillBgTask", { task_id: 1, grace_ms: 0 }],
  ["ReadImage, without the image", "ReadImage", { file_path: "/workspace/dot.png" }],
  ["ReadDocs, a short page", "ReadDocs", { url: "/guide", render: "never" }],
  ["WebSearch, one result", "WebSearch", { query: "owls", engines: ["standin"], timeout_ms: 9000 }],
  ["TaskManager create", "TaskManager", { action: "create", text: "Release" }],
  ["TaskManager list", "TaskManager", { action: "list" }],
  ["PlanMode status", "PlanMode", { action: "status" }],
  ["SetCallback", "SetCallback", { message: "look", delay_seconds: 3600 }],
  ["InvokeSkill", "InvokeSkill", { skill_name: "greet", arguments: "the owl" }],
  ["SearchSkills, one", "SearchSkills", { pattern: "greets", flags: "-i" }],
];

const counts = {};
for (const agent of Object.keys(agents)) {
  const definition = {};
  const { calls } = await run(agent, "tokens", async function* ({ call, offered, web }) {
    const tools = offered().filter((t) => own(t.name));
    for (const { name, definition: d } of tools) definition[own(name)] = count(JSON.stringify(d));
    definition["all 14"] = Object.values(definition).reduce((a, b) => a + b, 0);
    for (const [, tool, args] of rows) yield* call(tool, args.url ? { ...args, url: web + args.url } : args);
  });
  const result = Object.fromEntries(rows.map(([row], i) => [row, count(calls[i].given.map((part) => part.text ?? "").join("\n"))]));
  counts[agent] = { definition, result };
}
close();
writeFileSync(process.argv[4], JSON.stringify(counts));
