// Says how scrolling may bring more of the page: "parts" where images or sections
// below the window are empty still, "end" where something at the end waits to be
// seen, "tall" where only a listener could, and nothing where there is nothing to
// scroll or nobody to notice it.
(() => {
  if (document.scripts.length === 0 || !document.body) return "";
  // What scrolls is the document, or the part of it in the middle of the window.
  let e = document.scrollingElement ?? document.documentElement;
  if (e.scrollHeight <= innerHeight + 100) {
    for (let n = document.elementFromPoint(innerWidth / 2, innerHeight / 2); n; n = n.parentElement) {
      if (n.scrollHeight > n.clientHeight + 100 && /auto|scroll/.test(getComputedStyle(n).overflowY)) { e = n; break; }
    }
  }
  globalThis.belljarScroller = e;
  if (e.scrollHeight <= e.clientHeight + 1) return "";
  const below = (n) => n.checkVisibility() && n.getBoundingClientRect().top >= innerHeight;
  const blank = (n) => n.childElementCount < 20 && n.textContent.trim() === "";
  const some = (selector, test) => Array.prototype.slice.call(document.querySelectorAll(selector), 0, 300).some(test);
  // The source of most lazy images is written in an attribute, and read from that.
  const told = (n) => n.srcset !== "" || Array.prototype.some.call(n.attributes, (a) => /^data-.*(src|original|lazy|url)/.test(a.name));
  if (some("img", (n) => (n.getAttribute("src") ?? "") === "" && !told(n) && below(n))) return "parts";
  if (some('[aria-busy="true"], [class*="skeleton" i], [class*="lazy" i], [class*="placeholder" i], [data-lazy]', (n) => n.tagName !== "IMG" && below(n) && blank(n))) return "parts";
  if (document.querySelector('[role="feed"], [class*="infinite" i], [class*="sentinel" i], [id*="sentinel" i], [class*="load-more" i], [class*="loadmore" i]')) return "end";
  for (const top of document.querySelectorAll("body, main, [role=main]")) {
    let n = top;
    for (let depth = 0; n && depth < 30; depth++) {
      let last = n.lastElementChild;
      while (last && (last.tagName === "SCRIPT" || last.tagName === "STYLE" || !last.checkVisibility())) last = last.previousElementSibling;
      if (!last) break;
      n = last;
    }
    if (n !== top && /^(DIV|SPAN|LI|SECTION)$/.test(n.tagName) && blank(n) && getComputedStyle(n).position !== "fixed") return "end";
  }
  return "tall";
})
