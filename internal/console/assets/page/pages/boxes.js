// Boxes that are open: what they use, and what runs in them.
import {add, el} from '../dom.js'
import {at, get, of, post} from '../api.js'
import {bytes, line} from '../format.js'
import {spark} from '../charts.js'
import {T} from '../texts.js'
import {button, code, command, confirm, ofWorker, table} from '../widgets.js'

/** @param {any} b */
const keyOf = b => (b.worker || '') + ' ' + b.id

const samples = 60, every = 5000

/** What each box has used while this page was open. @type {Map<string, number[]>} */
const memory = new Map()

/** @param {import('../main.js').Page} c */
export function open(c) {
  /** @param {any} b */
  const ports = b => [(b.listening || []).length > 0 && el('span', {}, T.boxes.listens(b.listening.join(', '))),
    (b.published || []).map((/** @type {any} */ p) => el('span', {class: 'wide'}, T.boxes.published(p.port, p.at)))]
  const list = table(T.nav.boxes, [
    {head: T.boxes.box, cell: b => [code(b.id), b.browser && [' ', el('span', {class: 'tag plain'}, T.boxes.browser)]], look: 'main'},
    ofWorker(c),
    {head: T.field.tenant, cell: b => line(b.tenant, 40)},
    {head: T.approval.profile, cell: b => line(b.profile, 40)},
    {head: T.boxes.memory, cell: b => b.memory > 0 ? [spark(T.boxes.memoryOf(b.id), b.samples, bytes(b.memory)), b.memory_limit > 0 && el('span', {class: 'soft wide'}, T.boxes.limit(bytes(b.memory_limit)))] : el('span', {class: 'soft'}, T.boxes.unknown)},
    {head: T.boxes.cpu, cell: b => b.cpu_ms > 0 && spark(T.boxes.cpuOf(b.id), b.cpu, b.cpu.length ? T.boxes.percent(b.cpu.at(-1)) : T.audit.took(b.cpu_ms))},
    {head: T.boxes.more, cell: b => [b.processes > 0 && el('span', {class: 'wide'}, T.boxes.processes(b.processes)), b.network > 0 && el('span', {class: 'wide'}, T.boxes.network(bytes(b.network))), b.disk > 0 && el('span', {class: 'wide'}, T.boxes.disk(bytes(b.disk)))]},
    {head: T.boxes.jobs, cell: b => b.browser ? '' : b.jobs > 0 ? el('a', {to: '#/jobs'}, String(b.jobs)) : '0', look: 'num'},
    {head: T.boxes.ports, cell: ports},
    {head: T.field.action, cell: b => c.may('operator') && button(T.boxes.kill, async () => {
      const what = b.browser ? {text: el('p', {}, T.boxes.killBrowser)} : {text: el('p', {}, T.boxes.killText(b.jobs)), cli: 'belljar session end ' + b.id}
      if (await confirm({title: T.boxes.killTitle, yes: T.boxes.killYes, ...what}) === null) return
      await post(of(b, 'boxes/' + at(b.id) + '/kill'), {}, c.signal)
      c.say(T.boxes.killed)
      await refresh()
    }, {class: 'danger small', 'aria-label': T.boxes.killName(b.id), 'data-focus': 'kill'})},
  ], b => b.id, T.boxes.none, 'cards')
  add(c.root, list.node, el('p', {class: 'soft'}, T.boxes.hint), command('belljar ps'))
  const refresh = async () => {
    const [boxes, stats] = await Promise.all([get('boxes', c.signal), c.me.views.includes('overview') ? get('stats', c.signal) : {}])
    const more = new Map((stats.boxes || []).map((/** @type {any} */ s) => [s.id, s]))
    for (const id of memory.keys()) if (!boxes.some((/** @type {any} */ b) => keyOf(b) === id)) memory.delete(id)
    for (const b of boxes) {
      const kept = more.get(b.id)?.memory
      const had = memory.get(keyOf(b)) || []
      if (b.memory > 0) had.push(b.memory)
      memory.set(keyOf(b), had.slice(-samples))
      b.cpu = more.get(b.id)?.cpu || []
      b.samples = kept && kept.length > had.length ? kept : [...had.slice(-samples)]
    }
    list.set(boxes)
  }
  c.every(every, refresh)
  return {kinds: ['box', 'job'], refresh}
}

