// The mark of an object: its state by shape, its kind by two letters.

import { s, shown } from "./dom.js";
import { letters } from "./words.js";

/** @param {number} corners @param {number} radius @param {number} turn */
function polygon(corners, radius, turn) {
  const points = Array.from({ length: corners }, (_, corner) => {
    const angle = (corner / corners + turn) * 2 * Math.PI;
    return `${(radius * Math.sin(angle)).toFixed(2)} ${(-radius * Math.cos(angle)).toFixed(2)}`;
  });
  return `M${points.join("L")}Z`;
}

/** @param {number} r */
const circle = (r) => `M${r} 0A${r} ${r} 0 1 1 ${-r} 0A${r} ${r} 0 1 1 ${r} 0Z`;

/**
 * The outline of a state.
 * @param {State} state
 * @param {number} r
 */
export function outline(state, r) {
  switch (state) {
    case "terminating": return polygon(4, r * 1.22, 0);
    case "deletingDependents": return polygon(6, r * 1.12, 0);
    case "orphaning": return polygon(5, r * 1.15, 0);
    case "unknown": return polygon(4, r * 1.2, 1 / 8);
    case "unresolved": return polygon(4, r * 1.2, 1 / 8);
    case "invalidScope": return polygon(3, r * 1.3, 0);
    case "live": case "absent": case "gone": return circle(r);
  }
}

/**
 * @param {State} state
 * @param {string} kind
 * @param {number} [r]
 */
export function glyph(state, kind, r = 13) {
  return s("g", { class: "glyph", "data-state": state },
    s("path", { d: outline(state, r) }),
    s("text", { y: r * 0.3, "text-anchor": "middle" }, letters(shown(kind, 100))));
}

/**
 * The mark for use in text.
 * @param {State} state
 * @param {string} kind
 */
export function icon(state, kind) {
  return s("svg", { class: "icon", viewBox: "-18 -18 36 36", width: 26, height: 26, "aria-hidden": "true" }, glyph(state, kind));
}
