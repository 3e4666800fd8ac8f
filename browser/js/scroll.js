// Scrolls on by a screen, to the end or back to the top, and tells what came of
// it two frames later, which is when observers have been told, and after so many
// milliseconds more if nothing did. A page that was scrolled before is drawn
// first: what came to be above its end has moved that out of sight, and observers
// that were not told so are not told either that it is to be seen again.
((o) => new Promise((done) => {
  const state = globalThis.belljar ?? { changes: 0 };
  const e = globalThis.belljarScroller ?? document.scrollingElement ?? document.documentElement;
  const changes = state.changes, height = e.scrollHeight;
  const frames = (n, then) => {
    if (n === 0) { then(); return; }
    const frame = requestAnimationFrame(() => { clearTimeout(late); frames(n - 1, then); });
    // A page that is not drawn has none; on a busy machine one comes late.
    const late = setTimeout(() => { cancelAnimationFrame(frame); then(); }, 1000);
  };
  const tell = () => done({
    changed: state.changes > changes || e.scrollHeight !== height,
    end: e.scrollTop + e.clientHeight >= e.scrollHeight - 2, height: e.scrollHeight,
  });
  const scroll = () => {
    e.scrollTo({ top: o.to === "top" ? 0 : o.to === "end" ? e.scrollHeight : e.scrollTop + e.clientHeight * 0.9, behavior: "instant" });
    frames(2, () => { state.changes > changes || !o.wait ? tell() : setTimeout(tell, o.wait); });
  };
  if (o.drawn) frames(1, () => setTimeout(scroll)); else scroll();
}))
