// Waits until the tree of the document was not changed for a while, and the
// selector matches. A page whose scripts did nothing since it was parsed is
// waited for less: quick, and until its first frame is drawn. One with scripts on
// which there is next to nothing to read may be drawn by a clock, and is given
// bare milliseconds for that.
//
// What is to be told of the settled page, tell says. It is asked as soon as the
// page is there, while nothing is waited for but time, and again where that no
// longer holds.
((o, tell) => new Promise((done, fail) => {
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
  // What was told, and of which state of the page.
  let told = null, mark = "";
  const stamp = () => `${state.changes} ${state.touches} ${document.URL}`;
  const ahead = () => {
    if (!o.load || o.least > 0 || state.last > state.parsed + 1) return;
    const first = tell();
    // Of some changes nobody hears.
    if (state.deaf || document.getAnimations().length > 0) return;
    told = first;
    mark = stamp();
  };
  const idle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 1));
  const step = () => {
    const now = performance.now();
    const active = o.active || state.last > state.parsed + 1;
    const quiet = active ? o.quiet : o.quick;
    if (!matches) {
      try { matches = document.querySelector(o.selector) !== null; } catch (e) { done({ bad: true }); return; }
    }
    const rest = Math.max(start, state.last) + quiet - now;
    if (now - start >= o.most || Date.now() >= o.by) { done({ settled: false, matches }); return; }
    if (rest <= 0 && matches && now - start >= o.least && (now - start >= o.bare || !early())) { done({ settled: true, matches, active, ...(told && mark === stamp() ? told : tell()) }); return; }
    setTimeout(() => idle(look, { timeout: 30 }), Math.max(matches && rest > 0 ? 1 : 10, Math.min(rest, o.most)));
  };
  const look = () => { try { step(); } catch (e) { fail(e); } };
  // What the page has for its first frame runs in that, and what is to be done at
  // once after it comes before what can wait.
  const framed = () => {
    let seen = false;
    const once = () => { if (!seen) { seen = true; look(); } };
    requestAnimationFrame(() => scheduler.postTask(once, { priority: "background" }));
    setTimeout(once, 30);
  };
  let begun = false;
  const begin = () => {
    if (begun) return;
    begun = true;
    start = performance.now();
    try { ahead(); } finally { framed(); }
  };
  // The listener is of this world alone, and a load event has come when it is told.
  // A document that is opened anew has no listeners any more.
  if (o.load) addEventListener("load", begin, { once: true });
  const loaded = () => { if (!o.load || document.readyState === "complete") begin(); else setTimeout(loaded, 200); };
  loaded();
}))
