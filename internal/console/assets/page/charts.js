// Pictures as SVG, each with a table of the same for those who do not see it.
import {el, svg} from './dom.js'
import {fold} from './widgets.js'
import {seen} from './format.js'
import {T} from './texts.js'

/** @param {string} name @param {string[]} heads @param {(string|number)[][]} rows */
function asTable(name, heads, rows) {
  return fold(T.chart.table, el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name}, el('table', {'aria-label': name},
    el('thead', {}, el('tr', {}, heads.map(h => el('th', {scope: 'col'}, h)))),
    el('tbody', {}, rows.map(r => el('tr', {}, r.map((c, i) => el(i ? 'td' : 'th', i ? {class: 'num'} : {scope: 'row'}, seen(c)))))))))
}

const height = 170 // of bars
const top = 8, bottom = 22 // the room for half of a line of text, and for a line: see .chart text
const digit = 8 // the width of a digit there
const fewest = 20 // bars for which there is room, so that the first ones of a server are not wider
const mostTimes = 5 // below bars; one for each 12 minutes of an hour
const perTime = 100 // pixels of the width for each of them, more than twice what it takes

/**
 * bars are stacked bars over a row of moments.
 * @param {string} name @param {string[]} labels one for each bar
 * @param {{name: string, look: string, values: number[]}[]} parts from the bottom
 * @param {number} width of the place of the drawing, in pixels
 */
export function bars(name, labels, parts, width) {
  const sums = labels.map((_, i) => parts.reduce((n, p) => n + (p.values[i] || 0), 0))
  const most = nice(Math.max(1, ...sums))
  const left = 10 + digit * String(most).length // which the numbers take, and the gaps beside them
  const step = (width - left) / Math.max(labels.length, fewest)
  const y = (/** @type {number} */ v) => top + (height - top - bottom) * (1 - v / most)
  const drawing = svg('svg', {viewBox: `0 0 ${width} ${height}`, class: 'chart', role: 'img', 'aria-label': name + '. ' + T.chart.below, focusable: 'false'})
  for (const v of [0, most / 2, most]) {
    if (!Number.isInteger(v)) continue // there is no half of a call
    drawing.append(svg('line', {x1: left, x2: width, y1: y(v), y2: y(v), class: 'rule'}), svg('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, v))
  }
  labels.forEach((label, i) => {
    let under = 0
    for (const p of parts) {
      const v = p.values[i] || 0
      if (!v) continue
      drawing.append(svg('rect', {x: left + i * step + step / 8, width: step * 3 / 4, y: y(under + v), height: Math.max(1, y(under) - y(under + v)), rx: 1.5, class: 'fill-' + p.look},
        svg('title', {}, T.chart.bar(label, v, p.name))))
      under += v
    }
    const every = Math.ceil(labels.length / Math.min(mostTimes, Math.floor(width / perTime)))
    if (i % every === 0) drawing.append(svg('text', {x: left + i * step + step / 2, y: height - 5, 'text-anchor': 'middle'}, label))
  })
  const legend = el('ul', {class: 'legend', 'aria-hidden': 'true'}, parts.map(p => el('li', {}, el('span', {class: 'dot back-' + p.look}), p.name, ' ', el('strong', {}, p.values.reduce((a, b) => a + b, 0)))))
  return el('figure', {}, legend, drawing, asTable(name, [T.chart.time, ...parts.map(p => p.name)], labels.map((l, i) => [l, ...parts.map(p => p.values[i] || 0)])))
}

/** nice is the next number that a scale may end with: of two digits and noughts, and at most half as large again. @param {number} n */
function nice(n) {
  const ten = 10 ** Math.floor(Math.log10(n))
  for (const m of [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]) if (n <= m * ten) return m * ten
  return 10 * ten
}

const full = 0.9, filling = 0.7 // from which on a meter warns

/**
 * meter is how much of something is used, in hundredths of its width; a little that is used can be seen.
 * The text says the same.
 * @param {string} name @param {number} used @param {number} most @param {string} text
 */
export function meter(name, used, most, text) {
  const part = most > 0 ? Math.min(1, used / most) : 0
  return el('div', {class: 'meter', role: 'meter', 'aria-label': name, 'aria-valuemin': 0, 'aria-valuemax': most, 'aria-valuenow': Math.min(used, most), 'aria-valuetext': text},
    svg('svg', {viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false'},
      svg('rect', {x: 0, y: 0, width: 100, height: 6, rx: 1, class: 'fill-none'}),
      part > 0 && svg('rect', {x: 0, y: 0, width: Math.max(1, part * 100), height: 6, rx: 1, class: part >= full ? 'fill-no' : part >= filling ? 'fill-wait' : 'fill-main'})),
    el('span', {}, text))
}

/**
 * spark is a small line of the last values. The text is the newest of them.
 * @param {string} name @param {number[]} values @param {string} text
 */
export function spark(name, values, text) {
  const width = 96, height = 22 // of .spark svg
  const least = Math.min(...values), most = Math.max(...values)
  const points = values.map((v, i) => [values.length < 2 ? width : i * width / (values.length - 1), most === least ? height / 2 : height - 2 - (v - least) / (most - least) * (height - 4)])
  return el('span', {class: 'spark'},
    values.length > 1 && svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': name, focusable: 'false'}, svg('polyline', {points: points.map(p => p.map(n => n.toFixed(1)).join(',')).join(' '), class: 'stroke'})),
    el('span', {class: 'num'}, text))
}

/**
 * rank is a row of bars of one kind, each with its name and value, in hundredths of the largest; the
 * smallest can be seen.
 * @param {string} name @param {string[]} heads @param {{name: string, value: number, text: string, look?: string}[]} rows
 */
export function rank(name, heads, rows) {
  const most = Math.max(1, ...rows.map(r => r.value))
  return el('figure', {}, el('div', {class: 'rank', 'aria-hidden': 'true'}, rows.map(r => el('div', {}, el('span', {}, seen(r.name)),
    svg('svg', {viewBox: '0 0 100 8', preserveAspectRatio: 'none', focusable: 'false'}, svg('rect', {x: 0, y: 0, width: 100, height: 8, class: 'fill-none'}),
      svg('rect', {x: 0, y: 0, width: Math.max(0.5, r.value / most * 100), height: 8, class: 'fill-' + (r.look || 'main')})),
    el('span', {class: 'num'}, r.text)))), asTable(name, heads, rows.map(r => [r.name, r.text])))
}
