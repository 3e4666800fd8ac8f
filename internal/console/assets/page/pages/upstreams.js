// Servers of other people that this one offers.
import {add, el, fill} from '../dom.js'
import {at, get, post} from '../api.js'
import {ago, line, seen} from '../format.js'
import {T} from '../texts.js'
import {block, bytes} from '../format.js'
import {agent, button, card, code, command, confirm, empty, facts, fold, verdict, word} from '../widgets.js'

/** @param {import('../main.js').Page} c */
export function open(c) {
  const all = el('div', {class: 'stack'})
  add(c.root, all, command('belljar upstream list'))
  /** login begins a login at a server, and goes where it is. @param {any} u @param {string} place */
  const login = async (u, place) => {
    const got = await post('upstreams/' + at(u.name) + '/login', {tenant: u.tenant || '', place}, c.signal)
    const to = new URL(got.url)
    if (!/^https?:$/.test(to.protocol)) throw new Error(T.upstreams.loginStrange)
    const names = facts([[T.upstreams.loginServer, code(u.name)], [T.field.tenant, seen(u.tenant || 'local')], [T.upstreams.loginAddress, el('code', {class: 'wide'}, seen(got.server))], [T.upstreams.loginIssuer, el('code', {class: 'wide'}, seen(got.issuer))], [T.upstreams.loginTo, el('code', {class: 'wide'}, seen(to.origin))]])
    if (await confirm({title: T.upstreams.loginTitle, text: el('div', {class: 'stack'}, agent(T.upstreams.frame, names), el('p', {}, T.upstreams.loginText)), yes: T.upstreams.loginGo, cli: cli(u)}) === null) return
    location.assign(to)
  }
  /** @param {any} u */
  const cli = u => 'belljar upstream login ' + word(u.name) + (u.tenant && u.tenant !== 'local' ? ' --tenant ' + word(u.tenant) : '')
  /** @param {any} u @param {string} place */
  const one = (u, place) => card([el('code', {}, line(u.name, 60)), ' ', verdict(u.state)],
    facts([[T.upstreams.reason, u.reason && seen(u.reason)], [T.upstreams.since, ago(u.since)], [T.field.tenant, u.tenant && seen(u.tenant)], [T.field.session, u.session && code(u.session)],
      [T.upstreams.starts, u.attempt > 0 && String(u.attempt)], [T.upstreams.next, ago(u.until, true)], [T.sessions.running, String(u.calls)], [T.upstreams.tools, u.tools > 0 && T.upstreams.toolsAre(u.tools, bytes(u.bytes))],
      [T.upstreams.file, [el('code', {}, seen(u.file), u.line ? ':' + u.line : ''), !u.trusted && [' ', el('span', {class: 'tag wait'}, T.upstreams.untrusted)]]], [T.upstreams.hides, (u.hides || []).map((/** @type {string} */ h) => el('code', {class: 'wide'}, seen(h)))],
      [T.upstreams.pins, [u.pin && seen(u.pin), u.held > 0 && [' ', el('a', {to: '#/inbox'}, T.upstreams.held(u.held))]]]]),
    u.stderr && u.stderr.length > 0 && fold(T.upstreams.stderr, agent(T.upstreams.frame, block(u.stderr.join('\n')))),
    el('div', {class: 'actions'}, c.may('operator') && button(T.upstreams.restart, async () => {
      if (await confirm({title: T.upstreams.restartTitle, text: el('p', {}, T.upstreams.restartText(u.calls)), yes: T.upstreams.restart, cli: 'belljar upstream restart ' + word(u.name)}) === null) return
      const done = await post('upstreams/' + at(u.name) + '/restart', {}, c.signal)
      c.say(T.upstreams.restarted(done.instances))
      await refresh()
    }, {class: 'small', 'aria-label': T.upstreams.restartName(u.name)}), command('belljar upstream logs ' + word(u.name))),
    u.needs_login && el('div', {class: 'actions'},
      c.may('operator') && button(T.upstreams.login, () => login(u, place), {class: 'small main', 'aria-label': T.upstreams.loginName(u.name)}), command(cli(u))))
  let before = ''
  const refresh = async () => {
    const places = await get('upstreams', c.signal)
    if (JSON.stringify(places) === before) return
    before = JSON.stringify(places)
    const some = places.some((/** @type {any} */ p) => (p.upstreams || []).length || (p.faults || []).length)
    fill(all, !some && empty(T.upstreams.none), places.map((/** @type {any} */ p) => [
      some && el('p', {class: 'soft'}, T.upstreams.own(p.own?.tools || 0, bytes(p.own?.bytes || 0)), ' ', code(p.place)),
      (p.faults || []).map((/** @type {string} */ f) => el('div', {class: 'flag'}, agent(T.upstreams.faultFrame, block(f)))), el('div', {class: 'grid'}, (p.upstreams || []).map((/** @type {any} */ u) => one(u, p.place))), p.more > 0 && el('p', {class: 'soft'}, T.upstreams.more(p.more))]))
  }
  return {kinds: ['upstream'], refresh}
}
