// What changes on the server. A browser has six connections to a server for all its tabs, so
// one tab that is seen reads the stream of events, and the others hear of them from it.
import {ask, hasToken, Refused} from './api.js'

const firstWait = 500, longestWait = 30_000
const maxLine = 64 << 10 // characters; an event is far shorter
const silence = 45_000 // the server says something every 15 seconds
const name = 'belljar-events'
const channel = new BroadcastChannel(name)

/** @typedef {'live'|'lost'|'hidden'|'out'} State */

export class Live {
  /**
   * @param {(kinds: Set<string>) => void} changed gets what is another now; 'reset' for everything
   * @param {(state: State, seconds: number) => void} said how the stream is, and when it is tried again
   */
  constructor(changed, said) {
    this.changed = changed
    this.said = said
    this.seq = -1 // of the last event
    this.wait = firstWait
    /** @type {AbortController|null} */
    this.open = null // while this tab is seen
    this.leads = false // this tab reads for all
    /** @type {{state: State, seconds: number}} */
    this.is = {state: 'hidden', seconds: 0}
    /** @type {Set<string>} */
    this.kinds = new Set()
    this.timer = 0
    this.hurry = () => {}
    document.addEventListener('visibilitychange', () => document.hidden ? this.stop('hidden') : this.start())
    channel.onmessage = e => this.heard(e.data)
  }

  /** start follows the events, and tries at once if that fails for now. */
  start() {
    if (document.hidden || !hasToken()) return
    if (this.open) {
      this.hurry()
      channel.postMessage({hurry: true})
      return
    }
    const open = this.open = new AbortController()
    channel.postMessage({hello: true})
    const lead = () => this.lead(open)
    const done = navigator.locks ? navigator.locks.request(name, {signal: open.signal}, lead) : lead()
    done.catch(() => {}) // the tab is not seen any more
  }

  /** stop ends that. @param {State} state */
  stop(state) {
    const open = this.open
    this.open = null
    open?.abort()
    this.said(state, 0)
  }

  /** forget makes the next stream one that begins behind an event, or now. @param {number} [seq] */
  forget(seq = -1) {
    this.seq = seq
    this.wait = firstWait
  }

  /** heard takes what another tab says. @param {any} m */
  heard(m) {
    if (m.hello && this.leads) this.tell(this.is.state, this.is.seconds)
    if (m.hurry && this.leads) this.hurry()
    if (!this.open || this.leads) return
    if (m.state) {
      this.said(m.state, m.seconds)
      if (m.state === 'live' && m.seq !== this.seq) this.note('reset', m.seq)
    }
    if (m.kind) this.note(m.kind, m.seq)
  }

  /** tell says here and in the other tabs how the stream is. @param {State} state @param {number} seconds */
  tell(state, seconds) {
    this.is = {state, seconds}
    this.said(state, seconds)
    channel.postMessage({state, seconds, seq: this.seq})
  }

  /** lead reads the stream, again and again, until this tab is not seen. @param {AbortController} open */
  async lead(open) {
    this.leads = true
    try {
      while (!open.signal.aborted) {
        try {
          await this.read(open.signal)
        } catch (e) {
          if (open.signal.aborted) return
          if (e instanceof Refused && e.status === 401) {
            this.open = null
            return this.said('out', 0)
          }
        }
        if (open.signal.aborted) return
        this.tell('lost', this.wait / 1000)
        await new Promise(done => {
          const timer = setTimeout(done, this.wait * (0.8 + 0.4 * Math.random()))
          this.hurry = () => {
            clearTimeout(timer)
            done(null)
          }
          open.signal.addEventListener('abort', this.hurry, {once: true})
        })
        this.wait = Math.min(longestWait, this.wait * 2)
      }
    } finally {
      this.leads = false
      this.hurry = () => {}
    }
  }

  /** read reads one stream to its end. @param {AbortSignal} seen */
  async read(seen) {
    const late = new AbortController()
    const answer = await ask('events' + (this.seq < 0 ? '' : '?after=' + this.seq), {signal: AbortSignal.any([seen, late.signal])})
    if (!answer.ok || !answer.body) throw new Refused(answer.status, '')
    if (this.seq < 0) this.note('reset', this.seq)
    this.wait = firstWait
    const text = new TextDecoder()
    let rest = '', first = true
    for (const reader = answer.body.getReader(); ;) {
      const timer = setTimeout(() => late.abort(), silence)
      const {value, done} = await reader.read().finally(() => clearTimeout(timer))
      if (done) return
      rest += text.decode(value, {stream: true})
      const lines = rest.split('\n')
      rest = lines.pop() || ''
      if (rest.length > maxLine) throw new Refused(0, '')
      for (const line of lines) {
        const event = JSON.parse(line)
        if (event.kind === 'ping') this.seq = event.seq
        else {
          this.note(event.kind, event.seq)
          channel.postMessage({kind: event.kind, seq: event.seq})
        }
        if (first) this.tell('live', 0)
        first = false
      }
    }
  }

  /** note collects what changed, since many events mean one look. @param {string} kind @param {number} seq */
  note(kind, seq) {
    this.seq = seq
    this.kinds.add(kind)
    if (this.timer) return
    this.timer = setTimeout(() => {
      this.timer = 0
      const kinds = this.kinds
      this.kinds = new Set()
      this.changed(kinds)
    }, 150)
  }
}
