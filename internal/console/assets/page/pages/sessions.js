// Conversations of agents.
import {add, el} from '../dom.js'
import {at, get, of, post} from '../api.js'
import {ago, line} from '../format.js'
import {T} from '../texts.js'
import {button, code, command, confirm, ofWorker, table} from '../widgets.js'

/** @param {import('../main.js').Page} c */
export function open(c) {
  const list = table(T.nav.sessions, [
    {head: T.field.session, cell: s => el('a', {to: '#/audit?session=' + encodeURIComponent(s.id), title: T.sessions.calls}, code(s.id)), look: 'main'},
    ofWorker(c),
    {head: T.field.tenant, cell: s => [line(s.tenant, 40), s.principal && el('span', {class: 'soft wide'}, line(s.principal, 60))]},
    {head: T.sessions.client, cell: s => [line([s.client, s.client_version].join(' ').trim(), 50), s.transport && el('span', {class: 'soft wide'}, line(s.transport, 20))]},
    {head: T.sessions.began, cell: s => ago(s.began)},
    {head: T.sessions.used, cell: s => ago(s.used)},
    {head: T.sessions.running, cell: s => String(s.calls), look: 'num'},
    {head: T.boxes.jobs, cell: s => String(s.jobs), look: 'num'},
    {head: T.field.action, cell: s => c.may('operator') && button(T.sessions.end, async () => {
      const note = await confirm({title: T.sessions.endTitle, text: el('p', {}, T.sessions.endText), yes: T.sessions.endYes, note: T.answer.note, cli: 'belljar session end ' + s.id})
      if (note === null) return
      await post(of(s, 'sessions/' + at(s.id) + '/end'), {note}, c.signal)
      c.say(T.sessions.ended)
      await refresh()
    }, {class: 'danger small', 'aria-label': T.sessions.endName(s.id), 'data-focus': 'end'})},
  ], s => s.id, T.sessions.none, 'cards')
  add(c.root, list.node, command('belljar session list'))
  const refresh = async () => list.set(await get('sessions', c.signal))
  return {kinds: ['session', 'job'], refresh}
}
