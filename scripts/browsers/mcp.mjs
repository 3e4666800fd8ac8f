// An MCP client of few lines, and the two servers that are compared: belljar, whose Chrome
// is in a box behind the door, and @playwright/mcp with the same program, bare.
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const patience = 120_000; // for one answer, on a busy machine

export class Client {
  // start starts a server and returns a client of it. close ends both.
  static async start(argv, cwd) {
    const c = new Client();
    mkdirSync(cwd, { recursive: true });
    c.child = spawn(argv[0], argv.slice(1), { cwd, stdio: ["pipe", "pipe", "inherit"] });
    c.next = 1;
    c.waiting = new Map();
    c.ended = new Promise((resolve) => c.child.once("exit", resolve));
    c.ended.then(() => c.fail(new Error(`${argv[0]} ended`)));
    createInterface({ input: c.child.stdout }).on("line", (line) => {
      const m = JSON.parse(line);
      if (m.method && m.id !== undefined) return c.send({ id: m.id, result: m.method === "roots/list" ? { roots: [] } : {} });
      c.waiting.get(m.id)?.(m);
      c.waiting.delete(m.id);
    });
    await c.ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "browsers", version: "1" } });
    c.send({ method: "notifications/initialized" });
    return c;
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  fail(err) {
    for (const answer of this.waiting.values()) answer({ error: err });
    this.waiting.clear();
  }

  async ask(method, params) {
    const id = this.next++;
    const timer = setTimeout(() => this.fail(new Error(`${method}: no answer in ${patience} ms`)), patience);
    const m = await new Promise((resolve) => {
      this.waiting.set(id, resolve);
      this.send({ id, method, params });
    });
    clearTimeout(timer);
    if (m.error) throw new Error(`${method}: ${m.error.message}`);
    return m.result;
  }

  // call calls a tool, and returns its text, its images, whether it failed, and the time.
  async call(name, args) {
    const began = performance.now();
    const r = await this.ask("tools/call", { name, arguments: args });
    const ms = performance.now() - began;
    const text = r.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");
    const images = r.content.filter((c) => c.type === "image").map((c) => c.data);
    return { text, images, failed: r.isError === true, ms };
  }

  async close() {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
    await this.ended;
    clearTimeout(timer);
  }
}

// belljar starts a server whose policy lets a browser do everything on a site of this machine.
// A secret of it may be typed into password fields there.
export async function belljar(program, dir, port) {
  const at = `host.belljar.internal:${port}`;
  mkdirSync(`${dir}/workspace/downloads`, { recursive: true });
  writeFileSync(`${dir}/secret`, "correct horse", { mode: 0o600 });
  writeFileSync(`${dir}/policy.yaml`, `version: 1
secrets: {pw: {file: ${dir}/secret}}
defaults: {decision: deny, profile: web}
profiles:
  web:
    fs: {system: true, workspace: rw}
    net: {mode: proxy, allow_private: ["${at}"]}
    browser: {walls: degraded, act: true, open: any, secrets: [{secret: pw, origin: "http://${at}", field: password}]}
rules:
  - {id: all, match: {tool: "Browser*"}, decision: allow}
`);
  const c = await Client.start([program, "serve", "--workspace", `${dir}/workspace`, "--policy", `${dir}/policy.yaml`, "--state", `${dir}/state`], `${dir}/workspace`);
  return Object.assign(c, { site: `http://${at}` });
}

// playwright starts @playwright/mcp of a directory of npm.
export async function playwright(modules, dir, chromium, port) {
  const c = await Client.start(["node", `${modules}/@playwright/mcp/cli.js`, "--isolated", "--headless", "--no-sandbox", "--executable-path", chromium, "--output-dir", `${dir}/output`], dir);
  return Object.assign(c, { site: `http://127.0.0.1:${port}` });
}
