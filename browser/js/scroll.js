// Scrolls on by a screen, to the end or back to the top, and tells what came of
// it two frames later, which is when observers have been told, and after so many
// milliseconds more if nothing did.
((o) => new Promise((done) => {
  const state = globalThis.belljar ?? { changes: 0 };
  const e = globalThis.belljarScroller ?? document.scrollingElement ?? document.documentElement;
  const before = e.scrollTop, changes = state.changes, height = e.scrollHeight;
  e.scrollTo({ top: o.to === "top" ? 0 : o.to === "end" ? height : before + e.clientHeight * 0.9, behavior: "instant" });
  const tell = () => done({
    changed: state.changes > changes || e.scrollHeight !== height,
    end: e.scrollTop + e.clientHeight >= e.scrollHeight - 2, height: e.scrollHeight,
  });
  const frames = (n) => {
    const next = () => { clearTimeout(late); n > 1 ? frames(n - 1) : state.changes > changes || !o.wait ? tell() : setTimeout(tell, o.wait); };
    const late = setTimeout(tell, 250); // a page that is not drawn has no frames
    requestAnimationFrame(next);
  };
  frames(2);
}))
