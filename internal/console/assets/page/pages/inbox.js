// The inbox: what waits on the left, and the one that is read beside it.
import {add, el, fill, keyed} from '../dom.js'
import {at, of, post, to} from '../api.js'
import {ago, line} from '../format.js'
import {inbox, keyOf} from '../inboxstore.js'
import {T} from '../texts.js'
import {button, confirm, empty} from '../widgets.js'
import {approvalView} from './approval.js'
import {pinView} from './pin.js'
import {questionView} from './question.js'

/** @typedef {import('../inboxstore.js').Item} Item */

/** @param {Item} item */
const hashOf = item => to(item.is, 'inbox', item.kind, ...item.id.split('/'))

/** @param {Item} item */
function headline(item) {
  const is = item.is
  if (item.kind === 'approval') return [el('strong', {}, line(is.tool, 40)), ' ', el('code', {}, line((is.shown.commands || is.shown.text || is.shown.args || [''])[0], 90))]
  if (item.kind === 'question') return [el('strong', {}, T.inbox.question), ' ', line(is.sheet.questions[0]?.header || is.sheet.questions[0]?.question, 90)]
  return [el('strong', {}, T.inbox.pin), ' ', line(is.upstream, 40), ' ', el('code', {}, line(is.name, 60))]
}

/** @param {import('../main.js').Page} c */
export function open(c) {
  const list = el('ul', {class: 'list', 'aria-label': T.inbox.list})
  const put = el('ul', {class: 'list', 'aria-label': T.inbox.later})
  const putOff = el('details', {}, el('summary', {}, T.inbox.later), put)
  const nothing = empty(T.inbox.none, el('br'), T.inbox.noneHint)
  const more = el('p', {class: 'soft'})
  const detail = el('div', {class: 'detail'})
  /** @type {Set<string>} */
  const chosen = new Set()
  const many = button('', async () => {
    const ids = [...chosen]
    const note = await confirm({title: T.inbox.manyTitle(ids.length), text: el('p', {}, T.inbox.manyText), yes: T.inbox.many(ids.length), note: T.answer.note})
    if (note === null) return
    const failed = []
    for (const id of ids) {
      const item = inbox.items.find(i => i.key === id)
      if (!item) continue
      try {
        await post(of(item.is, 'approvals/' + at(item.id) + '/answer'), {yes: false, note, version: item.is.version})
      } catch (e) {
        failed.push(/** @type {Error} */ (e).message)
      }
    }
    chosen.clear()
    await inbox.load(c.signal)
    c.say(T.inbox.manyDone(ids.length - failed.length))
    if (failed.length) throw new Error(failed.join('; '))
  }, {class: 'danger'})
  const bar = el('div', {class: 'actions'}, many)

  /** @param {Item} item */
  const row = item => el('li', {}, c.may('approver') && item.kind === 'approval' && el('input', {type: 'checkbox', 'aria-label': T.inbox.choose(item.id), checked: chosen.has(item.key), on: {change: (/** @type {any} */ e) => {
    if (e.target.checked) chosen.add(item.key)
    else chosen.delete(item.key)
    showBar()
  }}}), el('a', {to: hashOf(item), 'aria-current': item.key === selected() ? 'true' : null}, el('span', {class: 'clip'}, headline(item)),
    el('span', {class: 'soft'}, item.is.worker && [line(item.is.worker, 63), ' \u00b7 '], line(item.is.tenant, 40), item.at && [' \u00b7 ', ago(item.at)], item.expires && [' \u00b7 ', ago(item.expires, true)])))

  const selected = () => c.args[1] ? keyOf(c.worker, ...c.args) : ''
  const showBar = () => {
    for (const id of chosen) if (!inbox.items.some(i => i.key === id)) chosen.delete(id)
    bar.hidden = chosen.size === 0
    fill(many, T.inbox.many(chosen.size))
  }
  const show = () => {
    const waits = inbox.waiting(), rest = inbox.items.filter(i => inbox.isLater(i))
    keyed(list, waits, i => i.key, row)
    keyed(put, rest, i => i.key, row)
    putOff.hidden = rest.length === 0
    nothing.hidden = waits.length > 0 || !inbox.loaded
    fill(more, inbox.more ? T.inbox.more(inbox.more) : '')
    more.hidden = !inbox.more
    showBar()
    if (!selected()) fill(detail, waits.length > 0 && empty(T.inbox.choosePrompt))
  }

  add(c.root, el('div', {class: 'split' + (selected() ? ' has-detail' : '')}, el('div', {class: 'pane'}, bar, list, nothing, more, putOff), detail))
  show()
  inbox.watch(show, c.signal)
  c.every(1000, () => { // what was put off comes back
    if (inbox.waiting().length !== list.childElementCount) show()
  })
  if (!selected()) return {kinds: [], refresh: async () => {}}

  const view = {approval: approvalView, question: questionView, pin: pinView}[c.args[0]]
  if (!view) {
    fill(detail, empty(T.page.missing))
    return {kinds: [], refresh: async () => {}}
  }
  return view(c, detail, c.args.slice(1).join('/'))
}

