// Plays the recording of a call: with a speed, and from any moment.
import {el, fill} from './dom.js'
import {at, get, of} from './api.js'
import {bytes, seen, span} from './format.js'
import {Output} from './output.js'
import {T} from './texts.js'
import {button} from './widgets.js'

const mostPieces = 50_000, mostWait = 2 // seconds without output that are waited for

/** player loads a recording and shows it from its beginning. @param {import('./main.js').Page} c @param {string} id */
export async function player(c, id) {
  /** @type {{at: number, t: string, s: string}[]} */
  const pieces = []
  let seconds = 0, loaded = 0, whole = true
  /** @type {any} */
  let newest = null
  for (let from = 0; ;) {
    const got = await get(of(c.worker, 'casts/' + at(id) + '?from=' + from), c.signal)
    pieces.push(...got.pieces)
    newest = got
    seconds = got.seconds
    loaded = got.pieces.length ? got.pieces[got.pieces.length - 1].at : loaded
    if (got.end) break
    if (pieces.length > mostPieces || got.next <= from) {
      whole = false
      break
    }
    from = got.next
  }
  const out = new Output(T.player.name)
  let now = 0, next = 0, last = 0, plays = false
  const time = el('span', {class: 'num'})
  const seek = el('input', {type: 'range', min: 0, max: Math.max(seconds, 0.01), step: 0.01, value: 0, 'aria-label': T.player.seek})
  const speed = el('select', {'aria-label': T.player.speed}, [0.5, 1, 2, 4, 16].map(n => el('option', {value: n, selected: n === 1}, n + '\u00d7')))
  const play = button(T.player.play, () => {
    if (!plays && now >= seconds) go(0)
    plays = !plays
    last = performance.now()
    show()
    if (plays) requestAnimationFrame(step)
  }, {'data-focus': 'play'})
  const show = () => {
    fill(play, plays ? T.player.pause : T.player.play)
    fill(time, T.player.time(span(now), span(seconds)))
    seek.value = String(now)
    seek.setAttribute('aria-valuetext', T.player.time(span(now), span(seconds)))
  }
  /** go shows the recording as it was at a moment. @param {number} to */
  const go = to => {
    if (to < now || to === 0) {
      out.clear()
      next = 0
    }
    now = to
    const begin = next
    while (next < pieces.length && pieces[next].at <= now) next++
    if (next > begin) out.add(pieces.slice(begin, next))
    show()
  }
  const step = (/** @type {number} */ t) => {
    if (!plays || c.signal.aborted) return
    const passed = (t - last) / 1000 * Number(speed.value)
    last = t
    // A long time in which nothing was written is passed over.
    const coming = next < pieces.length ? pieces[next].at : seconds
    const to = coming - now > mostWait ? Math.max(now + passed, coming - mostWait) : now + passed
    go(Math.min(Math.max(to, now), seconds))
    if (now >= seconds) {
      plays = false
      show()
      return
    }
    requestAnimationFrame(step)
  }
  seek.addEventListener('input', () => go(Number(seek.value)))
  go(0)
  return el('div', {class: 'player'}, out.node, el('div', {class: 'actions'}, play, seek, time, speed), !whole && el('p', {class: 'flag'}, T.player.cut(span(loaded), span(seconds))),
    newest.cut && el('p', {class: 'flag'}, T.player.incomplete, ' ', seen(newest.cut), '. ', newest.lost ? T.player.lost(bytes(newest.lost)) : T.player.lostUnknown))
}
