// The policy: its text, what its rules have decided, what it would decide, and what another
// one would have decided.
import {add, el, fill} from '../dom.js'
import {at, get, post} from '../api.js'
import {ago, block, clock, line, seen} from '../format.js'
import {T} from '../texts.js'
import {agent, button, card, code, command, empty, facts, field, fold, table, verdict} from '../widgets.js'

/** @param {any} r */
const rule = r => r && [code(r.id || r.rule || ''), r.file && el('span', {class: 'soft'}, ' ', seen(r.file), r.line ? ':' + r.line : '')]

/** @param {import('../main.js').Page} c */
export function open(c) {
  const head = el('div', {}), text = el('div', {class: 'source', tabindex: 0, role: 'region', 'aria-label': T.policy.text})
  const used = table(T.policy.used, [
    {head: T.approval.rule, cell: r => code(r.id), look: 'main'},
    {head: T.policy.place, cell: r => r.file && [line(r.file, 60), r.line ? ':' + r.line : '']},
    {head: T.policy.calls, cell: r => String(r.calls), look: 'num'},
    {head: T.policy.last, cell: r => ago(r.last)},
  ], r => r.id, T.policy.unused)
  let source = ''
  const refresh = async () => {
    const p = await get('policy', c.signal)
    fill(head, facts([[T.policy.file, code(p.file)], [T.policy.since, ago(p.since)], [T.policy.sum, el('code', {}, seen((p.sha256 || '').slice(0, 16)))]]),
      p.refused && el('div', {class: 'flag'}, el('p', {}, T.policy.refused), block(p.refused)))
    used.set(p.rules)
    if (p.text === source) return
    source = p.text
    const has = new Map(p.rules.map((/** @type {any} */ r) => [r.line, r]))
    fill(text, source.split('\n').map((l, i) => el('div', {class: has.has(i + 1) ? 'hit' : null}, el('span', {class: 'number', 'aria-hidden': 'true'}, i + 1), el('span', {}, seen(l, true)),
      has.has(i + 1) && el('span', {class: 'soft'}, ' ', T.policy.hits(/** @type {any} */ (has.get(i + 1)).calls)))))
    if (!proposal.value) proposal.value = source
  }
  const proposal = el('textarea', {rows: 12, spellcheck: 'false', autocomplete: 'off', class: 'code'})
  add(c.root, head, card(T.policy.used, used.node), explainForm(c), !c.me.fleet && replayForm(c, proposal), card(T.policy.text, text), command('belljar policy explain', T.command.label, ''))
  return {kinds: ['policy'], refresh}
}

/** @param {import('../main.js').Page} c */
function explainForm(c) {
  const tool = el('input', {type: 'text', value: 'Bash', autocomplete: 'off', spellcheck: 'false'})
  const args = el('textarea', {rows: 4, spellcheck: 'false', autocomplete: 'off', class: 'code'})
  args.value = '{"command": "git push"}'
  const tenant = el('input', {type: 'text', placeholder: 'local', autocomplete: 'off', spellcheck: 'false'})
  const profile = el('input', {type: 'text', autocomplete: 'off', spellcheck: 'false'})
  const answer = el('div', {'aria-live': 'polite'})
  const run = async () => {
    let given
    try {
      given = JSON.parse(args.value || '{}')
    } catch (e) {
      throw new Error(T.policy.notJSON(/** @type {Error} */ (e).message))
    }
    fill(answer, explained(await post('policy/explain', {tool: tool.value, arguments: given, tenant: tenant.value, profile: profile.value}, c.signal)))
  }
  const record = c.query.get('record')
  if (record) get('audit/' + at(record), c.signal).then(async got => {
    const r = got.record
    tool.value = r.tool || ''
    args.value = JSON.stringify(r.args && Object.keys(r.args).length ? r.args : {command: r.facts?.command}, null, 2)
    tenant.value = r.tenant || ''
    profile.value = r.facts?.profile || ''
    fill(answer, explained(await post('policy/explain', {cursor: record}, c.signal)))
  }).catch(e => c.fail(e))
  return card(T.policy.explain, el('p', {class: 'soft'}, T.policy.explainHint), el('div', {class: 'filters'}, field(T.field.tool, tool), field(T.field.tenant, tenant), field(T.policy.profile, profile)),
    field(T.policy.args, args), el('div', {class: 'actions'}, button(T.policy.explainRun, run, {class: 'main'})), answer)
}

/** @param {any} e */
function explained(e) {
  return el('div', {class: 'notice'}, el('p', {}, verdict(e.verdict), ' ', T.policy.byRule, ' ', rule(e.rule), e.was && [' \u00b7 ', T.policy.was, ' ', verdict(e.was)]), e.lacks && el('p', {class: 'flag'}, T.policy.lacks, ' ', seen(e.lacks)),
    facts([[T.approval.reason, seen(e.reason || '')], [T.policy.instead, seen(e.instead || '')], [T.policy.granted, e.profile && code(e.profile)], [T.policy.remember, seen(e.approval_for || '')]]),
    (e.parts || []).map((/** @type {any} */ p) => el('div', {class: 'part'}, el('p', {}, el('code', {}, seen(p.text)), ' ', p.verdict && verdict(p.verdict), ' ', rule(p.rule)), p.started_by && el('p', {class: 'soft'}, T.policy.via, ' ', seen(p.started_by)), p.doubt && el('p', {class: 'flag'}, seen(p.doubt)),
      p.matches && p.matches.length > 0 && el('ul', {class: 'lines'}, p.matches.map((/** @type {any} */ m) => el('li', {}, verdict(m.verdict), ' ', rule(m.rule || m), m.silent && [' ', T.policy.silent], m.unsure && [' ', T.policy.unsure], m.failed && [' ', seen(m.failed)]))))),
    fold(T.audit.whole, block(JSON.stringify(e, null, 2))))
}

/** @param {import('../main.js').Page} c @param {any} proposal */
function replayForm(c, proposal) {
  const answer = el('div', {'aria-live': 'polite'})
  const run = async () => {
    fill(answer, empty(T.policy.replaying))
    try {
      fill(answer, replayed(await post('policy/replay', {policy: proposal.value}, c.signal)))
    } catch (e) {
      fill(answer, el('div', {class: 'flag', role: 'alert'}, el('p', {}, T.policy.bad), block(/** @type {Error} */ (e).message)))
    }
  }
  return card(T.policy.replay, el('p', {class: 'soft'}, T.policy.replayHint), field(T.policy.proposed, proposal), el('div', {class: 'actions'}, button(T.policy.replayRun, run, {class: 'main'}), command('belljar policy replay FILE')), answer)
}

/** @param {any} r */
function replayed(r) {
  const side = (/** @type {any} */ s) => [verdict(s.verdict), ' ', code(s.rule)]
  return el('div', {class: 'notice'}, el('p', {}, el('strong', {}, T.policy.changed(r.changed, r.replayed)), r.more && [' ', T.policy.older]),
    Object.entries(r.skipped || {}).map(([why, n]) => el('p', {class: 'soft'}, T.policy.skipped(n), ' ', seen(why))),
    (r.changes || []).map((/** @type {any} */ g) => el('div', {class: 'part'}, el('p', {}, el('strong', {}, seen(g.tool)), ' ', side(g.before), ' \u2192 ', side(g.after), ' ', el('span', {class: 'soft'}, T.policy.nCalls(g.calls))),
      agent(T.policy.examples, el('ul', {class: 'lines'}, (g.examples || []).map((/** @type {any} */ x) => el('li', {}, el('a', {to: '#/audit?q=' + encodeURIComponent(x.call_id)}, clock(x.time)), ' ', el('code', {}, line(x.part, 200)))))))))
}
