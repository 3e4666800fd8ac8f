// Waits until the tree of the document was not changed for a while, and the
// selector matches. A page whose scripts did nothing since it was parsed is
// waited for less: quick, and until the browser has nothing else to do. One with
// scripts on which there is next to nothing to read may be drawn by a clock, and
// is given bare milliseconds for that.
((o) => new Promise((done) => {
  const state = belljar;
  let start = 0;
  let matches = !o.selector;
  // The same as appRoots of page/meta.go.
  const roots = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #main-app, #app-root, #react-root, #mount, app-root";
  const silent = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE"]);
  // Whether an element has fewer than so many characters of text; the shadows of
  // its elements count, and so does what shows without words.
  const bare = (top, chars) => {
    let nodes = 20000;
    for (const todo = [top]; todo.length;) {
      const e = todo.pop();
      for (let n = (e.shadowRoot ?? e).lastChild; n; n = n.previousSibling) {
        if (n.nodeType === 3 && (chars -= n.data.trim().length) <= 0) return false;
        if (n.nodeType !== 1 || silent.has(n.tagName)) continue;
        if (n.tagName === "IFRAME" || n.tagName === "FRAME" || nodes-- <= 0) return false;
        todo.push(n);
      }
    }
    return true;
  };
  const early = () => {
    if (o.selector || o.least > 0 || document.scripts.length === 0) return false;
    const root = document.querySelector(roots);
    return root !== null && bare(root, 40) || document.body !== null && bare(document.body, 40);
  };
  const idle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 1));
  const look = () => {
    const now = performance.now();
    const active = o.active || state.last > state.parsed + 1;
    const quiet = active ? o.quiet : o.quick;
    if (!matches) {
      try { matches = document.querySelector(o.selector) !== null; } catch (e) { done({ bad: true }); return; }
    }
    const rest = Math.max(start, state.last) + quiet - now;
    if (now - start >= o.most) { done({ settled: false, matches }); return; }
    if (rest <= 0 && matches && now - start >= o.least && (now - start >= o.bare || !early())) { done({ settled: true, matches, active }); return; }
    setTimeout(() => idle(look, { timeout: 30 }), Math.max(matches && rest > 0 ? 1 : 10, Math.min(rest, o.most)));
  };
  const begin = () => { start = performance.now(); idle(look, { timeout: 30 }); };
  // The listener is of this world alone, and a load event has come when it is told.
  if (o.load && document.readyState !== "complete") addEventListener("load", begin, { once: true }); else begin();
}))
