// From the first moment of a document: when its tree changed last.
(() => {
  const state = (globalThis.belljar = { last: 0, parsed: 0, changes: 0 });
  new MutationObserver((list) => {
    state.last = performance.now();
    state.changes += list.length;
  }).observe(document, { subtree: true, childList: true, characterData: true });
  document.addEventListener("DOMContentLoaded", () => { state.parsed = performance.now(); }, { once: true });
})();
