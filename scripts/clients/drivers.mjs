// One way to use each client. A driver connects by stdio or by HTTP, or by what its
// member transports names, and returns
// what the client offers of: list, call, resources, read, prompts, prompt, close.
// call takes {signal, onprogress}, and options tells which of them the client has. list asks
// the server each time: a tool may come after the client has connected.
// A driver returns undefined where its client does not speak the transport.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

// at is {command, args} or {url}, and beside url has {sse, ws} where the transport is one of
// these: its own URL.
const entry = (at) => (at.url ? { url: at.url } : { command: at.command, args: at.args });

// by adds a client with transports of its own.
const by = (transports, connect) => Object.assign(connect, { transports });

async function sdk1Transport(version, at) {
  const load = (name) => import(`${version}/client/${name}.js`);
  if (at.ws) return new (await load("websocket")).WebSocketClientTransport(new URL(at.ws));
  if (at.sse) {
    globalThis.EventSource ??= (await import("eventsource")).EventSource; // 1.0 takes that of a browser
    return new (await load("sse")).SSEClientTransport(new URL(at.sse));
  }
  if (at.url) return new (await load("streamableHttp")).StreamableHTTPClientTransport(new URL(at.url));
  return new (await load("stdio")).StdioClientTransport({ ...entry(at), stderr: "ignore" });
}

async function sdk1(version, at) {
  if (version === "sdk-1.0" && at.url && !at.sse && !at.ws) return undefined; // it does not know this one
  const { Client } = await import(`${version}/client/index.js`);
  const transport = await sdk1Transport(version, at);
  const client = new Client({ name: "clients", version: "1" }, { capabilities: {} });
  await client.connect(transport);
  return {
    options: ["signal", "onprogress"],
    list: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    resources: async () => (await client.listResources()).resources,
    read: (uri) => client.readResource({ uri }),
    prompts: async () => (await client.listPrompts()).prompts,
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    close: () => client.close(),
  };
}

async function aiSDK(version, at) {
  const { createMCPClient } = await import(version);
  const { Experimental_StdioMCPTransport: Stdio } = await import(`${version}/mcp-stdio`);
  const client = await createMCPClient({ transport: at.url ? { type: "http", url: at.url } : new Stdio({ ...entry(at), stderr: "ignore" }) });
  let tools;
  return {
    options: ["signal"],
    list: async () => Object.keys((tools = await client.tools())).map((name) => ({ name })),
    call: (name, args, { signal } = {}) => tools[name].execute(args, { toolCallId: "1", messages: [], abortSignal: signal }),
    resources: async () => (await client.listResources()).resources,
    read: (uri) => client.readResource({ uri }),
    prompts: async () => (await (client.listPrompts ?? client.experimental_listPrompts).call(client)).prompts,
    prompt: (name, args) => (client.getPrompt ?? client.experimental_getPrompt).call(client, { name, arguments: args }),
    close: () => client.close(),
  };
}

async function mcporter(version, at) {
  const { createRuntime } = await import(version);
  const command = at.url ? { kind: "http", url: new URL(at.url) } : { kind: "stdio", ...entry(at), cwd: process.cwd() };
  const runtime = await createRuntime({ servers: [{ name: "belljar", command }] });
  return {
    options: [],
    list: () => runtime.listTools("belljar"),
    call: (name, args) => runtime.callTool("belljar", name, { args }),
    resources: async () => (await runtime.listResources("belljar")).resources,
    read: runtime.readResource && ((uri) => runtime.readResource("belljar", uri)), // 0.9 lists them only
    close: () => runtime.close(),
  };
}

// The inspector's command line is a session for each request.
async function inspector(at) {
  const run = promisify(execFile);
  const server = at.url ? [at.sse ?? at.url, "--transport", at.sse ? "sse" : "http"] : [at.command, ...at.args];
  const ask = async (method, ...args) => JSON.parse((await run("mcp-inspector", ["--cli", ...server, "--method", method, ...args], { maxBuffer: 1 << 26 })).stdout);
  const pairs = (args) => Object.entries(args).map(([k, v]) => `${k}=${v}`);
  return {
    single: true,
    options: [],
    list: async () => (await ask("tools/list")).tools,
    call: (name, args) => ask("tools/call", "--tool-name", name, ...pairs(args).flatMap((p) => ["--tool-arg", p])),
    resources: async () => (await ask("resources/list")).resources,
    read: (uri) => ask("resources/read", "--uri", uri),
    prompts: async () => (await ask("prompts/list")).prompts,
    prompt: (name, args) => ask("prompts/get", "--prompt-name", name, ...pairs(args).flatMap((p) => ["--prompt-args", p])),
    close() {},
  };
}

export const clients = {
  "Inspector CLI 2.12.0": by(["stdio", "HTTP", "SSE"], inspector),
  "TypeScript SDK 1.0.4": by(["stdio", "HTTP", "SSE", "WebSocket"], (at) => sdk1("sdk-1.0", at)),
  "TypeScript SDK 1.10.2": (at) => sdk1("sdk-1.10", at),
  "TypeScript SDK 1.32.2": by(["stdio", "HTTP", "SSE", "WebSocket"], (at) => sdk1("sdk-1.32", at)),
  // Programs between a client over stdio and a server over HTTP.
  "mcp-remote 0.15.1": by(["HTTP", "SSE"], (at) =>
    sdk1("sdk-1.32", { command: "mcp-remote", args: [at.sse ?? at.url, "--allow-http", "--transport", at.sse ? "sse-only" : "http-only"] })),
  "supergateway 4.0.0": by(["HTTP", "SSE"], (at) =>
    sdk1("sdk-1.32", { command: "supergateway", args: [at.sse ? "--sse" : "--streamableHttp", at.sse ?? at.url, "--logLevel", "none"] })),
  async "TypeScript SDK 2 (client 2.4.0)"(at) {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const client = new Client({ name: "clients", version: "1" }, { capabilities: {}, versionNegotiation: { mode: { pin: "2026-07-28" } } });
    await client.connect(at.url ? new StreamableHTTPClientTransport(new URL(at.url)) : new StdioClientTransport({ ...entry(at), stderr: "ignore" }));
    return {
      options: ["signal", "onprogress"],
      list: async () => (await client.listTools()).tools,
      call: (name, args, options) => client.callTool({ name, arguments: args }, options),
      resources: async () => (await client.listResources()).resources,
      read: (uri) => client.readResource({ uri }),
      prompts: async () => (await client.listPrompts()).prompts,
      prompt: (name, args) => client.getPrompt({ name, arguments: args }),
      close: () => client.close(),
    };
  },
  "AI SDK 6 (@ai-sdk/mcp 1.0.101)": (at) => aiSDK("ai-sdk-6", at),
  "AI SDK 7 (@ai-sdk/mcp 2.0.99)": (at) => aiSDK("ai-sdk-7", at),
  async "@langchain/mcp-adapters 1.1.4"(at) {
    const { MultiServerMCPClient, loadMcpTools } = await import("@langchain/mcp-adapters");
    let heard;
    const belljar = at.url ? { transport: "http", url: at.url } : { transport: "stdio", ...entry(at), stderr: "ignore" };
    const onProgress = (p) => heard?.(p);
    const client = new MultiServerMCPClient({ mcpServers: { belljar }, onProgress });
    await client.getTools(); // which lists once, while it connects, and returns that ever after
    let tools;
    return {
      options: ["signal", "onprogress"],
      list: async () => (tools = await loadMcpTools("belljar", await client.getClient("belljar"), { onProgress })),
      call: (name, args, { signal, onprogress } = {}) => {
        heard = onprogress;
        // A call as an agent makes it keeps images, which are no text.
        return tools.find((t) => t.name === name).invoke({ type: "tool_call", id: "1", name, args }, { signal });
      },
      resources: async () => (await client.listResources()).belljar,
      read: (uri) => client.readResource("belljar", uri),
      close: () => client.close(),
    };
  },
  async "@openai/agents 0.20.0"(at) {
    const { MCPServerStdio, MCPServerStreamableHttp } = await import("@openai/agents");
    const server = at.url ? new MCPServerStreamableHttp({ url: at.url }) : new MCPServerStdio(entry(at));
    await server.connect();
    return {
      options: ["signal"],
      list: () => server.listTools(),
      call: (name, args, { signal } = {}) => server.callTool(name, args, null, { signal }),
      resources: async () => (await server.listResources()).resources,
      read: (uri) => server.readResource(uri),
      close: () => server.close(),
    };
  },
  // A tool of this one takes its arguments in a member, and offers neither progress nor cancel.
  async "@mastra/mcp 0.14.5"(at) {
    const { MCPClient } = await import("./mastra-0.14/node_modules/@mastra/mcp/dist/index.js");
    const client = new MCPClient({ id: at.url ?? "stdio", servers: { belljar: at.url ? { url: new URL(at.url) } : entry(at) } });
    let tools;
    return {
      options: [],
      list: async () => Object.keys((tools = await client.getTools())).map((name) => ({ name: name.replace("belljar_", "") })),
      call: (name, args) => tools[`belljar_${name}`].execute({ context: args }),
      resources: async () => (await client.resources.list()).belljar,
      read: (uri) => client.resources.read("belljar", uri),
      prompts: async () => (await client.prompts.list()).belljar,
      prompt: (name, args) => client.prompts.get({ serverName: "belljar", name, args }),
      close: () => client.disconnect(),
    };
  },
  async "@mastra/mcp 2.0.0"(at) {
    const { MCPClient } = await import("@mastra/mcp");
    const client = new MCPClient({ id: at.url ?? "stdio", servers: { belljar: at.url ? { url: new URL(at.url), enableProgressTracking: true } : { ...entry(at), enableProgressTracking: true } } });
    let tools, heard;
    client.progress.onUpdate("belljar", (p) => heard?.(p));
    return {
      options: ["signal", "onprogress"],
      list: async () => Object.keys((tools = await client.listTools())).map((name) => ({ name: name.replace("belljar_", "") })),
      call: (name, args, { signal, onprogress } = {}) => {
        heard = onprogress;
        return tools[`belljar_${name}`].execute(args, { abortSignal: signal });
      },
      resources: async () => (await client.resources.list()).belljar,
      read: (uri) => client.resources.read("belljar", uri),
      prompts: async () => (await client.prompts.list()).belljar,
      prompt: (name, args) => client.prompts.get({ serverName: "belljar", name, args }),
      close: () => client.disconnect(),
    };
  },
  "mcporter 0.9.0": (at) => mcporter("mcporter-0.9", at),
  "mcporter 0.12.3": (at) => mcporter("mcporter", at),
  async "mcp-use 1.34.6"(at) {
    const { MCPClient } = await import("mcp-use");
    const client = MCPClient.fromDict({ mcpServers: { belljar: entry(at) } });
    const { connector } = await client.createSession("belljar");
    return {
      options: ["signal", "onprogress"],
      list: () => connector.listTools(),
      call: (name, args, options) => connector.callTool(name, args, options),
      resources: async () => (await connector.listAllResources()).resources,
      read: (uri) => connector.readResource(uri),
      prompts: async () => (await connector.listPrompts()).prompts,
      prompt: (name, args) => connector.getPrompt(name, args),
      close: () => client.closeAllSessions(),
    };
  },
};
