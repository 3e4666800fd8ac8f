// Waits until the tree of the document was not changed for a while, and the
// selector matches. A page whose scripts did nothing since it was parsed is
// waited for less: quick, and until the browser has nothing else to do.
((o) => new Promise((done) => {
  const state = globalThis.belljar ?? { last: 0, parsed: 0 };
  const start = performance.now();
  let matches = !o.selector;
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
    if (rest <= 0 && matches && now - start >= o.least) { done({ settled: true, matches, active }); return; }
    setTimeout(() => idle(look, { timeout: 30 }), Math.max(matches ? 1 : 10, Math.min(rest, o.most)));
  };
  idle(look, { timeout: 30 });
}))
