// Puts the page together.

import { query, read, same, write } from "./address.js";
import { Announcer } from "./announcer.js";
import { Refused, get, useToken } from "./api.js";
import { byId, entitle, foreign, h, shown, swap } from "./dom.js";
import { Live } from "./live.js";
import { ObjectPage } from "./object.js";
import { OUTCOMES, decisions, stuck } from "./panels.js";
import { Latencies } from "./latencies.js";
import { Pulse } from "./pulse.js";
import { Search } from "./search.js";
import { capital, number, plural } from "./words.js";

/** @typedef {import("./live.js").Mode} Mode */

/** How many of each are listed, and how many decisions of each namespace, so that none hides the others. */
const LISTED = 100;
const EACH = 50;
/** How often the lists are asked for, at most; and those that nothing announces, at least. */
const AGAIN = 1_500;
const AT_LEAST = 10_000;
/** How often the collector is asked what holds what was deleted: it has to read these objects. */
const CAUSES = 30_000;
/** How long a hidden page keeps its stream: there are few, and browsers open only six connections. */
const HIDDEN = 60_000;

let place = read();
const announcer = new Announcer(byId("announcer"));
const pulse = new Pulse(byId("pulse-body"));
const latencies = new Latencies(byId("pulse-body"));
const object = new ObjectPage(moveOn, announcer);
const search = new Search(moveOn, (text) => {
  place = { ...place, query: text };
  write(place, false);
});

/** @type {Mode} */
let mode = "connecting";
let heard = new Date();

const live = new Live({
  summary(summary) {
    heard = new Date();
    pulse.take(summary, performance.now());
    latencies.take(summary);
    health(summary);
    lists.changed(summary);
  },
  neighbourhood(of, shown) {
    if (same(of, place.object)) object.take(shown);
  },
  mode: connection,
  token: askForToken,
});

const filter = {
  namespace: /** @type {HTMLInputElement} */ (byId("of-namespace")),
  outcome: /** @type {HTMLSelectElement} */ (byId("of-outcome")),
};
filter.outcome.append(...OUTCOMES.map(([value, word]) => h("option", { value }, word)));
for (const field of Object.values(filter)) field.addEventListener("input", () => lists.stale());

/** The two lists, which are asked for when the summary says that they have changed. */
const lists = {
  /** @type {StuckPage} */
  held: { standby: false, totals: {}, stuck: [] },
  /** @type {StuckGroup[]} */
  causes: [],
  causesAsked: -Infinity,
  signature: "",
  asked: -Infinity,
  asking: false,
  /** @param {Summary} summary */
  changed({ decisions_total, stuck }) {
    const signature = JSON.stringify([decisions_total, stuck]);
    const age = performance.now() - this.asked;
    if (this.asking || age < AGAIN || signature === this.signature && age < AT_LEAST) return;
    this.signature = signature;
    void this.ask();
  },
  /** The next summary asks again. */
  stale() {
    this.signature = "";
    this.asked = -Infinity;
  },
  async ask() {
    const [namespace, outcome] = [filter.namespace.value.trim(), filter.outcome.value];
    this.asking = true;
    this.asked = performance.now();
    try {
      const [held, made] = await Promise.all([
        /** @type {Promise<StuckPage>} */ (get("stuck", { limit: LISTED })),
        /** @type {Promise<DecisionsPage>} */ (get("decisions", { namespace, outcome, limit: 2 * LISTED, each: namespace ? null : EACH })),
      ]);
      this.held = held;
      stuck(byId("stuck-body"), held, this.causes, moveOn);
      void this.explain(held.totals.held ?? 0);
      const count = Object.values(held.totals).reduce((sum, count) => sum + count, 0);
      byId("stuck-count").textContent = count > 0 ? number(count) : "";
      byId("stuck-count").classList.toggle("bad", count > 0);
      decisions(byId("decisions-body"), made.decisions, namespace + outcome !== "", moveOn);
      byId("decisions-count").textContent = made.total > 0 ? number(made.total) : "";
    } catch (error) {
      this.signature = "";
      if (error instanceof Refused && error.status === 403) notice(error.message);
    } finally {
      this.asking = false;
    }
  },
  /** Finds out what holds objects that were deleted too long ago. @param {number} count */
  async explain(count) {
    const now = performance.now();
    if (count > 0 && now - this.causesAsked < CAUSES || count === 0 && this.causes.length === 0) return;
    this.causesAsked = count > 0 ? now : -Infinity;
    this.causes = count > 0 ? await /** @type {Promise<Causes>} */ (get("stuck/causes")).then(({ groups }) => groups, () => []) : [];
    stuck(byId("stuck-body"), this.held, this.causes, moveOn);
  },
};

/** What the collector does with its decisions. @param {Summary} summary @returns {[string, string]} */
function purpose({ dry_run, role, leader }) {
  if (dry_run) return ["dry run", "It writes nothing. Its decisions say what it would do."];
  if (role === "standby") return ["standby", leader ? `The leader is ${leader}` : "Another replica leads"];
  return [role === "leader" ? "leader, writes" : "writes", "It deletes and patches objects."];
}

/** Whether the whole API is watched. @param {Summary} summary */
function watched({ synced, types, not_synced, not_answering }) {
  const all = `${plural(types, "type")} synced`;
  if (not_synced.length > 0) return h("span", { class: "chip busy", title: `Not synced: ${not_synced.join(", ")}` }, `${plural(not_synced.length, "type")} not synced`);
  if (not_answering.length > 0) return h("span", { class: "chip busy", title: shown(not_answering.map(({ what, why }) => `${what}: ${why}`).join("\n"), 2_000) }, `${plural(not_answering.length, "API")} not answering`);
  return h("span", { class: `chip ${synced ? "fine" : "busy"}`, title: all }, synced ? all : "starting");
}

/** @param {Summary} summary */
function health(summary) {
  const { server, version, role, leader, brake, objects, references } = summary;
  const [does, meaning] = purpose(summary);
  entitle({ site: [server ? shown(server, 100) : "", "kube-gc", version, does].filter(Boolean).join(" ") });
  swap(byId("health"),
    h("span", { class: "fact where", title: `kube-gc ${version}${server ? ` at ${server}` : ""}` }, foreign(server ?? ""), ` ${version}`),
    h("span", { class: `chip ${does === "dry run" ? "busy" : ""}`, title: meaning }, does),
    h("span", { class: "fact" }, h("b", {}, number(objects)), objects === 1 ? " object" : " objects"),
    h("span", { class: "fact wide" }, h("b", {}, number(references)), references === 1 ? " reference" : " references"),
    watched(summary),
    brake ? h("span", { class: "chip bad", title: brake }, "brake engaged") : null);
  if (brake) notice(`The brake is engaged: ${brake}`);
  else if (role === "standby") notice(`This replica is a standby${leader ? `; ${leader} leads` : ""}. Its work is done by the leader.`);
  else if (mode !== "lost") notice("");
}

/** @param {string} text */
function notice(text) {
  const bar = byId("notice");
  bar.hidden = text === "";
  if (bar.textContent !== text) swap(bar, foreign(text));
}

/** @type {Record<Mode, string>} */
const MODES = {
  connecting: "Connecting",
  live: "Live",
  polling: "Every 2 s",
  lost: "Not connected",
  paused: "Paused",
};

/** @param {Mode} now @param {string} why */
function connection(now, why) {
  const chip = byId("connection");
  chip.title = why;
  if (now === "lost") notice(`${why} What you see is from ${heard.toLocaleTimeString("en-GB")}.`);
  if (now === mode) return;
  if (mode === "lost" && now !== "lost") notice("");
  if (mode !== "connecting") announcer.say(now === "live" ? "Connected again." : now === "polling" ? "The live stream is not available. The page asks every 2 seconds." : why);
  mode = now;
  chip.dataset.mode = now;
  byId("connection-text").textContent = MODES[now];
}

/** Shows another object. @param {Ref} ref */
function moveOn(ref) {
  go({ ...place, object: { uid: ref.uid, resource: ref.resource }, query: "" });
  search.input.value = "";
}

/** @param {import("./address.js").Place} next */
function go(next) {
  if (query(next) === query(place)) return;
  write(next, true);
  show(next);
}

/** @param {import("./address.js").Place} next @param {boolean} [isFirst] */
function show(next, isFirst = false) {
  const isOther = isFirst || !same(next.object, place.object);
  place = next;
  byId("main").dataset.view = next.object ? "object" : "home";
  byId("home").toggleAttribute("aria-current", !next.object);
  byId("list").hidden = !next.list;
  byId("drawing").hidden = next.list;
  byId("zoom").hidden = next.list;
  byId("legend").hidden = next.list;
  byId("view-list").setAttribute("aria-pressed", String(next.list));
  byId("view-drawing").setAttribute("aria-pressed", String(!next.list));
  if (next.theme) document.documentElement.dataset.theme = next.theme;
  else delete document.documentElement.dataset.theme;
  if (!isOther) return;
  if (!next.object) entitle({ subject: "" });
  object.show(next.object);
  live.watch(next.object);
}

function switchView() {
  if (!place.object) return;
  go({ ...place, list: !place.list });
  if (place.list) object.list.select(object.list.current, true);
  else byId("drawing").focus();
}

function switchTheme() {
  const isDark = place.theme ? place.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  place = { ...place, theme: isDark ? "light" : "dark" };
  write(place, false);
  show(place);
}

const tokenDialog = /** @type {HTMLDialogElement} */ (byId("token"));
const keysDialog = /** @type {HTMLDialogElement} */ (byId("keys"));

let hasToken = false;

/** @param {string} why */
function askForToken(why) {
  // Before a token was given, it is clear why there is none.
  byId("token-why").textContent = hasToken ? `${capital(why)}.` : "";
  if (!tokenDialog.open) tokenDialog.showModal();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = /** @type {HTMLInputElement} */ (byId("token-input"));
  useToken(input.value.trim());
  hasToken = true;
  input.value = "";
  tokenDialog.close();
  show(place, true);
});
// Without a token there is nothing to see.
tokenDialog.addEventListener("cancel", (event) => event.preventDefault());

/** @type {Record<string, () => void>} */
const KEYS = {
  "/": () => { search.input.focus(); search.input.select(); },
  "l": switchView,
  "d": switchTheme,
  "h": () => go({ ...place, object: null }),
  "?": () => keysDialog.showModal(),
  "+": () => object.drawing.view.zoom(1.3),
  "=": () => object.drawing.view.zoom(1.3),
  "-": () => object.drawing.view.zoom(1 / 1.3),
  "0": () => object.drawing.view.fit(),
};

document.addEventListener("keydown", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (event.altKey || event.ctrlKey || event.metaKey || target?.closest("input, dialog[open]")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };

byId("drawing").addEventListener("keydown", (event) => {
  const [x, y] = STEPS[event.key] ?? [0, 0];
  if (x === 0 && y === 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  object.drawing.view.pan(x, y);
});

byId("home").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go({ ...place, object: null });
});
byId("view-list").addEventListener("click", () => go({ ...place, list: true }));
byId("view-drawing").addEventListener("click", () => go({ ...place, list: false }));
byId("theme").addEventListener("click", switchTheme);
byId("help").addEventListener("click", () => keysDialog.showModal());
addEventListener("popstate", () => show(read()));

/** @type {ReturnType<typeof setTimeout>|undefined} */
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) {
    hiding = setTimeout(() => { live.stop(); connection("paused", "The page was hidden."); }, HIDDEN);
  } else if (mode === "paused" && !tokenDialog.open) {
    live.watch(place.object);
  }
});

search.input.value = place.query;
show(place, true);
