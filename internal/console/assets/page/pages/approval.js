// One call about which a person is asked: what it does, why it is asked, and the answer.
import {add, el, fill} from '../dom.js'
import {at, get, of, post, Refused, to} from '../api.js'
import {ago, block, clock, hostLine, line, puny, seen, span} from '../format.js'
import {inbox, keyOf} from '../inboxstore.js'
import {T} from '../texts.js'
import {agent, button, code, command, empty, facts, field, fold, guard, verdict, wrong} from '../widgets.js'

const hour = 3600e9 // nanoseconds

/** hostsIn is a line with the names that the network has for what looks like other hosts in it. @param {string} text */
const hostsIn = text => [el('code', {}, seen(text)), text.split(/[\s'"()<>,;=]+/).filter(w => w.includes('.')).map(w => puny(w)).filter(Boolean).map(p => el('strong', {class: 'puny wide'}, T.text.punyIn(p)))]

/** @param {string} title @param {string[]|undefined} lines @param {(l: string) => import('../dom.js').Kid} [look] */
const part = (title, lines, look = hostsIn) => lines && lines.length > 0 && el('div', {class: 'part'}, el('h3', {}, title), el('ul', {class: 'lines'}, lines.map(l => el('li', {}, look(l)))))

/** whatItDoes frames a call as a person is to see it. @param {any} a */
export function whatItDoes(a) {
  const s = a.shown || {}
  return agent(T.approval.frame,
    part(T.approval.commands, s.commands), s.text && el('div', {class: 'part'}, el('h3', {}, T.approval.script), block(s.text.join('\n'))),
    part(T.approval.acts, s.acts), part(T.approval.args, s.args), part(T.approval.hosts, s.hosts, hostLine), part(T.approval.writes, s.writes), part(T.approval.reads, s.reads), part(T.approval.sets, s.sets),
    s.dir && part(T.approval.dir, [s.dir]), part(T.approval.stdin, s.stdin), part(T.approval.files, s.files), part(T.approval.paths, s.paths), part(T.approval.grants, s.grants),
    s.left_out > 0 && el('p', {class: 'flag'}, T.approval.left(s.left_out, s.left_sha256 || '')),
    s.unsure && s.unsure.length > 0 && el('div', {class: 'flag'}, el('p', {}, T.approval.unsure), el('ul', {}, s.unsure.map((/** @type {string} */ u) => el('li', {}, seen(u))))))
}

/** @param {any} a */
const whyAsked = a => facts([
  [T.approval.rule, code(a.rule)], [T.approval.reason, seen(a.reason)], [T.approval.profile, a.profile && code(a.profile)],
  [T.field.worker, a.worker && code(a.worker)], [T.field.tenant, seen(a.tenant)], [T.approval.principal, seen(a.principal)], [T.field.session, code(a.session)], [T.field.workspace, a.place && code(a.place)],
  [T.approval.asked, ago(a.created)], [T.approval.expires, a.state === 'pending' && ago(a.expires, true)],
])

/** outcome is what became of it. @param {any} a */
const outcome = a => el('div', {class: 'notice'}, el('p', {}, verdict(a.state), ' ', a.by && [T.approval.by, ' ', el('strong', {}, seen(a.by)), ' ', a.via && seen(T.approval.via(a.via)), ' ', ago(a.answered)]),
  a.scope && el('p', {}, T.scope[/** @type {'once'} */ (a.scope)] || seen(a.scope), a.until && !a.until.startsWith('0001') && [', ', T.approval.until, ' ', clock(a.until)], a.uses > 0 && [' \u00b7 ', T.approval.uses(a.uses)]),
  a.note && el('p', {}, T.answer.noteWas, ' ', el('q', {}, seen(a.note))))

/** trail is what the log has about it and its calls. @param {any} a @param {AbortSignal} signal */
async function trail(a, signal) {
  const {records, more} = await get(of(a, 'approvals/' + at(a.id) + '/records'), signal)
  return el('div', {class: 'stack'}, records.length === 0 && !more && el('p', {class: 'soft'}, T.approval.noRecords), el('ul', {class: 'lines'}, records.map((/** @type {any} */ r) => el('li', {}, el('a', {to: to(a, 'audit', r.cursor)}, clock(r.time)), ' ', seen(r.kind), ' ',
    [r.event, r.reason].map(t => t && [seen(t), ' ']), r.decision ? verdict(r.decision) : r.outcome && verdict(r.outcome)))),
  more && el('p', {class: 'flag'}, T.approval.moreRecords, ' ', el('a', {to: '#/audit?q=' + encodeURIComponent(a.id)}, T.nav.audit)))
}

/** whole is all arguments, part by part. @param {any} a @param {AbortSignal} signal */
async function whole(a, signal) {
  let from = 0
  const frame = agent(T.approval.frame)
  const load = async () => {
    const p = await get(of(a, 'approvals/' + at(a.id) + '/arguments?from=' + from), signal)
    from = p.next
    more.before(block(p.text))
    more.hidden = from >= p.total
    fill(more, T.text.more(p.total - from))
  }
  const more = button('', load)
  add(frame, more)
  await load()
  return frame
}

/** past is what was decided about calls that are like it. @param {any} a @param {AbortSignal} signal */
async function past(a, signal) {
  const like = a.past || (await get(of(a, 'approvals/' + at(a.id)), signal)).past || []
  return like.length === 0 ? el('p', {class: 'soft'}, T.approval.noPast) : el('ul', {class: 'lines'}, like.map((/** @type {any} */ b) => el('li', {}, verdict(b.state), ' ', el('code', {}, line((b.shown.commands || b.shown.args || [''])[0], 80)), ' ',
    el('span', {class: 'soft'}, b.by && [seen(b.by), ' \u00b7 '], ago(b.answered || b.created)), b.note && [' ', el('q', {}, seen(b.note))])))
}

/**
 * @param {import('../main.js').Page} c @param {Element} root @param {string} id
 */
export function approvalView(c, root, id) {
  let version = '', state = ''
  const show = async () => {
    const known = inbox.items.find(i => i.key === keyOf(c.worker, 'approval', id))
    const a = known ? known.is : {...await get(of(c.worker, 'approvals/' + at(id)), c.signal), ...c.worker}
    if (a.version === version && a.state === state) return
    const first = version === ''
    version = a.version
    state = a.state
    fill(root, el('a', {to: '#/inbox', class: 'back'}, T.inbox.back), el('h2', {tabindex: -1}, T.approval.title(''), code(a.tool)),
      whatItDoes(a), el('h3', {}, T.approval.why), whyAsked(a))
    /** onDemand is a fold that is loaded when it is opened. @param {string} name @param {(a: any, signal: AbortSignal) => Promise<Node>} load */
    const onDemand = (name, load) => {
      const into = el('div', {}), node = fold(name, into)
      node.addEventListener('toggle', () => load(a, c.signal).then(is => fill(into, is), e => fill(into, seen(e.message))), {once: true})
      return node
    }
    add(root, a.shown.cut && onDemand(T.approval.whole, whole), onDemand(T.approval.past, past), c.me.views.includes('audit') && onDemand(T.approval.record, trail))
    if (a.state !== 'pending') {
      add(root, outcome(a), takeBack(c, a, show))
    } else if (!c.may('approver')) {
      add(root, empty(T.role.approver))
    } else {
      answer(c, root, a, first)
    }
  }
  show().catch(e => fill(root, el('p', {class: 'error', role: 'alert'}, seen(e.message))))
  return {kinds: ['approval'], refresh: show}
}

/** @param {import('../main.js').Page} c @param {any} a @param {() => Promise<void>} show */
const takeBack = (c, a, show) => a.state === 'approved' && c.may('approver') && el('div', {class: 'actions'}, button(T.approval.revoke, async () => {
  await post(of(a, 'approvals/' + at(a.id) + '/revoke'), {}, c.signal)
  c.say(T.approval.revoked)
  await show()
}, {class: 'danger'}), command('belljar approve revoke ' + a.id))

/**
 * answer is the controls of an answer. The focus begins at "no"; a yes for more than this
 * call is a second step.
 * @param {import('../main.js').Page} c @param {Element} root @param {any} a @param {boolean} first
 */
function answer(c, root, a, first) {
  const shown = performance.now()
  const note = el('input', {type: 'text', maxlength: 500, autocomplete: 'off', 'data-focus': 'note'})
  let typed = 0
  note.addEventListener('input', () => { typed = performance.now() })
  /** @param {Element} b @param {object} what @param {string} text */
  const send = async (b, what, text) => {
    // What has just appeared, or a key that was meant for the note, is not an answer.
    const now = performance.now()
    if (now - shown < guard || now - typed < guard && document.activeElement === note) return
    try {
      await post(of(a, 'approvals/' + at(a.id) + '/answer'), {...what, note: note.value, version: a.version}, c.signal)
    } catch (e) {
      if (!(e instanceof Refused) || e.status !== 409) throw e
      await inbox.load(c.signal)
      const is = await get(of(a, 'approvals/' + at(a.id)), c.signal)
      fill(root, el('h2', {tabindex: -1}, T.answer.lateTitle), el('p', {class: 'error', role: 'alert'}, T.answer.late, ' ', seen(e.message)), outcome(is), whatItDoes(is), el('a', {to: '#/inbox'}, T.inbox.back))
      /** @type {HTMLElement} */ (root.querySelector('h2')).focus()
      return
    }
    await inbox.load(c.signal)
    c.say(text)
    c.go('#/inbox')
  }
  const remember = rememberStep(a, (b, scope, words) => send(b, {yes: true, scope}, T.answer.remembered(words)))
  const no = button(T.answer.no, b => send(b, {yes: false}, T.answer.saidNo), {class: 'danger', 'data-focus': 'no'})
  const later = button(T.answer.later, () => {
    const item = inbox.items.find(i => i.key === keyOf(a, 'approval', a.id))
    if (item) inbox.putOff(item)
    c.say(T.answer.putOff)
    c.go('#/inbox')
  }, {class: 'plain'})
  add(root, el('section', {class: 'answer', 'aria-label': T.answer.title},
    field(T.answer.note, note, T.answer.noteHint),
    el('div', {class: 'actions'}, no, button(T.answer.once, b => send(b, {yes: true}, T.answer.saidYes), {class: 'good'}), later),
    remember, el('div', {class: 'clis'}, command(a.command, T.command.yes), command(a.command.replace('approve yes', 'approve no'), T.command.no))))
  if (first) no.focus({preventScroll: true}) // what is asked stays in view
}

/** @param {any} a @param {(b: Element, scope: string, words: string) => any} send */
function rememberStep(a, send) {
  const scopes = (a.scopes || []).filter((/** @type {string} */ s) => s !== 'once')
  if (scopes.length === 0) return el('p', {class: 'soft'}, T.remember.never)
  const hours = el('select', {'aria-label': T.remember.hoursName}, [0.25, 1, 2, 4, 8, 24].filter(h => h * hour <= a.for).map(h => el('option', {value: h < 1 ? h * 60 + 'm' : h + 'h'}, span(h * 3600))))
  const words = {session: T.remember.session, hours: T.remember.hours}
  const choices = scopes.map((/** @type {'session'|'hours'} */ s) => el('label', {class: 'choice'}, el('input', {type: 'radio', name: 'scope', value: s}), el('span', {}, words[s], s === 'hours' && [' ', hours])))
  const step = fold(T.remember.open, el('fieldset', {}, el('legend', {}, T.remember.legend(a.tool)), choices, el('p', {class: 'soft'}, T.remember.same),
    el('div', {class: 'actions'}, button(T.remember.yes, b => {
      const said = step.querySelector('input[name=scope]:checked')
      if (!said) return wrong(b, T.remember.choose)
      return send(b, said.value === 'hours' ? hours.value : 'session', said.value === 'hours' ? T.remember.forTime(hours.selectedOptions[0].textContent || '') : T.remember.session)
    }, {class: 'good'}))))
  return step
}
