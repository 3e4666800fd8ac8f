// What people have answered.
import {add, el} from '../dom.js'
import {get, to} from '../api.js'
import {ago, line, seen} from '../format.js'
import {T} from '../texts.js'
import {button, filters, ofWorker, table, verdict} from '../widgets.js'

const atOnce = 200, questionsAtOnce = 100 // that the server sends

/** @param {any} a */
const approvalRow = a => ({...a, kind: 'approval', text: (a.shown.commands || a.shown.args || [''])[0]})
/** @param {any} q */
const questionRow = q => ({...q, kind: 'question', tool: T.inbox.question, text: q.sheet.questions[0]?.question || ''})

/** @param {import('../main.js').Page} c */
export function open(c) {
  const chosen = filters(T.history.filter, {state: ['pending', 'approved', 'used', 'declined', 'expired', 'revoked', 'accept', 'decline', 'timeout']}, c, () => {
    history.replaceState(null, '', '#/history' + (chosen.query() && '?' + chosen.query()))
    searches++
    approvals = []
    load().catch(e => c.fail(e))
  })
  /** @type {any[]} */
  let approvals = []
  /** @type {any[]} */
  let questions = []
  let more = false, searches = 0
  const list = table(T.nav.history, [
    {head: T.field.state, cell: r => verdict(r.state)},
    {head: T.field.what, cell: r => el('a', {to: to(r, 'inbox', r.kind, r.id)}, el('span', {class: 'clip'}, el('strong', {}, line(r.tool, 40)), ' ', el('code', {}, line(r.text, 100)))), look: 'main'},
    {head: T.field.by, cell: r => [seen(r.by || ''), r.via && el('span', {class: 'soft'}, ' ', seen(T.approval.via(r.via)))]},
    {head: T.answer.noteWas, cell: r => r.note && el('q', {}, seen(r.note))},
    ofWorker(c),
    {head: T.field.tenant, cell: r => line(r.tenant, 40)},
    {head: T.field.when, cell: r => ago(r.answered || r.created), look: 'num'},
    {head: T.field.record, cell: r => el('a', {to: '#/audit?q=' + encodeURIComponent(r.id), 'aria-label': T.history.recordOf(r.id)}, T.history.record), look: 'num'},
  ], r => r.id, T.history.none)
  /** The server chooses approvals; of questions it sends the last ones. @param {any} r */
  const wanted = r => Object.keys(chosen.inputs).every(n => {
    const want = chosen.inputs[n].value
    return !want || (n === 'q' ? (r.text + r.note).includes(want) : n === 'by' ? (r.by || '').toLowerCase().includes(want.toLowerCase()) : r[n] === want)
  })
  /** @param {string} [before] */
  const load = async before => {
    const mine = searches
    const [some, asked] = await Promise.all([get('approvals?all=1&' + chosen.query() + (before ? '&before=' + encodeURIComponent(before) : ''), c.signal), get('questions?all=1', c.signal)])
    if (mine !== searches) return
    const last = some.at(-1)?.created || ''
    if (before || approvals.length <= atOnce) more = some.length === atOnce
    approvals = before ? [...approvals, ...some] : [...some, ...(some.length === atOnce ? approvals.filter(a => a.created < last) : [])]
    questions = asked
    list.set([...approvals.map(approvalRow), ...questions.map(questionRow).filter(wanted)].sort((a, b) => a.created < b.created ? 1 : -1))
    older.hidden = !more
    cut.hidden = questions.length < questionsAtOnce
  }
  const older = button(T.history.older, () => load(approvals.at(-1).created))
  older.hidden = true
  const cut = el('p', {class: 'soft', hidden: true}, T.history.cut)
  add(c.root, chosen.node, list.node, el('div', {class: 'actions'}, older), cut, el('p', {class: 'soft'}, T.history.kept))
  return {kinds: ['approval', 'question'], refresh: () => load()}
}
