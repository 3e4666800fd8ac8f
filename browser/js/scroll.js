// Scrolls down by a screen, and tells whether there was more to see.
(() => {
  const e = document.scrollingElement ?? document.documentElement;
  const before = e.scrollTop;
  scrollTo(0, before + innerHeight * 0.9);
  return { moved: e.scrollTop > before, bottom: e.scrollTop + innerHeight >= e.scrollHeight - 2, height: e.scrollHeight };
})()
