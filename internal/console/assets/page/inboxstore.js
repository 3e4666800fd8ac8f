// What waits for a person, for the badge on every page and for the inbox.
import {get} from './api.js'
import {serverNow} from './format.js'

/** @typedef {{kind: 'approval'|'question'|'pin', id: string, key: string, at: string, expires?: string, is: any}} Item */

const laterKey = 'later', again = 60_000 // milliseconds before it times out

/** keyOf is what no other item has, of any worker. @param {{worker?: string}} thing @param {string[]} parts */
export const keyOf = (thing, ...parts) => (thing.worker || '') + '/' + parts.join('/')

/** @type {Set<() => void>} */
const watchers = new Set()

export const inbox = {
  /** @type {Item[]} the newest first */
  items: [],
  more: 0,
  loaded: false,
  later: /** @type {Record<string, number>} */ ({}),

  /** @param {AbortSignal} [signal] */
  async load(signal) {
    const got = await get('inbox', signal)
    const items = [
      ...got.approvals.map((/** @type {any} */ a) => ({kind: 'approval', id: a.id, at: a.created, expires: a.expires, is: a})),
      ...got.questions.map((/** @type {any} */ q) => ({kind: 'question', id: q.id, at: q.created, expires: q.expires, is: q})),
      ...got.pins.map((/** @type {any} */ p) => ({kind: 'pin', id: p.upstream + '/' + p.version, at: p.since || '', is: p})),
    ]
    for (const i of items) i.key = keyOf(i.is, i.kind, i.id)
    this.items = items.sort((a, b) => a.at < b.at ? 1 : a.at > b.at ? -1 : 0)
    this.more = got.more || 0
    this.loaded = true
    watchers.forEach(f => f())
  },

  /** isLater reports whether a person does not want to see an item now. @param {Item} item */
  isLater(item) {
    const until = this.later[item.key]
    return until !== undefined && serverNow() < until
  },

  /** putOff hides an item. It does not answer it. @param {Item} item */
  putOff(item) {
    this.later[item.key] = item.expires ? new Date(item.expires).getTime() - again : Number.MAX_SAFE_INTEGER
    this.keep()
  },

  /** @param {Item} item */
  bringBack(item) {
    delete this.later[item.key]
    this.keep()
  },

  keep() {
    for (const id of Object.keys(this.later)) if (!this.items.some(i => i.key === id)) delete this.later[id]
    sessionStorage.setItem(laterKey, JSON.stringify(this.later))
    watchers.forEach(f => f())
  },

  restore() {
    try {
      for (const [id, until] of Object.entries(JSON.parse(sessionStorage.getItem(laterKey) || '{}'))) if (typeof until === 'number') this.later[id] = until
    } catch {
      sessionStorage.removeItem(laterKey)
    }
  },

  waiting() { return this.items.filter(i => !this.isLater(i)) },

  /** @param {() => void} f @param {AbortSignal} signal */
  watch(f, signal) {
    watchers.add(f)
    signal.addEventListener('abort', () => watchers.delete(f))
  },
}
