// Logging in: a code in the fragment of the link becomes a token, which stays in this tab and
// is given to further tabs of this page.
import {hasToken, post, Refused, setToken, theToken} from './api.js'

const key = 'token'
const channel = new BroadcastChannel('belljar-console')
/** @type {(() => void)[]} */
const waiting = []

channel.onmessage = e => {
  const said = e.data
  if (said && said.ask && hasToken()) channel.postMessage({token: theToken()})
  if (said && typeof said.token === 'string' && !hasToken() && said.token !== dead) {
    keep(said.token)
    waiting.splice(0).forEach(f => f())
  }
}

let dead = '' // a token that the server did not accept

/** @param {string} token */
function keep(token) {
  setToken(token)
  sessionStorage.setItem(key, token)
}

/** codeIn is the code of a link, or of a text that is one, or a person's own token. @param {string} text */
export function codeIn(text) {
  const found = /(?:^|#)([A-Z2-7]{26}|bjp_[\w-]{43})$/.exec(text.trim())
  return found ? found[1] : ''
}

/** takeCode takes the code out of the address of the page, where others could read it. */
export function takeCode() {
  const code = codeIn(location.hash)
  if (code) history.replaceState(null, '', location.pathname + location.search)
  return code
}

const pendingKey = 'pending' // of a login at the provider

/** takeReturn takes what the provider sent out of the address of the page. @returns {any} the code and the state; null for none */
export function takeReturn() {
  if (!location.pathname.endsWith('/login')) return null
  const q = new URLSearchParams(location.search)
  history.replaceState(null, '', './' + location.hash)
  return q.has('state') ? Object.fromEntries(q) : null
}

/** takeAnswer takes what the authorization server of an upstream sent out of the address of the page. @returns {string} empty for nothing */
export function takeAnswer() {
  if (!location.pathname.endsWith('/upstream-login')) return ''
  const answer = location.search.slice(1)
  history.replaceState(null, '', './#/upstreams')
  return answer
}

/** leave goes to the provider. */
export async function leave() {
  const {url, pending} = await post('login/begin')
  sessionStorage.setItem(pendingKey, pending)
  location.assign(url)
}

/** login gets a token for a code, of a link or of the provider. @param {string} code @param {string} [state] */
export async function login(code, state) {
  setToken('')
  const pending = state && (sessionStorage.getItem(pendingKey) || '-')
  sessionStorage.removeItem(pendingKey)
  const got = await post('login', {code, state, pending})
  keep(got.token)
  channel.postMessage({token: got.token})
}

/** resume finds a token in this tab or in another one. It reports whether there is one. */
export async function resume() {
  const kept = sessionStorage.getItem(key)
  if (kept) {
    setToken(kept)
    return true
  }
  channel.postMessage({ask: true})
  await new Promise(done => {
    waiting.push(() => done(null))
    setTimeout(done, 250)
  })
  return hasToken()
}

/** onToken has f called when another tab has logged in. @param {() => void} f */
export function onToken(f) { waiting.push(f) }

/** drop forgets the token, which the server does not accept any more. */
export function drop() {
  dead = theToken()
  setToken('')
  sessionStorage.removeItem(key)
}

export async function logout() {
  try {
    await post('logout')
  } catch (e) {
    if (!(e instanceof Refused)) throw e // else there is nothing left to end
  }
  drop()
}
