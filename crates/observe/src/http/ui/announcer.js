// Says what has changed to screen readers: politely, and at most once in 5 s.

import { plural } from "./words.js";

const EVERY = 5_000;

export class Announcer {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** What is to be said next: counts by what has happened. @type {Map<string, number>} */
    this.counts = new Map();
    this.text = "";
    this.last = -Infinity;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
  }

  /** Counts something that has happened to objects. @param {string} what @param {number} [count] */
  count(what, count = 1) {
    if (count === 0) return;
    this.counts.set(what, (this.counts.get(what) ?? 0) + count);
    this.plan();
  }

  /** Says a sentence. The newest replaces others that wait. @param {string} text */
  say(text) {
    this.text = text;
    this.plan();
  }

  plan() {
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => this.speak(), Math.max(50, this.last + EVERY - performance.now()));
  }

  speak() {
    this.timer = undefined;
    this.last = performance.now();
    const counts = [...this.counts].map(([what, count]) => `${plural(count, "object")} ${what}`).join(", ");
    this.place.textContent = [this.text, counts ? `${counts}.` : ""].filter(Boolean).join(" ");
    this.counts.clear();
    this.text = "";
  }
}
