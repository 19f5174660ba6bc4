// What is stuck, and the last decisions.

import { foreign, h, keep, shown } from "./dom.js";
import { capital, clock, duration, number, plain } from "./words.js";

/** @typedef {(ref: Ref) => void} MoveOn */

/** @type {Record<string, [string, string]>} what a successful decision did, and its tone */
const DONE = {
  deleted: ["deleted", "gone"],
  deletion_pending: ["terminating", "busy"],
  patched: ["reference removed", "fine"],
  removed: ["finalizer removed", "gone"],
  already_gone: ["already gone", "quiet"],
  already_being_deleted: ["already terminating", "quiet"],
  not_being_deleted: ["not terminating", "quiet"],
  unneeded: ["nothing to do", "quiet"],
  reevaluated: ["decided again", "quiet"],
  dry_run: ["dry run", "quiet"],
  parked: ["parked", "busy"],
  deferred: ["deferred", "busy"],
  unknown: ["unknown", "busy"],
  throttled: ["throttled", "bad"],
  conflict: ["conflict", "bad"],
  denied: ["denied", "bad"],
  failed: ["failed", "bad"],
  braked: ["braked", "bad"],
};

/** @param {ObjectView} object */
const name = (object) => object.name ?? `uid ${object.uid}`;

/** @param {ObjectView} object */
function label(object) {
  return [
    foreign(name(object), { class: "title" }),
    h("span", { class: "soft where" }, foreign(object.resource), object.namespace ? " in " : "", object.namespace ? foreign(object.namespace) : null),
  ];
}

/** Why something was decided, in a few words. @param {Decision} decision */
function reason({ owners, owner, action, finalizer, error }) {
  if (error) return shown(error, 200);
  if (finalizer) return finalizer === "orphan" ? "its dependents are released" : `finalizer ${finalizer}`;
  if (owner) return `released by ${owner.resource} ${name(owner)}`;
  const cause = owners.find((other) => other.class !== "solid") ?? owners[0];
  if (!cause || action === "keep") return "";
  const others = owners.length > 1 ? ` and ${owners.length - 1} more` : "";
  return `${cause.kind} ${cause.name}${others}: ${cause.class}`;
}

/**
 * @param {Decision} decision
 * @param {MoveOn|null} moveOn
 */
export function decisionRow(decision, moveOn) {
  const [word, tone] = DONE[decision.outcome] ?? [plain(decision.outcome), "quiet"];
  const why = reason(decision);
  const badge = h("span", { class: `badge ${tone}`, title: `${plain(decision.action)}${decision.policy ? `, ${decision.policy}` : ""}: ${plain(decision.outcome)}` }, word);
  const at = h("time", { datetime: decision.at, title: decision.at }, clock(decision.at));
  const because = why ? h("span", { class: "soft why" }, foreign(why)) : null;
  if (!moveOn) return h("li", { class: "decision" }, at, badge, because);
  return h("li", { class: "decision" },
    h("button", { type: "button", class: "row", click: () => moveOn(decision.object) }, at, badge, ...label(decision.object), because));
}

/**
 * @param {HTMLElement} place
 * @param {Decision[]} decisions
 * @param {MoveOn} moveOn
 */
export function decisions(place, decisions, moveOn) {
  if (decisions.length === 0) return empty(place, "No decision yet. Each deletion, release and refusal is listed here with its reason.");
  // The same decision can be there twice, so its place among its likes makes it unique.
  /** @type {Map<string, number>} */
  const counts = new Map();
  const keys = new Map([...decisions].reverse().map((decision) => {
    const key = `${decision.at} ${decision.object.uid} ${decision.action} ${decision.outcome}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return [decision, `${key} ${counts.get(key) ?? 0}`];
  }));
  keep(list(place), decisions, (decision) => keys.get(decision) ?? "", (decision) => decisionRow(decision, moveOn));
}

/**
 * @param {HTMLElement} place
 * @param {StuckPage} page
 * @param {MoveOn} moveOn
 */
export function stuck(place, page, moveOn) {
  if (page.stuck.length === 0) return empty(place, page.standby ? "Another replica leads and has the work to do." : "Nothing is stuck.");
  /** @type {Map<string, StuckItem[]>} */
  const groups = new Map();
  for (const item of page.stuck) groups.set(item.reason, [...(groups.get(item.reason) ?? []), item]);
  const rows = [...groups].flatMap(([reason, items]) => [
    { reason, hint: items[0]?.hint ?? "", count: page.totals[reason] ?? items.length, item: null },
    ...items.map((item) => ({ reason, hint: "", count: 0, item })),
  ]);
  keep(list(place), rows, ({ reason, item }) => item ? `${item.object.uid}/${item.object.resource}` : reason, ({ reason, hint, count, item }) => {
    if (!item) return h("li", { class: "cause" }, h("p", {}, h("span", { class: "badge bad" }, plain(reason)), h("span", { class: "count" }, number(count))), h("p", { class: "soft" }, `${capital(hint)}.`));
    return h("li", {}, h("button", { type: "button", class: "row", click: () => moveOn(item.object) },
      h("time", { title: `since ${item.since}` }, duration(item.waiting_seconds)), ...label(item.object),
      h("span", { class: "soft why" }, foreign(shown(item.message, 300)))));
  });
}

/** @param {HTMLElement} place */
function list(place) {
  const first = place.firstElementChild;
  if (first instanceof HTMLElement && first.matches("ul")) return first;
  const made = h("ul", { class: "rows" });
  place.replaceChildren(made);
  return made;
}

/** @param {HTMLElement} place @param {string} text */
function empty(place, text) {
  if (place.textContent !== text) place.replaceChildren(h("p", { class: "empty" }, text));
}
