// The only place that makes elements. A text becomes a text node, so no text becomes markup.

/** @typedef {Node|string|number|boolean|null|undefined|Kid[]} Kid */
/** @typedef {Record<string, any>} Props */

const svgSpace = 'http://www.w3.org/2000/svg'

// No attribute outside of this list is set: none of them runs or loads anything.
const known = new Set(['class', 'id', 'alt', 'for', 'type', 'name', 'value', 'title', 'role', 'tabindex', 'placeholder', 'rows', 'cols', 'min', 'max', 'step',
  'maxlength', 'autocomplete', 'spellcheck', 'scope', 'datetime', 'open', 'checked', 'disabled', 'selected', 'required', 'multiple', 'colspan', 'hidden', 'lang', 'method',
  'viewBox', 'x', 'y', 'x1', 'x2', 'y1', 'y2', 'width', 'height', 'd', 'points', 'cx', 'cy', 'r', 'rx', 'preserveAspectRatio', 'text-anchor', 'focusable'])

/** @param {Element} node @param {Props} props */
function set(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue
    if (name === 'on') {
      for (const [event, does] of Object.entries(value)) node.addEventListener(event, /** @type {EventListener} */ (does))
    } else if (name === 'to') {
      if (!String(value).startsWith('#/')) throw new Error('a link leads to a page of this console')
      node.setAttribute('href', value)
    } else if (known.has(name) || name.startsWith('aria-') || name.startsWith('data-')) {
      node.setAttribute(name, value === true ? '' : String(value))
    } else {
      throw new Error('the attribute ' + name + ' is not used here')
    }
  }
}

/** @param {Node} node @param {Kid[]} kids */
export function add(node, ...kids) {
  for (const kid of kids) {
    if (Array.isArray(kid)) add(node, ...kid)
    else if (kid instanceof Node) node.appendChild(kid)
    else if (kid !== null && kid !== undefined && typeof kid !== 'boolean') node.appendChild(document.createTextNode(String(kid)))
  }
  return node
}

/**
 * el makes an element of HTML.
 * @param {string} name @param {Props} [props] @param {Kid[]} kids @returns {any}
 */
export function el(name, props = {}, ...kids) {
  if (name === 'script' || name === 'style' || name === 'iframe' || name === 'object' || name === 'embed' || name === 'base' || name === 'link') throw new Error('no element ' + name + ' is made here')
  const node = document.createElement(name)
  set(node, props)
  add(node, kids)
  return node
}

/**
 * svg makes an element of SVG.
 * @param {string} name @param {Props} [props] @param {Kid[]} kids @returns {any}
 */
export function svg(name, props = {}, ...kids) {
  if (name === 'script' || name === 'style' || name === 'foreignObject' || name === 'use' || name === 'image' || name === 'a') throw new Error('no element ' + name + ' is made here')
  const node = document.createElementNS(svgSpace, name)
  set(node, props)
  add(node, kids)
  return node
}

/** picture shows a PNG, whatever else it may be. Its address is one that only this page has. @param {Blob} png @param {string} name */
export function picture(png, name) {
  const node = el('img', {alt: name})
  node.src = URL.createObjectURL(new Blob([png], {type: 'image/png'}))
  node.onload = node.onerror = () => URL.revokeObjectURL(node.src)
  return node
}

/** fill replaces what a node has. @param {Element} node @param {Kid[]} kids */
export function fill(node, ...kids) {
  node.replaceChildren()
  add(node, kids)
  return node
}

/**
 * keyed makes the children of a node those of items. A child whose item has not changed
 * stays, with its focus and what was typed into it.
 * @template I
 * @param {Element} parent @param {I[]} items @param {(i: I) => string} keyOf @param {(i: I) => Element} make
 */
export function keyed(parent, items, keyOf, make) {
  const had = /** @type {Map<string, {is: string, node: Element}>} */ (/** @type {any} */ (parent).keyed || new Map())
  const has = new Map()
  let at = parent.firstElementChild
  for (const item of items) {
    const key = keyOf(item)
    if (has.has(key)) continue
    const is = JSON.stringify(item)
    let one = had.get(key)
    if (!one || one.is !== is) {
      const node = make(item)
      if (one) {
        const focus = one.node.contains(document.activeElement) ? focusName(document.activeElement) : ''
        if (at === one.node) at = node
        one.node.replaceWith(node)
        if (focus) refocus(node, focus)
      }
      one = {is, node}
    }
    has.set(key, one)
    if (at === one.node) at = at.nextElementSibling
    else parent.insertBefore(one.node, at)
  }
  for (const [key, one] of had) if (!has.has(key)) one.node.remove()
  Object.assign(parent, {keyed: has})
}

/** @param {Element|null} node */
const focusName = node => node && (node.getAttribute('data-focus') || node.getAttribute('href') || node.textContent || '')

/** @param {Element} node @param {string} name */
function refocus(node, name) {
  for (const one of [node, ...node.querySelectorAll('a, button, input, select, textarea')]) {
    if (focusName(one) === name) return /** @type {HTMLElement} */ (one).focus()
  }
}
