// The neighbourhood with what has gone in the last seconds, which fades out. Only what the collector
// names as gone is: an object may also lose its place on the page, or its owner references.

/** How long something stays that has gone. The style sheet fades it out in the same time. */
export const FADE = 4_000;
/** The most objects that are drawn. */
export const MOST = 200;

/** @param {{uid: string, resource: string|null, kind: string}} node */
export const keyOf = (node) => `${node.uid}/${node.resource ?? node.kind}`;

/** @typedef {{node: GraphNode, since: number, links: {owner: string, dependent: string, edge: Edge}[]}} Ghost */

export class History {
  constructor() {
    /** @type {Neighbourhood|null} */
    this.last = null;
    /** @type {Map<string, Ghost>} */
    this.ghosts = new Map();
  }

  /**
   * Takes the newest state. `null`: the root is unknown.
   * @param {Neighbourhood|null} next
   * @param {number} now
   * @returns {{gone: GraphNode[], changed: {from: string, node: GraphNode}[], appeared: number}}
   */
  take(next, now) {
    /** @type {GraphNode[]} */
    const gone = [];
    /** @type {{from: string, node: GraphNode}[]} */
    const changed = [];
    const before = this.last;
    const nodes = next ? next.nodes : [];
    const present = new Map(nodes.map((node) => [keyOf(node), node]));
    const named = new Set(next?.gone);
    if (before) {
      for (const node of before.nodes) {
        const key = keyOf(node);
        const same = present.get(key);
        if (same) {
          if (same.state !== node.state) changed.push({ from: node.state, node: same });
          continue;
        }
        if (!named.has(node.uid)) continue;
        if (node.state !== "absent") gone.push(node);
        this.ghosts.set(key, { node: { ...node, state: "gone", waitsFor: 0 }, since: now, links: linksOf(before, key) });
      }
    }
    for (const key of present.keys()) this.ghosts.delete(key);
    const known = new Set(before?.nodes.map(keyOf));
    const appeared = before ? nodes.filter((node) => !known.has(keyOf(node))).length : 0;
    this.last = next ?? { nodes: [], edges: [], more: [], truncated: false, incomplete: [] };
    return { gone, changed, appeared };
  }

  /** Forgets ghosts that have faded out. Returns when the next one will have, if there is one. @param {number} now */
  expire(now) {
    let next = Infinity;
    for (const [key, ghost] of this.ghosts) {
      if (ghost.since + FADE <= now) this.ghosts.delete(key);
      else next = Math.min(next, ghost.since + FADE);
    }
    return next === Infinity ? null : next;
  }

  /** What is to be shown: the newest state and its ghosts. @returns {Neighbourhood} */
  shown() {
    const last = this.last ?? { nodes: [], edges: [], more: [], truncated: false, incomplete: [] };
    const room = Math.max(0, MOST - last.nodes.length);
    const isRoot = (/** @type {Ghost} */ { node }) => node.distance === 0;
    // The newest are the last ones. Without a root, only what hangs on its ghost can be drawn.
    let ghosts = room === 0 ? [] : [...this.ghosts.values()].slice(-room);
    if (last.nodes.length === 0) ghosts = ghosts.some(isRoot) ? [...ghosts.filter(isRoot), ...ghosts.filter((ghost) => !isRoot(ghost))] : [];
    const nodes = [...last.nodes, ...ghosts.map((ghost) => ghost.node)];
    const places = new Map(nodes.map((node, place) => [keyOf(node), place]));
    const edges = [...last.edges];
    for (const ghost of ghosts) {
      for (const { owner, dependent, edge } of ghost.links) {
        const [from, to] = [places.get(owner), places.get(dependent)];
        if (from === undefined || to === undefined) continue;
        if (edges.some((other) => other.owner === from && other.dependent === to)) continue;
        edges.push({ ...edge, owner: from, dependent: to });
      }
    }
    return { ...last, nodes, edges };
  }
}

/**
 * The edges of a node, by keys.
 * @param {Neighbourhood} of
 * @param {string} key
 */
function linksOf(of, key) {
  const links = [];
  for (const edge of of.edges) {
    const [owner, dependent] = [of.nodes[edge.owner], of.nodes[edge.dependent]];
    if (!owner || !dependent) continue;
    const ends = { owner: keyOf(owner), dependent: keyOf(dependent), edge };
    if (ends.owner === key || ends.dependent === key) links.push(ends);
  }
  return links;
}
