// Builds elements. Text from the cluster becomes text nodes and nothing else.

/** @typedef {Node|string|null|undefined|false} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} element
 * @param {Record<string, unknown>} props
 */
function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      element.addEventListener(name, /** @type {EventListener} */ (value));
    } else {
      element.setAttribute(name, value === true ? "" : shown(String(value)));
    }
  }
}

/**
 * An HTML element. A function among the properties listens to the event of that name.
 * @param {string} tag
 * @param {Record<string, unknown>} [props]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  for (const child of children) if (child) element.append(child);
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, unknown>} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, props = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  set(element, props);
  for (const child of children) if (child) element.append(child);
  return element;
}

const title = { subject: "", site: "kube-gc" };

/** Names the tab: what is shown, and where. @param {Partial<typeof title>} change */
export function entitle(change) {
  Object.assign(title, change);
  document.title = [title.subject, title.site].filter(Boolean).join(" – ");
}

/**
 * The element of the page with this id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}

// Control characters, and characters that reorder or hide text: an attacker may choose names.
const DECEPTIVE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * Text from the cluster, with deceptive characters as escapes.
 * @param {string|null|undefined} text
 * @param {number} [longest]
 */
export function shown(text, longest = 20_000) {
  const all = (text ?? "").replace(DECEPTIVE, (bad) => `\\u{${bad.codePointAt(0)?.toString(16) ?? ""}}`);
  return all.length > longest ? `${all.slice(0, longest - 1)}…` : all;
}

/**
 * An isolated piece of text from the cluster, so that it cannot reorder what is beside it.
 * @param {string|null|undefined} text
 * @param {Record<string, unknown>} [props]
 */
export function foreign(text, props = {}) {
  return h("bdi", props, shown(text));
}

/**
 * Puts children into a parent. A child whose signature has not changed stays as it is, with its
 * focus and its place; the focus of one that changed goes to its successor.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T) => HTMLElement} make
 */
export function keep(parent, items, key, make) {
  /** @type {Map<string, HTMLElement>} */
  const old = new Map();
  for (const child of parent.children) old.set(/** @type {HTMLElement} */ (child).dataset.key ?? "", /** @type {HTMLElement} */ (child));
  /** @type {Element|null} */
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    const signature = JSON.stringify(item);
    let element = old.get(name);
    old.delete(name);
    if (!element || element.dataset.signature !== signature) {
      const fresh = make(item);
      fresh.dataset.key = name;
      fresh.dataset.signature = signature;
      if (element) {
        const focused = element.contains(document.activeElement);
        if (next === element) next = fresh;
        element.replaceWith(fresh);
        if (focused) focusable(fresh)?.focus();
      }
      element = fresh;
    }
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
  for (const element of old.values()) element.remove();
}

/**
 * Replaces all children and keeps the focus on what has the same `data-key`.
 * @param {Element} parent
 * @param {...Child} children
 */
export function swap(parent, ...children) {
  const active = document.activeElement;
  const key = active instanceof HTMLElement && parent.contains(active) ? active.dataset.key : undefined;
  parent.replaceChildren(...children.filter((child) => child instanceof Node || typeof child === "string"));
  if (key === undefined) return;
  for (const element of parent.querySelectorAll("[data-key]")) {
    if (element instanceof HTMLElement && element.dataset.key === key) return element.focus({ preventScroll: true });
  }
}

/** @param {HTMLElement} element */
function focusable(element) {
  if (element.matches("button, a[href], [tabindex]")) return element;
  return /** @type {HTMLElement|null} */ (element.querySelector("button, a[href], [tabindex]"));
}
