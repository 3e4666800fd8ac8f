// What the scripted model does in one run of an agent. Each scenario is an async
// generator: it makes calls with place.call, which returns the text that the model
// was given, and may return the model's last words. Its directory has the
// workspace, and its transcript is compared with a golden file.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export const scenarios = {
  async *tools(place) {
    // What else than belljar's tools a model is offered could run outside.
    const names = place.offered().map((t) => t.name.replace("\0", "/"));
    place.note("tools/list", names.toSorted().join("\n"));
  },

  async *shell({ call }) {
    yield* call("Bash", { command: "echo hi" });
    yield* call("Bash", { command: "cd /tmp && echo wrong >&2; exit 9" });
    yield* call("Bash", { command: "pwd; nosuchprogram" });
    yield* call("Bash", { command: "true" });
  },

  async *background({ call }) {
    yield* call("BackgroundBash", { command: "echo up; sleep 600", delay_ms: 1000 });
    yield* call("ReadBgOutput", { task_id: 1, wait_ms: 5000 });
    yield* call("ListBgTasks", {});
    yield* call("KillBgTask", { task_id: 1, grace_ms: 0 });
    yield* call("ReadBgOutput", { task_id: 1 });
    yield* call("BackgroundBash", { command: "exit 3", delay_ms: 5000 });
  },

  async *image({ call }) {
    yield* call("ReadImage", { file_path: "/workspace/dot.png" });
    yield* call("ReadImage", { file_path: "/workspace/none.png" });
  },

  async *docs({ call, web }) {
    yield* call("ReadDocs", { url: `${web}/guide`, render: "never" });
    yield* call("ReadDocs", { url: `${web}/none`, render: "never" });
    yield* call("WebSearch", { query: "owls", engines: ["standin"], timeout_ms: 9000 });
  },

  async *work({ call, person }) {
    yield* call("TaskManager", { action: "create", text: "Release" });
    yield* call("TaskManager", { action: "add", text: "Tag it" });
    yield* call("TaskManager", { action: "list" });
    yield* call("TaskManager", { action: "complete", task_id: 4711 });
    yield* call("PlanMode", { action: "enter", goal: "Release" });
    yield* call("Bash", { command: "touch /workspace/planned" });
    yield* call("PlanMode", { action: "status" });
    const approved = person("approve", (id) => ["yes", id]);
    yield* call("PlanMode", { action: "exit", plan: "# Release", plan_file: "release.md" });
    await approved;
    yield* call("Bash", { command: "touch /workspace/planned" });
  },

  async *skills({ call }) {
    yield* call("SearchSkills", { pattern: "greets", flags: "-i" });
    yield* call("InvokeSkill", { skill_name: "greet", arguments: "the owl" });
    yield* call("InvokeSkill", { skill_name: "grete" });
  },

  // A callback and the end of a background task reach the model behind the result
  // of whatever it called next.
  async *callback({ call }) {
    yield* call("SetCallback", { message: "look at the oven", delay_seconds: 1, repeat_count: 1 });
    const told = yield* call("Bash", { command: "sleep 1.5; echo awake" });
    assert.match(told, /look at the oven/, "the callback did not reach the model");
    const again = yield* call("SetCallback", { action: "list" });
    assert.doesNotMatch(again, /look at the oven/, "the callback came twice");
  },

  async *refusal({ call }) {
    const denied = yield* call("Bash", { command: "true; rm -rf /" });
    assert.match(denied, /DENIED by policy rule no-rm/);
    const blocked = yield* call("Bash", { command: "curl -sS --max-time 20 https://blocked.example/" });
    assert.match(blocked, /BLOCKED by the sandbox/);
    yield* call("Bash", { comand: "true" });
    yield* call("ReadDocs", { url: "http://169.254.169.254/" });
  },

  async *timeout({ call }) {
    const killed = yield* call("Bash", { command: "echo begun; sleep 600", timeout: 1000 });
    assert.match(killed, /begun/);
    yield* call("Bash", { command: "echo begun; sleep 600", timeout: 1000, on_timeout: "background" });
    yield* call("KillBgTask", { task_id: 1, grace_ms: 0 });
  },

  // Nobody is at the client; a person answers by the command line.
  async *approval({ call, belljar }) {
    const waits = yield* call("Bash", { command: "echo publish 1" });
    const id = waits.match(/\bap-\w+/)?.[0];
    assert.ok(id, `no approval's id in: ${waits}`);
    yield* call("ReadBgOutput", { id });
    belljar("approve", "yes", id);
    yield* call("ReadBgOutput", { id });
    yield* call("Bash", { command: "echo publish 1" });
    const other = (yield* call("Bash", { command: "echo publish 2" })).match(/\bap-\w+/)[0];
    belljar("approve", "no", other);
    yield* call("Bash", { command: "echo publish 2" });
  },

  async *question({ call, person }) {
    const questions_json = JSON.stringify({ questions: [{ id: "which", question: "Which?", options: ["A", "B"] }] });
    const answered = person("ask", (id) => ["answer", id, "B"]);
    const told = yield* call("AskUserQuestion", { questions_json });
    assert.match(told, /B/);
    await answered;
  },

  // A login with a secret, an order and its invoice, in the browser of workstation. The person
  // is asked about the secret and about each form.
  async *shop({ call, person, shop, workspace }) {
    const ref = (look, words) => Number(look.match(new RegExp(`\\[(\\d+)\\] ${words}`))[1]);
    let look = yield* call("Browser", { steps: [{ do: "open", url: `${shop}/` }], then: "page" });
    const step = async function* (...steps) {
      const answered = person("approve", (id) => ["yes", id]);
      look = yield* call("Browser", { steps, then: "page" });
      await answered;
    };
    const password = ref(look, 'password "Password"'), button = ref(look, 'button "Log in"');
    look = yield* call("Browser", { steps: [{ do: "fill", ref: ref(look, 'text "User"'), text: "ada" }], then: "nothing" });
    yield* step({ do: "fill", ref: password, secret: "shop-pw" });
    yield* step({ do: "click", ref: button });
    assert.match(look, /Hello, ada/);
    yield* step({ do: "click", ref: ref(look, 'button "Order"') });
    look = yield* call("Browser", { steps: [{ do: "click", ref: ref(look, 'link "Invoice"') }] });
    const [file] = look.match(/\bd\d+\b/);
    yield* call("Browser", { steps: [{ do: "save", download: file, path: "/workspace/downloads/invoice.txt" }], then: "nothing" });
    assert.equal(readFileSync(`${workspace}/downloads/invoice.txt`, "utf8"), "one bell jar");
    return "The invoice is saved.";
  },

  // Agents cut what is long once more; what belljar says at the end must survive it.
  async *long({ call }) {
    const cut = yield* call("Bash", { command: "seq 100000" });
    assert.match(cut, /\[belljar exit=0 /, "the last line did not reach the model");
    yield* call("Bash", { command: "seq 100000", max_output_bytes: 262144 });
  },

  // Three tasks, solved with nothing but what the model reads.
  async *fix({ call, workspace }) {
    const red = yield* call("Bash", { command: "sh test.sh" });
    assert.match(red, /FAIL: add 2 3 is -1, want 5/);
    const [, file] = red.match(/see (\S+)/);
    const source = yield* call("Bash", { command: `cat ${file}` });
    const [line] = source.match(/.*\$1 - \$2.*/);
    yield* call("Bash", { command: `cat >${file}`, stdin: `${line.replace("-", "+")}\n` });
    const green = yield* call("Bash", { command: "sh test.sh" });
    assert.match(green, /^ok$/m);
    assert.equal(execFileSync("sh", ["test.sh"], { cwd: workspace, encoding: "utf8" }), "ok\n");
  },

  async *answer({ call, web }) {
    const index = yield* call("ReadDocs", { url: `${web}/guide`, render: "never" });
    const [, limits] = index.match(/\[Limits\]\(<?([^)>]+)/);
    const page = yield* call("ReadDocs", { url: new URL(limits, web).href, render: "never" });
    const [, most] = page.match(/at most (\d+) owls/);
    return `An aviary takes ${most} owls.`;
  },

  async *fetch({ call, web, workspace }) {
    const found = yield* call("WebSearch", { query: "owl feathers", engines: ["standin"], timeout_ms: 9000 });
    const [url] = found.match(/https:\S+\/feathers\b/);
    const page = yield* call("ReadDocs", { url, render: "never" });
    const [, file] = page.match(/\[the table\]\(<?([^)>]+)/);
    yield* call("Bash", { command: `curl -sS --cacert cert.pem -o feathers.csv '${new URL(file, web).href}'` });
    const sum = yield* call("Bash", { command: "tail -n +2 feathers.csv | cut -d, -f2 | paste -sd+ | bc 2>/dev/null || awk -F, 'NR > 1 { n += $2 } END { print n }' feathers.csv" });
    assert.match(sum, /^42$/m);
    assert.equal(readFileSync(`${workspace}/feathers.csv`, "utf8"), "owl,feathers\nbarn,40\nsnowy,2\n");
    return "There are 42 feathers.";
  },
};

// The policies of scenarios that have one of their own. With a rule about commands, whatever
// runs the commands of a file asks first; shop is workstation with a site and a secret.
export const policies = { refusal: "rules", approval: "rules", shop: "shop" };

// What an agent prints at the end, where a scenario's answer matters.
export const answers = { answer: "An aviary takes 17 owls.", fetch: "There are 42 feathers.", shop: "The invoice is saved." };
