// A definition of somebody else's server that is not what it was.
import {add, el, fill} from '../dom.js'
import {at, of, post, Refused} from '../api.js'
import {ago, line, seen} from '../format.js'
import {inbox, keyOf} from '../inboxstore.js'
import {T} from '../texts.js'
import {agent, button, code, command, empty, facts, guard, verdict} from '../widgets.js'

/** diff is the lines of a comparison. @param {{k: string, t: string}[]} lines @param {boolean} cut */
export function diff(lines, cut) {
  const look = /** @type {Record<string, string>} */ ({'+': 'new', '-': 'old', '@': 'place'})
  return [el('div', {class: 'diff', role: 'region', 'aria-label': T.diff.name, tabindex: 0}, lines.map(l => el('div', {class: look[l.k]}, el('span', {class: 'sign'}, l.k === '@' ? '' : l.k), el('span', {}, seen(l.t, true))))),
    cut && el('p', {class: 'flag'}, T.diff.cut)]
}

/** @param {import('../main.js').Page} c @param {Element} root @param {string} id */
export function pinView(c, root, id) {
  let shownID = ''
  const show = async () => {
    if (!inbox.loaded) await inbox.load(c.signal)
    const item = inbox.items.find(i => i.key === keyOf(c.worker, 'pin', id))
    if (!item) {
      shownID = ''
      fill(root, el('a', {to: '#/inbox', class: 'back'}, T.inbox.back), empty(T.pin.gone))
      return
    }
    if (shownID === id) return
    shownID = id
    const p = item.is, shown = performance.now()
    fill(root, el('a', {to: '#/inbox', class: 'back'}, T.inbox.back), el('h2', {tabindex: -1}, T.pin.title, ' ', el('code', {}, line(p.name, 80))),
      facts([[T.field.worker, p.worker && code(p.worker)], [T.pin.upstream, seen(p.upstream)], [T.pin.what, verdict(p.what)], [T.field.tenant, seen(p.tenant)], [T.field.workspace, p.place && code(p.place)], [T.pin.since, ago(p.since)]]),
      p.findings && el('div', {class: 'flag'}, el('p', {}, T.pin.findings), el('ul', {}, p.findings.map((/** @type {string} */ f) => el('li', {}, seen(f))))),
      agent(T.pin.frame, diff(p.lines, p.cut)))
    if (!c.may('approver')) {
      add(root, empty(T.role.approver))
      return
    }
    /** @param {boolean} approve @param {string} text */
    const send = async (approve, text) => {
      if (performance.now() - shown < guard) return
      try {
        await post(of(p, 'upstreams/' + at(p.upstream) + '/pins'), {approve, version: p.version}, c.signal)
      } catch (e) {
        if (!(e instanceof Refused) || e.status !== 409) throw e
        throw new Error(T.answer.late + ' ' + e.message)
      }
      await inbox.load(c.signal)
      c.say(text)
      c.go('#/inbox')
    }
    const no = button(T.pin.no, () => send(false, T.pin.refused), {class: 'danger', 'data-focus': 'no'})
    add(root, el('section', {class: 'answer', 'aria-label': T.answer.title}, el('p', {class: 'soft'}, T.pin.means),
      el('div', {class: 'actions'}, no, p.cut ? null : button(T.pin.yes, () => send(true, T.pin.trusted), {class: 'good'}),
        button(T.answer.later, () => {
          inbox.putOff(item)
          c.say(T.answer.putOff)
          c.go('#/inbox')
        }, {class: 'plain'})), command(p.command)))
    no.focus({preventScroll: true})
  }
  show().catch(e => fill(root, el('p', {class: 'error', role: 'alert'}, seen(e.message))))
  return {kinds: ['upstream'], refresh: show}
}
