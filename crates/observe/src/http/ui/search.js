// Search by type, namespace and name.

import { Refused, get } from "./api.js";
import { byId, foreign, h } from "./dom.js";
import { icon } from "./shapes.js";
import { STATES, clock } from "./words.js";

const DELAY = 150;
const LIMIT = 30;

/** @type {FoundPage} */
const NOTHING = { found: [], more: false, searched: "" };

export class Search {
  /**
   * @param {(found: Found) => void} choose
   * @param {(query: string) => void} changed
   */
  constructor(choose, changed) {
    this.choose = choose;
    this.changed = changed;
    this.input = /** @type {HTMLInputElement} */ (byId("search"));
    this.list = byId("found");
    /** @type {Found[]} */
    this.found = [];
    this.at = -1;
    this.asking = new AbortController();
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    this.input.addEventListener("input", () => {
      this.changed(this.input.value.trim());
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.ask(), DELAY);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("focus", () => { if (this.input.value.trim() && this.list.hidden) void this.ask(); });
    this.input.addEventListener("blur", () => this.close());
    // The field keeps the focus, so that the list is still there when the click arrives.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", (event) => {
      const option = event.target instanceof Element ? event.target.closest("[role=option]") : null;
      if (option) this.take([...this.list.children].indexOf(option));
    });
  }

  async ask() {
    this.asking.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    const q = this.input.value.trim();
    if (!q) return this.close();
    try {
      const page = /** @type {FoundPage} */ (await get("search", { q, limit: LIMIT }, signal));
      if (!signal.aborted && document.activeElement === this.input) this.show(page);
    } catch (error) {
      if (signal.aborted) return;
      this.show(NOTHING, error instanceof Refused ? error.message : "The search failed.");
    }
  }

  /** @param {FoundPage} page @param {string} [problem] */
  show({ found, more, searched }, problem) {
    this.found = found;
    this.list.replaceChildren(...found.map((object, place) => h("li", { role: "option", id: `found-${place}`, "aria-selected": "false" },
      icon(object.state, object.kind), h("span", { class: "kind" }, foreign(object.kind)), foreign(object.name, { class: "title" }),
      h("span", { class: "soft where" }, foreign(object.namespace ?? "cluster"), object.deleted ? `, deleted ${clock(object.deleted)}` : object.state === "live" ? "" : `, ${STATES[object.state]}`))));
    if (found.length === 0 || more) {
      const text = problem ?? (more ? "There are more. Type more of the name to see them." : `There are no ${searched}. Search takes TYPE/NAME, NAMESPACE/NAME or a part of a name.`);
      this.list.append(h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false", class: "soft" }, foreign(text)));
    }
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark(found.length > 0 ? 0 : -1);
  }

  close() {
    this.asking.abort();
    clearTimeout(this.timer);
    this.list.hidden = true;
    this.at = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} place */
  mark(place) {
    this.at = place;
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === place)));
    if (place < 0) return this.input.removeAttribute("aria-activedescendant");
    this.input.setAttribute("aria-activedescendant", `found-${place}`);
    this.list.children[place]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} place */
  take(place) {
    const object = this.found[place];
    if (!object) return;
    this.close();
    this.input.blur();
    this.choose(object);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const count = this.found.length;
    if (event.key === "Escape") {
      if (this.list.hidden) this.input.blur();
      else this.close();
    } else if (event.key === "ArrowDown" && count > 0 && !this.list.hidden) {
      this.mark((this.at + 1) % count);
    } else if (event.key === "ArrowUp" && count > 0 && !this.list.hidden) {
      this.mark((this.at + count - 1) % count);
    } else if (event.key === "Enter" && !this.list.hidden) {
      this.take(this.at);
    } else if (event.key === "Enter") {
      void this.ask();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
