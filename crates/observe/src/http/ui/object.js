// The object that is looked at: its drawing, the same as a list, and its explanation.

import { Refused, get } from "./api.js";
import { byId, entitle, foreign, h, s, shown, swap } from "./dom.js";
import { Drawing } from "./drawing.js";
import { explain } from "./explanation.js";
import { History } from "./history.js";
import { List } from "./list.js";
import { NO_DECISION, decisionRow, remembered } from "./panels.js";
import { icon, outline } from "./shapes.js";
import { STATES, capital, number, plural } from "./words.js";

/** An explanation may cost the collector requests, so it is not asked for more often. */
const AGAIN = 2_000;
const AT_LEAST = 15_000;

export class ObjectPage {
  /**
   * @param {(ref: Ref) => void} moveOn
   * @param {import("./announcer.js").Announcer} announcer
   */
  constructor(moveOn, announcer) {
    this.moveOn = moveOn;
    this.announcer = announcer;
    /** @type {Ref|null} */
    this.ref = null;
    /** @type {GraphNode|null} */
    this.root = null;
    this.history = new History();
    this.drawing = new Drawing(byId("drawing"), moveOn);
    this.list = new List(byId("list"), moveOn);
    this.asking = new AbortController();
    this.asked = -Infinity;
    this.signature = "";
    /** The dependents of the root that are left, and the most that there were since it is shown. */
    this.left = 0;
    this.most = 0;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.fading = undefined;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.explaining = undefined;
    byId("zoom-in").addEventListener("click", () => this.drawing.view.zoom(1.3));
    byId("zoom-out").addEventListener("click", () => this.drawing.view.zoom(1 / 1.3));
    byId("zoom-fit").addEventListener("click", () => this.drawing.view.fit());
  }

  /** @param {Ref|null} ref */
  show(ref) {
    this.ref = ref;
    this.root = null;
    this.history = new History();
    this.signature = "";
    this.left = 0;
    this.most = 0;
    this.asking.abort();
    clearTimeout(this.fading);
    clearTimeout(this.explaining);
    this.drawing.reset();
    this.list.reset();
    byId("object").hidden = ref === null;
    byId("explanation").replaceChildren();
    byId("legend").replaceChildren();
    byId("list").replaceChildren();
    byId("nothing").hidden = true;
    if (!ref) return;
    this.head();
    this.plan(0);
  }

  /** @param {Neighbourhood|null} next */
  take(next) {
    const signature = JSON.stringify(next);
    if (signature === this.signature) return;
    this.signature = signature;
    const { gone, changed, appeared } = this.history.take(next, performance.now());
    this.announcer.count("gone", gone.length);
    this.announcer.count("now terminating", changed.filter(({ node }) => isTerminating(node.state)).length);
    this.announcer.count("appeared", appeared);
    const root = next?.nodes[0];
    if (root) this.root = root;
    else if (this.root) this.root = { ...this.root, state: this.root.state === "gone" || next?.gone?.includes(this.root.uid) ? "gone" : "unknown" };
    const rest = next?.more.filter((more) => more.owner === 0) ?? [];
    this.left = rest.reduce((sum, more) => sum + more.count, next?.edges.filter((edge) => edge.owner === 0).length ?? 0);
    this.most = Math.max(this.most, this.left);
    this.head();
    this.draw();
    this.plan(AGAIN);
  }

  draw() {
    const next = this.history.expire(performance.now());
    const all = this.history.shown();
    this.drawing.draw(all);
    this.list.draw(all);
    this.legend(all);
    byId("nothing").hidden = all.nodes.length > 0;
    byId("nothing").textContent = this.root?.state === "gone" ? "It is gone, and no object names it as its owner." : "There is nothing to draw.";
    clearTimeout(this.fading);
    if (next !== null) this.fading = setTimeout(() => this.draw(), Math.max(100, next - performance.now()));
  }

  head() {
    const { root, ref } = this;
    if (!ref) return;
    const state = root?.state ?? "unknown";
    const title = root ? root.name : this.signature ? "Not in the graph" : "…";
    entitle({ subject: root ? shown(`${root.kind} ${root.name}`, 100) : "" });
    const left = root && state !== "live" && this.most > 0 ? `${this.history.last?.truncated ? "at least " : ""}${number(this.left)} of ${plural(this.most, "dependent")} left` : "";
    swap(byId("object-head"),
      icon(state, root?.kind ?? "?"),
      h("div", {},
        h("h2", { id: "object-title" }, root ? h("span", { class: "kind" }, foreign(root.kind)) : null, " ", foreign(title)),
        h("p", { class: "soft" }, root ? h("span", { class: "state", "data-state": state }, STATES[state]) : null,
          left ? h("span", { class: "left", title: "Of those that there were since the page shows this object" }, left) : null,
          root?.namespace ? foreign(`in ${root.namespace}`) : root ? "cluster-scoped" : null,
          foreign(root ? root.apiVersion : ref.resource ?? ""), h("code", {}, foreign(ref.uid)))));
  }

  /** @param {Neighbourhood} of */
  legend(of) {
    const states = /** @type {State[]} */ (Object.keys(STATES)).filter((state) => of.nodes.some((node) => node.state === state));
    const mark = (/** @type {State} */ state) => s("svg", { viewBox: "-9 -9 18 18", width: 14, height: 14, "aria-hidden": "true" }, s("path", { class: "mark", d: outline(state, 6), "data-state": state }));
    const line = (/** @type {boolean} */ blocking) => s("svg", { viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" }, s("path", { class: "line", d: "M1 4H25", "data-blocking": String(blocking) }));
    swap(byId("legend"), ...states.map((state) => h("li", {}, mark(state), capital(STATES[state]))),
      h("li", {}, line(true), "Blocks"), h("li", {}, line(false), "Does not block"),
      of.truncated ? h("li", {}, "There is more than is drawn") : null);
  }

  /** Asks for the explanation after some time, unless it is asked for before. @param {number} time */
  plan(time) {
    clearTimeout(this.explaining);
    this.explaining = setTimeout(() => void this.explain(), Math.max(time === 0 ? 0 : 100, this.asked + time - performance.now()));
  }

  async explain() {
    const { ref } = this;
    if (!ref) return;
    this.asking.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.asked = performance.now();
    const place = byId("explanation");
    try {
      const explanation = /** @type {Explanation} */ (await get("explain", { uid: ref.uid, resource: ref.resource }, signal));
      if (!signal.aborted) explain(place, explanation, this.moveOn);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status === 404) await this.unknown(ref, signal);
      else if (place.childElementCount === 0) swap(place, h("p", { class: "empty" }, foreign(error instanceof Refused ? error.message : "The explanation failed.")));
    }
    if (!signal.aborted) this.plan(AT_LEAST);
  }

  /** What can be said of an object that the graph does not hold. @param {Ref} ref @param {AbortSignal} signal */
  async unknown(ref, signal) {
    const { root } = this;
    const of = root ? { name: root.name, namespace: root.namespace, resource: root.resource } : { uid: ref.uid };
    const page = /** @type {DecisionsPage|null} */ (await get("decisions", { ...of, limit: 10 }, signal).catch(() => null));
    if (signal.aborted) return;
    const single = page?.decisions ?? [];
    const decisions = single.length > 0 ? single : (page?.deletions ?? []).map(remembered);
    const [word, sentence] = root?.state === "gone" ? ["gone", "The object does not exist any more."]
      : root?.state === "absent" ? ["absent", "The object does not exist any more. Others still name it as their owner."]
      : ["not in the graph", "No object in the graph has this uid."];
    swap(byId("explanation"),
      h("p", { class: "outcome", "data-tone": "gone" }, word),
      h("p", { class: "verdict" }, sentence),
      h("section", { class: "part" }, h("h3", {}, "Decisions"),
        decisions.length > 0 ? h("ul", { class: "rows" }, ...decisions.map((decision) => decisionRow(decision, null))) : h("p", { class: "soft" }, NO_DECISION)));
  }
}

/** @param {State} state */
const isTerminating = (state) => state === "terminating" || state === "deletingDependents" || state === "orphaning";
