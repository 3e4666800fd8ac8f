// The page: who is logged in, where they are, and what has changed meanwhile.
import {add, el, fill} from './dom.js'
import {get, hasToken, onFailure, onMissing, post, Refused} from './api.js'
import {line, seen, setClock, tickAll} from './format.js'
import {inbox} from './inboxstore.js'
import {Live} from './live.js'
import {codeIn, drop, leave, login, logout, onToken, resume, takeAnswer, takeCode, takeReturn} from './login.js'
import {T} from './texts.js'
import {button, command, empty, field, machine} from './widgets.js'
import * as overview from './pages/overview.js'
import * as inboxPage from './pages/inbox.js'
import * as history from './pages/history.js'
import * as boxes from './pages/boxes.js'
import * as sessions from './pages/sessions.js'
import * as jobs from './pages/jobs.js'
import * as workspaces from './pages/workspaces.js'
import * as audit from './pages/audit.js'
import * as policy from './pages/policy.js'
import * as upstreams from './pages/upstreams.js'
import * as tools from './pages/tools.js'

/**
 * @typedef {{root: HTMLElement, args: string[], query: URLSearchParams, worker: {worker?: string}, me: any, signal: AbortSignal, may: (role: string) => boolean,
 *   say: (text: string) => void, fail: (e: any) => void, go: (hash: string) => void, every: (ms: number, f: () => any) => void}} Page
 * @typedef {{kinds: string[], refresh: () => any}} Shown
 */

/** The pages in the order of the navigation, in groups. @type {[string, (c: Page) => Shown][][]} */
const groups = [
  [['overview', overview.open], ['workers', tools.openWorkers], ['inbox', inboxPage.open], ['history', history.open]],
  [['boxes', boxes.open], ['jobs', jobs.open], ['sessions', sessions.open], ['work', tools.openWork]],
  [['workspaces', workspaces.open], ['audit', audit.open], ['policy', policy.open]],
  [['upstreams', upstreams.open], ['search', tools.openSearch], ['browser', tools.openBrowser]],
]
const pages = new Map(groups.flat())
const roles = ['viewer', 'approver', 'operator']

/** @type {any} */
let me = null
/** @type {AbortController|null} */
let current = null
/** @type {{kinds: string[], load: () => Promise<void>}|null} */
let page = null
let title = ''

const bar = el('div', {class: 'status', role: 'status'})
const lacks = el('div', {class: 'status', role: 'status'})
const said = el('div', {class: 'said', role: 'status'})
const heading = el('h1', {tabindex: -1})
const root = el('div', {class: 'page'})
const nav = el('nav', {'aria-label': T.nav.name})
const who = el('div', {class: 'who'})
const badge = el('span', {class: 'badge', hidden: true})
const dot = el('span', {class: 'state'})
const shell = [el('button', {type: 'button', class: 'skip', on: {click: () => heading.focus()}}, T.page.skip),
  el('header', {}, el('a', {class: 'brand', to: '#/', 'aria-label': T.page.home}, el('span', {class: 'mark', 'aria-hidden': 'true'}), 'belljar'), dot, who), nav, el('main', {}, bar, lacks, said, heading, root)]

let saying = 0
/** say tells what was done. @param {string} text */
function say(text) {
  fill(said, el('p', {class: 'notice'}, text))
  clearTimeout(saying)
  saying = setTimeout(() => fill(said), 8000)
}

/** fail says why a page cannot show what it should. @param {any} e */
function fail(e) {
  if (e.name === 'AbortError' || e instanceof Refused && (e.status === 0 || e.status === 401)) return // said elsewhere
  if (!(e instanceof Refused)) console.error(e)
  fill(said, el('p', {class: 'error', role: 'alert'}, seen(e.message)))
}

/** @type {Live} */
const live = new Live(async kinds => {
  const all = kinds.has('reset')
  try {
    if (all) await look()
  } catch (e) {
    return fail(e)
  }
  if (all || ['approval', 'question', 'upstream'].some(k => kinds.has(k))) wait()
  if (page && (all || page.kinds.some(k => kinds.has(k)))) page.load()
}, (state, seconds) => {
  if (state === 'out') return loggedOut()
  dot.className = 'state ' + state
  fill(dot, T.live[state])
  if (state === 'lost') fill(bar, el('p', {class: 'flag'}, T.server.lost(Math.round(seconds)), ' ', button(T.server.now, () => live.start(), {class: 'small'})))
  if (state === 'live') fill(bar)
})

/** wait reads what waits. */
function wait() {
  if (me?.views.includes('inbox')) inbox.load().catch(fail)
}

/** look asks who is logged in, and what there is to see. */
async function look() {
  me = await get('me')
  setClock(me.now)
  machine.text = me.fleet ? T.command.atWorker : ''
}

let counted = -1 // what waited when that was looked at last

/** badges shows how much waits, on every page. */
function badges() {
  const n = inbox.waiting().length
  if (inbox.loaded) {
    if (counted >= 0 && n > counted) say(T.inbox.arrived)
    counted = n
  }
  badge.hidden = n === 0
  badge.textContent = String(n)
  badge.setAttribute('aria-label', T.inbox.waits(n))
  document.title = (n ? '(' + n + ') ' : '') + title + ' \u2013 belljar'
}

/** show shows the page of the address. */
function show() {
  const code = takeCode()
  if (code) return void enter(code)
  if (!me) return
  current?.abort()
  const mine = current = new AbortController()
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?')
  let parts
  try {
    parts = path.split('/').map(decodeURIComponent)
  } catch {
    parts = ['']
  }
  const name = parts[0] || ['overview', 'inbox'].find(v => me.views.includes(v)) || 'overview'
  const opens = me.views.includes(name) && pages.get(name)
  title = opens ? /** @type {any} */ (T.nav)[name] : T.page.missingTitle
  fill(heading, title)
  fill(root)
  if (said.querySelector('.error')) fill(said)
  for (const link of nav.querySelectorAll('a')) {
    if (link.getAttribute('href') === '#/' + name) {
      link.setAttribute('aria-current', 'page')
      link.scrollIntoView({block: 'nearest', inline: 'nearest'})
    } else link.removeAttribute('aria-current')
  }
  badges()
  page = null
  const query = new URLSearchParams(search || '')
  if (!opens) return add(root, empty(T.page.missing))
  const c = {root, args: parts.slice(1), query, worker: query.get('worker') ? {worker: query.get('worker') || ''} : {}, me, signal: mine.signal, say, fail, go: (/** @type {string} */ hash) => { location.hash = hash },
    may: (/** @type {string} */ role) => roles.indexOf(me.role) >= roles.indexOf(role),
    every: (/** @type {number} */ ms, /** @type {() => any} */ f) => {
      const timer = setInterval(() => { if (!document.hidden) once(f) }, ms)
      mine.signal.addEventListener('abort', () => clearInterval(timer))
    }}
  /** @type {Set<() => any>} */
  const busy = new Set()
  /** once calls what loads, but never twice at a time. @param {() => any} f */
  const once = async f => {
    if (busy.has(f) || mine.signal.aborted) return
    busy.add(f)
    try {
      await f()
    } catch (e) {
      if (!mine.signal.aborted) fail(e)
    } finally {
      busy.delete(f)
    }
  }
  heading.focus({preventScroll: true})
  scrollTo(0, 0)
  const opened = opens(c)
  let again = false
  page = {kinds: opened.kinds, load: async () => {
    if (busy.has(opened.refresh)) {
      again = true // what changes while it is read is read again
      return
    }
    do {
      again = false
      await once(opened.refresh)
    } while (again && !mine.signal.aborted)
  }}
  page.load()
}

/** frame makes what all pages have around them. */
function frame() {
  fill(nav, groups.map(g => g.filter(([name]) => me.views.includes(name))).filter(g => g.length > 0)
    .map(g => el('ul', {}, g.map(([name]) => el('li', {}, el('a', {to: '#/' + name}, /** @type {any} */ (T.nav)[name], name === 'inbox' && badge))))))
  fill(who, el('span', {class: 'name'}, seen(me.person)), me.tenants && el('span', {class: 'tag wait'}, line(me.tenants.join(', '), 40)), el('span', {class: 'tag plain', title: /** @type {any} */ (T.role)[me.role]}, me.role),
    button(T.login.out, async () => {
      live.stop('hidden')
      await logout()
      loggedOut(T.login.ended)
    }, {class: 'small'}))
  fill(document.body, shell)
}

/** begin shows the console to who has a token. */
async function begin() {
  try {
    await look()
  } catch (e) {
    if (e instanceof Refused && e.status === 401) return loggedOut()
    if (e instanceof Refused && e.status === 0) return // onFailure tries again
    return loggedOut(/** @type {Error} */ (e).message)
  }
  frame()
  live.forget(me.seq)
  live.start()
  wait()
  show()
}

/** enter logs in with a code. @param {string} code @param {string} [state] */
async function enter(code, state) {
  live.stop('hidden')
  try {
    await login(code, state)
  } catch (e) {
    return loggedOut(/** @type {Error} */ (e).message)
  }
  await begin()
}

/** loggedOut asks for a link. @param {string} [why] */
function loggedOut(why) {
  current?.abort()
  live.stop('hidden')
  if (hasToken()) drop()
  me = page = null
  title = T.login.title
  document.title = title + ' \u2013 belljar'
  const link = el('input', {type: 'text', autocomplete: 'off', spellcheck: 'false', 'aria-label': T.login.link, placeholder: T.login.placeholder})
  const go = button(T.login.go, async () => {
    const code = codeIn(link.value)
    if (!code) throw new Error(T.login.noCode)
    await enter(code)
  }, {class: 'main'})
  const other = el('span')
  link.addEventListener('keydown', (/** @type {KeyboardEvent} */ e) => { if (e.key === 'Enter') go.click() })
  fill(document.body, el('main', {class: 'login'}, el('h1', {tabindex: -1}, el('span', {class: 'mark', 'aria-hidden': 'true'}), T.login.title), why && el('p', {class: 'error', role: 'alert'}, seen(why)),
    el('p', {}, T.login.text), command('belljar console'), field(T.login.link, link), el('div', {class: 'actions'}, go, other)))
  get('login').then(ways => ways.provider && fill(other, button(T.login.at(ways.provider), leave))).catch(() => {}) // the page works without
  document.body.querySelector('h1')?.focus()
  onToken(() => { if (!me) begin() })
}

onMissing((path, workers) => {
  if (me?.fleet && path !== 'me' && !path.startsWith('workers')) fill(lacks, workers && el('p', {class: 'flag'}, T.server.missing, seen(workers)))
})

let tries = 0
onFailure(status => {
  if (status === 401) return loggedOut(T.login.dead)
  if (me) return // the stream says it
  const wait = Math.min(30, 2 ** tries++)
  fill(document.body, el('main', {class: 'login'}, el('h1', {}, T.server.title), el('p', {role: 'status'}, T.server.lost(wait))))
  setTimeout(begin, wait * 1000)
})

addEventListener('hashchange', show)
setInterval(() => {
  if (document.hidden) return
  tickAll()
  badges()
}, 1000)
inbox.restore()
inbox.watch(badges, new AbortController().signal)
/** answered ends the login at an upstream from which the person comes back. @param {string} answer */
async function answered(answer) {
  await begin()
  if (!me) return
  try {
    const done = await post('upstreams/login', {answer})
    say(T.upstreams.loggedIn(line(done.upstream, 60).textContent || ''))
  } catch (e) {
    fail(e)
  }
}

const code = takeCode(), back = takeReturn(), answer = takeAnswer()
if (code) enter(code)
else if (back) enter(back.code, back.state)
else if (await resume()) answer ? answered(answer) : begin()
else loggedOut()
