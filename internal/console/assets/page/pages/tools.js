// What tools work with: search engines, browsers, and what agents keep.
import {add, el, fill, picture} from '../dom.js'
import {at, blob, get, post} from '../api.js'
import {ago, bytes, line, seen, span} from '../format.js'
import {meter, rank, spark} from '../charts.js'
import {T} from '../texts.js'
import {agent, button, card, code, command, confirm, empty, facts, grid, table, verdict, word} from '../widgets.js'

/** @param {import('../main.js').Page} c */
export function openSearch(c) {
  const slow = el('div', {})
  const list = table(T.nav.search, [
    {head: T.search.engine, cell: e => el('strong', {}, seen(e.engine)), look: 'main'},
    {head: T.field.state, cell: e => verdict(e.state)},
    {head: T.search.outcome, cell: e => e.since && seen(e.outcome)},
    {head: T.search.since, cell: e => ago(e.since)},
    {head: T.search.retry, cell: e => e.retry_ms > 0 && span(e.retry_ms / 1000)},
    {head: T.search.last, cell: e => (e.took_ms || []).length > 0 ? spark(T.search.lastOf(e.engine), e.took_ms, T.audit.took(e.took_ms.at(-1))) : e.slow_ms > 0 && T.audit.took(e.slow_ms), look: 'num'},
    {head: T.field.action, cell: e => c.may('operator') && button(T.search.test, async b => {
      if (await confirm({title: T.search.testTitle, text: el('p', {}, el('strong', {}, seen(e.engine)), '. ', T.search.testText), yes: T.search.test, cli: 'belljar search doctor --live ' + word(e.engine)}) === null) return
      const got = await post('search/' + at(e.engine) + '/test', {}, c.signal)
      const near = b.parentElement
      near?.querySelector('.notice')?.remove()
      near?.append(el('div', {class: 'notice'}, el('strong', {}, seen(got.outcome)), ' ', T.search.results(got.results || 0), ' ', T.audit.took(got.ms || 0), got.first_title && [' ', el('q', {}, line(got.first_title, 120))], [got.detail, got.wrong].map(x => x && [' ', line(x, 200)])))
    }, {class: 'small', 'aria-label': T.search.testName(e.engine)})},
  ], e => e.engine, T.search.none)
  add(c.root, slow, list.node, el('p', {class: 'soft'}, T.search.hint), command('belljar search doctor'))
  const refresh = async () => {
    const {engines} = await get('search', c.signal)
    list.set(engines)
    const known = engines.filter((/** @type {any} */ e) => e.slow_ms > 0)
    fill(slow, known.length > 0 && card(T.search.picture, rank(T.search.picture, [T.search.engine, T.search.slow], known.map((/** @type {any} */ e) => ({name: e.engine, value: e.slow_ms, text: T.audit.took(e.slow_ms), look: e.state === 'healthy' ? 'main' : 'wait'})))))
  }
  c.every(10_000, refresh)
  return {kinds: [], refresh}
}

/** @param {import('../main.js').Page} c */
export function openBrowser(c) {
  const all = el('div', {})
  const boxes = table(T.browser.boxes, [
    {head: T.boxes.box, cell: b => code(b.id), look: 'main'}, {head: T.field.tenant, cell: b => line(b.tenant, 40)}, {head: T.approval.profile, cell: b => line(b.profile, 40)},
  ], b => b.id, T.browser.none)
  const shot = el('div', {role: 'status'})
  const hold = (/** @type {any} */ s) => {
    const [what, text, name] = s.held_by ? ['release', T.browser.release, T.browser.releaseName(s.id)] : ['hold', T.browser.hold, T.browser.holdName(s.id)]
    return button(text, async () => {
      await post('browser/' + at(s.id) + '/' + what, {}, c.signal)
      await refresh()
    }, {class: 'small', 'aria-label': name})
  }
  const seats = table(T.browser.seats, [
    {head: T.boxes.box, cell: s => code(s.id), look: 'main'}, {head: T.field.tenant, cell: s => line(s.tenant, 40)}, {head: T.approval.profile, cell: s => line(s.profile, 40)}, {head: T.field.state, cell: s => verdict(s.state)},
    {head: T.browser.tabs, cell: s => String(s.tabs), look: 'num'}, {head: T.boxes.memory, cell: s => s.memory > 0 && bytes(s.memory), look: 'num'},
    {head: T.browser.held, cell: s => s.held_by && el('strong', {}, line(s.held_by, 60))},
    {head: T.field.action, cell: s => [(s.state === 'live' || s.state === 'frozen') && button(T.browser.show, async () => {
      const png = await blob('browser/' + at(s.id) + '/picture', c.signal)
      fill(shot, card(T.browser.shows(s.id), agent(T.browser.frame, picture(png, T.browser.shows(s.id)))))
    }, {class: 'small', 'aria-label': T.browser.showName(s.id)}), ' ', c.may('operator') && hold(s)]},
  ], s => s.id, T.browser.noSeats, 'cards')
  add(c.root, all, card(T.browser.seats, seats.node), shot, card(T.browser.boxes, boxes.node), command('belljar ps'))
  const refresh = async () => {
    const got = await get('browser', c.signal)
    boxes.set(got.boxes)
    seats.set(got.seats)
    fill(all, grid(got.pools.map((/** @type {any} */ p, /** @type {number} */ i) => card(T.browser.pool(i + 1),
      meter(T.browser.busyOf, p.busy, Math.max(1, p.busy + p.warm), T.browser.busy(p.busy, p.warm)),
      facts([[T.browser.chromes, String(p.chromes)], [T.browser.pages, String(p.pages)], [T.browser.started, String(p.started)], [T.browser.recycled, String(p.recycled)],
        [T.browser.died, p.died > 0 ? el('strong', {class: 'bad'}, String(p.died)) : '0'], [T.browser.hung, p.hung > 0 ? el('strong', {class: 'bad'}, String(p.hung)) : '0']])))))
  }
  c.every(5000, refresh)
  return {kinds: ['box'], refresh}
}

/** @param {import('../main.js').Page} c */
export function openWork(c) {
  const all = el('div', {class: 'stack'})
  add(c.root, all)
  const refresh = async () => {
    const got = await get('work', c.signal)
    fill(all, got.more > 0 && el('p', {class: 'soft'}, T.work.more(got.more)),
      card(T.work.todos, got.todos.length === 0 && empty(T.work.noTodos), got.todos.map((/** @type {any} */ t) => {
        const steps = t.steps || [], done = steps.filter((/** @type {any} */ s) => s.done).length
        return el('div', {class: 'part'}, agent(T.work.frame, el('p', {}, verdict(t.state), ' ', el('strong', {}, seen(t.title))),
          steps.length > 0 && [meter(T.work.stepsOf, done, steps.length, T.work.steps(done, steps.length)), el('ol', {class: 'steps'}, steps.map((/** @type {any} */ s) => el('li', {class: s.done ? 'done' : null}, el('span', {class: 'sr'}, s.done ? T.work.isDone : T.work.isOpen), seen(s.text))))]),
        el('p', {class: 'soft'}, line(t.tenant, 40), ' \u00b7 ', el('code', {}, line(t.place, 80))))
      })),
      card(T.work.plans, got.plans.length === 0 && empty(T.work.noPlans), got.plans.length > 0 && agent(T.work.frame, el('ul', {class: 'lines'}, got.plans.map((/** @type {any} */ p) => el('li', {}, el('strong', {}, line(p.title || p.id, 120)), ' ', el('code', {}, line(p.id, 80)), ' ', el('span', {class: 'soft'}, line(p.tenant, 40), ' \u00b7 ', ago(p.saved))))))),
      card(T.work.callbacks, got.callbacks.length === 0 && empty(T.work.noCallbacks), got.callbacks.length > 0 && agent(T.work.frame, el('ul', {class: 'lines'}, got.callbacks.map((/** @type {any} */ b) => el('li', {}, el('q', {}, line(b.message, 200)), ' ', el('span', {class: 'soft'}, ago(b.next, true), b.left > 0 && [' \u00b7 ', T.work.times(b.left)], ' \u00b7 ', line(b.tenant, 40))))))),
      command('belljar call TaskManager action=list'))
  }
  return {kinds: ['session', 'audit'], refresh}
}

/** @param {import('../main.js').Page} c */
export function openWorkers(c) {
  const list = table(T.nav.workers, [
    {head: T.field.worker, cell: w => code(w.name), look: 'main'}, {head: T.field.state, cell: w => verdict(w.state)}, {head: T.workers.version, cell: w => line(w.version, 40)},
    {head: T.workers.linked, cell: w => ago(w.since)}, {head: T.workers.places, cell: w => String(w.places), look: 'num'}, {head: T.workers.calls, cell: w => String(w.running), look: 'num'},
  ], w => w.name, T.workers.none)
  add(c.root, list.node, el('p', {class: 'soft'}, T.workers.hint), command('belljar fleet status', T.command.label, ''))
  const refresh = async () => list.set(await get('workers', c.signal))
  c.every(5000, refresh)
  return {kinds: ['worker'], refresh}
}
