// Requests to the server. Paths are relative, so the console may be below any path.
import {T} from './texts.js'

/** Refused is an answer that is not a success. Status 0 means that there was none. */
export class Refused extends Error {
  /** @param {number} status @param {string} text @param {number} [after] */
  constructor(status, text, after = 0) {
    super(text)
    this.status = status
    this.after = after
  }
}

let token = ''
/** @type {(status: number) => void} */
let failed = () => {}

export const hasToken = () => token !== ''
export const theToken = () => token
/** @param {string} is */
export function setToken(is) { token = is }
/** onFailure has a function called at each request without an answer (0) or without a login (401). @param {(status: number) => void} f */
export function onFailure(f) { failed = f }

/** @type {(path: string, workers: string) => void} */
let missed = () => {}
/** onMissing has a function called with the workers that an answer has nothing of. @param {typeof missed} f */
export function onMissing(f) { missed = f }

const patience = 30_000 // milliseconds until an answer is given up

/** @param {string} path @param {RequestInit} [init] */
export async function ask(path, init = {}) {
  const headers = new Headers(init.headers)
  if (token) headers.set('Authorization', 'Bearer ' + token)
  try {
    // Only the login is one of this site to the browser, which then empties the storage. Cookies
    // are of no use here: those that there are belong to other ports.
    return await fetch('api/v1/' + path, {credentials: 'omit', ...init, headers, cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer'})
  } catch (e) {
    if (init.signal?.aborted && !/** @type {any} */ (init).timed) throw e
    throw new Refused(0, T.server.gone)
  }
}

/** json asks, and reads the answer. @param {string} path @param {RequestInit} [init] @param {'json'|'blob'} [as] @returns {Promise<any>} */
async function json(path, init = {}, as = 'json') {
  const used = token
  const limit = AbortSignal.timeout(patience)
  let answer
  try {
    answer = await ask(path, {...init, signal: init.signal ? AbortSignal.any([init.signal, limit]) : limit})
  } catch (e) {
    if (init.signal?.aborted) throw e
    failed(0)
    throw new Refused(0, T.server.gone)
  }
  if (answer.status === 204) return null
  missed(path, answer.headers.get('Belljar-Missing') || '')
  let body = null
  try {
    body = await answer[answer.ok ? as : 'json']()
  } catch {
    if (init.signal?.aborted) throw new DOMException('', 'AbortError')
  }
  if (!answer.ok) {
    if (answer.status === 401 && used && used === token) failed(401)
    throw new Refused(answer.status, body && body.error || T.server.status(answer.status), body && body.retry_after || 0)
  }
  if (body === null) throw new Refused(answer.status, T.server.strange)
  return body
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => json(path, {signal})

/** @param {string} path @param {AbortSignal} signal */
export const blob = (path, signal) => json(path, {signal}, 'blob')

/** @param {string} path @param {object} [body] @param {AbortSignal} [signal] */
export const post = (path, body = {}, signal) => json(path, {method: 'POST', body: JSON.stringify(body), headers: {'Content-Type': 'application/json'}, signal, credentials: path === 'login' ? 'same-origin' : 'omit'})

/** of is a path at the worker that has a thing, in a fleet. @param {{worker?: string}} thing @param {string} path */
export const of = (thing, path) => thing.worker ? 'workers/' + at(thing.worker) + '/' + path : path

/** to is the address of the page about a thing. @param {{worker?: string}} thing @param {string[]} parts */
export const to = (thing, ...parts) => '#/' + at(...parts) + (thing.worker ? '?worker=' + encodeURIComponent(thing.worker) : '')

/** at makes a path of parts that the data has. @param {string[]} parts */
export const at = (...parts) => parts.map(encodeURIComponent).join('/')
