// What a server does, at a glance.
import {add, el, fill, keyed} from '../dom.js'
import {get} from '../api.js'
import {ago, bytes, line, seen} from '../format.js'
import {bars, meter, rank} from '../charts.js'
import {inbox} from '../inboxstore.js'
import {T} from '../texts.js'
import {card, code, command, empty, facts, grid} from '../widgets.js'

const mostBoxes = 20 // in the picture

/** @param {{unit?: string, limit: number, used?: number}} q */
function amount(q) {
  const as = q.unit === 'bytes' || q.unit === 'bytes/h' ? bytes : (/** @type {number} */ n) => String(Math.round(n * 100) / 100)
  const per = q.unit === 'bytes/h' ? T.overview.anHour : q.unit === '1/s' ? T.overview.aSecond : ''
  return (q.used === undefined ? T.overview.most(as(q.limit)) : T.overview.of(as(q.used), as(q.limit))) + per
}

/** @param {import('../main.js').Page} c */
export function open(c) {
  const head = el('div', {class: 'tiles'}), calls = el('div', {}), tenants = el('div', {}), boxes = el('div', {})
  const me = c.me
  add(c.root, head, card(T.overview.calls, calls), grid(card(T.overview.quotas, tenants), card(T.overview.memory, boxes)),
    card(T.overview.server, facts([[T.field.workspace, me.workspace && code(me.workspace)], [T.nav.policy, me.policy && code(me.policy)], [T.overview.since, ago(me.since)], [T.overview.version, seen(me.version)], [T.overview.pid, String(me.pid)]]), command('belljar doctor')))
  /** @param {string} name @param {string|number} value @param {string} to @param {string} [look] */
  const tile = (name, value, to, look = '') => el('a', {class: 'tile ' + look, to}, el('strong', {}, value), el('span', {}, name))
  for (const part of [calls, tenants, boxes]) fill(part, el('p', {class: 'soft'}, T.page.loading))
  const has = (/** @type {string} */ v) => me.views.includes(v)
  /** @type {any[]|null} */
  let running = null // the numbers of what runs and was refused, behind what waits
  const count = () => {
    if (!running) return
    const waits = inbox.waiting().length
    const tiles = [['inbox', T.overview.waits, waits, '#/inbox', waits ? 'wait' : ''], ...running]
    keyed(head, tiles.filter(t => has(t[0])), t => t[0], ([, name, value, to, look]) => tile(name, value, to, look))
  }
  let before = ''
  const refresh = async () => {
    const [stats, open, sessions, jobs] = await Promise.all([get('stats', c.signal), has('boxes') ? get('boxes', c.signal) : [], has('sessions') ? get('sessions', c.signal) : [], has('jobs') ? get('jobs', c.signal) : []])
    running = [['boxes', T.nav.boxes, open.length, '#/boxes'], ['sessions', T.nav.sessions, sessions.length, '#/sessions'], ['jobs', T.overview.running, jobs.filter((/** @type {any} */ j) => !j.status).length, '#/jobs'],
      ['audit', T.overview.refused, stats.calls.deny.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0), '#/audit?decision=deny']]
    count()
    // A table that somebody has opened stays open while nothing changes.
    const is = JSON.stringify([stats.calls, stats.tenants, (stats.boxes || []).map((/** @type {any} */ b) => [b.id, bytes((b.memory || []).at(-1) || 0)])])
    if (is === before) return
    before = is
    const at = stats.calls.minute.map((/** @type {string} */ m) => new Date(m).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'}))
    fill(calls, at.length === 0 ? empty(T.overview.noCalls) : bars(T.overview.calls, at, [
      {name: T.verdict.allow, look: 'yes', values: stats.calls.allow}, {name: T.verdict.ask, look: 'wait', values: stats.calls.ask}, {name: T.verdict.deny, look: 'no', values: stats.calls.deny}], calls.clientWidth))
    fill(tenants, stats.tenants.length === 0 ? empty(T.overview.noTenants) : stats.tenants.map((/** @type {any} */ t) => el('div', {class: 'part'}, el('h3', {}, line(t.name, 60)),
      (t.quotas || []).length === 0 ? el('p', {class: 'soft'}, T.overview.noQuota) : (t.quotas || []).map((/** @type {any} */ q) => el('div', {class: 'quota'}, el('span', {}, seen(q.name.replaceAll('_', ' '))),
        q.used === undefined ? el('span', {class: 'soft'}, amount(q)) : meter(t.name + ' ' + q.name, q.used, q.limit, amount(q)))))))
    fill(boxes, !(stats.boxes || []).length ? empty(T.overview.noBoxes) : rank(T.overview.memory, [T.boxes.box, T.boxes.memory], stats.boxes.slice(0, mostBoxes).map((/** @type {any} */ b) => ({name: b.id, value: b.memory.at(-1), text: bytes(b.memory.at(-1))}))), stats.boxes?.length > mostBoxes && el('p', {class: 'soft'}, T.overview.moreBoxes(stats.boxes.length - mostBoxes)))
  }
  inbox.watch(count, c.signal)
  c.every(10_000, refresh)
  return {kinds: ['box', 'session', 'job', 'audit'], refresh}
}
