// The driver of mcp-go, which is a program: mcpgo/main.go says what it is asked.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export async function mcpGo(at) {
  const child = spawn(new URL("mcpgo", import.meta.url).pathname, at.url ? [at.url] : [at.command, ...at.args], { stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map(); // by id: {done, fail, onprogress}
  const connected = new Promise((done, fail) => waiting.set(0, { done, fail }));
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error, progress } = JSON.parse(line);
    const asked = waiting.get(id);
    if (progress) asked?.onprogress?.();
    else if (error) asked?.fail(new Error(error));
    else asked?.done(result);
  });
  child.on("exit", () => waiting.forEach(({ fail }) => fail(new Error("the client ended"))));
  await connected;
  let last = 0;
  const ask = (op, name, args, { signal, onprogress } = {}) =>
    new Promise((done, fail) => {
      const id = ++last;
      waiting.set(id, { done, fail, onprogress });
      child.stdin.write(`${JSON.stringify({ id, op, name, args })}\n`);
      signal?.addEventListener("abort", () => child.stdin.write(`${JSON.stringify({ id, op: "cancel" })}\n`));
    });
  return {
    options: ["signal", "onprogress"],
    list: async () => (await ask("list")).tools,
    call: (name, args, options) => ask("call", name, args, options),
    resources: async () => (await ask("resources")).resources,
    read: (uri) => ask("read", uri),
    prompts: async () => (await ask("prompts")).prompts,
    prompt: (name, args) => ask("prompt", name, args),
    async close() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}
