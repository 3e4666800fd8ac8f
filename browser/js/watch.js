// From the first moment of a document: when its tree changed last, how often, and
// how often the attributes of its elements did. Shadows and frames are not seen;
// who reads the page says whether there are any.
(() => {
  const state = (globalThis.belljar = { last: 0, parsed: 0, changes: 0, touches: 0, deaf: false });
  new MutationObserver((list) => {
    state.last = performance.now();
    state.changes += list.length;
  }).observe(document, { subtree: true, childList: true, characterData: true });
  new MutationObserver((list) => { state.touches += list.length; }).observe(document, { subtree: true, attributes: true });
  document.addEventListener("DOMContentLoaded", () => { state.parsed = performance.now(); }, { once: true });
})();
