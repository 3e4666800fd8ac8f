// The site on which browsers are compared: a form, a table of 500 rows, an article with
// links, views that a script fetches, a login, a file, and a button that does nothing.
import { createServer } from "node:http";
import { once } from "node:events";

const page = (title, body) => `<!doctype html><meta charset=utf-8><title>${title}</title><h1>${title}</h1>${body}`;
const countries = Array.from({ length: 200 }, (_, i) => `<option>Country ${i + 1}</option>`).join("");
const fields = Array.from({ length: 20 }, (_, i) => `<p><label>Field ${i + 1} <input name=f${i + 1}></label>`).join("");
const form = page("Order", `<form method=post action=/sent>${fields}<p><label>Country <select name=country>${countries}</select></label>
<p><label><input type=checkbox name=terms> I agree</label><p><button>Send</button> <button type=button id=idle>Nothing</button></form>`);
const rows = Array.from({ length: 500 }, (_, i) => `<tr><td><input type=checkbox aria-label="select ${i}"><td><a href="/o/${i}">#${1000 + i}</a><td>Customer ${i}<td>open<td>${(i * 7.3).toFixed(2)}<td><button onclick="this.closest('tr').remove()">Edit</button><td><button onclick="confirm('Delete #${1000 + i}?') && this.closest('tr').remove()">Delete</button></tr>`).join("");
const table = page("Orders", `<table><tbody>${rows}</tbody></table>`);
const words = "The bell jar keeps the air in, and the damp, and whatever grows below it keeps its own weather. ";
const section = (n) => `<h2>Part ${n}</h2>${Array.from({ length: 6 }, (_, i) => `<p>${words.repeat(4)}See <a href="/article/${n}-${i}">note ${n}.${i}</a>.</p>`).join("")}`;
const article = (name) => page(name, `<nav>${Array.from({ length: 40 }, (_, i) => `<a href="/nav/${i}">Chapter ${i}</a> `).join("")}</nav><main>${Array.from({ length: 12 }, (_, i) => section(i)).join("")}</main>`);
const spa = page("Views", `<nav>${[1, 2, 3].map((n) => `<button onclick="show(${n})">View ${n}</button>`).join("")}</nav><div id=out>choose</div>
<script>async function show(n) { const r = await fetch("/data/" + n); out.innerHTML = await r.text(); }</script>`);
const login = page("Log in", "<form method=post action=/in><label>User <input name=user></label><label>Password <input type=password name=pw></label><button>Log in</button></form>");

export async function start() {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://x");
    const html = (text) => response.setHeader("Content-Type", "text/html; charset=utf-8").end(text);
    const [, first, second] = pathname.split("/");
    request.resume();
    if (first === "form") html(form);
    else if (first === "sent") html(page("Thank you", "<p>Your order was sent."));
    else if (first === "table") html(table);
    else if (first === "article" || first === "nav" || first === "o") html(article(`Article ${second ?? ""}`));
    else if (first === "spa") html(spa);
    else if (first === "data") setTimeout(() => html(`<h2>View ${second}</h2><ul>${Array.from({ length: 20 }, (_, i) => `<li>Item ${second}.${i}`).join("")}</ul>`), 50);
    else if (first === "login") html(login);
    else if (first === "in") html(page("Hello", '<p><a href="/file/report.csv">Report</a>'));
    else if (first === "file") response.setHeader("Content-Type", "text/csv").setHeader("Content-Disposition", 'attachment; filename="report.csv"').end("a,b\n1,2\n");
    else if (first === "small") html(page("Small", "<p>A small page. <a href=/form>Order</a>"));
    else response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: server.address().port, close: () => server.close() };
}
