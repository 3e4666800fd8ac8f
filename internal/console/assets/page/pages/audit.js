// The audit log: followed, searched, and one record of it.
import {add, el, fill} from '../dom.js'
import {at, get, of, to} from '../api.js'
import {block, clock, line, seen} from '../format.js'
import {player} from '../player.js'
import {T} from '../texts.js'
import {agent, button, code, command, empty, facts, filters, ofWorker, table, verdict, word} from '../widgets.js'

const kinds = ['decision', 'outcome', 'approval', 'egress', 'policy', 'session', 'server', 'login', 'cast', 'upstream', 'file', 'removed', 'torn', 'dropped', 'missing', 'checkpoint']
const mostRows = 1000

/** @param {any} is */
function chainLine(is) {
  const text = {ok: is.last ? T.audit.ok(is.last) : T.audit.okAll, broken: T.audit.broken(is.seq), unknown: T.audit.unknown}[/** @type {'ok'} */ (is.state)] || is.state
  return el('p', {class: is.state === 'broken' ? 'error' : 'soft'}, verdict(is.state), ' ', text, is.why && is.state === 'broken' && [' ', seen(is.why)], is.checked && is.state === 'ok' && [' ', T.audit.checked, ' ', clock(is.checked)])
}

/** @param {any} r */
const what = r => r.decision ? verdict(r.decision) : r.outcome && verdict(r.outcome)

/** @param {import('../main.js').Page} c */
export function open(c) {
  if (c.args.length === 1) return one(c, c.args[0])
  const chosen = filters(T.audit.filter, {decision: ['allow', 'ask', 'deny'], kind: kinds}, c, () => {
    history.replaceState(null, '', '#/audit' + (query() && '?' + query()))
    rows = []
    load().catch(e => c.fail(e))
  })
  const follow = el('input', {type: 'checkbox', checked: true})
  const chain = el('div', {})
  const list = table(T.nav.audit, [
    {head: T.field.when, cell: r => el('a', {to: to(r, 'audit', r.cursor), 'aria-label': T.audit.recordName(r.seq)}, clock(r.time)), look: 'num'},
    {head: T.audit.kind, cell: r => el('span', {class: 'whole'}, r.kind, r.event && r.kind !== r.event && el('span', {class: 'soft'}, ' ', line(r.event, 20)))},
    {head: T.field.decision, cell: what},
    {head: T.field.what, cell: r => (r.tool || r.command || r.reason) && el('span', {class: 'clip'}, r.tool && [el('strong', {}, line(r.tool, 40)), ' '], r.command ? el('code', {}, line(r.command, 110)) : line(r.reason || '', 110)), look: 'main'},
    {head: T.approval.rule, cell: r => r.rule && el('code', {class: 'whole'}, line(r.rule, 16))},
    ofWorker(c),
    {head: T.field.tenant, cell: r => line(r.tenant || '', 30)},
    {head: T.audit.ms, cell: r => r.ms > 0 && T.audit.took(r.ms), look: 'num'},
  ], r => r.cursor, T.audit.none)
  /** @type {any[]} */
  let rows = []
  let next = '', busy = 0, state = ''
  const {inputs, query} = chosen
  const older = button(T.audit.older, async () => {
    const got = await get('audit?' + query() + '&before=' + encodeURIComponent(next), c.signal)
    rows = [...rows, ...got.records].slice(-mostRows)
    if (rows.length === mostRows) follow.checked = false
    next = got.next
    show(got)
  })
  const cli = el('div', {}), cut = el('div', {})
  /** @param {any} got */
  const show = got => {
    fill(cli, command('belljar audit show' + [['tool', 'tool'], ['decision', 'verdict'], ['tenant', 'tenant'], ['session', 'session']].filter(([n]) => inputs[n].value).map(([n, flag]) => ` --${flag} ${word(inputs[n].value)}`).join('')))
    list.set(rows)
    older.hidden = !next
    fill(cut, got.more && el('p', {class: 'flag'}, T.audit.cut))
    state = got.chain.state
    fill(chain, chainLine(got.chain))
  }
  const load = async () => {
    const mine = ++busy
    const got = await get('audit?' + query(), c.signal)
    if (mine !== busy) return
    // What was read further back stays below what is new.
    const oldest = got.records.length ? rows.findIndex(r => r.cursor === got.records[got.records.length - 1].cursor && r.worker === got.records[got.records.length - 1].worker) : -1
    if (oldest < 0) next = got.next
    rows = oldest < 0 ? got.records : [...got.records, ...rows.slice(oldest + 1)]
    show(got)
  }
  add(c.root, chain, chosen.node, el('label', {class: 'choice'}, follow, el('span', {}, T.audit.follow)),
    list.node, cut, el('div', {class: 'actions'}, older), cli)
  older.hidden = true
  let loaded = false
  c.every(4000, async () => { // until it is verified
    if (state !== 'unknown') return
    const is = (await get('audit?limit=1', c.signal)).chain
    state = is.state
    fill(chain, chainLine(is))
  })
  return {kinds: ['audit'], refresh: async () => {
    if (loaded && !follow.checked) return
    await load()
    loaded = true
  }}
}

/** @param {import('../main.js').Page} c @param {string} cursor */
function one(c, cursor) {
  let loaded = false
  const refresh = async () => {
    if (loaded) return
    const got = await get(of(c.worker, 'audit/' + at(cursor)), c.signal)
    loaded = true
    const r = got.record
    const cast = el('div', {class: 'stack'})
    fill(c.root, el('a', {to: '#/audit', class: 'back'}, T.audit.back), chainLine(got.chain),
      facts([[T.audit.number, String(r.seq)], [T.field.when, clock(r.time || r.ts)], [T.audit.kind, seen(r.kind)], [T.field.tool, r.tool && seen(r.tool)],
        [T.field.decision, r.verdict && verdict(r.verdict)],
        [T.approval.rule, (r.rules || []).map((/** @type {any} */ x) => el('span', {class: 'wide'}, code(x.id), x.file && el('span', {class: 'soft'}, ' ', seen(x.file), x.line ? ':' + x.line : '')))],
        [T.approval.reason, r.reason && seen(r.reason)], [T.field.worker, c.worker.worker && code(c.worker.worker)], [T.field.tenant, r.tenant && seen(r.tenant)], [T.field.session, r.session && code(r.session)],
        [T.audit.call, r.call_id && el('a', {to: '#/audit?q=' + encodeURIComponent(r.call_id)}, T.audit.sameCall)]]),
      got.cast && cast,
      r.kind === 'decision' && !c.me.fleet && c.me.views.includes('policy') && el('p', {}, el('a', {to: '#/policy?record=' + encodeURIComponent(cursor)}, T.audit.explain)),
      el('h2', {}, T.audit.whole), agent(T.audit.frame, block(JSON.stringify(r, null, 2))), command('belljar audit show --json'))
    if (got.cast) add(cast, el('h2', {}, T.player.title), el('div', {class: 'actions'}, button(T.player.load, async () => {
      const node = await player(c, got.cast)
      fill(cast, el('h2', {}, T.player.title), agent(T.player.frame, node), command('belljar audit show --session ' + (r.session || '')))
      node.querySelector('[data-focus=play]').focus()
    })))
  }
  add(c.root, empty(T.page.loading))
  return {kinds: [], refresh}
}
