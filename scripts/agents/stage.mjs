// Where the scenarios take place: a web on loopback, policies, the model, and a run
// of one agent. The first two arguments of the program are belljar and a directory.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, readFileSync } from "node:fs";
import { createServer as createPlain } from "node:http";
import { createServer } from "node:https";
import { setTimeout } from "node:timers/promises";
import { agents } from "./clients.mjs";
import { Model } from "./model.mjs";
import { certificate, dot, engine, greet, put } from "./standin.mjs";

const [belljar, dir] = process.argv.slice(2);

// The web of the scenarios: pages and a search engine on loopback. Engines are
// asked by https only, and a private address is no result of theirs: what is found
// names it in its snippet.
const pages = {
  "/guide": `<title>Owls</title><main><h1>Owls</h1><p>How owls are kept, and what an aviary needs so that they stay well.</p>
    <p>See <a href="/limits">Limits</a> before you buy a second one, and <a href="/feathers">Feathers</a> for figures.</p></main>`,
  "/limits": "<title>Limits</title><main><h1>Limits</h1><p>An aviary takes at most 17 owls, whatever their size; a tree takes one.</p></main>",
  "/feathers": `<title>Feathers</title><main><h1>Feathers</h1><p>How many feathers each owl has is in <a href="/feathers.csv">the table</a>.</p></main>`,
};
certificate(dir);
const site = createServer({ key: readFileSync(`${dir}/key.pem`), cert: readFileSync(`${dir}/cert.pem`) }, (request, response) => {
  const { pathname, searchParams } = new URL(request.url, "https://host.belljar.internal");
  if (pathname === "/search") {
    const results = [{ title: `About ${searchParams.get("q")}`, url: "https://owls.example/", text: `Counted at ${web}/feathers for you.` }];
    response.setHeader("Content-Type", "application/json").end(JSON.stringify({ results }));
  } else if (pathname === "/feathers.csv") {
    response.setHeader("Content-Type", "text/csv").end("owl,feathers\nbarn,40\nsnowy,2\n");
  } else if (pages[pathname]) {
    response.setHeader("Content-Type", "text/html").end(pages[pathname]);
  } else {
    response.writeHead(404, { "Content-Type": "text/plain" }).end("no such page\n");
  }
});
site.listen(0, "127.0.0.1");
await once(site, "listening");
export const host = `host.belljar.internal:${site.address().port}`;
const web = `https://${host}`;

// A shop for the browser that agents use, by http: its Chrome knows no authority of ours.
const shopPage = "<!doctype html><meta charset=utf-8><title>Shop</title><h1>Shop</h1>";
const shopServer = createPlain((request, response) => {
  let sent = "";
  request.on("data", (part) => (sent += part)).on("end", () => {
    const form = new URLSearchParams(sent);
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    if (request.url === "/login" && form.get("pw") === "of the shop") response.end(`${shopPage}<p>Hello, ${form.get("user")}<form method=post action=/order><button>Order</button></form>`);
    else if (request.url === "/order" && request.method === "POST") response.end(`${shopPage}<p>Thank you. <a href=/invoice.txt>Invoice</a>`);
    else if (request.url === "/invoice.txt") response.setHeader("Content-Disposition", 'attachment; filename="invoice.txt"').end("one bell jar");
    else response.end(`${shopPage}<form method=post action=/login><label>User <input name=user></label><label>Password <input name=pw type=password></label><button>Log in</button></form>`);
  });
});
shopServer.listen(0, "127.0.0.1");
await once(shopServer, "listening");
export const shopHost = `host.belljar.internal:${shopServer.address().port}`;
const shop = `http://${shopHost}`;

put(`${dir}/config/belljar/engines/standin.yaml`, engine(host));
const policy = `version: 1
defaults: {decision: allow, profile: p, ask: {timeout: 5m, return_after: 1s}}
profiles: {p: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow_private: ["${host}", "host.belljar.internal:443"]}}}
`;
put(`${dir}/open.yaml`, policy);
put(`${dir}/rules.yaml`, `${policy}rules:
  - {id: no-rm, match: {tool: Bash, command: "rm **"}, decision: deny, reason: It removes things.}
  - {id: publish, match: {tool: Bash, command: "echo publish **"}, decision: ask, reason: Publishing needs a person.}
`);

// workstation, but for a site of this machine and a secret of it.
put(`${dir}/shop-pw`, "of the shop");
chmodSync(`${dir}/shop-pw`, 0o600);
const changed = (text, ...pairs) => pairs.reduce((t, [from, to]) => {
  if (!t.includes(from)) throw new Error(`workstation has no ${from}`);
  return t.replace(from, to);
}, text);
put(`${dir}/shop.yaml`, changed(execFileSync(belljar, ["policy", "show", "workstation"], { encoding: "utf8" }).split("\ntests:")[0],
  ["version: 1\n", `version: 1\nsecrets: {shop-pw: {file: ${dir}/shop-pw}}\n`],
  ["browser: {walls: sandboxed, act: true,", `browser: {walls: sandboxed, act: true, secrets: [{secret: shop-pw, origin: "${shop}", field: password}],`],
  ['      allow: ["*"]\n      limits: {connections: 128, bytes: 4GiB}\n\nrules:', `      allow_private: ["${shopHost}"]\n\nrules:`],
  ['match: {act: [navigate, follow, download]}\n    unless: {url: [', `match: {act: [navigate, follow, download]}\n    unless: {url: ["${shop}/**", `]));

const model = new Model();
await model.listen();

// run is one run of an agent, with a home and a workspace of its own below name. It
// returns the calls with what the model was given for each, and what the agent said;
// it throws where the script did not come to its end.
export async function run(agent, name, script, policy = "open") {
  const home = `${dir}/${agent}/${name}`;
  const workspace = `${home}/workspace`;
  put(`${workspace}/test.sh`, '. ./add.sh\ngot=$(add 2 3)\n[ "$got" = 5 ] || { echo "FAIL: add 2 3 is $got, want 5; see add.sh"; exit 1; }\necho ok\n');
  put(`${workspace}/add.sh`, "add() { echo $(($1 - $2)); }\n");
  put(`${workspace}/cert.pem`, readFileSync(`${dir}/cert.pem`));
  put(`${workspace}/dot.png`, dot);
  put(`${workspace}/.claude/skills/greet/SKILL.md`, greet);

  const calls = [];
  const answered = new Set();
  const place = {
    web,
    shop,
    workspace,
    offered: () => model.offered,
    note: (tool, text) => calls.push({ tool, args: {}, given: [{ text }] }),
    belljar: (...args) => execFileSync(belljar, [...args, "--state", `${home}/state`], { encoding: "utf8", stdio: "pipe" }),
    // person waits for a question of this run and answers it, while the call is under way.
    async person(list, answer) {
      for (;;) {
        const id = place.belljar(list, "list").match(/\b(ap|q)-\w+/g)?.find((one) => !answered.has(one));
        if (id) return place.belljar(list, ...answer(answered.add(id) && id));
        await setTimeout(100);
      }
    },
    *call(tool, args) {
      const given = (yield { call: tool, args }).map(withoutReminder).filter((part) => part.text !== "");
      calls.push({ tool, args, given });
      return given.map((part) => part.text ?? "").join("\n");
    },
  };
  model.play(script(place));

  // A program that an agent starts has little of its environment.
  const command = ["env", `SSL_CERT_FILE=${dir}/cert.pem`, `XDG_CONFIG_HOME=${dir}/config`, belljar, "serve", "--workspace", workspace, "--policy", `${dir}/${policy}.yaml`, "--state", `${home}/state`];
  const { argv, env } = agents[agent](model.url, home, command);
  const child = spawn(argv[0], argv.slice(1), { cwd: workspace, env: { PATH: process.env.PATH, HOME: home, TERM: "xterm-256color", ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const over = new AbortController();
  setTimeout(90_000, undefined, over).then(() => child.kill("SIGKILL"), () => {});
  const [said, complained] = await Promise.all([child.stdout, child.stderr].map(async (stream) => Buffer.concat(await stream.toArray()).toString()));
  over.abort();
  if (model.failed || !model.ended) {
    throw new Error(`${model.failed?.message ?? "the agent ended before the script"}\n${JSON.stringify(calls, null, 1)}\nstdout: ${said}\nstderr: ${complained}`);
  }
  return { calls, said };
}

// withoutReminder is a part without what Claude Code puts to it on each turn.
function withoutReminder(part) {
  return part.image ? part : { text: part.text.replace(/\s*<system-reminder>[^]*?<\/system-reminder>\s*$/, "") };
}

// close ends what listens.
export function close() {
  site.closeAllConnections();
  site.close();
  shopServer.closeAllConnections();
  shopServer.close();
  model.close();
}
