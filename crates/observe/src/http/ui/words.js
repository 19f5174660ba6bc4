// The words of the page: states, times, counts.

/** @type {Record<State, string>} */
export const STATES = {
  live: "live",
  terminating: "terminating",
  deletingDependents: "waits for dependents",
  orphaning: "releases dependents",
  absent: "absent",
  unknown: "unknown",
  unresolved: "kind not served",
  invalidScope: "invalid scope",
  gone: "gone",
};

/**
 * The two letters of a kind's icon: its capitals, or its first two letters. Those of a Secret are not
 * those of a Service.
 * @param {string} kind
 */
export function letters(kind) {
  if (kind === "Service") return "Sv";
  const capitals = kind.replace(/[^A-Z]/g, "");
  return [...(capitals.length > 1 ? capitals : kind)].slice(0, 2).join("");
}

/** @param {number} count */
export const number = (count) => count.toLocaleString("en");

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/**
 * The plural of a kind.
 * @param {string} kind
 */
export function kinds(kind) {
  if (/(s|x|z|ch|sh)$/.test(kind)) return `${kind}es`;
  if (/[^aeiou]y$/.test(kind)) return `${kind.slice(0, -1)}ies`;
  return `${kind}s`;
}

/**
 * A duration in at most two units.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

/**
 * The time of day, and the day unless it is today.
 * @param {string} at
 */
export function clock(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return day + date.toLocaleTimeString("en-GB");
}

/**
 * How long ago that was, as of the clock of this machine.
 * @param {string} at
 */
export function ago(at) {
  const seconds = (Date.now() - new Date(at).getTime()) / 1000;
  return Number.isNaN(seconds) ? at : `${duration(Math.max(0, Math.round(seconds)))} ago`;
}

/** A snake_case word for people. @param {string} word */
export const plain = (word) => word.replaceAll("_", " ");

/** @param {string} word */
export const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);
