// A page of MiniWoB++ as an agent has it: what the tools say, and steps by numbers.
export class Page {
  constructor(client) {
    this.client = client;
    this.calls = 0;
  }

  // do runs steps, and returns what the page shows then.
  async do(...steps) {
    this.calls++;
    const r = await this.client.call("Browser", { steps, then: "page" });
    if (r.failed) throw new Error(`${JSON.stringify(steps)}: ${r.text}`);
    return this.read(r.text);
  }

  // try is do, which returns whether the steps ran.
  async try(...steps) {
    try {
      await this.do(...steps);
      return true;
    } catch {
      return false;
    }
  }

  async look(args = { scope: "all", max_chars: 30000 }) {
    this.calls++;
    const r = await this.client.call("BrowserLook", args);
    if (r.failed) throw new Error(r.text);
    return this.read(r.text);
  }

  async eval(text) {
    this.calls++;
    const r = await this.client.call("Browser", { steps: [{ do: "eval", text }], then: "nothing" });
    if (r.failed) throw new Error(r.text);
    return JSON.parse(r.text.slice(r.text.indexOf(": ") + 2));
  }

  async picture() {
    this.calls++;
    const r = await this.client.call("BrowserLook", { at: "picture" });
    if (r.failed) throw new Error(r.text);
  }

  // read takes the lines between the marks, and the controls with their numbers.
  read(text) {
    this.text = text;
    const body = /<<page [^\n]*>>\n([^]*?)\n?<<end /.exec(text)?.[1] ?? text;
    this.lines = body.split("\n");
    this.controls = [];
    for (const line of this.lines) {
      for (const m of line.matchAll(/\[(\d+)\] ([\w-]+)(?: "((?:[^"\\]|\\.)*)")?([^[]*)/g)) {
        this.controls.push({ ref: Number(m[1]), role: m[2], name: (m[3] ?? "").replace(/\\(.)/g, "$1"), more: m[4], line });
      }
    }
    return this;
  }

  all(role, name) {
    return this.controls.filter((c) => (!role || (role instanceof RegExp ? role.test(c.role) : c.role === role)) && (name === undefined || (name instanceof RegExp ? name.test(c.name) : c.name === name)));
  }

  find(role, name) {
    const c = this.all(role, name)[0];
    if (!c) throw new Error(`no ${role} ${name} in\n${this.lines.join("\n")}`);
    return c.ref;
  }

  click(role, name) {
    return this.do({ do: "click", ref: this.find(role, name) });
  }

  async start() {
    // A page shows that once all that belongs to it has come.
    for (let i = 0; i < 10 && !this.all(undefined, /START/).length; i++) await this.look();
    await this.click(undefined, /START/);
    await this.look();
    this.task = this.lines[0];
  }

  async reward() {
    this.calls++;
    const r = await this.client.call("BrowserLook", { at: "console", max_chars: 30000 });
    const all = [...r.text.matchAll(/reward: [^(]*\(raw: (-?[\d.]+)/g)];
    return all.length ? Number(all.at(-1)[1]) : undefined;
  }
}
