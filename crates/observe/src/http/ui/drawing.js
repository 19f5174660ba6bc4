// Draws the neighbourhood. What stays is moved, not drawn anew, so that a change can be followed.

import { byId, s, shown as clean } from "./dom.js";
import { keyOf } from "./history.js";
import { HEADER, NODE, grid, layout } from "./layout.js";
import { Rows } from "./rows.js";
import { glyph, outline } from "./shapes.js";
import { STATES, kinds, number, plural } from "./words.js";
import { View } from "./view.js";

/** @typedef {import("./layout.js").Box} Box */
/** @typedef {import("./layout.js").Line} Line */

const measure = document.createElement("canvas").getContext("2d");
const BOLD = "600 13px Inter, system-ui, sans-serif";
const SMALL = "11.5px Inter, system-ui, sans-serif";

/** @param {string} text @param {string} font */
function width(text, font) {
  if (!measure) return text.length * 7;
  measure.font = font;
  return measure.measureText(text).width;
}

/**
 * The text, cut in its middle to a width: the ends of names tell them apart.
 * @param {string} text
 * @param {number} most
 * @param {string} font
 */
function fitted(text, most, font) {
  const all = [...clean(text, 300)];
  /** @param {number} count */
  const cut = (count) => {
    if (count >= all.length) return all.join("");
    const tail = Math.floor(count * 0.4);
    return `${all.slice(0, count - tail).join("")}…${all.slice(all.length - tail).join("")}`;
  };
  let [low, high] = [1, all.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(cut(middle), font) <= most) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

/** @param {GraphNode} node */
const stateOf = (node) => node.state === "deletingDependents" && node.waitsFor > 0 ? `waits for ${number(node.waitsFor)}` : STATES[node.state];

/** What the server has a row of. @param {GraphNode} node */
const exists = ({ state, resource }) => resource !== null && ["live", "terminating", "deletingDependents", "orphaning"].includes(state);

/**
 * The kind; unless it is live, the state, of which nothing is cut; and of the rest what there is room for.
 * @param {GraphNode} node
 * @param {string[]} rest
 */
function under(node, rest) {
  let said = node.state === "live" ? "" : `, ${stateOf(node)}`;
  for (const word of rest) {
    const more = `${said}, ${clean(word, 40)}`;
    if (width(more, SMALL) < NODE.width - 86) said = more;
  }
  return fitted(node.kind, NODE.width - 56 - width(said, SMALL), SMALL) + said;
}

export class Drawing {
  /**
   * @param {HTMLElement} place
   * @param {(node: GraphNode) => void} moveOn
   */
  constructor(place, moveOn) {
    this.moveOn = moveOn;
    /** @type {Set<string>} */
    this.open = new Set();
    /** @type {Neighbourhood|null} */
    this.shown = null;
    this.lines = s("g", { class: "lines" });
    this.boxes = s("g", { class: "boxes" });
    this.svg = s("svg", { class: "canvas", "aria-hidden": "true" });
    this.view = new View(place, this.svg, s("g", { class: "viewport" }, this.lines, this.boxes), byId("goes-on"));
    place.append(this.svg);
    /** @type {Map<string, SVGElement>} */
    this.drawn = new Map();
    this.rows = new Rows(() => this.inView(place), (node) => this.say(node));
  }

  /** The objects whose cards are in view. @param {HTMLElement} place */
  inView(place) {
    const frame = place.getBoundingClientRect();
    const isIn = (/** @type {DOMRect} */ { left, right, top, bottom }) => left < frame.right && right > frame.left && top < frame.bottom && bottom > frame.top;
    const keys = new Set(this.cards().filter((card) => isIn(card.getBoundingClientRect())).map((card) => card.dataset.key));
    return this.shown?.nodes.filter((node) => exists(node) && keys.has(keyOf(node))) ?? [];
  }

  cards() {
    return /** @type {SVGElement[]} */ ([...this.boxes.querySelectorAll(".card")]);
  }

  /** Says on its card what is known of an object. @param {GraphNode} node */
  say(node) {
    const text = this.cards().find((card) => card.dataset.key === keyOf(node))?.querySelector(".under");
    if (text) text.textContent = under(node, this.rows.words(node));
  }

  /** Another object: nothing of the last one stays. */
  reset() {
    this.open.clear();
    this.drawn.clear();
    this.lines.replaceChildren();
    this.boxes.replaceChildren();
    this.rows.reset();
    this.view.follow();
  }

  /** @param {Neighbourhood} shown */
  draw(shown) {
    this.shown = shown;
    const laid = layout(shown, this.open);
    /** @type {Set<string>} */
    const now = new Set();
    for (const line of laid.lines) this.line(line, now);
    for (const box of laid.boxes) this.box(box, box === laid.root, now);
    for (const [key, element] of this.drawn) {
      if (now.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
    this.view.bounds(laid);
  }

  redraw() {
    if (this.shown) this.draw(this.shown);
  }

  /** @param {string} key @param {() => SVGElement} make @param {SVGElement} into @param {Set<string>} now */
  element(key, make, into, now) {
    now.add(key);
    let element = this.drawn.get(key);
    if (!element) {
      element = make();
      this.drawn.set(key, element);
      into.append(element);
    }
    return element;
  }

  /** @param {Line} line @param {Set<string>} now */
  line({ key, from, to, edge, gone }, now) {
    const path = this.element(`line ${key}`, () => s("path", { class: "line" }), this.lines, now);
    const right = from.x + from.width;
    const half = Math.max(28, Math.abs(to.x - right) / 2);
    const d = from.layer < to.layer
      ? `M${right} ${from.y}C${right + half} ${from.y} ${to.x - half} ${to.y} ${to.x} ${to.y}`
      : `M${right} ${from.y}C${right + 70} ${from.y} ${to.x + to.width + 70} ${to.y} ${to.x + to.width} ${to.y}`;
    path.setAttribute("d", d);
    path.dataset.blocking = String(edge.blockOwnerDeletion);
    path.dataset.class = edge.class ?? "";
    path.dataset.gone = String(gone);
  }

  /** @param {Box} box @param {boolean} isRoot @param {Set<string>} now */
  box(box, isRoot, now) {
    const group = this.element(`box ${box.key}`, () => s("g", { class: "box" }), this.boxes, now);
    const isOpen = this.open.has(box.key);
    group.style.transform = `translate(${box.x}px, ${box.y - box.height / 2}px)`;
    const content = box.node ? [box.node.name, box.node.state, box.node.waitsFor, isRoot] : [box.more, box.moreDeleted, isOpen, box.members.map((node) => [node.uid, node.state, node.waitsFor])];
    const signature = JSON.stringify(content);
    if (group.dataset.signature === signature) return;
    group.dataset.signature = signature;
    if (box.node) this.card(group, box.node, isRoot);
    else this.fold(group, box, isOpen);
  }

  /** @param {Element} group @param {GraphNode} node @param {boolean} isRoot */
  card(group, node, isRoot) {
    const canMove = !isRoot && node.resource !== null && node.state !== "absent" && node.state !== "gone";
    const card = s("g", { class: `card${canMove ? " link" : ""}${isRoot ? " root" : ""}`, "data-state": node.state, "data-uid": node.uid, "data-key": keyOf(node) },
      s("title", {}, clean(`${node.kind} ${node.namespace ? `${node.namespace}/` : ""}${node.name}: ${stateOf(node)}`, 600)),
      s("rect", { class: "back", width: NODE.width, height: NODE.height, rx: 10 }));
    const mark = glyph(node.state, node.kind);
    mark.setAttribute("transform", `translate(24 ${NODE.height / 2})`);
    card.append(mark,
      s("text", { class: "title", x: 46, y: 19 }, fitted(node.name, NODE.width - 56, BOLD)),
      s("text", { class: "under", x: 46, y: 35 }, under(node, exists(node) ? this.rows.words(node) : [])));
    if (canMove) card.addEventListener("click", () => this.moveOn(node));
    group.replaceChildren(card);
  }

  /** @param {SVGElement} group @param {Box} box @param {boolean} isOpen */
  fold(group, box, isOpen) {
    const total = box.members.filter((node) => node.state !== "gone").length + box.more;
    const deleted = box.members.filter((node) => ["terminating", "deletingDependents", "orphaning"].includes(node.state)).length + box.moreDeleted;
    const under = [
      deleted > 0 ? `${number(deleted)} terminating` : "",
      box.more > 0 && box.members.length > 0 ? `${box.members.length} drawn` : "",
    ].filter(Boolean).join(", ");
    const count = total || box.members.length;
    const title = `${count === 1 ? `1 ${box.kind}` : `${number(count)} ${kinds(box.kind)}`}${total === 0 ? ", gone" : ""}`;
    const toggles = box.members.length > 0;
    const y = under ? 19 : 25;
    const header = s("g", { class: `header${toggles ? " link" : ""}` },
      s("title", {}, toggles ? (isOpen ? "Fold" : "Show each") : plural(total, "object")),
      s("rect", { class: "hit", width: box.width, height: HEADER }),
      s("text", { class: "title", x: 14, y }, fitted(title, NODE.width - 46, BOLD)),
      under ? s("text", { class: "under", x: 14, y: 34 }, fitted(under, NODE.width - 24, SMALL)) : null,
      toggles ? s("text", { class: "sign", x: box.width - 18, y, "text-anchor": "middle" }, isOpen ? "−" : "+") : null);
    if (toggles) header.addEventListener("click", () => this.toggle(box.key));
    const { columns, width, height } = grid(box.members.length, isOpen);
    const members = s("g", { class: "members" });
    box.members.forEach((node, place) => {
      const [x, y] = [10 + (place % columns) * width, HEADER + Math.floor(place / columns) * height];
      members.append(isOpen ? this.member(node, x, y) : this.mark(node, x + width / 2, y + height / 2));
    });
    group.dataset.gone = String(total === 0);
    group.replaceChildren(s("rect", { class: "back fold", width: box.width, height: box.height, rx: 10 }), header, members);
  }

  /** @param {GraphNode} node @param {number} x @param {number} y */
  member(node, x, y) {
    const holder = s("g", { transform: `translate(${x} ${y})` });
    this.card(holder, node, false);
    return holder;
  }

  /** @param {GraphNode} node @param {number} x @param {number} y */
  mark(node, x, y) {
    const mark = s("path", { class: "mark", d: outline(node.state, 4.6), "data-state": node.state, "data-uid": node.uid, transform: `translate(${x} ${y})` },
      s("title", {}, clean(`${node.kind} ${node.name}: ${STATES[node.state]}`, 600)));
    if (node.state !== "gone") {
      mark.classList.add("link");
      mark.addEventListener("click", () => this.moveOn(node));
    }
    return mark;
  }

  /** @param {string} key */
  toggle(key) {
    if (!this.open.delete(key)) this.open.add(key);
    this.view.follow();
    this.redraw();
  }
}
