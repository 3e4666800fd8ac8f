// What changes on the server: one stream for a tab that is seen, resumed where it ended.
import {ask, hasToken, Refused} from './api.js'

const firstWait = 500, longestWait = 30_000
const maxLine = 64 << 10 // characters; an event is far shorter
const silence = 45_000 // the server says something every 15 seconds

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
    this.open = null
    /** @type {Set<string>} */
    this.kinds = new Set()
    this.timer = 0
    this.retry = 0
    document.addEventListener('visibilitychange', () => document.hidden ? this.stop('hidden') : this.start())
  }

  /** start opens the stream if it is not. */
  start() {
    clearTimeout(this.retry)
    if (this.open || document.hidden || !hasToken()) return
    const open = this.open = new AbortController()
    this.read(open).then(() => true, e => e instanceof Refused && e.status === 401 ? false : true).then(again => {
      if (this.open !== open) return
      this.open = null
      if (!again) return this.said('out', 0)
      this.said('lost', this.wait / 1000)
      this.retry = setTimeout(() => this.start(), this.wait * (0.8 + 0.4 * Math.random()))
      this.wait = Math.min(longestWait, this.wait * 2)
    })
  }

  /** stop closes the stream. @param {State} state */
  stop(state) {
    clearTimeout(this.retry)
    const open = this.open
    this.open = null
    open?.abort()
    this.said(state, 0)
  }

  /** forget makes the next stream one that begins now. */
  forget() {
    this.seq = -1
    this.wait = firstWait
  }

  /** @param {AbortController} open */
  async read(open) {
    const {signal} = open
    const answer = await ask('events' + (this.seq < 0 ? '' : '?after=' + this.seq), {signal})
    if (!answer.ok || !answer.body) throw new Refused(answer.status, '')
    if (this.seq < 0) this.note('reset')
    this.wait = firstWait
    this.said('live', 0)
    const text = new TextDecoder()
    let rest = ''
    for (const reader = answer.body.getReader(); ;) {
      const late = setTimeout(() => open.abort(), silence)
      const {value, done} = await reader.read().finally(() => clearTimeout(late))
      if (done) return
      rest += text.decode(value, {stream: true})
      const lines = rest.split('\n')
      rest = lines.pop() || ''
      if (rest.length > maxLine) throw new Refused(0, '')
      for (const line of lines) {
        const event = JSON.parse(line)
        this.seq = event.seq
        if (event.kind !== 'ping') this.note(event.kind)
      }
    }
  }

  /** note collects what changed, since many events mean one look. @param {string} kind */
  note(kind) {
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
