// What boxes changed beside their workspaces: seen file by file, taken over or thrown away.
import {add, el, fill, keyed} from '../dom.js'
import {at, get, post, Refused} from '../api.js'
import {ago, bytes, line, seen} from '../format.js'
import {T} from '../texts.js'
import {agent, button, code, command, confirm, empty, facts, table, verdict, word, wrong} from '../widgets.js'
import {diff} from './pin.js'

const atOnce = 300, mostPaths = 1000, mostSets = 200 // which the server sends

/** @param {import('../main.js').Page} c */
export function open(c) {
  if (c.args.length >= 1) return one(c, c.args[0])
  const list = table(T.nav.workspaces, [
    {head: T.sets.set, cell: s => el('a', {to: '#/workspaces/' + at(s.name)}, el('code', {}, line(s.name, 60))), look: 'main'},
    {head: T.field.workspace, cell: s => el('code', {}, line(s.base || '', 80))},
    {head: T.field.tenant, cell: s => line(s.tenant || '', 40)},
    {head: T.sets.changes, cell: s => s.changes === null ? el('span', {class: 'soft'}, line(s.changes_unknown || '', 80)) : String(s.changes), look: 'num'},
    {head: T.field.state, cell: s => s.live && verdict('live')},
    {head: T.sets.created, cell: s => ago(s.created)},
  ], s => s.name, T.sets.none)
  const cut = el('p', {class: 'flag', hidden: true}, T.sets.cut)
  add(c.root, list.node, cut, el('p', {class: 'soft'}, T.sets.hint), command('belljar workspace list'))
  return {kinds: ['box', 'session'], refresh: async () => {
    const all = await get('workspaces', c.signal)
    list.set(all)
    cut.hidden = all.length < mostSets
  }}
}

/** about is what a change is, beside its path. @param {any} f */
const about = f => [f.was_type && T.sets.type(f.was_type, f.type), f.type !== 'file' && !f.was_type && f.type, f.target && ['\u2192 ', seen(f.target)], f.link_to && [T.sets.linked, ' ', seen(f.link_to)],
  f.was_mode && f.mode && f.was_mode !== f.mode && T.sets.mode(f.was_mode, f.mode), f.type === 'file' && f.kind !== 'deleted' && bytes(f.size)].filter(Boolean).map((x, i) => [i ? ' \u00b7 ' : '', x])

/** @param {import('../main.js').Page} c @param {string} name */
function one(c, name) {
  const head = el('div', {}), stale = el('div', {role: 'status'})
  const list = el('ul', {class: 'list files', 'aria-label': T.sets.files}), rest = el('div', {class: 'actions'})
  const detail = el('div', {class: 'detail'}, empty(T.sets.choose))
  const count = el('p', {class: 'soft', role: 'status'})
  /** @type {Set<string>} */
  const chosen = new Set()
  let is = /** @type {any} */ (null), shows = atOnce
  const path = 'workspaces/' + at(name)

  /** @param {any} f @param {HTMLElement} from */
  const look = async (f, from) => {
    list.querySelector('[aria-current]')?.removeAttribute('aria-current')
    from.setAttribute('aria-current', 'true')
    const got = await get(path + '/diff?path=' + encodeURIComponent(f.path), c.signal)
    fill(detail, el('h2', {tabindex: -1}, el('code', {}, line(f.path, 200))), el('p', {}, verdict(f.kind), ' ', about(f)), f.refused && el('p', {class: 'flag'}, T.sets.refused, ' ', seen(f.refused)),
      f.conflict && el('p', {class: 'flag'}, T.sets.conflict, ' ', seen(f.conflict)),
      got.binary && empty(T.sets.binary), got.lines.length > 0 ? agent(T.sets.frame, diff(got.lines, got.cut)) : !got.binary && empty(T.sets.noText))
    detail.querySelector('h2').focus()
  }
  /** @param {any} f */
  const row = f => el('li', {}, c.may('operator') && el('input', {type: 'checkbox', 'aria-label': T.sets.take(f.path), checked: chosen.has(f.path), disabled: !!f.refused, on: {change: (/** @type {any} */ e) => {
    if (e.target.checked) chosen.add(f.path)
    else chosen.delete(f.path)
    counted()
  }}}), button('', b => look(f, b), {class: 'row', 'data-focus': f.path}))
  const counted = () => {
    fill(count, T.sets.count(is.files.length + (is.more || 0), chosen.size))
    fill(apply, chosen.size ? T.sets.applySome(chosen.size) : T.sets.applyAll)
  }
  const show = () => {
    keyed(list, is.files.slice(0, shows), (/** @type {any} */ f) => f.path, f => {
      const li = row(f)
      fill(li.lastElementChild, el('span', {class: 'clip'}, verdict(f.kind), ' ', el('code', {}, line(f.path, 120))), el('span', {class: 'soft'}, about(f), f.refused && [' \u00b7 ', el('strong', {class: 'bad'}, T.sets.no)], f.conflict && [' \u00b7 ', el('strong', {class: 'bad'}, T.sets.conflicts)]))
      return li
    })
    fill(rest, is.files.length > shows && button(T.sets.more(is.files.length - shows), () => {
      shows += atOnce * 4
      show()
    }), is.more > 0 && el('p', {class: 'soft'}, T.sets.left(is.more)))
    counted()
  }
  /** @param {Element} b @param {unknown} e */
  const late = (b, e) => {
    if (!(e instanceof Refused) || e.status !== 409) throw e
    wrong(b, e.message)
    fill(stale, el('div', {class: 'flag'}, T.sets.stale, ' ', button(T.sets.again, read)))
  }
  const apply = button('', async b => {
    const all = chosen.size === 0
    if (chosen.size > mostPaths) throw new Error(T.sets.tooMany(mostPaths))
    const paths = all ? [] : [...chosen]
    const n = all ? is.files.length + (is.more || 0) : paths.length
    if (await confirm({title: T.sets.applyTitle(n), text: [el('p', {}, T.sets.applyText(is.base)), el('ul', {class: 'lines'}, (all ? is.files.map((/** @type {any} */ f) => f.path) : paths).slice(0, 12).map((/** @type {string} */ p) => el('li', {}, el('code', {}, line(p, 120)))), n > 12 && el('li', {}, '\u2026'))],
      yes: T.sets.applyYes, cli: 'belljar workspace apply ' + name + (all ? '' : ' ' + paths.slice(0, 3).map(word).join(' ') + (paths.length > 3 ? ' \u2026' : ''))}) === null) return
    let done
    try {
      done = await post(path + '/apply', {paths, digest: is.digest}, c.signal)
    } catch (e) {
      return late(b, e)
    }
    const left = [...(done.skipped || []), ...(done.conflicts || [])]
    chosen.clear()
    if (done.emptied) {
      c.say(T.sets.applied(done.applied.length))
      return c.go('#/workspaces')
    }
    await read()
    fill(stale, el('div', {class: 'notice'}, T.sets.applied(done.applied.length), left.length > 0 && el('ul', {class: 'lines'}, left.map((/** @type {any} */ s) => el('li', {}, el('code', {}, line(s.path, 120)), ' ', seen(s.reason))))))
  }, {class: 'good'})
  const discard = button(T.sets.discard, async b => {
    if (await confirm({title: T.sets.discardTitle, text: el('p', {}, T.sets.discardText(is.files.length + (is.more || 0))), yes: T.sets.discardYes, cli: 'belljar workspace discard ' + name}) === null) return
    try {
      await post(path + '/discard', {digest: is.digest}, c.signal)
    } catch (e) {
      return late(b, e)
    }
    c.say(T.sets.discarded)
    c.go('#/workspaces')
  }, {class: 'danger'})
  const read = async () => {
    is = await get(path + '/changes', c.signal)
    fill(stale)
    for (const p of chosen) if (!is.files.some((/** @type {any} */ f) => f.path === p)) chosen.delete(p)
    fill(head, facts([[T.field.workspace, code(is.base)], [T.field.state, is.live && [verdict('live'), ' ', T.sets.live]]]))
    show()
    apply.hidden = is.files.length === 0
    if (apply.hidden) fill(detail, empty(T.sets.unchanged))
  }
  add(c.root, el('a', {to: '#/workspaces', class: 'back'}, T.sets.back), head, stale,
    el('div', {class: 'actions'}, c.may('operator') ? [apply, discard] : empty(T.role.operator), command('belljar workspace diff ' + name)), count,
    el('div', {class: 'split'}, el('div', {class: 'pane'}, list, rest), detail))
  let loaded = false
  return {kinds: [], refresh: async () => {
    if (loaded) return
    await read()
    loaded = true
  }}
}
