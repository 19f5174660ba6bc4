// READY and AGE of the cards in view, from the server's own table. Each is a request, so they are few.

import { Refused, get } from "./api.js";
import { MOST as KEPT, keyOf } from "./history.js";

/** How long an answer counts, and how long nothing is asked after a refusal. */
const AGAIN = 30_000;
/** The most requests in that time. */
const MOST = 40;
/** How often to look for new cards in view. */
const LOOK = 1_000;

/** @type {Row} */
const NOTHING = { ready: null, isReady: null, age: null };

/** @typedef {{row: Row, at: number}} Known */

export class Rows {
  /**
   * @param {() => GraphNode[]} inView
   * @param {(node: GraphNode) => void} changed
   */
  constructor(inView, changed) {
    this.inView = inView;
    this.changed = changed;
    this.asking = new AbortController();
    /** @type {Map<string, Known>} */
    this.known = new Map();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
  }

  /** Another drawing. */
  reset() {
    this.asking.abort();
    this.asking = new AbortController();
    this.known.clear();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.next(), LOOK);
  }

  /** What is known of an object, in words. @param {GraphNode} node @returns {string[]} */
  words(node) {
    const { ready, isReady, age } = this.known.get(keyOf(node))?.row ?? NOTHING;
    const count = ready?.includes("/") ? `${ready} ` : "";
    return [isReady === null ? "" : `${count}${isReady ? "ready" : "not ready"}`, age ?? ""].filter(Boolean);
  }

  /** The object in view that was asked about least recently, if it is time. */
  due() {
    const now = performance.now();
    const recent = [...this.known.values()].filter(({ at }) => at > now - AGAIN);
    if (document.hidden || recent.length >= MOST) return undefined;
    const at = (/** @type {GraphNode} */ node) => this.known.get(keyOf(node))?.at ?? -Infinity;
    return this.inView().filter((node) => at(node) <= now - AGAIN).sort((a, b) => at(a) - at(b))[0];
  }

  /** Asks for one row, and then for the next one. */
  async next() {
    const { signal } = this.asking;
    const node = this.due();
    let wait = LOOK;
    if (node) {
      const known = { row: this.known.get(keyOf(node))?.row ?? NOTHING, at: performance.now() };
      // The oldest is the first one.
      this.known.delete(keyOf(node));
      this.known.set(keyOf(node), known);
      if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value ?? "");
      try {
        known.row = /** @type {Row} */ (await get("row", { uid: node.uid, resource: node.resource }, signal));
        wait = 0;
      } catch (error) {
        wait = error instanceof Refused && error.status === 404 ? 0 : AGAIN;
      }
      if (signal.aborted) return;
      this.changed(node);
    }
    this.timer = setTimeout(() => void this.next(), wait);
  }
}
