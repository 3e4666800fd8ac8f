// What a session's browser needs in each document, from its first moment, in a world
// that the page does not see: numbers of elements, what they are, whether they can be
// reached, and a guard at the window that lets input through to one element alone.
//
// A form or document hides its own properties behind elements of the same name, so
// all are taken from the prototypes.
(() => {
  if (globalThis.belljar) { belljar.renew(); return; } // see renew
  const getter = (proto, name) => {
    const get = Object.getOwnPropertyDescriptor(proto, name).get;
    return (n) => get.call(n);
  };
  const method = (proto, name) => {
    const f = proto[name];
    return (n, ...args) => f.apply(n, args);
  };
  const dom = {
    first: getter(Node.prototype, "firstChild"), next: getter(Node.prototype, "nextSibling"), parent: getter(Node.prototype, "parentNode"),
    type: getter(Node.prototype, "nodeType"), connected: getter(Node.prototype, "isConnected"), base: getter(Node.prototype, "baseURI"),
    text: getter(Node.prototype, "textContent"), root: method(Node.prototype, "getRootNode"),
    name: getter(Element.prototype, "localName"), space: getter(Element.prototype, "namespaceURI"), attr: method(Element.prototype, "getAttribute"), has: method(Element.prototype, "hasAttribute"),
    closest: method(Element.prototype, "closest"), matches: method(Element.prototype, "matches"), find: method(Element.prototype, "querySelector"),
    all: method(Element.prototype, "querySelectorAll"), rect: method(Element.prototype, "getBoundingClientRect"), rects: method(Element.prototype, "getClientRects"),
    seen: method(Element.prototype, "checkVisibility"), kid: getter(Element.prototype, "firstElementChild"), kids: getter(Element.prototype, "children"), shadow: getter(Element.prototype, "shadowRoot"),
    slot: getter(Element.prototype, "assignedSlot"), slotted: method(HTMLSlotElement.prototype, "assignedNodes"), host: getter(ShadowRoot.prototype, "host"), into: method(Element.prototype, "scrollIntoView"),
    url: getter(Document.prototype, "URL"), title: getter(Document.prototype, "title"), html: getter(Document.prototype, "documentElement"),
    body: getter(Document.prototype, "body"), active: getter(Document.prototype, "activeElement"), scroller: getter(Document.prototype, "scrollingElement"),
    at: method(Document.prototype, "elementFromPoint"), shadowAt: method(ShadowRoot.prototype, "elementFromPoint"),
    shadowActive: getter(ShadowRoot.prototype, "activeElement"), byID: method(Document.prototype, "getElementById"),
    elements: getter(HTMLFormElement.prototype, "elements"), path: method(Event.prototype, "composedPath"),
  };

  // Numbers of elements. They count up and are never used again. The objects are held: this
  // world's object of an element that stands in the page is one that Chrome may throw away.
  const numbers = new WeakMap(), elements = new Map(), closed = new WeakMap(), heard = new WeakSet();
  let last = 0, full = 20000;
  const number = (e) => {
    let n = numbers.get(e);
    if (n === undefined) {
      n = ++last;
      numbers.set(e, n);
      elements.set(n, e);
      if (elements.size > full) {
        for (const [k, r] of elements) if (!dom.connected(r)) elements.delete(k);
        full = Math.max(20000, 2 * elements.size);
      }
    }
    return n;
  };
  const element = (n) => elements.get(n);
  const shadow = (e) => dom.shadow(e) ?? closed.get(e) ?? null;
  // Nodes may be of another realm than this one, whose classes are others.
  const isElement = (n) => n !== null && n !== undefined && dom.type(n) === 1;
  const isShadow = (n) => { try { return dom.type(n) === 11 && dom.host(n) !== null; } catch { return false; } };
  const is = (n, name) => isElement(n) && dom.name(n) === name && dom.space(n) === "http://www.w3.org/1999/xhtml";
  const up = (n) => dom.parent(n) ?? (isShadow(n) ? dom.host(n) : null);
  const inside = (n, e) => {
    for (let k = 0; n && k < 10000; n = up(n), k++) if (n === e) return true;
    return false;
  };
  // What a pass over the document has found out. Nothing changes while it runs, and much of it
  // is asked again for each control of a row.
  let known = null;
  const pass = (f) => {
    known = { hidden: new Map(), row: new Map(), style: new Map(), behind: new Map() };
    try { return f(); } finally { known = null; }
  };
  const once = (of, key, f) => {
    if (!known) return f(key);
    let v = known[of].get(key);
    if (v === undefined) known[of].set(key, v = f(key));
    return v;
  };
  const found = (of) => known?.[of] ?? new Map();
  const style = (e) => once("style", e, (n) => getComputedStyle(n));
  const tidy = (s) => s.replace(/\s+/g, " ").trim().toWellFormed();
  // A cut text ends with a mark: where it was cut, the beginning of a secret may stand, which
  // masks.hide takes away (browser/act/mask.go).
  const cutMark = "\uffff";
  const clip = (s, most) => s.length > most ? s.slice(0, most).toWellFormed() + cutMark : s;

  const silent = new Set(["script", "style", "noscript", "template", "head", "title", "desc", "metadata", "option", "select", "textarea", "datalist"]);
  // The text of an element that people see, with that of its shadows, in one line.
  const shown = (top, most) => {
    let out = "", left = 600, cut = false;
    const walk = (n, depth) => {
      for (; n; n = dom.next(n)) {
        if (out.length >= most || left-- <= 0) { cut = true; return; }
        one(n, depth);
      }
    };
    const one = (n, depth) => {
      const t = dom.type(n);
      if (t === 3) { out += n.data.slice(0, most * 2); cut ||= n.data.length > most * 2; return; }
      if (t !== 1 || depth > 60) return;
      const name = dom.name(n);
      if (silent.has(name)) return;
      if (n !== top && belljar.hidden(n)) return;
      const root = shadow(n);
      const inline = style(n).display.startsWith("inline");
      if (!inline) out += " ";
      if (root) walk(dom.first(root), depth + 1);
      else if (name === "slot") {
        const given = dom.slotted(n, { flatten: true });
        if (given.length) for (const g of given) one(g, depth + 1); else walk(dom.first(n), depth + 1);
      } else walk(dom.first(n), depth + 1);
      if (!inline) out += " ";
    };
    one(top, 0);
    const text = tidy(out);
    return clip(cut && text ? text + cutMark : text, most);
  };

  // Neither has properties that it did not get here: a page chooses what is looked up.
  const roles = {
    __proto__: null, button: "button", link: "link", checkbox: "check", switch: "check", radio: "radio", textbox: "text", searchbox: "text", combobox: "combo",
    listbox: "list", option: "option", menuitem: "menuitem", menuitemcheckbox: "check", menuitemradio: "radio", tab: "tab", slider: "slider",
    spinbutton: "number", treeitem: "treeitem", gridcell: "cell",
  };
  const inputs = {
    __proto__: null, checkbox: "check", radio: "radio", submit: "button", button: "button", reset: "button", image: "button", file: "file", password: "password",
    range: "slider", number: "number", color: "color", date: "date", time: "time", month: "month", week: "week", "datetime-local": "datetime", hidden: "",
  };
  const editable = (e) => e.isContentEditable === true && !(dom.parent(e)?.isContentEditable === true);
  const role = (e) => {
    const given = dom.attr(e, "role"), named = given && roles[given.trim().split(/\s/)[0].toLowerCase()];
    switch (dom.name(e)) {
      case "input": { const r = inputs[(dom.attr(e, "type") ?? "text").toLowerCase()] ?? "text"; return named && r !== "" && r !== "password" && r !== "file" ? named : r; }
      case "select": return "select";
      case "textarea": return "text";
      case "iframe": case "frame": return "frame";
    }
    if (named) return named;
    switch (dom.name(e)) {
      case "a": return dom.has(e, "href") || !is(e, "a") ? "link" : "item";
      case "button": case "summary": return "button";
      case "label": return "label";
      case "canvas": return "canvas";
      case "option": return "option";
    }
    return editable(e) ? "text" : "item";
  };
  const fields = new Set(["text", "password", "file", "slider", "number", "color", "date", "time", "month", "week", "datetime", "select", "check", "radio", "combo"]);
  const labels = (e) => {
    try { return "labels" in e && e.labels && !is(e, "form") ? Array.from(e.labels) : []; } catch { return []; }
  };
  // The name of an element, and whether it stands nowhere to be seen.
  const naming = (e) => {
    const r = role(e), tag = dom.name(e), most = 400;
    const isField = tag === "input" || tag === "select" || tag === "textarea" || editable(e);
    if (tag === "input" && r === "button") {
      const v = tidy(e.value || dom.attr(e, "alt") || dom.attr(e, "type") || "");
      if (v) return [clip(v, most), false];
    }
    if (isField) {
      const text = labels(e).map((l) => shown(l, most)).filter(Boolean).join(" ");
      if (text) return [clip(text, most), false];
    } else {
      const text = shown(e, most);
      if (text) return [text, false];
    }
    const by = dom.attr(e, "aria-labelledby");
    if (by) {
      const root = dom.root(e);
      const parts = by.split(/\s+/).slice(0, 10).map((id) => root.getElementById?.call(root, id)).filter(isElement);
      const text = parts.map((n) => shown(n, most)).filter(Boolean).join(" ");
      if (text) return [clip(text, most), !parts.every((n) => dom.seen(n))];
    }
    const holder = isField ? dom.attr(e, "placeholder") : null;
    const aria = dom.attr(e, "aria-label");
    if (aria && tidy(aria)) return [clip(tidy(aria), most), true];
    if (holder && tidy(holder)) return [clip(tidy(holder), most), false];
    const img = isField ? null : dom.find(e, "img[alt], svg title, [aria-label]");
    const inner = img && tidy(dom.attr(img, "alt") ?? dom.attr(img, "aria-label") ?? dom.text(img));
    if (inner) return [clip(inner, most), true];
    const other = dom.attr(e, "title") || (isField ? dom.attr(e, "name") : "") || dom.attr(e, "id") || "";
    return [clip(tidy(other), most), true];
  };

  const rowish = 'tr, li, [role="row"], [role="listitem"], [role="option"], [role="treeitem"], article';
  // The text of the row or list item that an element stands in. Where none is marked,
  // it is the nearest ancestor that stands beside others of its kind.
  const row = (e) => {
    let top = dom.closest(e, rowish);
    if (top === e) top = null;
    if (!top) {
      const tag = dom.name(e);
      let a = e;
      for (let k = 0; k < 5; k++) {
        const p = dom.parent(a);
        if (!isElement(p) || dom.name(p) === "body") break;
        const alike = (n) => n && n !== a && dom.name(n) === dom.name(a) && dom.find(n, tag) !== null;
        if (a !== e && (alike(a.nextElementSibling) || alike(a.previousElementSibling))) { top = a; break; }
        a = p;
      }
    }
    return top ? once("row", top, (n) => shown(n, 1000)) : "";
  };

  const kind = (e) => {
    const auto = (dom.attr(e, "autocomplete") ?? "").toLowerCase();
    const type = dom.name(e) === "input" ? (dom.attr(e, "type") ?? "text").toLowerCase() : "";
    if (type === "password") return "password";
    if (type === "file") return "file";
    if (/\bone-time-code\b/.test(auto)) return "otp";
    if (/\bcc-/.test(auto)) return "card";
    return "text";
  };
  const absolute = (href) => { try { return new URL(href, dom.base(document)).href.slice(0, 65536); } catch { return ""; } };
  const plain = (u) => u.split("#", 1)[0];
  const submitter = (e) => dom.name(e) === "button" && !/^(button|reset)$/i.test(dom.attr(e, "type") ?? "") || dom.name(e) === "input" && /^(submit|image)$/i.test(dom.attr(e, "type") ?? "");
  const off = (e) => e.disabled === true || dom.matches(e, ":disabled") || dom.attr(e, "aria-disabled") === "true" || dom.closest(e, "[inert]") !== null;
  // What a form sends that a person could see: names and values of its fields, without
  // passwords. What is hidden is the page's own. Null where it is more than is read.
  const holds = (form) => {
    const out = [];
    let size = 0;
    for (const e of Array.from(dom.elements(form))) {
      const type = dom.name(e) === "input" ? (dom.attr(e, "type") ?? "text").toLowerCase() : dom.name(e);
      if (!["input", "select", "textarea"].includes(dom.name(e)) || ["hidden", "submit", "button", "reset", "image", "password"].includes(type) || off(e)) continue;
      if ((type === "checkbox" || type === "radio") && !e.checked) continue;
      const name = clip(naming(e)[0] || dom.attr(e, "name") || type, 400);
      const value = dom.name(e) === "select" ? Array.from(e.selectedOptions, (o) => o.label).join(", ") : type === "file" ? Array.from(e.files, (f) => f.name).join(", ") : type === "checkbox" || type === "radio" ? "on" : e.value;
      if (value === "") continue;
      if ((size += name.length + value.length) > 262144) return "null";
      out.push([name, value]);
    }
    return JSON.stringify(out);
  };
  const sending = (form, by) => {
    const way = ((by && dom.attr(by, "formmethod")) || dom.attr(form, "method") || "get").toLowerCase();
    if (way === "dialog") return { kind: "press" };
    const to = (by && dom.has(by, "formaction") ? dom.attr(by, "formaction") : dom.attr(form, "action")) || dom.url(document);
    return { kind: "submit", to: absolute(to), method: way === "post" ? "POST" : "GET", holds: holds(form) };
  };
  // What activating an element leads to, as far as its markup says.
  const leads = (e) => {
    for (let n = e; n; n = (isElement(n) ? dom.slot(n) : null) ?? up(n)) {
      if (!isElement(n)) continue;
      if ((is(n, "a") || is(n, "area")) && dom.has(n, "href") || dom.name(n) === "a" && (dom.has(n, "href") || dom.has(n, "xlink:href"))) {
        const to = absolute(dom.attr(n, "href") ?? dom.attr(n, "xlink:href"));
        if (dom.has(n, "download")) return { kind: "download", to, method: "GET" };
        if (/^https?:/.test(to) && !(plain(to) === plain(dom.url(document)) && to.includes("#"))) return { kind: "follow", to, method: "GET" };
        return { kind: "press", to: /^https?:/.test(to) ? to : "" };
      }
      if (submitter(n) && is(n.form, "form")) return sending(n.form, n);
      if (is(n, "label") && n.control && n.control !== e) return submitter(n.control) ? leads(n.control) : { kind: "press" };
    }
    return { kind: "press" };
  };
  // Where Enter in a field sends its form.
  const enters = (e) => {
    if (dom.name(e) !== "input" || !is(e.form, "form")) return null;
    // A button in focus is pressed itself, and not the first of its form.
    if (submitter(e)) return sending(e.form, e);
    if (/^(button|reset)$/i.test(dom.attr(e, "type") ?? "")) return null;
    const button = Array.prototype.find.call(dom.elements(e.form), submitter);
    if (button) return off(button) ? null : sending(e.form, button);
    return sending(e.form, null);
  };

  // Everything that decides about a step at an element.
  const read = (n, o) => {
    const e = element(n);
    if (!e || !dom.connected(e) || e.ownerDocument !== document) return { gone: true };
    const [name, label] = naming(e);
    const f = { role: role(e), name, label, row: row(e), field: kind(e), url: plain(dom.url(document)).slice(0, 65536), origin: self.origin, kind: "press", to: "", method: "" };
    f.editable = f.field !== "file" && (editable(e) || e.isContentEditable === true || dom.matches(e, "input:not([type=checkbox],[type=radio],[type=button],[type=submit],[type=reset],[type=image],[type=file],[type=hidden]), textarea")) && !e.readOnly;
    f.lines = f.editable && dom.name(e) !== "input";
    f.select = dom.name(e) === "select";
    f.checkable = dom.matches(e, "input[type=checkbox], input[type=radio], [role=checkbox], [role=switch], [role=radio], [role=menuitemcheckbox], [role=menuitemradio]") || dom.name(e) === "label" && is(e.control, "input");
    f.multiple = e.multiple === true;
    if (o.enter) Object.assign(f, enters(e) ?? (f.editable ? {} : leads(e)));
    else if (o.click) Object.assign(f, leads(e));
    return f;
  };
  // What was said of an element last, and for which kind of step.
  const said = new WeakMap();
  const facts = (n, o) => {
    const f = read(n, o), e = element(n);
    if (!e) return f;
    said.set(e, { o, f });
    return { ...f, has: inside(focused(), e) };
  };
  // Whether an element still is what was said, and can be used. More may stand in its row,
  // since some rows show more where the mouse is.
  const unchanged = (n, { o, f }) => {
    if (off(element(n))) return false;
    const now = read(n, o), words = f.row?.split(" ") ?? [];
    let k = 0;
    for (const w of now.row?.split(" ") ?? []) if (w === words[k]) k++;
    return k === words.length && Object.keys({ ...f, ...now }).every((key) => key === "row" || f[key] === now[key]);
  };

  // Waits for so many frames, and says whether they were drawn in time: a page that is
  // not drawn has none.
  const frames = (k, most = 250) => new Promise((done) => {
    const step = () => { if (k-- <= 0) { clearTimeout(late); done(true); } else requestAnimationFrame(step); };
    const late = setTimeout(() => done(false), most);
    step();
  });
  const describe = (e) => ({ n: number(e), role: role(e), name: naming(e)[0] });
  // What stands at a point in front of an element, or null where that is the element
  // or in it.
  const cover = (e, x, y) => {
    for (let own = e; ;) {
      const root = dom.root(own);
      const hit = isShadow(root) ? dom.shadowAt(root, x, y) : dom.at(document, x, y);
      const mine = hit && (inside(hit, own) || labels(own).some((l) => inside(hit, l)) || is(own, "label") && own.control && inside(hit, own.control));
      if (!mine) return hit ?? dom.html(document);
      if (!isShadow(root)) return null;
      own = dom.host(root);
    }
  };
  // A control within an element that stands at a point of it, or null: a click there would
  // be of that control.
  const within = (e, x, y) => {
    if (is(e, "label")) return null;
    let n = dom.at(document, x, y);
    for (let r; n && (r = shadow(n));) { const next = dom.shadowAt(r, x, y); if (!next || next === n) break; n = next; }
    if (!n || !inside(n, e)) return null;
    for (; n && n !== e; n = up(n)) if (isElement(n) && dom.matches(n, "a[href], area[href], button, input, select, textarea, summary")) return n;
    return null;
  };
  // The points at which an element may be hit, those in the middle first.
  const points = (e) => {
    const out = [];
    for (const r of Array.from(dom.rects(e)).slice(0, 8)) {
      const left = Math.max(r.left, 0), top = Math.max(r.top, 0), right = Math.min(r.right, innerWidth), bottom = Math.min(r.bottom, innerHeight);
      if (right - left < 1 || bottom - top < 1) continue;
      for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.5], [0.9, 0.5]]) {
        out.push([left + (right - left) * fx, top + (bottom - top) * fy]);
      }
    }
    return out;
  };
  // Whether something that scrolls around an element cuts it off.
  const clipped = (e) => {
    const b = dom.rect(e), outer = [dom.html(document), dom.body(document)];
    for (let n = up(e), k = 0; n && k < 1000; n = up(n), k++) {
      if (!isElement(n) || outer.includes(n)) continue;
      const s = getComputedStyle(n);
      if (s.overflowX === "visible" && s.overflowY === "visible" || s.display === "contents") continue;
      const r = dom.rect(n);
      if (b.left < r.left - 1 || b.top < r.top - 1 || b.right > r.right + 1 || b.bottom > r.bottom + 1) return true;
    }
    return false;
  };
  const place = (e) => { const r = dom.rect(e); return [r.left, r.top, r.width, r.height]; };
  const same = (a, b) => a.every((v, i) => Math.abs(v - b[i]) < 0.5);
  // Whether a point hits an element.
  const hits = (n, x, y) => {
    const e = element(n);
    return e !== undefined && dom.connected(e) && (cover(e, x, y) ?? within(e, x, y)) === null;
  };
  // Waits until an element can be hit, and says where.
  const ready = async (n, o) => {
    const end = performance.now() + o.most;
    let why = { why: "gone" };
    for (let first = true; ; first = false) {
      const e = element(n);
      if (!e || !dom.connected(e)) return { why: "gone" };
      if (off(e) && !o.looks) return { why: "disabled" };
      let box = place(e);
      // What is at a point can be a line, which has no height.
      if (!dom.seen(e, { visibilityProperty: true }) || o.at === undefined && (box[2] < 1 || box[3] < 1)) why = { why: "invisible" };
      else {
        if (o.at === undefined && (first && (box[0] < 0 || box[1] < 0 || box[0] + box[2] > innerWidth || box[1] + box[3] > innerHeight || clipped(e)) || points(e).length === 0)) {
          dom.into(e, { block: "center", inline: "center", behavior: "instant" });
          await frames(1);
          box = place(e);
        }
        // Of two places alone, those on both sides of a turn would be the same.
        let drawn = o.keys || await frames(1, 1000);
        const between = place(e);
        drawn &&= o.keys || await frames(1, 1000);
        const now = place(e);
        if (!drawn || !same(box, between) || !same(between, now)) why = { why: "moving" }; // or it cannot be known
        else {
          const tries = o.at ? [o.at] : points(e);
          why = { why: "outside" };
          for (const [x, y] of tries) {
            const c = cover(e, x, y) ?? within(e, x, y);
            if (c === null) return { x, y, left: now[0], top: now[1], width: now[2], height: now[3] };
            if (why.why === "outside") why = { why: "covered", by: describe(c) };
          }
        }
      }
      if (performance.now() > end) return why;
      await frames(2);
    }
  };

  // The options of a list that keys reach.
  const reach = (list) => Array.from(list.options).filter((o) => !o.disabled && !(is(dom.parent(o), "optgroup") && dom.parent(o).disabled) && getComputedStyle(o).display !== "none");
  // The option of a list that has a text.
  const option = (n, text) => {
    const e = element(n), list = Array.from(e.options), read = (o) => tidy(o.text);
    const want = list.find((o) => read(o) === text) ?? list.find((o) => read(o).toLowerCase() === text.toLowerCase());
    const steps = want ? reach(e).indexOf(want) : -1;
    return {
      n: want ? number(want) : 0, text: want ? read(want) : "", selected: want !== undefined && e.selectedOptions.length === 1 && e.selectedOptions[0] === want,
      steps, some: list.slice(0, 8).map((o) => clip(read(o), 400)), several: e.multiple || e.size > 1,
    };
  };

  // The guard. While it is armed, input that would reach anything but one element does
  // not reach the page, nor does any if the element is no longer what was said of it. While
  // it is not armed, as in a document that has just taken the place of another, no press of a
  // button or a key reaches the page: all presses come from steps. Let through are clicks that a
  // key or a label makes (detail 0), beforeinput, which a page can cause, and the release that
  // ends a step. fresh is true until the guard was armed once in this document; until then
  // releases are kept back too. It was put at the window before any script of the page, so it is
  // asked first.
  let armed = null, became = null, missedUnarmed = 0, fresh = true;
  const releases = ["pointerup", "mouseup", "keyup"], mouse = ["pointerdown", "mousedown", "click", "auxclick", "dblclick", "contextmenu"], keys = ["keydown", "keypress", "beforeinput"];
  const guard = (ev) => {
    if (!ev.isTrusted) return;
    if (ev.type === "click" && ev.detail === 0) return; // of Enter, or of a label
    if (!armed) {
      if (ev.type === "beforeinput") return; // a page can have Chrome make these
      if (!releases.includes(ev.type)) missedUnarmed++;
      else if (!fresh) return; // the end of a step
      ev.stopImmediatePropagation();
      ev.preventDefault();
      return;
    }
    const isKey = keys.includes(ev.type);
    if (isKey !== armed.keys || releases.includes(ev.type)) return;
    const path = dom.path(ev);
    const own = armed.own.some((e) => path.includes(e));
    // At the first event alone: what the page makes of that is its answer to the step.
    if (own && armed.same === undefined) armed.same = !armed.said || unchanged(armed.n, armed.said);
    if (own && armed.same && (!armed.option || ev.type !== "keydown" || beside(ev))) { armed.hits++; return; }
    armed.misses++;
    ev.stopImmediatePropagation();
    ev.preventDefault();
  };
  // A key selects the option beside the selected one, and the page hears of one change. So that
  // this is the one that was asked for, and none that the page has put in its place, the list is
  // set beside it in the moment in which the key comes, and back if the key was not let through.
  const beside = (ev) => {
    const list = element(armed.n), want = element(armed.option), open = reach(list), i = open.indexOf(want);
    if (i < 0 || tidy(want.text) !== armed.text || (i === 0) !== (ev.key === "Home")) return false;
    armed.option = 0;
    armed.chosen = list.selectedIndex;
    if (i > 0) list.selectedIndex = armed.set = open[i - 1].index;
    return true;
  };
  const back = () => {
    const list = armed && element(armed.n);
    if (list && armed.set !== undefined && list.selectedIndex === armed.set) list.selectedIndex = armed.chosen;
  };
  const refused = (ev) => { if (ev.isTrusted && ev.defaultPrevented) back(); };
  // Whether a page has taken what was typed: it can refuse each key, and it can write by itself
  // what it makes of them.
  const wrote = (ev) => { if (armed && ev.isTrusted && armed.own.some((e) => dom.path(ev).includes(e))) armed.took = true; };
  const held = (e) => (fields.has(role(e)) && typeof e.value === "string" ? e.value : dom.text(e)) ?? "";
  const arm = (n, o) => {
    armed = { own: [], keys: o.keys, option: o.option, text: o.text, hits: 0, misses: 0, ups: 0, n };
    missedUnarmed = 0;
    became = null;
    fresh = false;
    listen(); // a page that opens its document anew takes all listeners away
    const e = element(n);
    if (!e) return;
    armed.said = said.get(e);
    armed.before = held(e);
    const own = [e, ...labels(e)];
    if (is(e, "label") && e.control) own.push(e.control);
    // Of a closed shadow root the window sees the host alone.
    for (let r = dom.root(e); isShadow(r); r = dom.root(dom.host(r))) if (dom.shadow(dom.host(r)) === null) own.push(dom.host(r));
    armed.own = own;
  };
  // Sees that an element still is what it was, gives it the focus, reads what it is then, and
  // arms the guard, as far as o says so. Nothing of the page runs in between but what hears of the focus.
  const grip = (n, o) => {
    if (o.expected) {
      const f = read(n, o), e = element(n);
      if (Object.keys(o.expected).some((key) => (f[key] ?? false) !== (o.expected[key] || false) && f[key] !== o.expected[key])) return { ok: false, changed: true };
      said.set(e, { o: { enter: o.enter }, f });
    }
    if (o.focus && !focus(n, o.select)) return { ok: false };
    const f = o.ask ? facts(n, o) : null;
    if (o.guard) arm(n, o);
    return { ok: true, f };
  };
  const disarm = () => {
    back();
    const a = armed;
    armed = null;
    if (!a) { // the last key may have disarmed it, unheard
      const last = became ?? { hits: 0, misses: 0 };
      last.misses += missedUnarmed;
      became = null;
      missedUnarmed = 0;
      return last;
    }
    const e = element(a.n);
    became = { hits: a.hits, misses: a.misses, took: a.took || !e || held(e) !== a.before, empty: e !== undefined && held(e) === "" };
    a.over?.(became);
    return became;
  };
  // Disarms when so many keys have come up again, or when disarm is called: what types keys waits
  // for both at once.
  const disarmAfter = (ups) => new Promise((done) => {
    if (!armed || armed.ups >= ups) return done(disarm());
    armed.over = done;
    armed.last = ups;
  });
  // Takes hold of an element that has the focus, and lets go when the keys have come up. Where it
  // is not taken hold of, no key reaches the page.
  const stroke = (n, o) => inside(focused(), element(n)) && grip(n, { ...o, focus: false }).ok ? disarmAfter(o.ups) : { hits: 0, misses: 0 };
  const lifted = (ev) => { if (armed && ev.isTrusted && ++armed.ups === armed.last) disarm(); };
  // Adds all listeners, and again after the page has opened its document anew, which takes them
  // away. They come after those of the page then.
  const listen = () => {
    for (const type of [...mouse, ...keys, ...releases]) addEventListener(type, guard, { capture: true, passive: false });
    addEventListener("keydown", refused);
    addEventListener("input", wrote, { capture: true });
    addEventListener("keyup", lifted, { capture: true });
  };
  listen();

  const focused = () => {
    let e = dom.active(document) ?? dom.body(document) ?? dom.html(document);
    for (let r; e && (r = shadow(e)) && dom.shadowActive(r);) e = dom.shadowActive(r);
    return e;
  };
  // Gives an element the focus and selects what is in it.
  const focus = (n, select) => {
    const e = element(n);
    if (!e || !dom.connected(e)) return false;
    HTMLElement.prototype.focus.call(e, { preventScroll: false });
    if (select) {
      if (is(e, "input")) HTMLInputElement.prototype.select.call(e);
      else if (is(e, "textarea")) HTMLTextAreaElement.prototype.select.call(e);
      else getSelection().selectAllChildren(e);
    }
    return inside(focused(), e);
  };
  // Puts a text into the field that has the focus, in the place of what is selected.
  const insert = (n, type, text) => {
    const e = element(n);
    if (!e || !dom.connected(e) || focused() !== e || type && dom.attr(e, "type")?.toLowerCase() !== type) return false;
    return Document.prototype.execCommand.call(document, "insertText", false, text);
  };
  // The number of what is at a point, and where in it, if it is a frame.
  const at = (x, y) => {
    let e = dom.at(document, x, y);
    for (let r; e && (r = shadow(e));) { const next = dom.shadowAt(r, x, y); if (!next || next === e) break; e = next; }
    if (!e) return { n: 0 };
    if (dom.name(e) === "iframe" || dom.name(e) === "frame") {
      const r = dom.rect(e);
      return { n: number(e), frame: true, x: x - r.left - e.clientLeft, y: y - r.top - e.clientTop };
    }
    return { n: number(e) };
  };
  let top = dom.html(document);
  const reopened = () => { const now = dom.html(document); if (now !== top) { top = now; listen(); } };
  const state = { last: 0, changes: 0, rest: null };
  const watcher = new MutationObserver((list) => { state.last = performance.now(); state.changes += list.length; reopened(); });
  const watch = () => watcher.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  watch();
  // Chrome gives the first document of a window that a page of the same origin opens the window of the
  // empty document before it, and with that this world. This script runs a second time then, and begins
  // again for the new document.
  let current = document;
  const renew = () => {
    if (current === document) return;
    current = document;
    top = dom.html(document);
    armed = became = null;
    missedUnarmed = 0;
    fresh = true;
    watcher.disconnect();
    watch();
    // Chrome keeps the capturing listeners of that window, and calls none until another one is added.
    addEventListener("belljar", () => {}, { capture: true });
  };
  // Begins the two frames that quiet waits for. Nobody waits for them here.
  const rest = () => { state.rest = frames(2); return 0; };
  // Waits until the tree was not changed for a while: two frames at least.
  const quiet = async (o) => {
    const end = performance.now() + o.most;
    const drawn = state.rest ?? frames(2);
    state.rest = null;
    await drawn;
    for (;;) {
      const rest = state.last + o.quiet - performance.now();
      if (rest <= 0 || performance.now() > end) return { changes: state.changes };
      await new Promise((done) => setTimeout(done, Math.min(rest, 50)));
    }
  };
  // Holds all elements while Chrome is asked for some of them by its own numbers: one
  // that this world does not know yet would come as an object of another.
  let all = [];
  const hold = (most) => {
    all = [];
    const todo = [document];
    while (todo.length && all.length < most) {
      const root = todo.pop();
      const list = (root === document ? Document : ShadowRoot).prototype.querySelectorAll.call(root, "*");
      for (let i = 0; i < list.length && all.length < most; i++) {
        all.push(list[i]);
        const r = shadow(list[i]);
        if (r) todo.push(r);
      }
    }
    return todo.length === 0;
  };
  globalThis.belljar = {
    dom, is, isElement, number, element, shadow, up, inside, tidy, clip, shown, role, naming, row, kind, facts, hits, ready, arm, grip, disarm, disarmAfter, stroke, reach, option, focus, insert, focused, at, quiet, rest, frames, pass, once, found, style, off, editable, fields, labels, cover, describe,
    renew, hold, release: () => { all = []; },
    hear: (...list) => { for (const e of list) if (isElement(e)) heard.add(e); },
    hears: (e) => heard.has(e), enclose: (host, root) => { closed.set(host, root); }, enclosed: (e) => closed.has(e), state,
  };
})();
