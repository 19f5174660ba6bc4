// Latencies as histograms over time: a column for each 5 s, a row for each bucket, the darker the more.

import { h, s } from "./dom.js";
import { number } from "./words.js";

/** How many columns are kept: five minutes. */
const KEPT = 60;
/** The samples of a column, which come each second. */
const SPAN = 5;
const SIZE = { width: 240, height: 44 };
const SHADES = 4;
/** The least rows, so that a few alike values are no wall. */
const ROWS = 6;

/** @type {[string, string, string][]} the name of the histogram, what the page calls it, what it is */
const LATENCIES = [
  ["deletion_lag", "Deletion lag", "From the end of an owner to the deletion of its dependent, last five minutes"],
  ["requests", "Requests", "How long the API server takes to answer, last five minutes"],
];

/** The bound of a bucket, which is exact. @param {number} seconds */
const bounded = (seconds) => seconds < 1 ? `${Number((seconds * 1000).toPrecision(6))} ms` : `${seconds} s`;

/**
 * The bucket that has a part of all values.
 * @param {number[]} counts
 * @param {number} part
 */
function bucket(counts, part) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  let sum = 0;
  return counts.findIndex((count) => (sum += count) >= all * part && sum > 0);
}

class Latency {
  /** @param {HTMLElement} place @param {string} name @param {string} title */
  constructor(place, name, title) {
    this.name = name;
    this.title = title;
    /** @type {Histogram|null} */
    this.before = null;
    /** @type {number[][]} */
    this.columns = [];
    this.samples = 0;
    this.value = h("span", { class: "value" }, "–");
    this.rest = h("span", { class: "soft peak" });
    this.shades = Array.from({ length: SHADES }, (_, shade) => s("path", { class: "heat", "fill-opacity": String((shade + 1) / SHADES) }));
    this.box = h("div", { class: "measure latency", title },
      h("span", { class: "label" }, name), this.rest, this.value,
      s("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...this.shades));
    place.append(this.box);
  }

  /** @param {Histogram|undefined} now */
  take(now) {
    if (!now) {
      this.before = { le: [], counts: [] };
      return;
    }
    const before = this.before;
    this.before = now;
    // A collector that has started anew counts from 0.
    const isNew = !before || before.counts.some((count, place) => count > (now.counts[place] ?? 0));
    const added = now.counts.map((count, place) => isNew ? 0 : count - (before.counts[place] ?? 0));
    if (this.samples % SPAN === 0) this.columns.push(added);
    else this.columns[this.columns.length - 1] = (this.columns.at(-1) ?? []).map((count, place) => count + (added[place] ?? 0));
    this.samples += 1;
    if (this.columns.length > KEPT) this.columns.shift();
    this.draw(now.le);
  }

  /** @param {number[]} bounds */
  draw(bounds) {
    const totals = bounds.concat(Infinity).map((_, place) => this.columns.reduce((sum, column) => sum + (column[place] ?? 0), 0));
    const all = totals.reduce((sum, count) => sum + count, 0);
    /** @param {number} part */
    const within = (part) => {
      const bound = bounds[bucket(totals, part)];
      return bound === undefined ? `> ${bounded(bounds.at(-1) ?? 0)}` : `≤ ${bounded(bound)}`;
    };
    this.value.textContent = all > 0 ? within(0.5) : "–";
    this.rest.textContent = all > 0 ? `99 % ${within(0.99)}` : "";
    this.box.title = all > 0 ? `${this.title}: ${number(all)}, half of them ${within(0.5)}, 99 % ${within(0.99)}` : this.title;
    const high = Math.max(totals.findLastIndex((count) => count > 0), ROWS - 1);
    const low = Math.min(Math.max(0, totals.findIndex((count) => count > 0)), high - ROWS + 1);
    const [width, height] = [SIZE.width / KEPT, (SIZE.height - 2) / (high - low + 1)];
    const most = Math.max(1, ...this.columns.flat());
    /** @type {string[]} */
    const shades = Array.from({ length: SHADES }, () => "");
    this.columns.forEach((column, place) => column.forEach((count, row) => {
      if (count === 0) return;
      const x = SIZE.width - (this.columns.length - place) * width;
      const y = SIZE.height - (row - low + 1) * height;
      shades[Math.ceil(SHADES * Math.sqrt(count / most)) - 1] += `M${x} ${y.toFixed(1)}h${width}v${height.toFixed(1)}h-${width}z`;
    }));
    this.shades.forEach((path, shade) => path.setAttribute("d", shades[shade] ?? ""));
  }
}

export class Latencies {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.all = LATENCIES.map(([key, name, title]) => ({ key, latency: new Latency(place, name, title) }));
  }

  /** @param {Summary} summary */
  take(summary) {
    for (const { key, latency } of this.all) latency.take(summary.latencies[key]);
  }
}
