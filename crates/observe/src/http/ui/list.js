// The neighbourhood as a tree of text: the twin of the drawing for keyboard and screen reader.

import { foreign, h } from "./dom.js";
import { keyOf } from "./history.js";
import { parentsOf } from "./layout.js";
import { icon } from "./shapes.js";
import { STATES, kinds, number } from "./words.js";

/** @typedef {{key: string, label: () => Node[], node: GraphNode|null, children: Item[]}} Item */

/** So many siblings are shown; the others follow on request. */
const FIRST = 25;

export class List {
  /**
   * @param {HTMLElement} place
   * @param {(node: GraphNode) => void} moveOn
   */
  constructor(place, moveOn) {
    this.place = place;
    this.moveOn = moveOn;
    /** @type {Set<string>} */
    this.closed = new Set();
    /** @type {Set<string>} */
    this.whole = new Set();
    this.current = "";
    /** @type {Map<string, Item>} */
    this.items = new Map();
    this.signature = "";
    place.addEventListener("keydown", (event) => this.key(event));
    place.addEventListener("click", (event) => this.click(event));
  }

  reset() {
    this.closed.clear();
    this.whole.clear();
    this.current = "";
    this.signature = "";
  }

  /** @param {Neighbourhood} shown */
  draw(shown) {
    this.shown = shown;
    const signature = JSON.stringify([shown.nodes, shown.edges, shown.more, [...this.closed], [...this.whole]]);
    if (signature === this.signature) return;
    this.signature = signature;
    this.items.clear();
    const focused = this.place.contains(document.activeElement);
    const top = this.place.scrollTop;
    const roots = itemsOf(shown);
    const tree = h("ul", { role: "tree", "aria-label": "Owners and dependents" }, ...roots.map((item, place) => this.item(item, 1, place + 1, roots.length)));
    this.place.replaceChildren(tree);
    this.place.scrollTop = top;
    if (!this.items.has(this.current)) this.current = roots.find((item) => item.node)?.key ?? roots[0]?.key ?? "";
    this.select(this.current, focused);
  }

  /** @param {Item} item @param {number} level @param {number} place @param {number} of */
  item(item, level, place, of) {
    this.items.set(item.key, item);
    const isOpen = !this.closed.has(item.key);
    const expanded = item.children.length > 0 ? { "aria-expanded": String(isOpen) } : {};
    // Spaces, so that the name of the item is no single word.
    const row = h("span", {
      class: "row", role: "treeitem", "data-key": item.key, "data-state": item.node?.state, tabindex: -1,
      "aria-level": level, "aria-posinset": place, "aria-setsize": of, ...expanded,
    }, ...item.label().flatMap((part) => [part, " "]));
    const element = h("li", { role: "none" }, row);
    if (item.children.length > 0 && isOpen) {
      const shown = this.whole.has(item.key) ? item.children : item.children.slice(0, FIRST);
      const rest = item.children.length - shown.length;
      const children = shown.map((child, at) => this.item(child, level + 1, at + 1, shown.length + (rest > 0 ? 1 : 0)));
      if (rest > 0) {
        const text = `Show ${number(rest)} more`;
        const more = { key: `${item.key} rest`, node: null, children: [], label: () => [h("span", { class: "more" }, text)] };
        children.push(this.item(more, level + 1, shown.length + 1, shown.length + 1));
      }
      element.append(h("ul", { role: "none" }, ...children));
    }
    return element;
  }

  elements() {
    return /** @type {HTMLElement[]} */ ([...this.place.querySelectorAll("[role=treeitem]")]);
  }

  /** Makes an item the one that Tab reaches. @param {string} key @param {boolean} focus */
  select(key, focus) {
    for (const element of this.elements()) {
      const isIt = element.dataset.key === key;
      element.tabIndex = isIt ? 0 : -1;
      element.setAttribute("aria-selected", String(isIt));
      if (isIt) {
        this.current = key;
        if (focus) element.focus();
      }
    }
  }

  /** @param {string} key @param {boolean} isOpen */
  toggle(key, isOpen) {
    if (isOpen) this.closed.delete(key);
    else this.closed.add(key);
    if (this.shown) this.draw(this.shown);
  }

  /** @param {string} key */
  activate(key) {
    const item = this.items.get(key);
    if (!item) return;
    if (key.endsWith(" rest")) {
      this.whole.add(key.slice(0, -5));
      if (this.shown) this.draw(this.shown);
    } else if (item.node && canMove(item.node)) {
      this.moveOn(item.node);
    } else if (item.children.length > 0) {
      this.toggle(key, this.closed.has(key));
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const elements = this.elements();
    const at = elements.findIndex((element) => element.dataset.key === this.current);
    const element = elements[at];
    if (!element) return;
    const expanded = element.getAttribute("aria-expanded");
    const go = (/** @type {HTMLElement|undefined|null} */ to) => { if (to) this.select(to.dataset.key ?? "", true); };
    switch (event.key) {
      case "ArrowDown": go(elements[at + 1]); break;
      case "ArrowUp": go(elements[at - 1]); break;
      case "Home": go(elements[0]); break;
      case "End": go(elements.at(-1)); break;
      case "ArrowRight":
        if (expanded === "false") this.toggle(this.current, true);
        else if (expanded === "true") go(elements[at + 1]);
        break;
      case "ArrowLeft":
        if (expanded === "true") this.toggle(this.current, false);
        else go(/** @type {HTMLElement|null} */ (element.parentElement?.parentElement?.previousElementSibling));
        break;
      case "Enter": case " ": this.activate(this.current); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const element = event.target instanceof Element ? event.target.closest("[role=treeitem]") : null;
    if (!(element instanceof HTMLElement)) return;
    const key = element.dataset.key ?? "";
    this.select(key, true);
    this.activate(key);
  }
}

/** @param {GraphNode} node */
const canMove = (node) => node.distance !== 0 && node.resource !== null && node.state !== "absent" && node.state !== "gone";

/** @param {Neighbourhood} shown @returns {Item[]} */
function itemsOf(shown) {
  const { nodes, edges, more } = shown;
  if (nodes.length === 0) return [];
  const parents = parentsOf(nodes, edges);
  const blocking = new Set(edges.filter((edge) => edge.blockOwnerDeletion).map((edge) => edge.dependent));
  /** @param {number} place @param {boolean} up @returns {Item} */
  const item = (place, up) => {
    const node = /** @type {GraphNode} */ (nodes[place]);
    const children = nodes.flatMap((other, at) => parents[at] === place && other.distance < 0 === up ? [item(at, up)] : []);
    const trouble = (/** @type {Item} */ of) => of.node && of.node.state !== "live" ? 0 : 1;
    children.sort((a, b) => trouble(a) - trouble(b));
    if (!up) children.push(...more.filter((rest) => rest.owner === place).map((rest) => moreItem(node, rest)));
    const waits = node.state === "deletingDependents" && node.waitsFor > 0 ? `waits for ${number(node.waitsFor)}` : STATES[node.state];
    const tags = [node.namespace && (place === 0 || node.namespace !== nodes[0]?.namespace) ? `in ${node.namespace}` : "", blocking.has(place) && node.distance > 0 ? "blocks its owner" : ""].filter(Boolean).join(", ");
    return {
      key: keyOf(node), node, children,
      label: () => [
        icon(node.state, node.kind), h("span", { class: "kind" }, foreign(node.kind)), foreign(node.name, { class: "title" }),
        h("span", { class: "state", "data-state": node.state }, waits), h("span", { class: "soft" }, foreign(tags)),
      ],
    };
  };
  const root = item(0, false);
  const owners = nodes.flatMap((other, at) => parents[at] === 0 && at !== 0 && other.distance < 0 ? [item(at, true)] : []);
  if (owners.length === 0) return [root];
  const text = owners.length === 1 ? "Owner" : `${owners.length} owners`;
  return [{ key: "owners", node: null, children: owners, label: () => [h("span", { class: "group" }, text)] }, root];
}

/** @param {GraphNode} owner @param {More} rest @returns {Item} */
function moreItem(owner, rest) {
  const text = `${number(rest.count)} more ${rest.count === 1 ? rest.kind : kinds(rest.kind)}${rest.beingDeleted > 0 ? `, ${number(rest.beingDeleted)} terminating` : ""}`;
  return { key: `${keyOf(owner)}|${rest.kind}|more`, node: null, children: [], label: () => [h("span", { class: "more" }, foreign(text))] };
}
