// Text of programs: pieces, each with its look, as lines of which a bounded number is kept.
import {el} from './dom.js'
import {T} from './texts.js'

export const mostLines = 2000, mostText = 64 << 10 // characters
const longest = 8192 // characters of a line; a longer one goes on in the next

const look = /^(?:b|i|u|s|inv|ctl|fg(?:\d|1[0-5])|bg(?:\d|1[0-5]))$/

export class Output {
  /** @param {string} name */
  constructor(name) {
    this.body = el('div', {class: 'lines-out'})
    this.cut = el('p', {class: 'soft cut', hidden: true})
    this.node = el('div', {class: 'output', tabindex: 0, role: 'log', 'aria-label': name, 'aria-live': 'off'}, this.cut, this.body)
    /** @type {{node: HTMLElement, length: number}[]} */
    this.lines = []
    this.length = 0
    this.dropped = false
    this.open = false // the last line has no end yet
  }

  clear() {
    this.body.replaceChildren()
    this.lines = []
    this.length = 0
    this.open = this.dropped = false
    this.cut.hidden = true
  }

  /** @param {{t: string, s: string}[]} pieces */
  add(pieces) {
    const stays = this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight > 40 // pixels, two lines: who reads further up stays there
    const fresh = document.createDocumentFragment()
    for (const piece of pieces) {
      const classes = piece.s.split(' ').filter(c => look.test(c)).join(' ')
      const parts = piece.t.split('\n')
      parts.forEach((text, i) => {
        do {
          if (!this.open) this.begin(fresh)
          const line = this.lines[this.lines.length - 1]
          const some = text.slice(0, longest)
          text = text.slice(longest)
          if (some) line.node.append(classes ? el('span', {class: classes}, some) : document.createTextNode(some))
          line.length += some.length
          this.length += some.length
          if (line.length > longest) this.open = false
        } while (text)
        if (i < parts.length - 1) this.open = false
      })
      if (piece.t.endsWith('\n') && this.lines.length && this.open) this.close()
    }
    this.body.append(fresh)
    let drop = 0
    while (this.lines.length - drop > 1 && (this.lines.length - drop > mostLines || this.length > mostText)) {
      this.length -= this.lines[drop].length
      this.lines[drop].node.remove()
      drop++
    }
    if (drop) {
      this.lines.splice(0, drop)
      this.dropped = true
    }
    this.cut.hidden = !this.dropped
    this.cut.textContent = T.output.cut
    if (!stays) this.node.scrollTop = this.node.scrollHeight
  }

  /** begin begins a line. @param {Node} parent */
  begin(parent) {
    const node = el('div', {})
    this.lines.push({node, length: 1})
    this.length++
    parent.appendChild(node)
    this.open = true
  }

  /** close takes back a line that was begun behind the last line break, and is empty. */
  close() {
    const last = this.lines[this.lines.length - 1]
    if (last.node.childNodes.length) return
    last.node.remove()
    this.lines.pop()
    this.length -= last.length
    this.open = false
  }
}
