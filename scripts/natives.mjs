#!/usr/bin/env node
// natives.mjs URL PREFIX: an HTTP server before a belljar with one upstream. Its clients call
// the tools, prompts and resources of that upstream by the upstream's own names, so that a
// program which knows only these can try the gateway. PREFIX is that of the upstream's names.
// It prints its own URL. With the option --legacy in place of PREFIX it changes no names, and
// answers server/discover as a server of 2025-11-25 does, so that its client speaks the legacy
// era.
import http from "node:http";

const [url, prefix] = process.argv.slice(2);
const target = new URL(url);

// outward is the name or URI that belljar has for one of the upstream.
const tool = (name) => `mcp_${prefix}_${name.replace(/[^A-Za-z0-9_-]/g, "_")}`;
const resource = (uri) => {
  const at = uri.indexOf(":");
  return at < 0 ? uri : `mcp+${prefix}://${uri.slice(0, at)}/${uri.slice(at + 1)}`;
};

// outward changes a request in place, and returns what its header Mcp-Name says then.
function outward(message) {
  const p = message?.params;
  if (!p) return undefined;
  switch (message.method) {
    case "tools/call":
    case "prompts/get":
      if (typeof p.name === "string") p.name = tool(p.name);
      return p.name;
    case "resources/read":
    case "resources/subscribe":
    case "resources/unsubscribe":
      if (typeof p.uri === "string") p.uri = resource(p.uri);
      return p.uri;
    case "completion/complete":
      if (p.ref?.name) p.ref.name = tool(p.ref.name);
      if (p.ref?.uri) p.ref.uri = resource(p.ref.uri);
  }
  return undefined;
}

// native changes a line of an answer. A quoted name can stand in a text as well.
const native = (line) =>
  line.replaceAll(`"mcp_${prefix}_`, '"').replaceAll(new RegExp(`mcp\\+${prefix}://([a-z]+)/`, "g"), "$1:");

const server = http.createServer(async (req, res) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  let body = Buffer.concat(chunks);
  const headers = { ...req.headers };
  // A request for another host or from another origin stays one.
  if (headers.host === `127.0.0.1:${server.address().port}`) headers.host = target.host;
  if (headers.origin === `http://127.0.0.1:${server.address().port}`) headers.origin = target.origin;
  try {
    const message = JSON.parse(body.toString());
    if (prefix === "--legacy") {
      if (message.method === "server/discover") {
        res.writeHead(200, { "content-type": "application/json" });
        res.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "method not found" } }));
        return;
      }
      throw new Error("it goes on as it came");
    }
    const was = message?.params?.name ?? message?.params?.uri;
    const named = Array.isArray(message) ? message.forEach(outward) : outward(message);
    body = Buffer.from(JSON.stringify(message));
    if (named !== undefined && headers["mcp-name"] === was) headers["mcp-name"] = named;
  } catch {
    // It goes on as it came: the server says what is wrong with it.
  }
  if (body.length > 0) headers["content-length"] = String(body.length);
  const up = http.request(target, { path: req.url, method: req.method, headers }, (answer) => {
    const kept = { ...answer.headers };
    delete kept["content-length"];
    res.writeHead(answer.statusCode, kept);
    res.flushHeaders();
    let rest = "";
    answer.setEncoding("utf8");
    answer.on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) res.write(native(line) + "\n");
    });
    answer.on("end", () => res.end(native(rest)));
    answer.on("error", () => res.destroy());
  });
  up.on("error", () => res.destroy());
  res.on("close", () => up.destroy());
  up.end(body);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}${target.pathname}`));
