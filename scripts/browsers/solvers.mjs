// A solver for each task of MiniWoB++ that has one. It is given a page that was started, and
// sees what the tools say: the first line is the task.

// placed are the tasks that need a place, a drag, a selection or colours, and not just text
// and numbers of controls.
export const placed = new Set(`bisect-angle chase-circle circle-center click-color click-pie click-pie-nodelay click-shades click-shape
  count-shape count-sides drag-box drag-circle drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape
  drag-sort-numbers draw-circle draw-line find-greatest find-midpoint highlight-text highlight-text-2 hot-cold hover-shape
  identify-shape moving-items number-checkboxes resize-textarea right-angle text-editor use-colorwheel use-colorwheel-2
  visual-addition`.split(/\s+/));

const quoted = (p) => [...p.lines[0].matchAll(/"([^"]*)"/g)].map((m) => m[1]);
const exactly = (text) => new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`, "i");
const match = (p, re) => {
  const m = re.exec(p.lines[0]);
  if (!m) throw new Error(`the task is not as expected: ${p.lines[0]}`);
  return m.slice(1);
};
const click = (ref) => ({ do: "click", ref });
const fill = (ref, text) => ({ do: "fill", ref, text });
const press = (text, ref) => ({ do: "press", text, ...(ref && { ref }) });
const submit = (p) => click(p.find(undefined, /^submit$/i));
const nth = (text) => Number(/(\d+)(st|nd|rd|th)/.exec(text)[1]);

// inSteps runs any number of steps, twenty in a call.
async function inSteps(p, steps) {
  for (let i = 0; i < steps.length; i += 20) await p.do(...steps.slice(i, i + 20));
}

// centre is the middle of what an expression finds, as a point of a picture that is taken.
async function centre(p, expression) {
  const at = await p.eval(`(() => { const r = (${expression}).getBoundingClientRect(); return [Math.round(r.left + r.width / 2), Math.round(r.top + r.height / 2)] })()`);
  await p.picture();
  return at;
}
const clickAt = async (p, expression) => p.do({ do: "click", xy: await centre(p, expression) });
const drag = async (p, from, to) => {
  await p.picture();
  await p.do({ do: "drag", xy: from.map(Math.round), to: to.map(Math.round) });
};

async function pressed(p) {
  for (const name of quoted(p)) await p.click(undefined, exactly(name));
}

async function checked(p) {
  const [list] = match(p, /Select (.*?)(?:,)? and click Submit/i);
  const names = list === "nothing" ? [] : list.split(", ");
  await p.do(...names.map((n) => ({ do: "check", ref: p.find(/check|radio/, n) })), submit(p));
}

const alike = [["big", "large", "huge", "enormous", "gigantic"], ["small", "tiny", "little", "mini", "petite"], ["red", "scarlet", "crimson", "vermillion"],
  ["happy", "cheerful", "joyful", "gleeful", "delighted"], ["sad", "unhappy", "sorrowful", "miserable", "tragic"], ["angry", "mad", "furious", "irritated"],
  ["evil", "wicked", "immoral", "sinful", "corrupt", "depraved"], ["wrong", "incorrect", "mistaken", "erroneous"], ["real", "genuine", "actual"],
  ["strange", "odd", "peculiar", "unusual", "weird"], ["stop", "cease", "halt", "end", "finish"], ["scared", "afraid", "panicked", "fearful", "frightened"],
  ["quiet", "calm", "peaceful", "serene", "mild"], ["old", "aged", "archaic"], ["love", "like", "adore", "favor"], ["kill", "murder", "assassinate"],
  ["keep", "retain", "preserve", "sustain", "maintain"], ["hide", "conceal", "camouflage"], ["funny", "amusing", "comical", "hilarious", "humorous"],
  ["fast", "rapid", "swift", "quick"], ["dirty", "filthy", "messy"], ["answer", "response", "reply"], ["start", "begin", "commence", "initiate"],
  ["pig", "pork", "swine", "hog"], ["car", "automobile", "vehicle"], ["food", "dish", "cuisine", "meal"], ["water", "fluid", "liquid", "aqua"],
  ["home", "house", "dwelling", "residence"], ["television", "televisions", "tv", "TVs"], ["rabbit", "rabbits", "bunny", "bunnies", "hare"], ["archaic", "old", "elderly", "ancient"],
  ["wrong", "incorrect", "untrue", "erroneous"], ["quiet", "silent", "calm"], ["death", "death", "sadness"], ["flames", "fire"], ["pig", "pigs", "cow"], ["home", "homes"]];

async function similar(p) {
  const [list] = match(p, /similar to (.*) and click Submit/);
  const wanted = new Set(list.split(", "));
  const words = p.all("check").filter((c) => [...wanted].some((w) => c.name === w || alike.some((g) => g.includes(w) && g.includes(c.name))));
  await p.do(...words.map((c) => ({ do: "check", ref: c.ref })), submit(p));
}

async function tabs(p) {
  const want = exactly(quoted(p)[0]);
  for (const name of p.all("link", /^(Tab #)?\d+$/).map((c) => c.name)) {
    if (p.all("item", want).length) break;
    await p.click("link", name);
    await p.look();
  }
  await p.click("item", want);
}

async function sections(p) {
  const want = exactly(quoted(p)[0]);
  for (const c of p.all("tab", /^Section/)) {
    await p.do(click(c.ref));
    await p.do({ do: "wait", ms: 600 });
    if (p.all("item", want).length) return p.click("item", want);
  }
  throw new Error(`not found: ${p.lines.join("\n")}`);
}

async function oneSection(p) {
  await p.do(click(p.find("tab", /^Section/)), { do: "wait", ms: 600 });
  await p.click("button", "Submit");
}

async function chooseMenu(p) {
  const names = match(p, /Select (.*)/)[0].split(">");
  for (const [i, name] of names.entries()) {
    await p.look();
    if (i < names.length - 1) {
      await p.do({ do: "hover", ref: p.all("menuitem", name)[0]?.ref ?? p.find(undefined, name) });
      await p.do({ do: "wait", ms: 500 });
    } else await p.do(click(p.all("menuitem", name)[0]?.ref ?? p.find(undefined, name)));
  }
}

async function menuIcon(p) {
  const task = p.lines[0];
  await p.click("button", "Menu");
  await p.do({ do: "wait", ms: 500 });
  const name = /labeled "([^"]*)"/.exec(task)?.[1];
  const items = ["Playback", "Prev", "Stop", "Play", "Next"];
  const icon = name ? undefined : /with the icon/.test(task) && (await p.eval(`document.querySelector("#query span, #query .ui-icon")?.className ?? ""`));
  if (icon) {
    const label = await p.eval(`Array.from(document.querySelectorAll("#area .ui-icon, .ui-menu .ui-icon")).filter((e) => e.className.split(" ").some((c) => c !== "ui-icon" && ${JSON.stringify(icon)}.split(" ").includes(c))).map((e) => e.parentElement.textContent.trim())[0]`);
    return reveal(p, label, items);
  }
  await reveal(p, name, items);
}

async function reveal(p, name, items) {
  if (["Prev", "Stop", "Play", "Next"].includes(name)) {
    await p.do({ do: "hover", ref: p.find(undefined, "Playback") });
    await p.do({ do: "wait", ms: 500 });
  }
  await p.do(click(p.all("menuitem", name)[0]?.ref ?? p.find(undefined, exactly(name))));
}

async function widget(p) {
  const kind = { button: "button", text: "input:not([type=checkbox], [type=radio])", textarea: "textarea", checkbox: "input[type=checkbox]", radio: "input[type=radio]" }[quoted(p)[0]];
  await clickAt(p, `document.querySelector("#area ${kind}")`);
}

async function typed(p, change = (s) => s) {
  const [text] = quoted(p);
  await p.do(fill(p.find("text"), change(text)), submit(p));
}

const month = (n) => ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"][n - 1];
async function pickDate(p, field, m, d, y) {
  await p.do(click(field));
  for (let i = 0; i < 25; i++) {
    await p.look();
    const text = p.lines.join(" ");
    const at = /(January|February|March|April|May|June|July|August|September|October|November|December)\W+(\d{4})/.exec(text);
    if (!at) throw new Error(`no month in ${p.lines.join("\n")}`);
    const now = Number(at[2]) * 12 + Array.from({ length: 12 }, (_, k) => month(k + 1)).indexOf(at[1]);
    const want = y * 12 + m - 1;
    if (now === want) break;
    await p.do(click(p.find(undefined, now > want ? /^prev/i : /^next/i)));
  }
  await p.do(click(p.find("link", String(d))));
}

async function date(p) {
  const [m, d, y] = match(p, /(\d+)\/(\d+)\/(\d+)/).map(Number);
  await pickDate(p, p.find("text"), m, d, y);
  await p.look();
  await p.do(submit(p));
}

async function login(p) {
  const [user, pass] = quoted(p);
  for (let i = 0; i < 6; i++) {
    await p.look();
    const cancel = p.all(undefined, /^cancel$/i)[0];
    if (cancel) {
      await p.do(click(cancel.ref));
      continue;
    }
    if (!p.lines.some((l) => /username.*=/.test(l))) await p.try(fill(p.find("text"), user));
    else if (!p.lines.some((l) => /password.*filled/.test(l))) await p.try(fill(p.find("password"), pass));
    else break;
  }
  await p.look();
  await p.click("button", /^(login|ok)$/i);
}

async function slider(p, handle, read, want) {
  for (let i = 0; i < 15; i++) {
    const now = read();
    if (now === want) return;
    await p.do(...Array.from({ length: Math.min(20, Math.abs(want - now)) }, () => press(now < want ? "ArrowRight" : "ArrowLeft", handle)));
    await p.look();
  }
  throw new Error(`the slider is not at ${want}`);
}

// spinner presses the arrows beside a field that takes no keys: up stands before down.
async function spinner(p) {
  const n = Number(match(p, /Select (-?\d+)/)[0]), field = p.controls.findIndex((c) => c.role === "number");
  const arrow = p.controls[field + (n > 0 ? 1 : 2)].ref;
  await inSteps(p, Array.from({ length: Math.abs(n) }, () => click(arrow)));
  await p.do(submit(p));
}

// numbers are the lines that are a number and nothing else.
const numbers = (p) => p.lines.filter((l) => /^-?\d+$/.test(l)).map(Number);
const unnamed = (p) => p.all("item", "").map((c) => c.ref);

async function guess(p) {
  let low = 0, high = 9;
  for (let i = 0; i < 6; i++) {
    const middle = (low + high) >> 1;
    await p.do(fill(p.find("number"), String(middle)), submit(p));
    await p.look();
    const text = p.lines.join(" ");
    if (/lower than/.test(text)) high = middle - 1;
    else if (/higher than/.test(text)) low = middle + 1;
    else return;
  }
}

async function tree(p) {
  const [name] = quoted(p);
  const seen = new Set();
  for (let i = 0; i < 30; i++) {
    const rows = p.all("item").filter((c) => c.name && !/ /.test(c.name));
    const hit = rows.findLast((c) => c.name === name);
    if (hit) return p.do(click(hit.ref));
    const next = rows.findLast((c) => !seen.has(c.name));
    if (!next) break;
    seen.add(next.name);
    await p.do(click(next.ref));
    await p.do({ do: "wait", ms: 300 });
  }
  throw new Error(`not found in\n${p.lines.join("\n")}`);
}

async function food(p) {
  const list = p.lines[0];
  const wanted = /one of each item: (.*)/.exec(list)?.[1].split(", ").map((n) => [n, 1]);
  const many = /Order (\d+) items? that (?:is|are) (.*)/.exec(list);
  const rows = [];
  for (const [i, line] of p.lines.entries()) {
    const plus = p.controls.find((c) => c.line === line && c.name === "+");
    if (!plus) continue;
    let k = i - 1;
    const kinds = /^image/.test(p.lines[k]) ? p.lines[k--] : "";
    rows.push({ name: p.lines[k], kinds, plus: plus.ref });
  }
  const steps = [];
  if (wanted) for (const [name] of wanted) steps.push(click(rows.find((r) => r.name === name).plus));
  else if (many) {
    const kind = many[2].trim().replace(/\.$/, "");
    const row = rows.find((r) => r.kinds.includes(kind) || r.kinds.includes(kind.replace(/ /g, "-")));
    // Its amount stands beside it, so that it reads differently after each click.
    for (let i = 0; i < Number(many[1]); i++) await p.do(click(row.plus));
  } else throw new Error(`what to order: ${list}`);
  await inSteps(p, steps);
  await p.look();
  await p.click("button", /^Order/);
}

async function phone(p) {
  const [name, what] = match(p, /Find (\S+) in the contact book and click on their (.*?)\.?$/);
  for (let i = 0; i < 20; i++) {
    if (p.lines.includes(`## ${name}`)) {
      const label = /phone/.test(what) ? "Phone" : /mail/.test(what) ? "Email" : "Address";
      return p.do(click(p.controls.find((c) => c.line.startsWith(`${label}:`)).ref));
    }
    await p.do(click(p.find("link", ">")));
    await p.look();
  }
  throw new Error("not in the book");
}

const cells = (p) => new Map(p.lines.filter((l) => l.includes(" | ")).map((l) => l.split(" | ").map((s) => s.trim())));

async function table2(p) {
  const rows = cells(p);
  const steps = [];
  for (const [i, line] of p.lines.entries()) {
    const label = /^(.*):$/.exec(line)?.[1];
    if (label && rows.has(label)) steps.push(fill(p.controls.find((c) => c.line === p.lines[i + 1]).ref, rows.get(label)));
  }
  await p.do(...steps, submit(p));
}

async function engine(p) {
  const [word] = quoted(p), n = nth(p.lines[0].replace(/"[^"]*"/g, ""));
  await p.do(fill(p.find("text"), word), click(p.find("button", "Search")));
  await p.look();
  for (let page = 1; page < Math.ceil(n / 3); page++) {
    await p.do(click(p.find("link", ">")));
    await p.look();
  }
  const links = p.all(/link|item/).filter((c) => !/^(\d+|[<>])$/.test(c.name) && c.name && !/label/.test(c.more));
  await p.do(click(links[(n - 1) % 3].ref));
}

async function agreement(p) {
  const [what] = match(p, /(cancel|agree)/i);
  if (!/Scroll/.test(p.lines[0])) return p.click("button", "Cancel");
  const button = quoted(p).at(-1);
  await p.do({ do: "scroll", ref: p.find("text", "text-area"), text: "end" });
  await p.look();
  const name = /name "([^"]*)"/.exec(p.task)?.[1];
  if (name) await p.do(fill(p.find("text", "Name"), name));
  await p.look();
  await p.click("button", button);
}

async function algebra(p) {
  const line = p.lines.find((l) => /x.*=\s*-?\d+$/.test(l));
  const [, a, op, b, result] = /^(-?\w+)\s*([-+x*/])\s*(-?\w+)\s*=\s*(-?\d+)$/.exec(line.replace(/\s+/g, " "));
  const r = Number(result);
  let x;
  if (a === "x") x = op === "+" ? r - Number(b) : r + Number(b);
  else x = op === "+" ? r - Number(a) : Number(a) - r;
  await p.do(fill(p.find("text"), String(x)), submit(p));
}

async function arithmetic(p) {
  const line = p.lines.find((l) => /\d\s*[-+x]\s*-?\d+\s*=/.test(l));
  const [, a, op, b] = /(-?\d+)\s*([-+x])\s*(-?\d+)/.exec(line);
  const value = { "+": (x, y) => x + y, "-": (x, y) => x - y, x: (x, y) => x * y }[op](Number(a), Number(b));
  await p.do(fill(p.find("text"), String(value)), submit(p));
}

// posts are the posts of a page, each with its user and its icons: reply, retweet, like, more.
function posts(p) {
  const all = [];
  for (const line of p.lines) {
    const user = /(@\S+)/.exec(line)?.[1];
    if (user && line !== p.lines[0]) all.push({ user, icons: [] });
    else for (const c of p.controls) if (c.line === line && c.name === "" && c.role === "item") all.at(-1)?.icons.push(c.ref);
  }
  return all;
}

async function social(p) {
  const [action] = quoted(p);
  const user = /(@[^\s,]+)/.exec(p.lines[0])[1];
  const limit = Number(/on (\d+) post/.exec(p.lines[0])?.[1] ?? (/all posts/.test(p.lines[0]) ? 99 : 1));
  const at = { reply: 0, retweet: 1, like: 2, share: 3 }[action.toLowerCase()];
  const mine = posts(p).filter((q) => q.user === user).slice(0, limit);
  const several = /Submit/.test(p.lines[0]);
  if (at !== undefined && (several || at < 3)) await inSteps(p, mine.map((q) => click(q.icons[at])));
  else {
    await p.do(click(mine[0].icons[3]));
    await p.look();
    await p.do(click(p.find(undefined, new RegExp(`^${action}`, "i"))));
  }
  if (several) {
    await p.look();
    await p.do(submit(p));
  }
}

async function stock(p) {
  const [most] = match(p, /less than \$([\d.]+)/);
  const buy = p.find("button", "Buy");
  for (let i = 0; i < 400; i++) {
    await p.look({ find: "price", scope: "all" });
    const now = /\$([\d.]+)/.exec(p.lines.filter((l) => /^Stock price/.test(l)).join(" "))?.[1] ?? /(\$[\d.]+)/.exec(await p.eval("document.querySelector('#stock-price').textContent"))?.[1].slice(1);
    if (now && Number(now) < Number(most)) return p.do(click(buy));
  }
}

async function terminal(p) {
  const extension = /extension (\.\w+)/.exec(p.lines[0])?.[1];
  const write = (text) => [...text].map((c) => press(c)).concat(press("Enter"));
  await p.do(click(p.find("item", /^terminal/)));
  await inSteps(p, write("ls"));
  await p.look();
  const files = p.lines.join(" ").split(/\s+/).filter((w) => (extension ? w.endsWith(extension) && w !== extension : /^[a-z]+$/i.test(w)));
  const name = extension ? files.at(-1) : (await p.eval("document.querySelector('#terminal-contents').innerText")).split(/\s+/).filter((w) => /^[a-z]+$/i.test(w) && !["ls"].includes(w)).at(-1);
  await inSteps(p, write(`rm ${name}`));
}

async function ticTacToe(p) {
  const lines = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];
  const won = (b) => lines.map(([x, y, z]) => b[x] && b[x] === b[y] && b[y] === b[z] && b[x]).find(Boolean);
  const best = (b, who) => {
    const w = won(b);
    if (w) return { value: w === "x" ? 10 : -10 };
    const free = b.flatMap((v, i) => (v ? [] : [i]));
    if (!free.length) return { value: 0 };
    let found;
    for (const i of free) {
      b[i] = who;
      const value = best(b, who === "x" ? "o" : "x").value * 0.9;
      b[i] = "";
      if (!found || (who === "x" ? value > found.value : value < found.value)) found = { value, i };
    }
    return found;
  };
  for (let i = 0; i < 5; i++) {
    const board = await p.eval(`Array.from({length: 9}, (_, i) => { const c = document.querySelector("#ttt-" + i).className; return /mark-x/.test(c) ? "x" : /mark-o/.test(c) ? "o" : "" })`);
    if (won(board) || board.every(Boolean)) return;
    await p.look();
    await p.do(click(p.find("item", `ttt-${best(board, "x").i}`)));
    await p.do({ do: "wait", ms: 300 });
  }
}

async function complete(p) {
  const task = p.lines[0];
  const start = /starts with "([^"]*)"/.exec(task)[1], end = /ends with "([^"]*)"/.exec(task)?.[1] ?? "";
  await p.do(fill(p.find("text"), start.slice(0, 2)), { do: "wait", ms: 1500 });
  await p.look();
  const field = p.find("text");
  for (let i = 0; i < 80; i++) {
    const value = /text "Tags:" ="([^"]*)"/.exec(p.text)?.[1] ?? "";
    if (i > 0 && value.startsWith(start) && value.endsWith(end)) {
      await p.do(press("Enter", field));
      await p.look();
      return p.do(submit(p));
    }
    await p.do(press("ArrowDown", field));
    await p.look();
  }
  throw new Error(`no such item in\n${p.lines.join("\n")}`);
}

async function flight(p) {
  const [from, to, m, d, y] = match(p, /from: (.*) to: (.*) on (\d+)\/(\d+)\/(\d+)/);
  const cheapest = /cheapest/.test(p.lines[0]);
  for (const [field, place] of [["From:", from], ["To:", to]]) {
    await p.do(fill(p.find("text", field), place), { do: "wait", ms: 1500 });
    await p.look();
    const item = p.all(/item|option|link|menuitem/).find((c) => c.name.includes(place));
    if (!item) throw new Error(`no ${place} in\n${p.lines.join("\n")}`);
    await p.do(click(item.ref));
    await p.look();
  }
  await pickDate(p, p.find("text", "datepicker"), Number(m), Number(d), Number(y));
  await p.look();
  await p.click("button", "Search");
  await p.do({ do: "wait", ms: 500 });
  await p.look();
  const times = p.lines.flatMap((l) => { const t = /(?:(\d+)h)? ?(?:(\d+)m)\b/.exec(l); return /^Duration/.test(l) || /^\d+h/.test(l) ? t ? [Number(t[1] ?? 0) * 60 + Number(t[2] ?? 0)] : [] : []; });
  const books = p.all("button", /^Book.*\$/);
  const cost = books.map((c) => Number(/\$([\d,]+)/.exec(c.name)[1].replace(",", "")));
  const best = cheapest ? cost.indexOf(Math.min(...cost)) : times.indexOf(Math.min(...times));
  await p.do(click(books[best].ref));
}

async function ticket(p) {
  const books = p.all("button", /^Book/);
  const cost = books.map((c) => Number(/\$([\d,]+)/.exec(c.name)[1].replace(",", "")));
  const times = [];
  for (const [i, l] of p.lines.entries()) if (/^Duration/.test(l)) times.push(/(\d+)h (\d+)m/.exec(`${l} ${p.lines[i + 1]}`).slice(1).map(Number).reduce((h, m) => h * 60 + m));
  const best = /most expensive/.test(p.lines[0]) ? cost.indexOf(Math.max(...cost)) : /cheapest/.test(p.lines[0]) ? cost.indexOf(Math.min(...cost)) : /shortest/.test(p.lines[0]) ? times.indexOf(Math.min(...times)) : times.indexOf(Math.max(...times));
  await p.do(click(books[best].ref));
}

async function movies(p) {
  const task = p.lines[0];
  const genre = match(p, /for (\w+) movies/)[0];
  const director = /(?:directed by|by|director) (\w+)/i.exec(task)[1], year = /\b((?:19|20)\d\d)\b/.exec(task)[1];
  // Where the first line has a field and no label, labels stand below.
  const below = /text$/.test(p.lines[1]) ? -1 : 1;
  const field = (label) => {
    // The label stands before the field, above it or below it.
    const i = p.lines.findIndex((l, k) => k > 0 && label.test(l)), on = (line) => p.controls.find((c) => c.role === "text" && line && c.line === line);
    return (on(p.lines[i]) ?? on(p.lines[i + below]) ?? on(p.lines[i + (below === 1 ? -1 : 1)])).ref;
  };
  await p.do(fill(field(/genre/i), genre), fill(field(/year|date/i), year), fill(field(/director/i), director), click(p.find(undefined, /^(submit|search|go)/i)));
}

// mail is the number of the row of a sender: the row, its trash and its star come one after another.
const mail = (p, name) => {
  const i = p.controls.findIndex((c) => c.role === "item" && c.name.startsWith(`${name} `));
  if (i < 0) throw new Error(`no mail by ${name} in\n${p.lines.join("\n")}`);
  return { row: p.controls[i].ref, trash: p.controls[i + 1].ref, star: p.controls[i + 2].ref };
};

async function mails(p) {
  const task = p.lines[0];
  const by = /email by (\w+)/.exec(task)?.[1];
  const text = quoted(p).at(-1);
  if (/trash|delete/i.test(task) && by) return p.do(click(mail(p, by).trash));
  if (/star|important/i.test(task) && by) return p.do(click(mail(p, by).star));
  const f = by && /forward that email to (\w+)/.exec(task)?.[1];
  if (f) return forward(p, by, f);
  if (by && /reply/i.test(task)) return reply(p, by, text);
  return natural(p, task);
}

async function open(p, by) {
  await p.do(click(mail(p, by).row), { do: "wait", ms: 400 });
  await p.look();
}

async function forward(p, by, to) {
  await open(p, by);
  await p.do(click(p.find(undefined, "Forward")), { do: "wait", ms: 400 });
  await p.look();
  const field = p.all("text")[0].ref;
  await p.do(fill(field, to));
  await p.look();
  await send(p);
}

async function send(p) {
  await p.do(click(p.find(undefined, /^send/i)));
}

async function reply(p, by, text) {
  await open(p, by);
  await p.do(click(p.find(undefined, "Reply")), { do: "wait", ms: 400 });
  await p.look();
  await p.do(fill(p.all("text").at(-1).ref, text));
  await p.look();
  await send(p);
}

// natural does what a task in free words wants.
async function natural(p, task) {
  const senders = p.controls.filter((c) => c.role === "item" && / /.test(c.name)).map((c) => c.name.split(" ")[0]);
  const [text] = quoted(p);
  const named = [...task.replace(/"[^"]*"/g, "").matchAll(/\b[A-Z][a-z]+\b/g)].map((m) => m[0]).filter((w) => senders.includes(w));
  if (text !== undefined) return reply(p, named[0], text);
  if (/delete|trash|get rid|remove|erase/i.test(task)) return p.do(click(mail(p, named[0]).trash));
  if (/star|important|mark/i.test(task) && !/forward|send/i.test(task)) return p.do(click(mail(p, named[0]).star));
  const to = /(?:\bto|for|give|send|forward) ([A-Z][a-z]+)/i;
// A word with a capital is a name, but for the first of a sentence that no mail is by.
  const begins = (m) => /(^|[.!?:]\s+)$/.test(task.slice(0, m.index));
  const all = [...task.matchAll(/\b([A-Z][a-z]+)('s)?/g)].filter((m) => !begins(m) || m[2] || senders.includes(m[1])).map((m) => m[1]);
  const from = /(?:from|by) ([A-Z]\w+)/.exec(task)?.[1] ?? /([A-Z]\w+) sent/.exec(task)?.[1] ?? /([A-Z]\w+)'s/.exec(task)?.[1] ?? all.find((w) => senders.includes(w));
  const dest = all.find((w) => w !== from) ?? to.exec(task)?.[1];
  if (!from || !dest) throw new Error(`who: ${task}`);
  await forward(p, from, dest);
}

async function simon(p) {
  const seen = [];
  for (let round = 0; round < 12; round++) {
    seen.length = 0;
    let last = -1;
    for (let i = 0; i < 120 && seen.length <= round + 1; i++) {
      const lit = await p.eval(`Array.from(document.querySelectorAll("#area button")).map((b) => getComputedStyle(b).opacity + b.className)`);
      const odd = lit.findIndex((s) => lit.filter((o) => o === s).length === 1);
      if (odd !== last && odd >= 0) seen.push(odd);
      last = odd;
      if (odd < 0 && seen.length > round) break;
    }
    for (const b of seen) await p.do(click(p.find("button", `button-${b + 1}`)));
    if ((await p.reward()) !== undefined) return;
  }
}

// calendar draws an event over half hours that are free, between the hours that the task names.
async function calendar(p) {
  const [length, unit, name, from] = match(p, /Create an? ([\d.]+) (hour|min)s? event named "(.*?)", between (\w+)/);
  const [, h, half] = /(\d+)(AM|PM)/.exec(from);
  const first = ((Number(h) % 12) + (half === "PM" ? 12 : 0)) * 2, many = Number(length) / (unit === "min" ? 30 : 0.5);
  const cell = (n) => `document.querySelector("#hh-${n}")`;
  for (let i = 3; i < 8 && !(await p.try({ do: "scroll", ref: p.find("item", `hh-${first + i}`) })); i++) await p.look();
  const taken = await p.eval(`(() => { const events = Array.from(document.querySelectorAll("#area .event")).map((e) => e.getBoundingClientRect()); return Array.from({ length: 8 }, (_, i) => document.querySelector("#hh-" + (${first} + i)).getBoundingClientRect()).map((c) => events.some((e) => e.top < c.bottom - 2 && e.bottom > c.top + 2)) })()`);
  const at = taken.findIndex((_, i) => i + many <= taken.length && !taken.slice(i, i + many).includes(true));
  const a = await box(p, cell(first + at)), b = await box(p, cell(first + at + many - 1));
  await drag(p, [a.cx, a.y + 4], [b.cx, b.y + b.h - 4]);
  await p.look();
  await p.do(fill(p.all("text").at(-1).ref, name));
  await p.look();
  await p.do(click(p.find(undefined, /^(create|save|ok|submit)/i)));
}

const box = (p, expression) => p.eval(`(() => { const r = (${expression}).getBoundingClientRect(); return { x: r.left, y: r.top, w: r.width, h: r.height, cx: r.left + r.width / 2, cy: r.top + r.height / 2 } })()`);

async function pie(p) {
  const [name] = quoted(p);
  await p.do(click(p.find("item", "+")), { do: "wait", ms: 1200 });
  await p.look();
  await p.do(click(p.find("item", exactly(name))));
}

async function colour(p) {
  const name = /the (\w+) colored/.exec(p.lines[0])?.[1];
  const want = name ? `rgb(${palette[name].join(", ")})` : await p.eval(`getComputedStyle(document.querySelector("#query-color")).backgroundColor`);
  const all = await p.eval(`Array.from(document.querySelectorAll("#area *")).map((e) => getComputedStyle(e).backgroundColor).filter((c) => c !== "rgba(0, 0, 0, 0)")`);
  const boxes = p.all("item", "").filter((c) => !/query-color/.test(c.line));
  await p.do(click(boxes[all.indexOf(want)].ref));
}

async function shades(p) {
  const [name] = match(p, /shades of (\w+)/);
  const at = { red: 0, green: 1, blue: 2 }[name];
  const all = await p.eval(`Array.from(document.querySelectorAll("#area span, #area .color")).map((e) => getComputedStyle(e).backgroundColor)`);
  const good = all.map((c) => { const v = c.match(/\d+/g).map(Number); return v[at] === Math.max(...v.slice(0, 3)) && v.slice(0, 3).filter((x) => x === v[at]).length === 1; });
  const boxes = unnamed(p);
  await p.do(...boxes.filter((_, i) => good[i]).map(click), submit(p));
}

async function dragItems(p) {
  const [name, where] = match(p, /Drag (\w+) to the (.*?)\.?$/);
  const rows = p.all("item").filter((c) => /^\w+$/.test(c.name));
  const from = rows.findIndex((c) => c.name === name);
  const place = /top left/.test(where) ? 0 : /top center/.test(where) ? 1 : /top right/.test(where) ? 2 : /^center left|middle left/.test(where) ? 3 : /^center$|middle$/.test(where) ? 4 : /center right|middle right/.test(where) ? 5 : /bottom left/.test(where) ? 6 : /bottom center/.test(where) ? 7 : /bottom right/.test(where) ? 8
    : /top/.test(where) ? 0 : /bottom/.test(where) ? rows.length - 1 : /(\d)/.test(where) ? Number(/(\d)/.exec(where)[1]) - 1 : /up/.test(where) ? from - 1 : from + 1;
  if (from !== place) {
    const boxes = await p.eval(`Array.from(document.querySelectorAll("#area li")).map((e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height] })`);
    const a = boxes[from], b = boxes[place];
    const grid = boxes.length > 5;
    await drag(p, [a[0] + a[2] / 2, a[1] + a[3] / 2], grid ? [b[0] + b[2] * (place > from ? 0.9 : 0.1), b[1] + b[3] / 2] : [a[0] + a[2] / 2, b[1] + (place > from ? b[3] - 1 : 1)]);
  }
  await p.look();
  if (p.all("button", /submit/i).length) await p.do(submit(p));
}

async function sortNumbers(p) {
  for (let i = 0; i < 8; i++) {
    await p.look();
    const now = p.all("item").filter((c) => /^-?\d+$/.test(c.name)).map((c) => Number(c.name));
    const want = now.toSorted((a, b) => a - b);
    const k = want.findIndex((v, j) => v !== now[j]);
    if (k < 0) break;
    const from = now.indexOf(want[k]);
    const boxes = await p.eval(`Array.from(document.querySelectorAll("#area li")).map((e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height] })`);
    const a = boxes[from], b = boxes[k];
    await drag(p, [a[0] + a[2] / 2, a[1] + a[3] / 2], [a[0] + a[2] / 2, b[1] + 1]);
  }
  await p.do(submit(p));
}

async function dragBox(p) {
  const a = await box(p, `Array.from(document.querySelectorAll("#area div")).find((e) => e.textContent.trim() === "s")`), b = await box(p, `Array.from(document.querySelectorAll("#area div")).find((e) => e.textContent.trim() === "L")`);
  await drag(p, [a.cx, a.cy], [b.cx, b.cy]);
  await p.look();
  await p.do(submit(p));
}

async function dragOne(p) {
  const [way] = match(p, /Drag the \w+ (\w+)/);
  const a = await box(p, `document.querySelector("#area svg circle, #area svg polygon, #area svg rect.ui-draggable, #area circle, #area svg > *")`);
  const d = { right: [60, 0], left: [-60, 0], up: [0, -60], down: [0, 60] }[way];
  await drag(p, [a.cx, a.cy], [a.cx + d[0], a.cy + d[1]]);
  await p.look();
  await p.do(submit(p));
}

async function highlight(p, which) {
  const r = await p.eval(`(() => { const e = document.querySelectorAll("#area p")[${which}] ?? Array.from(document.querySelectorAll("#area *")).find((n) => n.children.length === 0 && n.textContent.trim().length > 10 && n.tagName !== "BUTTON"); const g = document.createRange(); g.selectNodeContents(e); const all = Array.from(g.getClientRects()); const a = all[0], z = all[all.length - 1]; return [a.left, a.top + a.height / 2, z.right, z.top + z.height / 2] })()`).catch(() => undefined);
  const b = r ?? await box(p, `document.querySelectorAll("#area p")[${which}] ?? Array.from(document.querySelectorAll("#area *")).find((n) => n.children.length === 0 && n.textContent.trim().length > 10 && n.tagName !== "BUTTON")`).then((q) => [q.x, q.y + 8, q.x + q.w - 2, q.y + q.h - 6]);
  await drag(p, [b[0] + 1, b[1]], [b[2] + 2, b[3]]);
  await p.look();
  await p.do(submit(p));
}

// ascending notes where the numbers are before the first click hides them.
async function ascending(p) {
  const places = await p.eval(`Array.from(document.querySelectorAll("#area svg text")).map((e) => { const r = e.getBoundingClientRect(); return [Number(e.textContent), Math.round(r.left + r.width / 2), Math.round(r.top + r.height / 2)] })`);
  for (const [, x, y] of places.toSorted((a, b) => a[0] - b[0])) {
    await p.picture();
    await p.do({ do: "click", xy: [x, y] });
  }
}

// dots are the middles of the circles of a drawing, and area the place of the drawing.
const dots = (p, which = "circle") => p.eval(`Array.from(document.querySelectorAll("#area svg ${which}")).map((e) => { const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2] })`);

// point puts a dot at the pixel that a measure calls best. The page may put it a little away
// from where it was clicked, which the first dot shows.
async function point(p, dot, measure) {
  const s = await box(p, `document.querySelector("#area svg")`), had = (await dots(p)).length;
  const put = async (x, y) => {
    await p.picture();
    await p.do({ do: "click", xy: [x, y] });
    await p.look();
  };
  let shift = [0, 0];
  for (let i = 0; i < 2; i++) {
    let best;
    for (let x = Math.ceil(s.x) + 6; x < s.x + s.w - 6; x++) for (let y = Math.ceil(s.y) + 6; y < s.y + s.h - 6; y++) {
      const value = measure([x + shift[0], y + shift[1]]);
      if (!best || value < best.value) best = { value, x, y };
    }
    await put(best.x, best.y);
    const now = (await dots(p, dot)).at(-1);
    if (!now || (await dots(p)).length < had) throw new Error("no dot");
    shift = [now[0] - best.x, now[1] - best.y];
  }
  await p.do(submit(p));
}

// angle is that at a point between two others, in degrees.
const angle = (at, a, b) => {
  const d = (Math.atan2(a[1] - at[1], a[0] - at[0]) - Math.atan2(b[1] - at[1], b[0] - at[0])) * 180 / Math.PI;
  return Math.abs(((d % 360) + 540) % 360 - 180);
};

async function bisect(p) {
  const [a, b] = await dots(p, "circle.init-black"), [at] = await dots(p, "circle.init-blue");
  const half = angle(at, a, b) / 2;
  const far = (q) => Math.hypot(q[0] - at[0], q[1] - at[1]);
  await point(p, "#blue-circle", (q) => (far(q) < 20 ? 999 : Math.abs(angle(at, a, q) - half) + Math.abs(angle(at, b, q) - half)));
}

async function rightAngle(p) {
  const [a] = await dots(p, "#init-black"), [at] = await dots(p, "#init-blue");
  const far = (q) => Math.hypot(q[0] - at[0], q[1] - at[1]);
  await point(p, "#blue-circle", (q) => (far(q) < 20 ? 999 : Math.abs(angle(at, a, q) - 90)));
}

// hotCold hovers, and keeps the pixels from which the page would say what it said.
async function hotCold(p) {
  const s = await box(p, `document.querySelector("#touch-area")`);
  const limits = { HOT: [0, 5], WARM: [5, 10], COLD: [10, 40], "ICE COLD": [40, 999] };
  let left = [];
  for (let x = Math.ceil(s.x) + 5; x < s.x + s.w - 4; x++) for (let y = Math.ceil(s.y) + 5; y < s.y + s.h - 4; y++) left.push([x, y]);
  for (let i = 0; i < 60 && left.length; i++) {
    const at = left[Math.floor(left.length * ((i * 0.618) % 1))];
    await p.picture();
    await p.do({ do: "hover", xy: at });
    const word = p.all("item").find((c) => limits[c.name])?.name;
    if (!word) continue;
    if (word === "HOT") {
      await p.picture();
      return p.do({ do: "click", xy: at });
    }
    const [low, high] = limits[word];
    left = left.filter((q) => { const d = Math.hypot(q[0] - at[0], q[1] - at[1]); return d >= low - 1 && d < high + 1 && d > 0 });
  }
  throw new Error("it is nowhere hot");
}

async function shapesApart(p) {
  const [what] = match(p, /Drag all (\w+)/);
  const tag = { rectangles: "rect", squares: "rect", circles: "circle", triangles: "polygon" }[what];
  const boxes = await p.eval(`Array.from(document.querySelectorAll("#shape-container")).map((e) => { const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2] })`);
  const all = await grid(p), count = [0, 0];
  for (const s of all) {
    const side = (tag ? s.tag === tag : s.colour === what) ? 0 : 1, n = count[side]++;
    await drag(p, [s.x, s.y], [boxes[side][0] - 18 + (n % 3) * 16, boxes[side][1] - 6 + Math.floor(n / 3) * 14]);
  }
  await p.look();
  await p.do(submit(p));
}

// edit selects by keys, and styles what is selected by the buttons of the editor.
async function edit(p) {
  const [what] = match(p, /give(?: the text)? (\S+) the|make (\S+) the/).filter(Boolean);
  const style = /style (\w+)/.exec(p.lines[0])?.[1], paint = /color (\w+)/.exec(p.lines[0])?.[1];
  const text = (await p.eval(`document.querySelector(".ql-editor").innerText`)).trimEnd();
  const whole = what === "everything", from = whole ? 0 : ` ${text} `.indexOf(` ${what} `), many = whole ? text.length : what.length;
  await clickAt(p, `document.querySelector(".ql-editor p")`);
  await inSteps(p, [press("Home"), ...Array.from({ length: from }, () => press("ArrowRight")), ...Array.from({ length: many }, () => press("Shift+ArrowRight"))]);
  if (style) await clickAt(p, `document.querySelector(".ql-${{ bold: "bold", italics: "italic", underlined: "underline" }[style]}")`);
  else {
    await clickAt(p, `document.querySelector(".ql-color .ql-picker-label")`);
    const at = await p.eval(`Array.from(document.querySelectorAll(".ql-color .ql-picker-item")).map((e) => getComputedStyle(e).backgroundColor)`);
    const want = { red: "rgb(230, 0, 0)", orange: "rgb(255, 153, 0)", yellow: "rgb(255, 255, 0)", green: "rgb(0, 138, 0)", blue: "rgb(0, 102, 204)", purple: "rgb(153, 51, 255)" }[paint];
    await clickAt(p, `document.querySelectorAll(".ql-color .ql-picker-item")[${at.indexOf(want)}]`);
  }
  await p.look();
  await p.do(submit(p));
}

async function midpoint(p) {
  const [a, b] = await dots(p);
  await point(p, "#blue-circle", (q) => Math.hypot(q[0] - (a[0] + b[0]) / 2, q[1] - (a[1] + b[1]) / 2));
}

async function circle(p) {
  const c = await centre(p, `document.querySelector("#area svg circle")`);
  await p.do({ do: "click", xy: c });
  await p.look();
  await p.do(submit(p));
}

async function line(p) {
  const [way] = match(p, /(vertical|horizontal)/);
  const c = await box(p, `document.querySelector("#area svg circle")`), s = await box(p, `document.querySelector("#area svg")`);
  const d = way === "vertical" ? [0, Math.min(c.cy - s.y, s.y + s.h - c.cy) - 4] : [Math.min(c.cx - s.x, s.x + s.w - c.cx) - 4, 0];
  await drag(p, [c.cx - d[0], c.cy - d[1]], [c.cx + d[0], c.cy + d[1]]);
  await p.look();
  await p.do(submit(p));
}

async function resize(p) {
  const [what] = match(p, /(height|width)/), [how] = match(p, /(larger|smaller)/);
  const r = await box(p, `document.querySelector("#area .ui-resizable-se") ?? document.querySelector("#area textarea")`);
  const by = (how === "larger" ? 1 : -1) * 20;
  await drag(p, [r.cx, r.cy], [r.cx + (what === "width" ? by : 0), r.cy + (what === "height" ? by : 0)]);
  await p.look();
  await p.do(submit(p));
}

async function shapeOf(p) {
  const kind = await p.eval(`(() => { const s = document.querySelector("#area svg > :not(rect[fill=none])") ?? document.querySelector("#area svg *"); return [s.tagName, s.textContent, (s.getAttribute("points") ?? "")] })()`);
  const name = kind[0] === "text" ? (/\d/.test(kind[1]) ? "Number" : "Letter") : { circle: "Circle", polygon: "Triangle", rect: "Rectangle" }[kind[0]];
  await p.click("button", name);
}

async function greatest(p) {
  const cards = unnamed(p), values = [];
  for (const c of cards) {
    await p.do(click(c));
    await p.look();
    values.push(Number(p.controls.find((o) => o.ref === c)?.name || await p.eval(`document.querySelector(".card:not(.hidden) .card-value").textContent`)));
  }
  await p.do(click(cards[values.indexOf(Math.max(...values))]));
  await p.look();
  await p.do(submit(p));
}

const palette = { red: [255, 0, 0], green: [0, 128, 0], blue: [0, 0, 255], yellow: [255, 255, 0], black: [0, 0, 0], magenta: [255, 0, 255], maroon: [128, 0, 0], navy: [0, 0, 128], silver: [192, 192, 192], teal: [0, 128, 128], gold: [255, 215, 0], aqua: [0, 255, 255], purple: [128, 0, 128], orange: [255, 165, 0], pink: [255, 192, 203], gray: [128, 128, 128], brown: [165, 42, 42], cyan: [0, 255, 255], white: [255, 255, 255], lime: [0, 255, 0], olive: [128, 128, 0] };

// grid is the shapes of a drawing: kind, text, colour, whether large, and the place.
const grid = (p) => p.eval(`Array.from(document.querySelectorAll("#area_svg > *, #area svg > *")).filter((e) => !e.id && e.getBoundingClientRect().width > 0).map((e) => { const r = e.getBoundingClientRect(); return { tag: e.tagName, text: e.textContent, colour: e.getAttribute("fill") || e.style.fill, size: parseFloat(e.getAttribute("font-size") || Math.max(r.width, r.height)), x: r.left + r.width / 2, y: r.top + r.height / 2 } })`);
const described = (words, s) => {
  const kind = { rect: "rectangle", circle: "circle", polygon: "triangle" }[s.tag];
  const type = s.tag !== "text" ? "shape" : /\d/.test(s.text) ? "digit" : "letter";
  return words.every((w) => (w === "large" ? s.size > 12 : w === "small" ? s.size <= 12 : palette[w] ? s.colour === w : w === "item" || w === "items" ? true : [kind, type, s.text].includes(w) || [`${kind}s`, `${type}s`, `${s.text}s`].includes(w)));
};

async function shapeNamed(p) {
  const words = match(p, /Click on an? (.*)/)[0].split(" ");
  const s = (await grid(p)).find((e) => described(words, e));
  await p.picture();
  await p.do({ do: "click", xy: [Math.round(s.x), Math.round(s.y)] });
}

async function shapesCounted(p) {
  const words = match(p, /How many (.*) are there/)[0].split(" ");
  await p.click("button", String((await grid(p)).filter((e) => described(words, e)).length));
}

async function shapesInto(p) {
  const [kind] = match(p, /Drag all (\w+) into the black box/);
  const tag = { rectangles: "rect", squares: "rect", circles: "circle", triangles: "polygon" }[kind];
  const to = await box(p, `document.querySelector("#shape-container")`);
  for (const [i, s] of (await grid(p)).filter((e) => e.tag === tag).entries()) await drag(p, [s.x, s.y], [to.cx + (i % 2) * 4, to.cy + (i >> 1) * 4]);
  await p.look();
  await p.do(submit(p));
}

async function wheel(p) {
  const name = /Select (\w+) with/.exec(p.lines[0])?.[1];
  const rgb = palette[name] ?? (await p.eval(`getComputedStyle(document.querySelector("#query .cc")).backgroundColor`)).match(/\d+/g).map(Number);
  await p.do(fill(p.find("text"), rgb.map((v) => v.toString(16).padStart(2, "0")).join("").toUpperCase()), press("Tab"));
  await p.look();
  await p.do(submit(p));
}

async function blocks(p) {
  const n = await p.eval(`document.querySelectorAll("#area .block, #area .addition-block").length`);
  await p.do(fill(p.find("text"), String(n)), submit(p));
}

export const solvers = {
  "ascending-numbers": ascending,
  "book-flight": flight,
  "book-flight-nodelay": flight,
  "button-delay": async (p) => p.do(click(p.find("button", "ONE")), { do: "wait", ms: Number(match(p, /wait (\d)/)[0]) * 1000 + 50 }, click(p.find("button", "TWO"))),
  "buy-ticket": ticket,
  "choose-date": date,
  "choose-date-easy": date,
  "choose-date-medium": date,
  "choose-date-nodelay": date,
  "choose-list": async (p) => p.do({ do: "select", ref: p.find("select"), text: match(p, /Select (.*) from the list/)[0] }, submit(p)),
  "click-button": pressed,
  "click-button-sequence": (p) => p.do(click(p.find("button", "ONE")), click(p.find("button", "TWO"))),
  "click-checkboxes": checked,
  "click-checkboxes-large": checked,
  "click-checkboxes-transfer": checked,
  "click-checkboxes-soft": similar,
  "click-collapsible": oneSection,
  "click-collapsible-nodelay": oneSection,
  "click-collapsible-2": sections,
  "click-collapsible-2-nodelay": sections,
  "click-dialog": (p) => p.do(click(p.all("item", "")[0]?.ref ?? p.find("button"))),
  "click-dialog-2": async (p) => (quoted(p)[0].toLowerCase() === "x" ? p.do(click(p.all("item", "")[0].ref)) : p.click("button", exactly(quoted(p)[0]))),
  "click-link": pressed,
  "click-menu": chooseMenu,
  "click-menu-2": menuIcon,
  "click-option": checked,
  "click-scroll-list": async (p) => p.do(...[{ do: "select", ref: p.find("select"), text: match(p, /Select (.*) from the scroll list/)[0].split(", ").join("\n") }], submit(p)),
  "click-tab": async (p) => p.click("link", match(p, /(Tab #\d)/)[0]),
  "click-tab-2": tabs,
  "click-tab-2-easy": tabs,
  "click-tab-2-medium": tabs,
  "click-tab-2-hard": tabs,
  "click-test": (p) => p.click("button", /Click Me/),
  "click-test-2": (p) => p.click("button", "ONE"),
  "click-test-transfer": (p) => p.click("button", "ONE"),
  "click-widget": widget,
  "copy-paste": async (p) => p.do(fill(p.find("text", "answer-input"), await p.eval("document.querySelector('#to-copy').value")), submit(p)),
  "copy-paste-2": async (p) => p.do(fill(p.find("text", "answer-input"), await p.eval(`document.querySelector("#text-${nth(p.lines[0])}").value`)), submit(p)),
  "daily-calendar": calendar,
  "email-inbox": mails,
  "email-inbox-delete": mails,
  "email-inbox-forward": mails,
  "email-inbox-forward-nl": mails,
  "email-inbox-forward-nl-turk": mails,
  "email-inbox-important": mails,
  "email-inbox-nl-turk": mails,
  "email-inbox-noscroll": mails,
  "email-inbox-reply": mails,
  "email-inbox-star-reply": mails,
  "enter-date": async (p) => {
    const [m, d, y] = match(p, /(\d+)\/(\d+)\/(\d+)/);
    await p.do(fill(p.find("date"), `${y}-${m}-${d}`), submit(p));
  },
  "enter-password": (p) => p.do(...p.all("password").map((c) => fill(c.ref, quoted(p)[0])), submit(p)),
  "enter-text": (p) => typed(p),
  "enter-text-2": (p) => typed(p, (s) => (/upper/.test(p.lines[0]) ? s.toUpperCase() : s.toLowerCase())),
  "enter-text-dynamic": (p) => typed(p),
  "enter-time": async (p) => {
    const [h, m, half] = match(p, /(\d+):(\d+) (AM|PM)/);
    await p.do(fill(p.find("time"), `${String((Number(h) % 12) + (half === "PM" ? 12 : 0)).padStart(2, "0")}:${m}`), submit(p));
  },
  "find-word": async (p) => p.do(fill(p.find("text"), p.lines[1].split(/\s+/)[nth(p.lines[0]) - 1].replace(/[.,]/g, "")), submit(p)),
  "focus-text": (p) => p.do(click(p.find("text"))),
  "focus-text-2": (p) => p.do(click(p.all("text")[nth(p.lines[0]) - 1].ref)),
  "form-sequence": async (p) => {
    const [want, n] = match(p, /Select (-?\d+) with the slider, click the (\d)/).map(Number);
    await slider(p, unnamed(p)[0], () => numbers(p)[0], want);
    await p.do({ do: "check", ref: p.all("check")[n - 1].ref }, submit(p));
  },
  "form-sequence-2": async (p) => {
    const [n, text, k] = match(p, /the (\d)\w+ radio button and enter the number "(.*?)" into the (\d)/);
    await p.do({ do: "check", ref: p.all("radio")[n - 1].ref }, fill(p.all("text")[k - 1].ref, text), submit(p));
  },
  "form-sequence-3": async (p) => {
    const [choice] = match(p, /Choose (.*) from the dropdown/), [name] = quoted(p);
    await p.do(click(unnamed(p).at(-1)));
    await p.look();
    await p.do(click(p.find(undefined, exactly(choice))));
    await p.click("button", name);
  },
  "generate-number": async (p) => {
    const [how, n] = match(p, /(less|greater|even|odd)(?: than (\d+))?/);
    for (let i = 0; i < 60; i++) {
      await p.click("button", "Generate");
      await p.look();
      const v = numbers(p)[0];
      if (v !== undefined && { less: v < n, greater: v > n, even: v % 2 === 0, odd: v % 2 !== 0 }[how]) break;
    }
    await p.do(submit(p));
  },
  "grid-coordinate": async (p) => p.do(click(p.find("item", match(p, /(\(-?\d,-?\d\))/)[0]))),
  "guess-number": guess,
  "login-user": login,
  "login-user-popup": login,
  "multi-layouts": movies,
  "multi-orderings": movies,
  "navigate-tree": tree,
  "odd-or-even": async (p) => {
    const steps = p.lines.flatMap((l, i) => (/^-?\d+$/.test(l) ? [click(p.controls.find((c) => c.line === p.lines[Number(l) % 2 ? i - 1 : i + 1] && /Odd|Even/.test(c.name)).ref)] : []));
    const odd = p.all("button", "Odd"), even = p.all("button", "Even");
    await inSteps(p, numbers(p).map((v, i) => click((v % 2 ? odd : even)[i].ref)) ?? steps);
    await p.look();
    await p.do(submit(p));
  },
  "order-food": food,
  "phone-book": phone,
  "read-table": async (p) => p.do(fill(p.find("text"), cells(p).get(match(p, /value of (.*) into/)[0])), submit(p)),
  "read-table-2": table2,
  "scroll-text": async (p) => p.do(fill(p.find("text", "answer-input"), (await p.eval("document.querySelector('#text-area').value")).trim().split(/\s+/).at(-1).replace(/[.,]+$/, "")), submit(p)),
  "scroll-text-2": async (p) => p.do({ do: "scroll", ref: p.find("text", "text-area"), text: /bottom/.test(p.lines[0]) ? "end" : "top" }, submit(p)),
  "search-engine": engine,
  "sign-agreement": agreement,
  "simon-says": simon,
  "simple-algebra": algebra,
  "simple-arithmetic": arithmetic,
  "social-media": social,
  "social-media-all": social,
  "social-media-some": social,
  "stock-market": stock,
  terminal,
  "text-transform": async (p) => p.do(fill(p.find("text"), p.lines[1]), submit(p)),
  "tic-tac-toe": ticTacToe,
  "unicode-test": pressed,
  "use-autocomplete": complete,
  "use-autocomplete-nodelay": complete,
  "use-slider": async (p) => {
    await slider(p, unnamed(p)[0], () => numbers(p)[0], Number(match(p, /Select (-?\d+)/)[0]));
    await p.do(submit(p));
  },
  "use-slider-2": async (p) => {
    const want = match(p, /(\d+),(\d+),(\d+)/).map(Number);
    for (const i of [0, 1, 2]) await slider(p, unnamed(p)[i], () => numbers(p)[i], want[i]);
    await p.do(submit(p));
  },
  "use-spinner": spinner,

  "bisect-angle": bisect,
  "circle-center": circle,
  "click-color": colour,
  "click-pie": pie,
  "click-pie-nodelay": pie,
  "click-shades": shades,
  "click-shape": shapeNamed,
  "count-shape": shapesCounted,
  "drag-shapes": shapesInto,
  "drag-shapes-2": shapesApart,
  "hot-cold": hotCold,
  "right-angle": rightAngle,
  "text-editor": edit,
  "find-greatest": greatest,
  "use-colorwheel": wheel,
  "use-colorwheel-2": wheel,
  "visual-addition": blocks,
  "drag-box": dragBox,
  "drag-circle": dragOne,
  "drag-items": dragItems,
  "drag-items-grid": dragItems,
  "drag-single-shape": dragOne,
  "drag-sort-numbers": sortNumbers,
  "draw-line": line,
  "find-midpoint": midpoint,
  "highlight-text": (p) => highlight(p, 0),
  "highlight-text-2": (p) => highlight(p, nth(p.lines[0]) - 1),
  "identify-shape": shapeOf,
  "resize-textarea": resize,
};
