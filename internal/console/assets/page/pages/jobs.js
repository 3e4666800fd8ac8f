// Background tasks, and the output of one of them as it comes.
import {add, el, fill} from '../dom.js'
import {at, get, of, post, to} from '../api.js'
import {ago, block, bytes, line, seen} from '../format.js'
import {Output} from '../output.js'
import {T} from '../texts.js'
import {agent, button, code, command, confirm, empty, facts, ofWorker, table, verdict} from '../widgets.js'

const pollEvery = 500, part = 64 << 10

/** @param {any} j */
const state = j => verdict(j.status || 'running')

/** @param {import('../main.js').Page} c @param {any} j @param {() => any} then */
const stop = (c, j, then) => !j.status && c.may('operator') && button(T.jobs.stop, async () => {
  if (await confirm({title: T.jobs.stopTitle, text: agent(T.jobs.frame, block(j.command)), yes: T.jobs.stopYes, cli: `belljar job end ${j.task_id} --session ${j.session}`}) === null) return
  await post(of(j, 'jobs/' + at(j.session, String(j.task_id)) + '/end'), {}, c.signal)
  c.say(T.jobs.stopped)
  await then()
}, {class: 'danger small', 'aria-label': T.jobs.stopName(j.task_id), 'data-focus': 'stop'})

/** @param {import('../main.js').Page} c */
export function open(c) {
  if (c.args.length === 2) return one(c, c.args[0], c.args[1])
  const list = table(T.nav.jobs, [
    {head: T.jobs.task, cell: j => el('a', {to: to(j, 'jobs', j.session, String(j.task_id)), class: 'clip'}, '#', String(j.task_id), ' ', el('code', {}, line(j.command, 90))), look: 'main'},
    {head: T.field.state, cell: state},
    ofWorker(c),
    {head: T.field.tenant, cell: j => line(j.tenant, 40)},
    {head: T.field.session, cell: j => code(j.session)},
    {head: T.jobs.started, cell: j => ago(j.started)},
    {head: T.field.action, cell: j => stop(c, j, refresh)},
  ], j => j.session + '/' + j.task_id, T.jobs.none, 'cards')
  add(c.root, list.node, el('p', {class: 'soft'}, T.jobs.hint), command('belljar job list'))
  const refresh = async () => list.set(await get('jobs', c.signal))
  return {kinds: ['job'], refresh}
}

/** @param {import('../main.js').Page} c @param {string} session @param {string} id */
function one(c, session, id) {
  const head = el('div', {class: 'stack'}), where = el('p', {class: 'soft', role: 'status'})
  const out = new Output(T.jobs.outputOf(id))
  const path = of(c.worker, 'jobs/' + at(session, id) + '/output?from=')
  let next = -part, from = 0, follows = true, over = false, gone = false, asked = 0
  /** read reads a part, which is null if another one was asked for meanwhile. @param {number} at */
  const read = async at => {
    const mine = ++asked
    const got = await get(path + at, c.signal)
    return mine === asked ? got : null
  }
  /** show shows a part behind the others, or alone. @param {any} got @param {boolean} alone */
  const show = (got, alone) => {
    whole.hidden = false
    frame.hidden = tools.hidden = got.total === 0
    if (alone) {
      out.clear()
      out.dropped = follows && got.from > 0
    }
    out.add(got.pieces)
    from = got.from
    next = got.next
    over = got.end
    fill(where, got.total === 0 ? T.output.none : T.output.where(bytes(got.next), bytes(got.total)), got.skipped > 0 && [' ', T.output.skipped(bytes(got.skipped))], over && [' ', T.output.end])
  }
  const poll = async () => {
    if (gone || !follows || over && next >= 0) return
    let alone = next < 0, got = await read(next)
    // A program that writes faster than this page reads loses here what lies between, not on the server.
    if (got && !alone && got.total - got.next > part) {
      alone = true
      got = await read(-part)
    }
    if (got) show(got, alone)
  }
  /** @param {number} at */
  const jump = async at => {
    follows = false
    const got = await read(Math.max(0, at))
    if (!got) return
    show(got, true)
    out.node.scrollTop = 0
  }
  const tools = el('div', {class: 'actions'}, button(T.output.earlier, () => jump(from - part), {class: 'small'}), button(T.output.later, () => jump(next), {class: 'small'}),
    button(T.output.newest, async () => {
      follows = true
      over = false
      next = -part
      await poll()
    }, {class: 'small'}))
  const frame = agent(T.jobs.frame2, out.node)
  const whole = el('div', {class: 'stack', hidden: true}, el('h2', {}, T.jobs.output), frame, where, tools) // until a part is read
  add(c.root, el('a', {to: '#/jobs', class: 'back'}, T.jobs.back), head, whole)
  let before = ''
  const refresh = async () => {
    const all = await get(of(c.worker, 'jobs'), c.signal)
    const found = all.find((/** @type {any} */ j) => j.session === session && String(j.task_id) === id)
    const j = found && {...found, ...c.worker}
    if (JSON.stringify(j) === before) return
    before = JSON.stringify(j)
    gone = !j
    if (!j) return fill(head, empty(T.jobs.gone))
    fill(head, agent(T.jobs.frame, block(j.command), j.description && el('p', {}, seen(j.description))),
      facts([[T.field.state, state(j)], [T.jobs.exit, j.exit_code !== undefined && String(j.exit_code)], [T.field.tool, seen(j.tool)], [T.field.worker, j.worker && code(j.worker)], [T.field.tenant, seen(j.tenant)], [T.boxes.box, code(j.box)], [T.jobs.started, ago(j.started)]]),
      el('div', {class: 'actions'}, stop(c, j, refresh)))
    if (j.status && follows) over = false // what it wrote last
    if (next < 0) await poll()
  }
  c.every(pollEvery, poll)
  return {kinds: ['job'], refresh}
}
