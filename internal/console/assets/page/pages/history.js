// What people have answered.
import {add, el} from '../dom.js'
import {at, get} from '../api.js'
import {ago, line, seen} from '../format.js'
import {T} from '../texts.js'
import {field, table, verdict} from '../widgets.js'

/** @param {import('../main.js').Page} c */
export function open(c) {
  const find = el('input', {type: 'search', autocomplete: 'off'})
  const state = el('select', {}, ['', 'pending', 'approved', 'used', 'declined', 'expired', 'revoked', 'accept', 'decline', 'timeout'].map(s => el('option', {value: s}, s ? /** @type {any} */ (T.verdict)[s] || s : T.history.all)))
  /** @type {any[]} */
  let rows = []
  const list = table(T.nav.history, [
    {head: T.field.state, cell: r => verdict(r.state)},
    {head: T.field.what, cell: r => el('a', {to: '#/inbox/' + at(r.kind, r.id)}, el('span', {class: 'clip'}, el('strong', {}, line(r.tool, 40)), ' ', el('code', {}, line(r.text, 100)))), look: 'main'},
    {head: T.field.by, cell: r => [seen(r.by || ''), r.via && el('span', {class: 'soft'}, ' ', T.approval.via(r.via))]},
    {head: T.answer.noteWas, cell: r => r.note && el('q', {}, seen(r.note))},
    {head: T.field.tenant, cell: r => line(r.tenant, 40)},
    {head: T.field.when, cell: r => ago(r.answered || r.created)},
    {head: T.field.record, cell: r => el('a', {to: '#/audit?q=' + encodeURIComponent(r.id), 'aria-label': T.history.recordOf(r.id)}, T.history.record)},
  ], r => r.id, T.history.none)
  const show = () => {
    const want = find.value.toLowerCase()
    list.set(rows.filter(r => (!state.value || r.state === state.value) && (!want || JSON.stringify(r).toLowerCase().includes(want))))
  }
  find.addEventListener('input', show)
  state.addEventListener('change', show)
  add(c.root, el('div', {class: 'filters'}, field(T.history.find, find), field(T.field.state, state)), list.node, el('p', {class: 'soft'}, T.history.kept))
  const refresh = async () => {
    const [approvals, questions] = await Promise.all([get('approvals?all=1', c.signal), get('questions?all=1', c.signal)])
    rows = [...approvals.map((/** @type {any} */ a) => ({kind: 'approval', id: a.id, state: a.state, tool: a.tool, text: (a.shown.commands || a.shown.args || [''])[0], by: a.by, via: a.via, note: a.note, tenant: a.tenant, answered: a.answered, created: a.created, rule: a.rule})),
      ...questions.map((/** @type {any} */ q) => ({kind: 'question', id: q.id, state: q.state, tool: T.inbox.question, text: q.sheet.questions[0]?.question || '', by: q.by, via: q.via, note: q.note, tenant: q.tenant, answered: q.answered, created: q.created}))]
      .sort((a, b) => a.created < b.created ? 1 : -1)
    show()
  }
  return {kinds: ['approval', 'question'], refresh}
}
