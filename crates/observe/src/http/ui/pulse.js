// Sparklines of work and waiting, second by second.

import { h, s } from "./dom.js";
import { duration, number } from "./words.js";

/** How many samples are kept: five minutes. */
const KEPT = 300;
const SIZE = { width: 240, height: 44 };

/** @typedef {{name: string, unit: "rate"|"count"|"time", title: string, read: (now: Summary, before: {summary: Summary, at: number}|null, at: number) => number}} Measure */

/** @param {QueueSummary|undefined} queue */
const depth = (queue) => queue ? queue.ready + queue.processing + queue.delayed + queue.parked : 0;
/** @param {Summary} summary @param {(queue: QueueSummary) => number|null} of */
const longest = (summary, of) => Math.max(0, ...Object.values(summary.queues).map((queue) => of(queue) ?? 0));
/** @param {string} queue @returns {Measure["read"]} */
const queued = (queue) => (now) => depth(now.queues[`garbage_collector_attempt_to_${queue}`]);

/** @type {Measure[]} */
const MEASURES = [
  { name: "Decisions", unit: "rate", title: "Decisions per second", read: (now, before, at) => before ? Math.max(0, (now.decisions_total - before.summary.decisions_total) / Math.max(0.2, (at - before.at) / 1000)) : 0 },
  { name: "To delete", unit: "count", title: "Objects in the queue for deletion: ready, processing, delayed and parked", read: queued("delete") },
  { name: "Large objects", unit: "count", title: "Objects with very many owners, in their own queue", read: queued("delete_large") },
  { name: "To orphan", unit: "count", title: "Owners whose dependents are to be released", read: queued("orphan") },
  { name: "Max. wait", unit: "time", title: "How long the oldest object in a queue has waited for a worker", read: (now) => longest(now, (queue) => queue.oldest_ready_seconds) },
  { name: "Max. run", unit: "time", title: "How long the longest work in progress has taken so far", read: (now) => longest(now, (queue) => queue.longest_running_seconds) },
];

/** @param {Measure["unit"]} unit @param {number} value */
function written(unit, value) {
  if (unit === "time") return value === 0 ? "0 s" : duration(value);
  if (unit === "count") return number(value);
  return `${value > 0 && value < 9.5 ? value.toFixed(1) : number(Math.round(value))}/s`;
}

export class Pulse {
  /** @param {HTMLElement} place */
  constructor(place) {
    /** @type {{summary: Summary, at: number}|null} */
    this.before = null;
    this.series = MEASURES.map((measure) => {
      const area = s("path", { class: "area" });
      const line = s("path", { class: "trace" });
      const value = h("span", { class: "value" }, "–");
      const peak = h("span", { class: "soft peak" });
      place.append(h("div", { class: "measure", title: measure.title },
        h("span", { class: "label" }, measure.name), peak, value,
        s("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, area, line)));
      return { measure, area, line, value, peak, samples: /** @type {number[]} */ ([]) };
    });
  }

  /** @param {Summary} summary @param {number} at */
  take(summary, at) {
    // A collector that has started anew counts from 0.
    const before = this.before && this.before.summary.decisions_total <= summary.decisions_total ? this.before : null;
    for (const series of this.series) {
      const { measure, samples } = series;
      samples.push(measure.read(summary, before, at));
      if (samples.length > KEPT) samples.shift();
      const most = Math.max(...samples);
      series.value.textContent = written(measure.unit, samples.at(-1) ?? 0);
      series.peak.textContent = most > 0 ? `peak ${written(measure.unit, most)}` : "";
      const x = (/** @type {number} */ place) => SIZE.width - (samples.length - 1 - place) * SIZE.width / (KEPT - 1);
      const y = (/** @type {number} */ value) => SIZE.height - 2 - (most > 0 ? value / most : 0) * (SIZE.height - 6);
      const trace = samples.map((value, place) => `${x(place).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
      series.line.setAttribute("d", `M${trace}`);
      series.area.setAttribute("d", `M${trace}L${SIZE.width} ${SIZE.height}L${x(0).toFixed(1)} ${SIZE.height}Z`);
    }
    this.before = { summary, at };
  }
}
