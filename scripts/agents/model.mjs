// A model that follows a script, for agents that take any address for their
// model's. It speaks the four wire formats that they use: Anthropic's Messages,
// OpenAI's Responses and chat completions, and Gemini's generateContent.
import { once } from "node:events";
import { createServer } from "node:http";

// A wire reads a request's body as {tools, given} and writes one turn as events.
// tools are {name, definition} as the request has them; given is what came after the
// model's last turn, as parts {text} and {image, bytes}. A turn is {text} or {call, args,
// id}.
const wires = {
  messages: {
    path: /^\/v1\/messages$/,
    read: (body) => ({
      tools: (body.tools ?? []).map((t) => ({ name: t.name, definition: t })),
      given: since(body.messages, (m) => m.role === "assistant").flatMap((m) => blocks(m.content)),
    }),
    *write(turn) {
      const usage = { input_tokens: 1, output_tokens: 1 };
      yield { type: "message_start", message: { id: `msg_${turn.id}`, type: "message", role: "assistant", model: "scripted", content: [], stop_reason: null, usage } };
      const [start, delta] = turn.call
        ? [{ type: "tool_use", id: `toolu_${turn.id}`, name: turn.call, input: {} }, { type: "input_json_delta", partial_json: JSON.stringify(turn.args) }]
        : [{ type: "text", text: "" }, { type: "text_delta", text: turn.text }];
      yield { type: "content_block_start", index: 0, content_block: start };
      yield { type: "content_block_delta", index: 0, delta };
      yield { type: "content_block_stop", index: 0 };
      yield { type: "message_delta", delta: { stop_reason: turn.call ? "tool_use" : "end_turn" }, usage };
      yield { type: "message_stop" };
    },
  },
  responses: {
    path: /^\/v1\/responses$/,
    // Tools of one server may come as one namespace that lists them.
    read: (body) => ({
      tools: (body.tools ?? []).flatMap((t) => (t.type === "namespace" ? t.tools.map((each) => ({ name: `${t.name}\0${each.name}`, definition: each })) : [{ name: t.name ?? t.type, definition: t }])),
      given: since(body.input, (i) => i.role === "assistant" || /_call$/.test(i.type)).flatMap((i) => blocks(i.output ?? i.content)),
    }),
    *write(turn) {
      const [namespace, name] = (turn.call ?? "").split("\0");
      const call = name ? { namespace, name } : { name: namespace };
      const item = turn.call
        ? { type: "function_call", id: `fc_${turn.id}`, call_id: `call_${turn.id}`, arguments: JSON.stringify(turn.args), ...call }
        : { type: "message", id: `msg_${turn.id}`, role: "assistant", content: [{ type: "output_text", text: turn.text }] };
      const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
      yield { type: "response.created", response: { id: `resp_${turn.id}` } };
      yield { type: "response.output_item.done", output_index: 0, item };
      yield { type: "response.completed", response: { id: `resp_${turn.id}`, usage } };
    },
  },
  chat: {
    path: /^\/v1\/chat\/completions$/,
    read: (body) => ({
      tools: (body.tools ?? []).map((t) => ({ name: t.function.name, definition: t.function })),
      given: since(body.messages, (m) => m.role === "assistant").flatMap((m) => blocks(m.content)),
    }),
    *write(turn) {
      const chunk = (delta, finish_reason = null) => ({ id: `chat_${turn.id}`, object: "chat.completion.chunk", created: 0, model: "scripted", choices: [{ index: 0, delta, finish_reason }] });
      const call = { index: 0, id: `call_${turn.id}`, type: "function", function: { name: turn.call, arguments: JSON.stringify(turn.args) } };
      yield chunk(turn.call ? { role: "assistant", tool_calls: [call] } : { role: "assistant", content: turn.text });
      yield chunk({}, turn.call ? "tool_calls" : "stop");
      yield "[DONE]";
    },
  },
  gemini: {
    path: /^\/v1beta\/models\/[^:]+:(stream)?[gG]enerateContent$/,
    read: (body) => ({
      tools: (body.tools ?? []).flatMap((t) => t.functionDeclarations ?? []).map((d) => ({ name: d.name, definition: d })),
      given: since(body.contents, (c) => c.role === "model").flatMap((c) => blocks(c.parts)),
    }),
    *write(turn) {
      const part = turn.call ? { functionCall: { id: `call_${turn.id}`, name: turn.call, args: turn.args } } : { text: turn.text };
      const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 };
      yield { candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }], usageMetadata };
    },
  },
};

// since returns the messages after the last that is the model's own.
function since(messages, own) {
  const list = Array.isArray(messages) ? messages : [{ role: "user", content: messages }];
  return list.slice(list.findLastIndex(own) + 1);
}

// blocks returns the parts of a message's content, in whichever form it has.
function blocks(content) {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ text: content }];
  if (Array.isArray(content)) return content.flatMap(blocks);
  const image = (type, data) => [{ image: type, bytes: Buffer.from(data, "base64").length }];
  switch (content.type) {
    case "tool_result":
      return blocks(content.content);
    case "image":
      return image(content.source.media_type, content.source.data);
    case "input_image":
    case "image_url": {
      const [, type, data] = (content.image_url.url ?? content.image_url).match(/^data:([^;]+);base64,(.*)$/s);
      return image(type, data);
    }
  }
  if (content.inlineData) return image(content.inlineData.mimeType, content.inlineData.data);
  if (content.functionResponse) {
    const { response, parts } = content.functionResponse;
    return [...blocks(response.output ?? response.error ?? JSON.stringify(response)), ...blocks(parts)];
  }
  return content.text === undefined ? [{ text: JSON.stringify(content) }] : [{ text: content.text }];
}

// A Model answers on loopback. play gives it a script, an async generator that
// yields turns {call, args} and takes what the model is given for each; what it
// returns is the model's last text. A call names a tool of belljar by its own name.
export class Model {
  #server = createServer((request, response) => this.#answer(request, response).catch((err) => this.#fail(err, response)));
  #turns = 0;

  async listen() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
  }

  play(script) {
    Object.assign(this, { script, begun: false, ended: false, failed: undefined, offered: [] });
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #fail(err, response) {
    this.failed ??= err;
    response.writeHead(400, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { message: err.message } }));
  }

  async #answer(request, response) {
    const url = new URL(request.url, this.url);
    const chunks = await Array.fromAsync(request);
    const body = chunks.length > 0 && request.method === "POST" ? JSON.parse(Buffer.concat(chunks)) : {};
    const wire = Object.values(wires).find((w) => w.path.test(url.pathname));
    if (!wire || request.method !== "POST") {
      response.writeHead(404, { "Content-Type": "application/json" }).end("{}");
      return;
    }
    const turn = await this.#next(wire.read(body));
    turn.id = ++this.#turns;
    const events = [...wire.write(turn)];
    if (/:generateContent$/.test(url.pathname)) {
      response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(events[0]));
      return;
    }
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const event of events) {
      if (event.type) response.write(`event: ${event.type}\n`);
      response.write(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
    }
    response.end();
  }

  // Agents ask for more than turns: titles, a topic, whether to go on. Such a
  // request has no tools, and any text answers it.
  async #next({ tools, given }) {
    if (tools.length === 0) return { text: "ok" };
    this.offered = tools;
    const { value, done } = await this.script.next(this.begun ? given : tools);
    this.begun = true;
    if (done) {
      this.ended = true;
      return { text: value ?? "That is all." };
    }
    const tool = tools.find((t) => own(t.name) === value.call);
    if (!tool) throw new Error(`${value.call} is not among the model's tools: ${tools.map((t) => t.name).join(" ")}`);
    return { ...value, call: tool.name };
  }
}

// own returns belljar's name of a tool, before which agents put theirs of the server;
// other tools have none.
export const own = (name) => (/belljar/.test(name) ? name.split(/[_\0]/).at(-1) : undefined);
