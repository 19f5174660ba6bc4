// What is stuck, and the last decisions.

import { foreign, h, keep, shown } from "./dom.js";
import { capital, clock, duration, number, plain } from "./words.js";

/** @typedef {(ref: Ref) => void} MoveOn */

export const NO_DECISION = "No decision about it is remembered.";

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

/** Each outcome, and its word. @type {[string, string][]} */
export const OUTCOMES = Object.entries(DONE).map(([outcome, [word]]) => [outcome, word]);

/** @param {ObjectView|ObjectName} object */
const name = (object) => object.name ?? `uid ${object.uid}`;

/** @param {ObjectView|ObjectName} object */
function label(object) {
  return [
    foreign(name(object), { class: "title" }),
    h("span", { class: "soft where" }, foreign(object.resource ?? ""), object.namespace ? " in " : "", object.namespace ? foreign(object.namespace) : null),
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
 * The decision about one of many objects that were deleted because of one owner.
 * @param {Deletions} of
 * @returns {Decision}
 */
export const remembered = ({ at, namespace, resource, owner }) => ({
  at, object: { resource, namespace, name: null, uid: "" }, action: "delete", policy: null, finalizer: null,
  outcome: "deleted", error: null, owners: [owner], owner: null,
});

/**
 * @param {Decision} decision
 * @param {MoveOn|null} moveOn
 * @param {number} [count] how often the same was decided
 */
export function decisionRow(decision, moveOn, count = 1) {
  const [word, tone] = DONE[decision.outcome] ?? [plain(decision.outcome), "quiet"];
  const why = reason(decision);
  const badge = h("span", { class: `badge ${tone}`, title: `${plain(decision.action)}${decision.policy ? `, ${decision.policy}` : ""}: ${plain(decision.outcome)}` }, word);
  if (count > 1) badge.append(` ×${number(count)}`);
  const at = h("time", { datetime: decision.at, title: decision.at }, clock(decision.at));
  const because = why ? h("span", { class: "soft why" }, foreign(why)) : null;
  if (!moveOn) return h("li", { class: "decision" }, at, badge, because);
  return h("li", { class: "decision" },
    h("button", { type: "button", class: "row", click: () => moveOn(decision.object) }, at, badge, ...label(decision.object), because));
}

/**
 * @param {HTMLElement} place
 * @param {Decision[]} decisions
 * @param {boolean} isFiltered
 * @param {MoveOn} moveOn
 */
export function decisions(place, decisions, isFiltered, moveOn) {
  if (decisions.length === 0) return empty(place, isFiltered ? "No decision like this is remembered." : "No decision yet. Each deletion, release and refusal is listed here with its reason.");
  // What is tried again and again is one row, so that it does not hide the others.
  /** @type {Map<string, {key: string, decision: Decision, count: number}>} */
  const rows = new Map();
  for (const decision of decisions) {
    const key = `${decision.object.uid} ${decision.object.resource} ${decision.action} ${decision.outcome}`;
    const row = rows.get(key);
    if (row) row.count += 1;
    else rows.set(key, { key, decision, count: 1 });
  }
  keep(list(place), [...rows.values()], ({ key }) => key, ({ decision, count }) => decisionRow(decision, moveOn, count));
}

/**
 * What was deleted too long ago, by what holds it, and what the collector cannot finish, by its reason.
 * @param {HTMLElement} place
 * @param {StuckPage} page
 * @param {StuckGroup[]} causes
 * @param {MoveOn} moveOn
 */
export function stuck(place, page, causes, moveOn) {
  // Until it is known what holds these, they are listed one by one.
  const items = causes.length > 0 ? page.stuck.filter((item) => item.reason !== "held") : page.stuck;
  if (items.length === 0 && causes.length === 0) return empty(place, page.standby ? "Another replica leads and has the work to do." : "Nothing is stuck.");
  const held = causes.map(({ sentence, advice, objectCount, objects }) => ({
    key: `cause ${sentence}`, badge: "", sentence, hint: advice.join(" "), count: objectCount,
    objects: objects.map((object) => ({ object, time: "", title: "", message: "" })),
  }));
  /** @type {Map<string, StuckItem[]>} */
  const groups = new Map();
  for (const item of items) groups.set(item.reason, [...(groups.get(item.reason) ?? []), item]);
  const unfinished = [...groups].map(([reason, items]) => ({
    key: reason, badge: plain(reason), sentence: "", hint: `${capital(items[0]?.hint ?? "")}.`, count: page.totals[reason] ?? items.length,
    objects: items.map(({ object, waiting_seconds, since, message }) => ({ object, time: duration(waiting_seconds), title: `since ${since}`, message })),
  }));
  const rows = [...held, ...unfinished].flatMap(({ objects, ...group }) => [
    { key: group.key, group, row: null },
    ...objects.map((row) => ({ key: `${group.key} ${row.object.uid}/${row.object.resource ?? ""}`, group: null, row })),
  ]);
  keep(list(place), rows, ({ key }) => key, ({ group, row }) => {
    if (!row) return h("li", { class: "cause" }, h("p", {}, group.badge ? h("span", { class: "badge bad" }, group.badge) : foreign(group.sentence, { class: "title" }), h("span", { class: "count" }, number(group.count))), h("p", { class: "soft" }, foreign(shown(group.hint, 500))));
    return h("li", {}, h("button", { type: "button", class: "row", click: () => moveOn(row.object) },
      row.time ? h("time", { title: row.title }, row.time) : null, ...label(row.object),
      row.message ? h("span", { class: "soft why" }, foreign(shown(row.message, 300))) : null));
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
