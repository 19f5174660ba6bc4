// Why an object is still there, what holds it, and what was decided about it.

import { foreign, h, shown, swap } from "./dom.js";
import { NO_DECISION, decisionRow } from "./panels.js";
import { icon } from "./shapes.js";
import { ago, capital, duration, kinds, number, plain, plural } from "./words.js";

/** @typedef {(ref: Ref) => void} MoveOn */

/** @type {Record<string, [string, string]>} the word for an outcome, and its tone */
const OUTCOMES = {
  stays: ["stays", "fine"],
  staysForNow: ["stays for now", "busy"],
  losesReferences: ["stays, loses references", "fine"],
  goes: ["is going", "busy"],
  waits: ["waits", "busy"],
  undecided: ["undecided", "bad"],
  absent: ["absent", "bad"],
  unknown: ["unknown", "bad"],
};

/** @type {Record<string, [string, State]>} the word for the class of a reference, and the state of its owner */
const CLASSES = {
  solid: ["exists", "live"],
  waiting: ["waits for its dependents", "deletingDependents"],
  absent: ["absent", "absent"],
  orphaned: ["has released this", "absent"],
  unresolved: ["unresolved", "unresolved"],
  invalidScope: ["invalid scope", "invalidScope"],
};

/** @param {string} title @param {...import("./dom.js").Child} children */
const part = (title, ...children) => h("section", { class: "part" }, h("h3", {}, title), ...children);

/** A long text of someone else, folded. @param {string} text */
function message(text) {
  const all = shown(text);
  if (all.length <= 400) return h("p", { class: "message" }, foreign(all));
  return h("details", { class: "message" },
    h("summary", {}, foreign(`${all.slice(0, 300)}…`), h("span", { class: "soft" }, ` all ${number(all.length)} characters`)),
    foreign(all));
}

/** @param {ObjectName} object @param {State} state @param {MoveOn} moveOn */
function link(object, state, moveOn) {
  const label = [icon(state, object.kind), h("span", { class: "kind" }, foreign(shown(object.kind, 100))), foreign(object.name, { class: "title" })];
  if (object.resource === null || state === "absent") return h("span", { class: "ref" }, ...label);
  return h("button", { type: "button", class: "ref", "data-key": `ref ${object.uid}`, click: () => moveOn(object) }, ...label);
}

/** @param {Reference} reference */
function evidence({ evidence }) {
  switch (evidence.kind) {
    case "watched": return "A watch shows it.";
    case "remembered": return "It was proved absent.";
    case "read": return "The API server has it.";
    case "notFound": return "The API server answered 404.";
    case "otherUid": return `Another object has this name now, with uid ${evidence.uid ?? ""}.`;
    case "notServed": return evidence.servedAs ? `Not served in this version; it is served as ${evidence.servedAs}.` : "The kind is not served.";
    case "undiscovered": return "Discovery could not read this API.";
    case "namespaced": return "The owner is namespaced and the dependent is not.";
    case "failed": return evidence.error ?? "The lookup failed.";
    case "notAsked": return "It was not looked up.";
    default: return evidence.kind;
  }
}

/** @param {Finalizer} finalizer */
function finalizerRow(finalizer) {
  const { name, remover, when, setBy, apiIsServed } = finalizer;
  const facts = [
    remover ? `To be removed by ${remover} when ${when ?? ""}.` : "",
    setBy ? `Set by ${setBy.manager}${setBy.time ? `, which last wrote ${ago(setBy.time)}` : ""}.` : "",
    apiIsServed === true ? "Its API is served." : apiIsServed === false ? "Its API is not served." : "",
  ].filter(Boolean).join(" ");
  return h("li", {}, foreign(name, { class: "title" }), facts ? h("p", { class: "soft" }, foreign(facts)) : null);
}

/** @param {Explanation} of @param {MoveOn} moveOn */
function chain({ chain }, moveOn) {
  if (chain.leaves.length === 0 && chain.links.length === 0) return null;
  const leaves = chain.leaves.map((leaf) => h("li", {},
    link(leaf.object, leaf.hold === "toBeDeleted" || leaf.hold === "toBeReleased" ? "live" : "terminating", moveOn),
    h("p", { class: "soft" }, foreign(`Waits for ${leaf.waitsFor}`), `${leaf.deleted ? `, deleted ${ago(leaf.deleted)}` : ""}. Blocks `, foreign(`${leaf.blocks.kind} ${leaf.blocks.name}`), "."),
    leaf.finalizers.length > 0 ? h("ul", { class: "rows inner" }, ...leaf.finalizers.map(finalizerRow)) : null));
  const between = chain.links.slice(1).map(({ object, waitsFor }) => h("li", {}, link(object, "deletingDependents", moveOn), h("p", { class: "soft" }, `Waits for ${plural(waitsFor, "dependent")}.`)));
  return part("What holds it", h("ul", { class: "rows" }, ...leaves, ...between),
    chain.truncated ? h("p", { class: "soft" }, "There are more than are shown.") : null);
}

/** @param {Explanation} of @param {MoveOn} moveOn */
function namespace({ object, namespace }, moveOn) {
  if (!namespace) return null;
  const { left, beingDeleted, byType, held, notRead, conditions, silentApis } = namespace;
  return part(object.kind === "Namespace" ? "Left in the namespace" : "Left of the type",
    h("p", {}, `${plural(left, "object")}, ${number(beingDeleted)} terminating${notRead > 0 ? `, ${number(notRead)} not read` : ""}`),
    h("ul", { class: "rows" },
      ...held.map(({ finalizer, count, objects }) => h("li", {}, h("p", {}, `${number(count)} held by `, foreign(finalizer.name, { class: "title" })),
        ...objects.slice(0, 5).map((object) => link(object, "terminating", moveOn)))),
      ...byType.map(({ kind, count }) => h("li", {}, foreign(`${number(count)} ${count === 1 ? kind : kinds(kind)}`))),
      ...conditions.map(({ kind, message: text }) => h("li", {}, foreign(kind, { class: "title" }), message(text))),
      ...silentApis.map(({ what, why }) => h("li", {}, foreign(`${what} does not answer`, { class: "title" }), message(why)))));
}

/**
 * @param {HTMLElement} place
 * @param {Explanation} of
 * @param {MoveOn} moveOn
 */
export function explain(place, of, moveOn) {
  const [outcome, tone] = OUTCOMES[of.outcome] ?? [of.outcome, "bad"];
  const more = of.referenceCount - of.references.length;
  swap(place,
    h("p", { class: "outcome", "data-tone": tone }, outcome),
    h("p", { class: "verdict" }, foreign(of.verdict)),
    of.deleted ? h("p", { class: "soft" }, `Deleted ${ago(of.deleted)}.`) : null,
    of.advice.length > 0 ? part("What to do", h("ul", { class: "advice" }, ...of.advice.map((text) => h("li", {}, foreign(shown(text, 500)))))) : null,
    of.stuck ? part("Stuck",
      h("p", {}, h("span", { class: "badge bad" }, plain(of.stuck.reason)), ` for ${duration(of.stuck.waiting_seconds)}${of.stuck.attempts ? `, ${plural(of.stuck.attempts, "attempt")}` : ""}${of.stuck.next_retry_seconds === null ? "" : `, next in ${duration(of.stuck.next_retry_seconds)}`}`),
      message(of.stuck.message), h("p", { class: "soft" }, `${capital(of.stuck.hint)}.`)) : null,
    chain(of, moveOn),
    namespace(of, moveOn),
    of.finalizers.length > 0 ? part("Finalizers", h("ul", { class: "rows" }, ...of.finalizers.map(finalizerRow))) : null,
    of.references.length > 0 ? part("Owner references", h("ul", { class: "rows" }, ...of.references.map((reference) => {
      const [word, state] = CLASSES[reference.class] ?? [reference.class, "unknown"];
      const tags = [reference.controller ? "controller" : "", reference.blockOwnerDeletion ? "blocks its deletion" : ""].filter(Boolean).join(", ");
      return h("li", {}, link(reference.owner, /** @type {State} */ (state), moveOn), h("span", { class: `badge ${state === "live" ? "fine" : state === "deletingDependents" ? "busy" : "bad"}` }, word),
        h("p", { class: "soft" }, foreign(`${evidence(reference)}${tags ? ` It is ${reference.controller ? "the controller" : "an owner"}${reference.blockOwnerDeletion && state === "live" ? ", and a deletion of it in the foreground would wait for this object" : reference.blockOwnerDeletion && state === "deletingDependents" ? ", and its deletion waits for this object" : ""}.` : ""}`)));
    })), more > 0 ? h("p", { class: "soft" }, `${number(more)} more.`) : null) : null,
    part("Decisions", of.decisions.length > 0 ? h("ul", { class: "rows" }, ...of.decisions.map((decision) => decisionRow(decision, null))) : h("p", { class: "soft" }, NO_DECISION)),
    of.incomplete.length > 0 ? part("Not looked at", h("ul", { class: "rows" }, ...of.incomplete.map(({ what, why }) => h("li", {}, foreign(what, { class: "title" }), message(why))))) : null);
}
