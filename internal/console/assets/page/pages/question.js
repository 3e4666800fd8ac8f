// A question of an agent.
import {add, el, fill} from '../dom.js'
import {at, get, of, post, Refused} from '../api.js'
import {ago, block, seen} from '../format.js'
import {inbox, keyOf} from '../inboxstore.js'
import {T} from '../texts.js'
import {agent, button, code, command, empty, facts, field, guard, verdict} from '../widgets.js'

/** @param {any} q @param {number} n */
function control(q, n) {
  const name = 'q' + n
  const own = el('input', {type: 'text', name, 'data-own': true, maxlength: 2000, autocomplete: 'off', 'aria-label': T.question.own(n + 1)})
  if (q.type === 'text') return field(T.question.yours, el('textarea', {name, rows: 3, maxlength: 2000, 'data-own': true}))
  return el('fieldset', {}, el('legend', {class: 'soft'}, q.multi_select ? T.question.many : T.question.one),
    (q.options || []).map((/** @type {any} */ o) => el('label', {class: 'choice'}, el('input', {type: q.multi_select ? 'checkbox' : 'radio', name, value: o.label}),
      el('span', {}, seen(o.label), o.recommended && [' ', el('span', {class: 'tag plain'}, T.question.recommended)], o.description && el('span', {class: 'soft wide'}, seen(o.description, true)), o.preview && block(o.preview)))),
    q.type === 'choice' && field(T.question.else, own))
}

/** @param {import('../main.js').Page} c @param {Element} root @param {string} id */
export function questionView(c, root, id) {
  let before = ''
  const show = async () => {
    const known = inbox.items.find(i => i.key === keyOf(c.worker, 'question', id))
    const a = known ? known.is : {...await get(of(c.worker, 'questions/' + at(id)), c.signal), ...c.worker}
    if (a.version + a.state === before) return
    before = a.version + a.state
    const shown = performance.now()
    const form = el('div', {}, a.sheet.questions.map((/** @type {any} */ q, /** @type {number} */ n) => el('div', {class: 'part', 'data-question': q.id}, el('p', {class: 'asked'}, seen(q.question, true)), a.state === 'waiting' && c.may('approver') && control(q, n))))
    fill(root, el('a', {to: '#/inbox', class: 'back'}, T.inbox.back), el('h2', {tabindex: -1}, T.question.title), agent(T.question.frame, form),
      facts([[T.field.worker, a.worker && code(a.worker)], [T.field.tenant, seen(a.tenant)], [T.field.session, code(a.session)], [T.field.workspace, a.place && code(a.place)], [T.approval.asked, ago(a.created)], [T.approval.expires, a.state === 'waiting' && ago(a.expires, true)],
        [T.field.record, el('a', {to: '#/audit?q=' + encodeURIComponent(a.id)}, T.approval.record)]]))
    if (a.state !== 'waiting') {
      add(root, el('div', {class: 'notice'}, el('p', {}, verdict(a.state), ' ', a.by && [T.approval.by, ' ', el('strong', {}, seen(a.by))]), a.note && el('p', {}, el('q', {}, seen(a.note)))))
      return
    }
    if (!c.may('approver')) {
      add(root, empty(T.role.approver))
      return
    }
    const note = el('input', {type: 'text', maxlength: 500, autocomplete: 'off'})
    /** @param {object} what @param {string} text */
    const send = async (what, text) => {
      if (performance.now() - shown < guard) return
      try {
        await post(of(a, 'questions/' + at(a.id) + '/answer'), {...what, note: note.value, version: a.version}, c.signal)
      } catch (e) {
        if (!(e instanceof Refused) || e.status !== 409) throw e
        await inbox.load(c.signal)
        await show()
        throw new Error(T.answer.late + ' ' + e.message)
      }
      await inbox.load(c.signal)
      c.say(text)
      c.go('#/inbox')
    }
    const words = () => {
      /** @type {Record<string, string[]>} */
      const all = {}
      for (const one of form.querySelectorAll('[data-question]')) {
        const said = [...one.querySelectorAll('input:checked')].map(i => i.value)
        for (const own of one.querySelectorAll('[data-own]')) if (own.value.trim()) said.push(own.value)
        if (said.length) all[one.getAttribute('data-question')] = said
      }
      return all
    }
    add(root, el('section', {class: 'answer', 'aria-label': T.answer.title}, field(T.answer.note, note, T.answer.noteHint), el('div', {class: 'actions'},
      button(T.question.decline, () => send({decline: true}, T.question.declined), {class: 'danger', 'data-focus': 'no'}),
      button(T.question.send, () => {
        const said = words()
        if (Object.keys(said).length === 0) throw new Error(T.question.empty)
        return send({words: said}, T.question.sent)
      }, {class: 'good'}),
      button(T.answer.later, () => {
        const item = inbox.items.find(i => i.key === keyOf(a, 'question', a.id))
        if (item) inbox.putOff(item)
        c.say(T.answer.putOff)
        c.go('#/inbox')
      }, {class: 'plain'})), command(a.command)))
    root.querySelector('h2')?.focus()
  }
  show().catch(e => fill(root, el('p', {class: 'error', role: 'alert'}, seen(e.message))))
  return {kinds: ['question'], refresh: show}
}
