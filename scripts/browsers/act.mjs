// What the two tools of belljar cost beside those of @playwright/mcp, with the same Chromium
// on the same site in one run: act.mjs BELLJAR DIR MODULES CHROMIUM. belljar's Chrome is in a
// box behind the door; the other is bare. They take turns, ROUNDS=5. It prints each figure
// with its limit, and ends with 1 where one is exceeded.
import { createRequire } from "node:module";
import { belljar, playwright } from "./mcp.mjs";
import { start } from "./site.mjs";

const [program, dir, modules, chromium] = process.argv.slice(2);
const rounds = Number(process.env.ROUNDS ?? 5);
const { encode } = createRequire(`${modules}/x.js`)("gpt-tokenizer");
const tokens = (text) => encode(text, { allowedSpecial: "all" }).length;
const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

const site = await start();
const ours = await belljar(program, `${dir}/ours`, site.port);
const theirs = await playwright(modules, `${dir}/theirs`, chromium, site.port);

// A side counts what a model is given by it: tokens and calls of a script, and times by name.
class Side {
  constructor(client) {
    Object.assign(this, { client, tokens: 0, calls: 0, looks: 0, lookTokens: 0, times: {}, text: "" });
  }

  async call(name, args) {
    const r = await this.client.call(name, args);
    if (r.failed) throw new Error(`${name} ${JSON.stringify(args)}: ${r.text}`);
    this.tokens += tokens(r.text);
    this.calls++;
    this.text = r.text;
    return r;
  }

  // timed is how long something takes, under a name.
  async timed(name, f) {
    const began = performance.now();
    const r = await f();
    (this.times[name] ??= []).push(performance.now() - began);
    return r;
  }

  async seen(f) {
    const before = this.tokens;
    await f();
    this.looks++;
    this.lookTokens += this.tokens - before;
  }
}

class Ours extends Side {
  open(path) { return this.call("Browser", { steps: [{ do: "open", url: this.client.site + path }], then: "page" }); }
  look(args = {}) { return this.call("BrowserLook", args); }
  steps(...steps) { return this.call("Browser", { steps }); }
  quick(step) { return this.call("Browser", { steps: [step], then: "nothing" }); }
  ref(what) {
    const m = new RegExp(`\\[(\\d+)\\] ${what}`).exec(this.text);
    if (!m) throw new Error(`no ${what} in ${this.text}`);
    return Number(m[1]);
  }
}

class Theirs extends Side {
  open(path) { return this.call("browser_navigate", { url: this.client.site + path }); }
  look() { return this.call("browser_snapshot", {}); }
  ref(what) {
    const m = new RegExp(`${what}[^\\n]*\\[ref=(\\w+)\\]`).exec(this.text);
    if (!m) throw new Error(`no ${what} in ${this.text.slice(0, 2000)}`);
    return m[1];
  }
  click(what) { return this.call("browser_click", { element: what, target: this.ref(what) }); }
}

// The same work by each, in the calls that its own tools make shortest.
async function script(o, t) {
  const names = [1, 2, 3, 4, 5].map((n) => `Field ${n}`);
  // A form.
  await o.steps({ do: "open", url: `${o.client.site}/form` });
  await o.seen(() => o.look({ scope: "all" }));
  await o.steps(...names.map((n) => ({ do: "fill", ref: o.ref(`text "${n}"`), text: "value" })), { do: "select", ref: o.ref('select "Country"'), text: "Country 77" }, { do: "check", ref: o.ref('check "I agree"') }, { do: "click", ref: o.ref('button "Send"') });
  await t.open("/form");
  await t.seen(() => t.look());
  await t.call("browser_fill_form", { fields: [...names.map((n) => ({ name: n, element: n, type: "textbox", target: t.ref(`textbox "${n}"`), value: "value" })), { name: "Country", element: "Country", type: "combobox", target: t.ref('combobox "Country"'), value: "Country 77" }, { name: "I agree", element: "I agree", type: "checkbox", target: t.ref('checkbox "I agree"'), value: "true" }] });
  await t.look();
  await t.click('button "Send"');
  await t.look();
  // A row of a table is deleted.
  await o.open("/table");
  await o.look({ find: "#1077", scope: "all" });
  const row = /^.*#1077.*$/m.exec(o.text)[0];
  o.text = row;
  await o.steps({ do: "click", ref: o.ref('button "Delete"') });
  await o.steps({ do: "dialog", accept: true });
  await t.open("/table");
  await t.seen(() => t.look());
  const at = t.text.indexOf("#1077");
  t.text = t.text.slice(at);
  await t.click('button "Delete"');
  await t.call("browser_handle_dialog", { accept: true });
  // An article is read, and two links are followed.
  await o.seen(() => o.open("/article/a"));
  await o.steps({ do: "click", ref: o.ref('link "Chapter 3"') });
  await o.seen(() => o.look());
  await o.steps({ do: "click", ref: o.ref('link "Chapter 4"') });
  await t.open("/article/a");
  await t.seen(() => t.look());
  await t.click('link "Chapter 3"');
  await t.seen(() => t.look());
  await t.click('link "Chapter 4"');
  await t.look();
  // Views that a script fetches.
  await o.open("/spa");
  const views = [1, 2, 3].map((n) => o.ref(`button "View ${n}"`));
  for (const ref of views) await o.steps({ do: "click", ref });
  await t.open("/spa");
  await t.look();
  const page = t.text;
  for (const n of [1, 2, 3]) {
    t.text = page;
    await t.click(`button "View ${n}"`);
    await t.look();
  }
  // A login, and a file is saved.
  await o.open("/login");
  await o.call("Browser", { steps: [{ do: "fill", ref: o.ref('text "User"'), text: "ada" }, { do: "fill", ref: o.ref('password "Password"'), secret: "pw" }, { do: "click", ref: o.ref('button "Log in"') }], then: "page" });
  await o.steps({ do: "click", ref: o.ref('link "Report"') });
  const file = /\bd\d+\b/.exec(o.text)[0];
  await o.steps({ do: "save", download: file, path: `/workspace/downloads/${file}-${Date.now()}.csv` });
  await t.open("/login");
  await t.look();
  await t.call("browser_fill_form", { fields: [{ name: "User", element: "User", type: "textbox", target: t.ref('textbox "User"'), value: "ada" }, { name: "Password", element: "Password", type: "textbox", target: t.ref('textbox "Password"'), value: "correct horse" }] });
  await t.look();
  await t.click('button "Log in"');
  await t.look();
  await t.click('link "Report"');
}

// Single acts, one side after the other. Those after which the other shows nothing of the
// page are asked not to here.
async function acts(o, t) {
  await o.timed("a small page opened and seen", () => o.open("/small"));
  await t.timed("a small page opened and seen", async () => { await t.open("/small"); await t.look(); });
  await o.open("/form");
  await t.open("/form");
  await t.look();
  await o.timed("look at the form", () => o.look({ scope: "all" }));
  await t.timed("look at the form", () => t.look());
  const nothing = o.ref('button "Nothing"'), field = o.ref('text "Field 1"'), list = o.ref('select "Country"'), box = o.ref('check "I agree"'), page = t.text;
  const their = (f) => { t.text = page; return f(); };
  await o.timed("click without effect", () => o.steps({ do: "click", ref: nothing }));
  await t.timed("click without effect", () => their(() => t.click('button "Nothing"')));
  await o.timed("fill a field", () => o.quick({ do: "fill", ref: field, text: "some words" }));
  await t.timed("fill a field", () => their(() => t.call("browser_type", { element: "Field 1", target: t.ref('textbox "Field 1"'), text: "some words" })));
  await o.timed("select an option", () => o.quick({ do: "select", ref: list, text: "Country 7" }));
  await t.timed("select an option", () => their(() => t.call("browser_select_option", { element: "Country", target: t.ref('combobox "Country"'), values: ["Country 7"] })));
  await o.timed("check a box", () => o.steps({ do: "click", ref: box }));
  await t.timed("check a box", () => their(() => t.click('checkbox "I agree"')));
  // In the box, which has the focus: the other side presses keys in what has it.
  await o.timed("press a key", () => o.quick({ do: "press", ref: box, text: "End" }));
  await t.timed("press a key", () => their(() => t.call("browser_press_key", { key: "End" })));
  await o.timed("hover", () => o.quick({ do: "hover", ref: nothing }));
  await t.timed("hover", () => their(() => t.call("browser_hover", { element: "Nothing", target: t.ref('button "Nothing"') })));
  await o.open("/table");
  await t.open("/table");
  await o.seen(() => o.timed("look at the table", () => o.look()));
  await t.seen(() => t.timed("look at the table", () => t.look()));
  await o.timed("picture", () => o.look({ at: "picture" }));
  await t.timed("picture", () => t.call("browser_take_screenshot", { type: "jpeg" }));
}

const o = new Ours(ours), t = new Theirs(theirs);
let bad = 0;
const figure = (name, a, b, limit, unit) => {
  const ratio = a / b, over = ratio > limit;
  bad += over ? 1 : 0;
  console.log(`${name}: ${a.toFixed(unit === "ms" ? 1 : 0)} to ${b.toFixed(unit === "ms" ? 1 : 0)} ${unit}, ${ratio.toFixed(3)}x${limit === Infinity ? "" : `, limit ${limit}x`}${over ? "  EXCEEDED" : ""}`);
};
try {
  const define = async (c, want) => (await c.ask("tools/list", {})).tools.filter((x) => !want || want.includes(x.name)).map(({ name, description, inputSchema }) => JSON.stringify({ name, description, inputSchema })).join("\n");
  const mine = tokens(await define(ours, ["Browser", "BrowserLook"])), other = tokens(await define(theirs));
  console.log(`definitions: ${mine} tokens, limit 900${mine > 900 ? "  EXCEEDED" : ""}; theirs ${other}`);
  bad += mine > 900 ? 1 : 0;
  // Before a secret was typed, after which pictures are drawn over.
  for (let i = 0; i < 2 * rounds; i++) await acts(o, t);
  for (const side of [o, t]) Object.assign(side, { tokens: 0, calls: 0, looks: 0, lookTokens: 0 });
  for (let i = 0; i < rounds; i++) await script(o, t);
  figure("tokens for each of the 30 acts of the script", o.tokens / rounds / 30, t.tokens / rounds / 30, 0.35, "tokens");
  figure("tokens of a look", o.lookTokens / o.looks, t.lookTokens / t.looks, 0.35, "tokens");
  figure("calls of the script", o.calls / rounds, t.calls / rounds, Infinity, "calls");
  for (const name of Object.keys(o.times)) figure(name, median(o.times[name]), median(t.times[name]), name === "click without effect" ? 0.35 : 1, "ms");
} finally {
  await ours.close();
  await theirs.close();
  site.close();
}
process.exitCode = bad ? 1 : 0;
