// Texts of others, and numbers and times, as people read them.
import {el} from './dom.js'
import {T} from './texts.js'

// What has no shape of its own, or changes how other characters look.
const hidden = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{16fe4}]|(?! )\p{Zs}/gu
// What the server has written for such a character.
const escaped = /\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|\\x[0-9a-f]{2}|\\u\{[0-9a-f]+\}/g

/** @param {string} c */
const code = c => 'U+' + (c.codePointAt(0) || 0).toString(16).toUpperCase().padStart(4, '0')

/** hides reports whether a text has characters that are not seen. @param {string} text */
export function hides(text) {
  return text.search(escaped) >= 0 || [...text.matchAll(hidden)].some(m => m[0] !== '\n' && m[0] !== '\t')
}

/**
 * seen is a text in which every character can be seen.
 * @param {unknown} value @param {boolean} [lines] whether line breaks stay
 * @returns {import('./dom.js').Kid[]}
 */
export function seen(value, lines = false) {
  const text = String(value ?? '')
  const out = []
  let from = 0
  const marks = [...text.matchAll(hidden)].map(m => ({at: m.index, is: m[0], shown: code(m[0])}))
    .concat([...text.matchAll(escaped)].map(m => ({at: m.index, is: m[0], shown: m[0]}))).sort((a, b) => a.at - b.at)
  for (const mark of marks) {
    if (lines && (mark.is === '\n' || mark.is === '\t') || mark.at < from) continue
    out.push(text.slice(from, mark.at), el('span', {class: 'hid', title: T.text.hidden(mark.shown)}, mark.is === '\n' ? '\u21b5' : mark.shown))
    from = mark.at + mark.is.length
  }
  out.push(text.slice(from))
  return out
}

const most = 8000 // characters of a text that are shown at once

/** block is a text of several lines, cut where it is long. @param {unknown} value @param {string} [name] */
export function block(value, name = 'text') {
  const text = String(value ?? '')
  const node = el('pre', {class: name, tabindex: text.length > 400 ? 0 : null})
  let from = 0
  const more = () => {
    node.querySelector('.more')?.remove()
    node.append(...seen(text.slice(from, from + most), true).map(k => k instanceof Node ? k : String(k)))
    from += most
    if (from < text.length) node.append(el('button', {class: 'more', type: 'button', on: {click: more}}, T.text.more(text.length - from)))
  }
  more()
  return node
}

/** line is a text in one line, cut where it is long. @param {unknown} value @param {number} [length] */
export function line(value, length = 160) {
  const text = String(value ?? '')
  return text.length > length ? [...seen(text.slice(0, length)), '\u2026'] : seen(text)
}

/** puny is the name of a host as the network has it, where that is another one. @param {string} text */
export function puny(text) {
  const host = (/^(?:[a-z][a-z0-9+.-]*:\/\/)?(?:[^/@]*@)?([^/:?#]+)/i.exec(text) || [])[1]
  if (!host || !/[^\x00-\x7f]/.test(host)) return ''
  try {
    return new URL('http://' + host).hostname
  } catch {
    return T.text.noHost
  }
}

/** hostLine is a host or URL, with the name that the network has where it is another one. @param {string} text */
export function hostLine(text) {
  const real = puny(text)
  return [el('code', {}, line(text, 400)), real && [' ', el('strong', {class: 'puny'}, T.text.puny(real))]]
}

/** @param {number} n */
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let i = 0
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++) n /= 1024
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + ' ' + units[i]
}

/** span is a time in seconds. @param {number} s */
export function span(s) {
  s = Math.max(0, Math.round(s))
  if (s < 60) return T.time.seconds(s)
  if (s < 3600) return T.time.minutes(Math.floor(s / 60))
  if (s < 86400) return T.time.hours(Math.floor(s / 3600), Math.floor(s / 60) % 60)
  return T.time.days(Math.floor(s / 86400))
}

/** @param {string|number|Date} at */
export function clock(at) {
  const d = new Date(at)
  if (isNaN(d.getTime())) return ''
  return d.toDateString() === new Date().toDateString() ? d.toLocaleTimeString('en-GB') : d.toLocaleString('en-GB')
}

// The clock of the server less that of this machine, in milliseconds.
let off = 0
/** @param {string} now of the server */
export function setClock(now) { off = new Date(now).getTime() - Date.now() }
export const serverNow = () => Date.now() + off

/** ago is a time as its distance from now, which goes on. @param {string|undefined} at @param {boolean} [left] a time to come */
export function ago(at, left = false) {
  if (!at || at.startsWith('0001')) return ''
  const node = el('time', {datetime: at, title: new Date(at).toLocaleString('en-GB'), 'data-left': left})
  tick(node)
  return node
}

/** @param {Element} node */
function tick(node) {
  const s = (new Date(node.getAttribute('datetime') || '').getTime() - serverNow()) / 1000
  const text = node.hasAttribute('data-left') ? (s > 0 ? T.time.left(span(s)) : T.time.over) : T.time.ago(span(-s))
  if (node.textContent !== text) node.textContent = text
}

/** tickAll sets all times anew. */
export function tickAll() { document.querySelectorAll('time').forEach(tick) }
