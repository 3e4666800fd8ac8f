// The parts of which all pages are made.
import {add, el, fill, keyed} from './dom.js'
import {hides, seen} from './format.js'
import {T} from './texts.js'

/** @typedef {import('./dom.js').Kid} Kid */

/** verdict is what was decided, as a word with its colour. @param {string} word */
export function verdict(word) {
  const looks = /** @type {Record<string, string>} */ ({
    allow: 'yes', approved: 'yes', used: 'yes', accept: 'yes', ok: 'yes', ready: 'yes', healthy: 'yes', added: 'yes', good: 'yes', done: 'yes', completed: 'yes', applied: 'yes',
    ask: 'wait', pending: 'wait', waiting: 'wait', unknown: 'wait', modified: 'wait', changed: 'wait', starting: 'wait', probing: 'wait', live: 'wait', running: 'wait', draining: 'wait', late: 'wait', reserve: 'wait', held: 'wait', new: 'wait',
    deny: 'no', declined: 'no', decline: 'no', failed: 'no', broken: 'no', deleted: 'no', removed: 'no', refused: 'no', killed: 'no', cooling: 'no', blocked: 'no', conflict: 'no',
  })
  const known = Object.hasOwn(looks, word)
  return el('span', {class: 'tag ' + (known ? looks[word] : 'plain')}, Object.hasOwn(T.verdict, word) ? /** @type {any} */ (T.verdict)[word] : seen(word))
}

/** code is a name without words, such as an id or a path, which may be broken anywhere. @param {string} name */
export const code = name => el('code', {class: 'id'}, seen(name))

/** facts is a list of names and values; those without a text are left out. @param {[string, Kid][]} pairs */
export function facts(pairs) {
  const all = pairs.map(([name, value]) => ({name, is: el('dd', {}, value)})).filter(p => p.is.textContent)
  return el('dl', {class: 'facts'}, all.map(p => el('div', {}, el('dt', {}, p.name), p.is)))
}

/** machine is where the command lines are for, where that is another one. */
export const machine = {text: ''}

/** ofWorker is the column with the worker that has what a row is about. @param {import('./main.js').Page} c @returns {Column<any>|null} */
export const ofWorker = c => c.me.fleet ? {head: T.field.worker, cell: r => code(r.worker)} : null

/** command is the command line that does the same. @param {string} text @param {string} [label] @param {string} [where] */
export function command(text, label = T.command.label, where = machine.text) {
  const done = el('span', {class: 'soft', role: 'status'})
  return el('div', {class: 'cli'}, el('span', {class: 'soft'}, label), el('code', {}, seen(text)), where && el('span', {class: 'soft'}, where),
    el('button', {type: 'button', class: 'small', 'aria-label': T.command.copyName(text), on: {click: async () => {
      try {
        await navigator.clipboard.writeText(text)
        fill(done, T.command.copied)
      } catch {
        fill(done, T.command.notCopied)
      }
    }}}, T.command.copy), done)
}

/** agent frames what an agent wrote. @param {string} label @param {Kid[]} kids */
export function agent(label, ...kids) {
  const frame = el('section', {class: 'agent', 'aria-label': label}, el('p', {class: 'agent-label'}, label), kids)
  if (hides(frame.textContent || '') || frame.querySelector('.hid')) frame.querySelector('.agent-label').after(el('p', {class: 'flag'}, T.agent.hidden))
  return frame
}

/** fold is what is shown when it is asked for. @param {Kid} label @param {Kid[]} kids */
export const fold = (label, ...kids) => el('details', {}, el('summary', {}, label), kids)

/** word is a text as a person is advised to type it: never one that a shell could run. @param {string} text */
export const word = text => /^[A-Za-z0-9_./@][A-Za-z0-9_./:@+-]*$/.test(text) ? text : T.command.word

/** @param {string} text @param {Kid[]} kids */
export const empty = (text, ...kids) => el('p', {class: 'empty'}, text, kids)

/** @param {string} label @param {Element} input @param {string} [hint] */
export const field = (label, input, hint) => el('label', {class: 'field'}, el('span', {}, label), input, hint && el('span', {class: 'soft'}, hint))

/**
 * filters are inputs that choose what a page shows. changed is called a moment after one of them was.
 * @param {Record<string, string>} labels @param {Record<string, string[]>} choices of those that are not typed @param {import('./main.js').Page} c @param {() => void} changed
 */
export function filters(labels, choices, c, changed) {
  /** @type {Record<string, any>} */
  const inputs = {}
  const names = Object.keys(labels)
  let timer = 0
  const now = () => {
    clearTimeout(timer)
    if (!c.signal.aborted) changed()
  }
  for (const name of names) {
    const input = inputs[name] = choices[name] ? el('select', {}, ['', ...choices[name]].map(v => el('option', {value: v}, v ? /** @type {any} */ (T.verdict)[v] || v : T.history.all)))
      : el('input', {type: name === 'q' ? 'search' : 'text', autocomplete: 'off', spellcheck: 'false'})
    input.value = c.query.get(name) || ''
    input.addEventListener('change', now)
    if (!choices[name]) input.addEventListener('input', () => {
      clearTimeout(timer)
      timer = setTimeout(now, 300)
    })
  }
  return {inputs, query: () => names.filter(n => inputs[n].value).map(n => n + '=' + encodeURIComponent(inputs[n].value)).join('&'),
    node: el('div', {class: 'filters', role: 'search'}, names.map(n => field(labels[n], inputs[n])))}
}

/** card is a part of a page with its heading. @param {Kid} title @param {Kid[]} kids */
export const card = (title, ...kids) => el('section', {class: 'card'}, title && el('h2', {}, title), kids)

/**
 * @template R
 * @typedef {{head: string, cell: (row: R) => Kid, look?: string}} Column
 */

/**
 * table shows rows; set gives it others. A row that is the same stays as it is.
 * @template R
 * @param {string} name @param {(Column<R>|null)[]} all @param {(row: R) => string} keyOf @param {string} none
 * @param {string} [look] cards for a table so wide that its rows become cards before those of others
 */
export function table(name, all, keyOf, none, look = '') {
  const columns = /** @type {Column<R>[]} */ (all.filter(c => c))
  const body = el('tbody', {role: 'rowgroup'})
  const nothing = empty(none)
  const node = el('div', {class: 'table ' + look},
    el('table', {role: 'table', 'aria-label': name},
      el('thead', {role: 'rowgroup'}, el('tr', {role: 'row'}, columns.map(c => el('th', {scope: 'col', role: 'columnheader', class: c.look}, c.head)))), body),
    nothing)
  /** @param {R} row */
  const make = row => el('tr', {role: 'row'}, columns.map(c => el('td', {role: 'cell', 'data-label': c.head, class: c.look}, c.cell(row))))
  /** @param {R[]} rows */
  const show = rows => {
    keyed(body, rows, r => (/** @type {any} */ (r).worker || '') + ' ' + keyOf(r), make)
    nothing.hidden = rows.length > 0
    node.firstElementChild.hidden = rows.length === 0
  }
  show([])
  return {node, set: show}
}

/**
 * button does something, and says below it what went wrong. While it does, it cannot be
 * pressed again.
 * @param {string} label @param {(b: HTMLElement) => any} does @param {Record<string, any>} [props]
 */
export function button(label, does, props = {}) {
  let busy = false
  const b = el('button', {type: 'button', ...props, on: {click: async () => {
    if (busy || b.getAttribute('aria-disabled') === 'true') return
    busy = true
    b.setAttribute('aria-busy', 'true')
    wrong(b, '')
    try {
      await does(b)
    } catch (e) {
      if (/** @type {any} */ (e).name !== 'AbortError') wrong(b, /** @type {Error} */ (e).message)
    } finally {
      busy = false
      b.removeAttribute('aria-busy')
    }
  }}}, label)
  return b
}

/** wrong says behind a control what went wrong. @param {Element} near @param {string} text */
export function wrong(near, text) {
  const at = near.closest('.actions') || near
  if (at.nextElementSibling?.classList.contains('error')) at.nextElementSibling.remove()
  if (text) at.after(el('p', {class: 'error', role: 'alert'}, seen(text)))
}

/**
 * confirm asks once more, in a dialog that begins with "no". It resolves to what was typed into
 * the note, or null.
 * @param {{title: string, text: Kid, yes: string, note?: string, cli?: string}} what @returns {Promise<string|null>}
 */
export function confirm(what) {
  return new Promise(done => {
    const before = /** @type {HTMLElement} */ (document.activeElement)
    const note = what.note ? el('input', {type: 'text', maxlength: 500, autocomplete: 'off'}) : null
    const opened = performance.now()
    const dialog = el('dialog', {'aria-label': what.title}, el('h2', {}, what.title), el('div', {}, what.text), note && field(what.note || '', note),
      what.cli && command(what.cli),
      el('div', {class: 'actions'},
        el('button', {type: 'button', 'data-focus': 'cancel', on: {click: () => dialog.close()}}, T.confirm.cancel),
        el('button', {type: 'button', class: 'danger', on: {click: (/** @type {Event} */ e) => {
          if (e.timeStamp - opened < guard) return
          dialog.returnValue = 'yes'
          dialog.close('yes')
        }}}, what.yes)))
    const leave = () => dialog.close()
    dialog.addEventListener('close', () => {
      removeEventListener('hashchange', leave)
      dialog.remove()
      before?.focus?.()
      done(dialog.returnValue === 'yes' ? (note ? note.value : '') : null)
    })
    addEventListener('hashchange', leave) // what it asks about is not there any more
    document.body.append(dialog)
    dialog.showModal()
    dialog.querySelector('[data-focus=cancel]').focus()
  })
}

/** guard is how long, in milliseconds, what has just appeared takes no answer: it may be one to something else. */
export const guard = 500

/** grid puts things beside each other where there is room. @param {Kid[]} kids */
export const grid = (...kids) => add(el('div', {class: 'grid'}), kids)
