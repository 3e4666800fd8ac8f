// Copies the document into one that nothing runs in, flattened, and writes that.
// The page itself is not changed, and sees nothing of it.
((o) => {
  const inert = document.implementation.createHTMLDocument("");
  const root = document.documentElement;
  if (!root) return { size: 0, html: "", title: "", cut: "" };
  let left = o.nodes, chars = o.chars, frames = o.frames, late = false;
  const end = performance.now() + Math.min(o.most, (o.by - Date.now()) / 2);
  const width = Math.max(root.scrollWidth, innerWidth);
  const skip = new Set(["SCRIPT", "STYLE", "LINK", "OBJECT", "EMBED", "CANVAS", "TEMPLATE", "PORTAL"]);
  const keepScript = /^(application\/ld\+json|math\/)/i;
  const keepLink = /\b(canonical|alternate|amphtml|license|author|icon)\b/i;
  const never = new Set(["HEAD", "TITLE", "META", "BASE", "BR", "WBR", "OPTION", "SOURCE", "TRACK", "NOSCRIPT", "HTML", "BODY", "TD", "TR", "TBODY", "THEAD"]);

  // One question for most elements; the text of a style takes longer to write.
  const all = { opacityProperty: true, visibilityProperty: true };

  // What fades in begins unseen.
  const fades = (e) => e.getAnimations().some((a) => a.effect.getKeyframes().some((k) => k.opacity > 0));

  const rgba = (c) => {
    const m = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(c);
    return m && [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]];
  };
  const near = (a, b) => [0, 1, 2].every((i) => Math.abs(a[i] - b[i]) <= 8);

  // The colour of the nearest background around an element, or null where a
  // picture or something half clear is the background.
  const backs = new Map();
  const around = (e) => {
    const path = [];
    let back = [255, 255, 255, 1];
    for (let p = e; p; p = p.parentElement) {
      if (backs.has(p)) { back = backs.get(p); break; }
      path.push(p);
      const s = getComputedStyle(p), c = rgba(s.backgroundColor);
      if (s.backgroundImage !== "none" || !c || c[3] > 0) { back = s.backgroundImage === "none" && c && c[3] === 1 ? c : null; break; }
    }
    for (const p of path) backs.set(p, back);
    return back;
  };

  // Whether something that is not around an element may lie behind it.
  let pictures;
  const behind = (e) => {
    const r = e.getBoundingClientRect();
    const meets = (b) => b.width > 0 && b.height > 0 && b.left < r.right && r.left < b.right && b.top < r.bottom && r.top < b.bottom;
    pictures ??= [...document.querySelectorAll("img, video, canvas, svg, iframe, object")].slice(0, 500).map((n) => n.getBoundingClientRect());
    if (pictures.length === 500 || pictures.some(meets)) return true;
    for (let p = e; p; p = p.parentElement) {
      const s = getComputedStyle(p);
      if (s.position === "absolute" || s.position === "fixed" || s.position === "sticky") return true;
      if (getComputedStyle(p, "::before").content !== "none" || getComputedStyle(p, "::after").content !== "none") return true;
      let n = 0;
      for (let c = p.parentElement?.firstElementChild; c && n < 50; c = c.nextElementSibling, n++) {
        if (c === p || getComputedStyle(c).position === "static") continue;
        if (getComputedStyle(c).backgroundColor !== "rgba(0, 0, 0, 0)" && meets(c.getBoundingClientRect())) return true;
      }
    }
    return false;
  };
  let asked = 0; // how often, of what is slow
  const blends = (e, s) => {
    const text = rgba(s.color);
    if (!text || text[3] === 0 || s.webkitTextFillColor !== s.color || s.textShadow !== "none" || s.mixBlendMode !== "normal") return false;
    const back = around(e);
    return back !== null && near(text, back) && asked++ < 500 && !behind(e);
  };

  // Why an element cannot be seen, or nothing.
  const hidden = (e) => {
    if (never.has(e.tagName) || !e.isConnected) return "";
    const seen = e.checkVisibility(all);
    // A box that is none leaves its children to be seen.
    if (!seen && !e.checkVisibility() && getComputedStyle(e).display !== "contents") return e.parentElement?.tagName === "DETAILS" || e.closest("details:not([open])") ? "" : "display";
    if (e.childElementCount > 50) return "";
    const s = getComputedStyle(e);
    if (!seen) {
      if (s.visibility !== "visible") return "visibility";
      if (s.opacity === "0" && !fades(e)) return "opacity";
    }
    if (e.namespaceURI !== "http://www.w3.org/1999/xhtml") return "";
    let text = false;
    for (let n = e.firstChild; n; n = n.nextSibling) if (n.nodeType === 3 && n.data.trim() !== "") { text = true; break; }
    const position = s.position;
    if (position === "absolute" || position === "fixed" || s.overflow !== "visible") {
      const r = e.getBoundingClientRect();
      if (s.overflow !== "visible" && (r.width <= 1 || r.height <= 1)) return "clipped";
      if (r.right + scrollX <= 0 || r.bottom + scrollY <= 0 || r.left + scrollX > width + 1000) return "off-screen";
      if (s.clipPath === "inset(50%)" || s.clip === "rect(0px, 0px, 0px, 0px)" || s.clip === "rect(1px, 1px, 1px, 1px)") return "clipped";
    }
    if (!text) return "";
    if (parseFloat(s.fontSize) < 1) return "font-size";
    if (s.textIndent.startsWith("-") && parseFloat(s.textIndent) < -500) return "off-screen";
    const color = s.color;
    if (color.startsWith("rgba(") && color.endsWith(", 0)") && s.backgroundClip !== "text" && s.webkitBackgroundClip !== "text") return "colour";
    if (color === s.backgroundColor && s.backgroundClip !== "text") return "colour";
    if (s.backgroundClip !== "text" && s.webkitBackgroundClip !== "text" && blends(e, s)) return "colour";
    return "";
  };

  // The source of a formula stands unseen beside what is seen of it.
  const formula = (e) => {
    if (e.localName === "annotation" || e.localName === "annotation-xml") return e.parentElement?.localName === "semantics";
    const shown = e.parentElement?.localName === "mjx-container" || e.parentElement?.classList.contains("katex");
    return shown && e.firstElementChild?.localName === "math" && e.textContent.length < 10000;
  };

  const source = (e) => {
    if (e.shadowRoot) { belljar.deaf = true; return e.shadowRoot.childNodes; }
    if (e.tagName === "SLOT") {
      const given = e.assignedNodes({ flatten: true });
      return given.length ? given : e.childNodes;
    }
    return e.childNodes;
  };

  // The document of a frame, if it is of the same origin.
  const inner = (e) => {
    if (e.tagName !== "IFRAME" && e.tagName !== "FRAME") return null;
    try { return frames > 0 && e.contentDocument?.documentElement && e.contentDocument.body ? e.contentDocument : null; } catch { return null; }
  };
  const absolute = (copy, base) => {
    for (const name of ["href", "src", "poster"]) {
      const value = copy.getAttribute(name);
      if (value && !value.startsWith("#") && !value.startsWith("data:")) {
        try { copy.setAttribute(name, new URL(value, base).href); } catch {}
      }
    }
  };

  // One stack, not recursion: a page may nest a hundred thousand elements.
  const top = inert.importNode(root, false);
  const stack = [{ list: source(root), at: 0, to: top, base: "" }];
  while (stack.length) {
    const f = stack[stack.length - 1];
    if (f.at >= f.list.length) { stack.pop(); continue; }
    const n = f.list[f.at++];
    if (left-- <= 0 || chars <= 0) break;
    if ((left & 1023) === 0 && performance.now() > end) { late = true; break; }
    if (n.nodeType === 3 || n.nodeType === 4) { chars -= n.length; f.to.appendChild(inert.createTextNode(n.data)); continue; }
    if (n.nodeType !== 1) continue;
    if (skip.has(n.tagName)) {
      const keep = n.tagName === "SCRIPT" ? keepScript.test(n.type) : n.tagName === "LINK" ? keepLink.test(n.rel) : false;
      if (keep) f.to.appendChild(inert.importNode(n, true));
      continue;
    }
    const doc = inner(n);
    if (doc) {
      frames--;
      belljar.deaf = true;
      const section = inert.createElement("section");
      section.setAttribute("data-belljar-frame", doc.URL);
      f.to.appendChild(section);
      stack.push({ list: doc.body.childNodes, at: 0, to: section, base: doc.baseURI });
      continue;
    }
    let copy;
    // A custom element's name is kept, its class is not.
    try { copy = inert.importNode(n, false); } catch { continue; }
    if (f.base) absolute(copy, f.base);
    if (n.tagName === "NOSCRIPT") continue;
    let why = f.hide ? "" : hidden(n);
    if (why !== "" && formula(n)) why = "";
    if (why) copy.setAttribute("data-belljar-hidden", why);
    f.to.appendChild(copy);
    stack.push({ list: source(n), at: 0, to: copy, base: f.base, hide: f.hide || why !== "" && why !== "visibility" });
  }
  let html = "<!DOCTYPE html>" + top.outerHTML;
  html = html.toWellFormed();
  // No part ends within a pair of surrogates.
  const border = (at) => at + ((html.charCodeAt(at) & 0xfc00) === 0xdc00 ? 1 : 0);
  globalThis.belljarPart = (from, to) => html.slice(border(from), border(to));
  const bytes = html.length > o.first ? new Blob([html]).size : -1;
  return { size: html.length, bytes, html: html.slice(0, border(o.first)), title: document.title.slice(0, 1000), url: document.URL.slice(0, 4096), cut: late ? "time" : chars <= 0 ? "text" : left <= 0 ? "elements" : "" };
})
