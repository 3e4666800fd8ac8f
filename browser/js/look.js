// Adds to belljar what a look needs: which elements people do not see, and the lines of
// a document with its controls. The page is not changed.
(() => {
  if (belljar.look) return;
  const { dom, is, isElement, number, shadow, tidy, clip, role, naming, row, style } = belljar;
  const free = new Set(["head", "title", "meta", "base", "br", "wbr", "option", "source", "track", "html", "body", "td", "tr", "tbody", "thead", "area"]);
  const rgba = (c) => {
    const m = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(c);
    return m && [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]];
  };
  const near = (a, b) => [0, 1, 2].every((i) => Math.abs(a[i] - b[i]) <= 8);
  // The colour behind an element, or null where that is a picture or half clear.
  const behind = (e) => {
    const found = belljar.found("behind"), passed = [];
    let colour = [255, 255, 255, 1];
    for (let p = e, k = 0; p && k < 60; p = belljar.up(p), k++) {
      if (!isElement(p)) continue;
      if (found.has(p)) { colour = found.get(p); break; }
      passed.push(p);
      const s = style(p), c = rgba(s.backgroundColor);
      if (s.backgroundImage !== "none" || s.position === "absolute" || s.position === "fixed") { colour = s.backgroundImage === "none" && c && c[3] === 1 ? c : null; break; }
      if (!c || c[3] > 0) { colour = c && c[3] === 1 ? c : null; break; }
    }
    for (const p of passed) found.set(p, colour);
    return colour;
  };
  const fades = (e) => e.getAnimations().some((a) => a.effect?.getKeyframes().some((k) => k.opacity > 0));
  // Why people do not see an element itself, or nothing. Of "visibility" its children
  // may be seen.
  const hidden = (e) => belljar.once("hidden", e, unseen);
  const unseen = (e) => {
    const name = dom.name(e);
    if (free.has(name)) return "";
    if (!dom.seen(e, { opacityProperty: true, visibilityProperty: true })) {
      if (!dom.seen(e)) return style(e).display === "contents" ? "" : "display";
      const s = style(e);
      if (s.visibility !== "visible") return "visibility";
      if (s.opacity === "0" && !fades(e)) return is(e, "input") && /^(checkbox|radio|file)$/i.test(e.type) ? "" : "opacity";
    }
    const s = style(e);
    if (s.contentVisibility === "hidden") return "display";
    if (s.position === "absolute" || s.position === "fixed" || s.overflowX !== "visible" || s.overflowY !== "visible" || s.transform !== "none") {
      const r = dom.rect(e);
      const clips = s.overflowX !== "visible" || s.overflowY !== "visible";
      if (clips && name !== "input" && (r.width <= 1 || r.height <= 1)) return "clipped";
      if (r.right + scrollX <= 0 || r.bottom + scrollY <= 0 || r.left + scrollX > Math.max(dom.html(document).scrollWidth, innerWidth) + 1000) return "off-screen";
      if (s.clipPath === "inset(50%)" || s.clipPath === "inset(100%)" || s.clipPath === "circle(0px)" || /^rect\([01]px, [01]px, [01]px, [01]px\)$/.test(s.clip)) return "clipped";
      if (s.transform !== "none" && (r.width < 1 || r.height < 1)) return "clipped";
    }
    let text = false;
    for (let n = dom.first(e), k = 0; n && k < 50; n = dom.next(n), k++) if (dom.type(n) === 3 && n.data.trim() !== "") { text = true; break; }
    if (!text) return "";
    if (parseFloat(s.fontSize) < 1) return "font-size";
    if (parseFloat(s.textIndent) < -500) return "off-screen";
    const c = rgba(s.color), fill = s.webkitTextFillColor;
    if (s.backgroundClip === "text" || s.webkitBackgroundClip === "text") return "";
    if (c && c[3] < 0.05 && (fill === s.color || rgba(fill)?.[3] < 0.05)) return "colour";
    if (c && fill === s.color && s.textShadow === "none" && s.mixBlendMode === "normal") {
      const back = behind(e);
      if (back && near(c, back)) return "colour";
    }
    return "";
  };
  belljar.hidden = (e) => hidden(e) !== "";

  const native = "a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, frame, [role=button], [role=link], [role=checkbox], [role=switch], [role=radio], [role=tab], [role=menuitem], [role=menuitemcheckbox], [role=menuitemradio], [role=option], [role=slider], [role=spinbutton], [role=textbox], [role=searchbox], [role=combobox], [role=treeitem], [role=gridcell][tabindex], [onclick], [onmousedown], [onpointerdown], [ondblclick], [tabindex]:not([tabindex='-1']), [contenteditable=''], [contenteditable=true], [contenteditable=plaintext-only], [draggable=true]";
  // Tests by which sites tell people from programs, as their makers have them put into pages.
  const captchas = ".g-recaptcha, .h-captcha, .cf-turnstile, iframe[src*='/recaptcha/'], iframe[src*='hcaptcha.com/'], iframe[src*='challenges.cloudflare.com/'], iframe[src*='arkoselabs.com/'], iframe[title*='captcha' i], img[src*='captcha' i], img[alt*='captcha' i]";
  const lists = "ul, ol, menu, dl, table, tbody, [role=list], [role=listbox], [role=menu], [role=grid], [role=tree], [role=tablist]";
  const control = (e, s, parent) => {
    const name = dom.name(e);
    if (name === "html" || name === "body" || name === "option") return false;
    if (dom.matches(e, native)) return true;
    if (name === "label") { const c = e.control; return isElement(c) && hidden(c) !== ""; }
    if (belljar.hears(e)) return !dom.matches(e, lists) && dom.kids(e).length <= 20;
    if (s.cursor === "pointer" && parent && style(parent).cursor !== "pointer") return true;
    // A list that listens for its items.
    const p = dom.parent(e);
    return isElement(p) && dom.name(p) !== "body" && belljar.hears(p) && !control(p, style(p), null) && name !== "thead" && name !== "tbody" ||
      (name === "tr" && isElement(p) && isElement(dom.parent(p)) && (belljar.hears(dom.parent(p))));
  };
  const state = (e, r) => {
    const out = [];
    const tag = dom.name(e);
    if (r === "check" || r === "radio") {
      const on = is(e, "input") ? e.checked : dom.attr(e, "aria-checked") === "true";
      out.push(on ? "on" : "off");
    }
    const open = dom.attr(e, "aria-expanded") ?? (tag === "summary" && is(dom.parent(e), "details") ? String(dom.parent(e).open) : null);
    if (open === "true") out.push("open"); else if (open === "false") out.push("closed");
    if (dom.attr(e, "aria-selected") === "true") out.push("selected");
    if (dom.attr(e, "aria-pressed") === "true") out.push("pressed");
    if (e.required === true || dom.attr(e, "aria-required") === "true") out.push("required");
    if (e.readOnly === true) out.push("read-only");
    if (dom.attr(e, "aria-invalid") === "true") out.push("invalid");
    if (dom.attr(e, "draggable") === "true") out.push("draggable");
    if (belljar.off(e)) out.push("disabled");
    if (e === belljar.focused()) out.push("focus");
    return out.join(" ");
  };

  // Characters of one text that a line has at most.
  const longest = 20000;
  // The lines of the document, or of one element.
  belljar.look = (o) => belljar.pass(() => lines(o));
  const lines = (o) => {
    const top = o.in ? belljar.element(o.in) : dom.html(document);
    const end = performance.now() + o.most;
    const out = { lines: [], hosts: [], hiddenChars: 0, hiddenControls: 0, controls: 0, cut: "", captcha: false };
    let chars = o.chars, line = null, heading = 0, cells = 0;
    const flush = () => {
      if (line && line.s.length) out.lines.push(line);
      line = null;
    };
    const inView = (e) => {
      const r = dom.rect(e);
      return r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth;
    };
    const put = (seg, e) => {
      if (!line) line = { v: 0, h: heading, s: [] };
      if (!line.v && e && inView(e)) line.v = 1;
      const last = line.s.length - 1;
      if (typeof seg === "string" && typeof line.s[last] === "string") line.s[last] += seg;
      else line.s.push(seg);
    };
    const words = (s, e) => {
      s = s.replace(/\s+/g, " ");
      if (s === "" || s === " " && (!line || line.s.length === 0)) return;
      chars -= s.length;
      if (s.length > longest) out.cut ||= "text";
      put(clip(s.toWellFormed(), longest), e);
    };
    const place = (e) => {
      out.controls++;
      const r = role(e), [name, label] = naming(e);
      const seg = { n: number(e), r, m: clip(name, o.name), w: row(e), x: state(e, r) };
      if (seg.m.endsWith("\uffff")) seg.long = true;
      if (label && name) seg.l = 1;
      const tag = dom.name(e);
      if (r === "password") { if (e.value) seg.x = ("filled " + seg.x).trim(); }
      else if (tag === "select") {
        const list = e.options, picked = Array.from(e.selectedOptions).slice(0, 5).map((p) => clip(tidy(p.text), o.name));
        seg.v = picked.join(", ");
        seg.of = list.length;
        const few = o.in ? 2000 : 12;
        if (list.length <= few) seg.o = Array.from(list).map((p) => clip(tidy(p.text), o.name));
      } else if (r === "file") seg.v = clip(Array.from(e.files ?? []).map((f) => f.name).join(", "), o.name);
      else if ((tag === "input" || tag === "textarea") && belljar.fields.has(r) && r !== "check" && r !== "radio") seg.v = clip(tidy(String(e.value)), o.name);
      else if (r === "text" && belljar.editable(e)) seg.v = belljar.shown(e, o.name);
      else if (dom.attr(e, "aria-valuenow")) seg.v = clip(dom.attr(e, "aria-valuenow"), o.name);
      if (r === "link") seg.to = (e.href?.baseVal ?? e.href ?? "").toString().slice(0, 2048);
      chars -= seg.m.length + 20;
      put(seg, e);
    };
    const leaves = (e, r) => r !== "item" && r !== "cell" && r !== "treeitem" && r !== "option" && r !== "tab" && r !== "menuitem" && r !== "button" && r !== "link" || (dom.kid(e) === null || dom.find(e, native) === null) && !nested(e);
    // Whether something in a control has a number of its own, or a shadow.
    const nested = (e) => {
      if (dom.kid(e) === null) return shadow(e) !== null;
      let k = 0;
      for (const n of dom.all(e, "*")) {
        if (k++ > 200) return true;
        if (shadow(n) || belljar.hears(n)) return true;
      }
      return shadow(e) !== null;
    };
    const stack = [];
    let deep = 0, steps = 0;
    const enter = (e, mute) => {
      const name = dom.name(e);
      if (name === "script" || name === "style" || name === "noscript" || name === "template" || name === "head" || name === "link" || name === "meta") return;
      if (name === "input" && dom.attr(e, "type")?.toLowerCase() === "hidden") return;
      const why = e === top ? "" : hidden(e);
      if (why && why !== "visibility") {
        if (!dom.matches(e, "dialog:not([open]), details:not([open]) > *")) out.hiddenChars += Math.min(dom.text(e).trim().length, 100000);
        out.hiddenControls += dom.all(e, native).length + (dom.matches(e, native) ? 1 : 0);
        return;
      }
      const hide = why === "visibility";
      const s = style(e), display = s.display;
      const block = !display.startsWith("inline") && display !== "contents" && !(cells > 0 && display !== "table-row");
      const cell = display === "table-cell";
      const level = /^h[1-6]$/.test(name) ? +name[1] : 0;
      const parent = dom.parent(e);
      const isRow = display === "table-row" || name === "tr";
      if (hide && dom.matches(e, native)) out.hiddenControls++;
      if (block && !cell || isRow && cells === 0) flush();
      if (cell && line && line.s.length) put(" | ", null);
      else if (!block && !display.startsWith("inline") && line) words(" ", null);
      if (level) { flush(); heading = level; }
      if (isRow) cells++;
      const close = () => {
        if (isRow) { cells--; if (cells === 0) flush(); }
        else if (block && !cell) flush();
        if (level) { flush(); heading = 0; }
      };
      // What a label says is the name of its control.
      if (name === "label" && !hide && isElement(e.control) && hidden(e.control) === "" && dom.matches(e.control, native)) {
        stack.push({ close });
        push(e, hide, true);
        return;
      }
      if (!hide && (e === top && o.in ? dom.matches(e, native) || belljar.hears(e) : control(e, s, isElement(parent) ? parent : null))) {
        const r = role(e);
        if (r === "frame") {
          flush();
          const b = dom.rect(e);
          out.controls++;
          out.lines.push({ v: inView(e) ? 1 : 0, h: 0, f: number(e), s: [{ n: number(e), r: "frame", m: clip(naming(e)[0], o.name), w: row(e), x: "", box: [Math.round(b.width), Math.round(b.height)] }] });
          flush();
          return;
        }
        if (r !== "") {
          if (belljar.fields.has(r) && cells === 0) flush(); // each field has a line
          place(e);
          const seg = line.s[line.s.length - 1];
          put(" ", null);
          // Its text is its name, unless it is longer, or there is more in it.
          if (leaves(e, r) && !seg.long || belljar.fields.has(r)) { close(); return; }
          stack.push({ close });
          push(e, hide);
          return;
        }
      }
      if (name === "br") { if (cells) words(" ", null); else flush(); return; }
      if (name === "img" || name === "svg") {
        const alt = name === "img" ? tidy(dom.attr(e, "alt") ?? "") : "";
        if (alt && !hide) put({ r: "image", m: clip(alt, o.name), l: 1 }, e);
        if (name === "img") return;
      }
      if (name === "canvas" && !hide) { put({ n: number(e), r: "canvas", m: clip(naming(e)[0], o.name), w: row(e), x: "" }, e); out.controls++; return; }
      if (name === "option" || name === "datalist" || name === "object" || name === "embed" || name === "audio") return;
      if (!shadow(e) && !belljar.enclosed(e) && out.hosts.length < 20 && dom.first(e) === null && (name.includes("-") || name === "div" || name === "span" || name === "section" || name === "article") && inView(e) && dom.rect(e).height > 0) out.hosts.push(number(e));
      else if (!shadow(e) && !belljar.enclosed(e) && out.hosts.length < 20 && name.includes("-") && inView(e)) out.hosts.push(number(e));
      stack.push({ close });
      push(e, hide || name === "details" && !dom.has(e, "open"), mute); // whose own text is hidden then
    };
    const push = (e, hide, mute) => {
      if (++deep > o.depth) { out.cut = "depth"; deep--; return; }
      const root = shadow(e);
      let list = null;
      if (dom.name(e) === "slot") { const given = dom.slotted(e, { flatten: true }); if (given.length) list = given; }
      stack.push(list ? { list, at: 0, e, hide, mute } : { n: dom.first(root ?? e), e, hide, mute });
    };
    if (top) enter(top);
    while (stack.length) {
      const f = stack[stack.length - 1];
      if (f.close) { stack.pop(); f.close(); continue; }
      const n = f.list ? f.list[f.at++] : f.n;
      if (!f.list && n) f.n = dom.next(n);
      if (!n) { stack.pop(); deep--; continue; }
      if ((++steps & 127) === 0 && performance.now() > end) { out.cut = "time"; break; }
      if (chars <= 0) { out.cut = "text"; break; }
      if (out.controls >= o.refs) { out.cut = "controls"; break; }
      const t = dom.type(n);
      if (t === 3) {
        if (f.hide) out.hiddenChars += n.data.trim().length;
        else if (!f.mute) words(n.data, f.e);
      } else if (t === 1) enter(n, f.mute);
    }
    flush();
    const s = dom.scroller(document) ?? dom.html(document);
    const test = top ? dom.all(dom.html(document), captchas) : [];
    for (let i = 0; i < test.length && i < 50 && !out.captcha; i++) out.captcha = hidden(test[i]) === "" && dom.rect(test[i]).width > 1;
    out.url = dom.url(document).slice(0, 65536);
    out.title = clip(dom.title(document).toWellFormed(), 1000);
    out.at = s ? [Math.round(scrollX), Math.round(scrollY), innerWidth, innerHeight, s.scrollWidth, s.scrollHeight] : [0, 0, 0, 0, 0, 0];
    return out;
  };

  // The texts of the page that are to be seen, and the values of its fields: at most so many,
  // and so many characters. whole says whether these are all of them.
  let kept = [];
  belljar.runs = (most, chars) => {
    kept = [];
    const out = [], todo = [dom.html(document)];
    while (todo.length && out.length < most && chars >= 0) {
      const n = todo.pop();
      if (!n) continue;
      const t = dom.type(n);
      if (t === 3) {
        if (n.data.trim() === "") continue;
        if ((chars -= n.length) < 0) break;
        kept[out.length] = n;
        out.push({ t: n.data });
        continue;
      }
      if (t !== 1 && t !== 11) continue;
      if (t === 1) {
        const name = dom.name(n);
        if (name === "script" || name === "style" || name === "noscript" || !dom.seen(n) && style(n).display !== "contents") continue;
        if ((name === "input" && n.type !== "password" && n.type !== "hidden") || name === "textarea" || name === "select") {
          const r = dom.rect(n), v = name === "select" ? Array.from(n.selectedOptions).map((o) => o.text).join(" ") : String(n.value) + " " + (dom.attr(n, "placeholder") ?? "");
          if (r.width > 0 && v.trim() && (chars -= v.length) >= 0) out.push({ t: v, b: [r.left, r.top, r.width, r.height] });
          continue;
        }
      }
      const list = [];
      for (let c = dom.first(t === 1 ? shadow(n) ?? n : n); c; c = dom.next(c)) list.push(c);
      if (t === 1 && dom.name(n) === "slot") list.push(...dom.slotted(n));
      for (let i = list.length - 1; i >= 0; i--) todo.push(list[i]);
    }
    return { runs: out, whole: todo.length === 0 && chars >= 0 };
  };
  // The places of parts of these texts.
  belljar.boxes = (ask) => {
    const out = [];
    for (const [k, from, to] of ask) {
      const n = kept[k];
      if (!n || !dom.connected(n)) continue;
      const range = new Range();
      range.setStart(n, Math.min(from, n.length));
      range.setEnd(n, Math.min(to, n.length));
      for (const r of range.getClientRects()) out.push([r.left, r.top, r.width, r.height]);
    }
    return out;
  };
  belljar.html = (most) => {
    const all = dom.html(document).outerHTML;
    return { HTML: clip(all.toWellFormed(), most), Cut: all.length > most };
  };
})();
