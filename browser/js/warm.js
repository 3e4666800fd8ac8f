// Fills the empty document with a bit of everything, draws it, reads it out, and
// empties it again.
((o) => new Promise((done) => {
  const text = "<h1>A</h1><h2>B</h2><p>Words <b>bold <i>both</i></b> <i>slanted</i> <a href='/'>link</a> <code>code <b>b</b></code></p><ul><li>x</ul><table><tr><th>x<td>y</table><pre>x</pre>";
  const families = ["serif", "sans-serif", "monospace", "system-ui", "Arial, Helvetica"];
  document.body.innerHTML = families.map((f) => `<div style="font-family: ${f}">${text}</div>`).join("") + "<input><button>x</button>";
  let drawn = false;
  const next = () => {
    if (drawn) return;
    drawn = true;
    belljar.settle(o, () => ({})).then(() => {
      belljar.read({ first: 1000, nodes: 1000, frames: 1, chars: 10000, most: 100, by: Infinity });
      document.body.textContent = "";
      done(true);
    });
  };
  requestAnimationFrame(() => setTimeout(next, 1));
  setTimeout(next, 250); // a page that is not drawn has no frames
}))
