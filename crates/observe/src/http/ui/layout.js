// Where everything is: owners left, dependents right, in layers. Pure.

import { keyOf } from "./history.js";

/**
 * A node, or a fold: many alike dependents of one owner, each as a small mark.
 * @typedef {object} Box
 * @property {string} key
 * @property {GraphNode|null} node `null` for a fold
 * @property {GraphNode[]} members of a fold
 * @property {string} kind
 * @property {number} more how many are not shown one by one
 * @property {number} moreDeleted how many of these are being deleted
 * @property {number} x the left edge
 * @property {number} y the middle
 * @property {number} width
 * @property {number} height
 * @property {number} layer
 * @property {Box[]} children further away from the root
 */
/** @typedef {{key: string, from: Box, to: Box, edge: Edge, gone: boolean}} Line */
/** @typedef {{boxes: Box[], lines: Line[], root: Box|null, left: number, right: number, top: number, bottom: number}} Layout */

export const NODE = { width: 208, height: 44 };
/** A mark of a fold, with the space around it. */
export const MARK = 14;
export const HEADER = 40;
const GAP = { x: 72, y: 14 };
/** So many alike siblings are folded into one. */
export const ALIKE = 7;
/** The most rows of a fold that is open. */
const ROWS = 14;

/**
 * @param {string} key
 * @param {number} layer
 * @param {Partial<Box>} rest
 * @returns {Box}
 */
const box = (key, layer, rest) => ({
  key, layer, node: null, members: [], kind: "", more: 0, moreDeleted: 0, x: 0, y: 0,
  width: NODE.width, height: NODE.height, children: [], ...rest,
});

/**
 * How a fold arranges its marks, or its nodes if it is open.
 * @param {number} count
 * @param {boolean} open
 */
export function grid(count, open) {
  if (open) {
    const columns = Math.max(1, Math.ceil(count / ROWS));
    return { columns, rows: Math.ceil(count / columns), width: NODE.width + 8, height: NODE.height + 8 };
  }
  const columns = count <= 13 ? Math.max(1, count) : Math.max(13, Math.min(22, Math.ceil(Math.sqrt(count * 2.2))));
  return { columns, rows: Math.ceil(count / columns), width: MARK, height: MARK };
}

/**
 * @param {Neighbourhood} shown
 * @param {Set<string>} open the folds that are open
 * @returns {Layout}
 */
export function layout(shown, open) {
  const { nodes, edges, more } = shown;
  /** @type {Box[]} */
  const all = nodes.map((node) => box(keyOf(node), node.distance, { node, kind: node.kind }));
  const root = all[0] ?? null;
  if (!root) return { boxes: [], lines: [], root, left: 0, right: 0, top: 0, bottom: 0 };

  const parents = parentsOf(nodes, edges);
  const degree = nodes.map(() => 0);
  for (const { owner, dependent } of edges) {
    degree[owner] = (degree[owner] ?? 0) + 1;
    degree[dependent] = (degree[dependent] ?? 0) + 1;
  }
  const isParent = new Set(parents);
  for (const { owner } of more) isParent.add(owner);

  /** The box in which a node is. @type {Box[]} */
  const inside = [...all];
  /** @type {Map<number, number[]>} */
  const children = new Map();
  parents.forEach((parent, place) => {
    if (parent >= 0) children.set(parent, [...(children.get(parent) ?? []), place]);
  });
  for (const [parent, places] of children) {
    const owner = /** @type {Box} */ (all[parent]);
    /** @type {Map<string, number[]>} */
    const alike = new Map();
    for (const place of places) {
      const node = /** @type {GraphNode} */ (nodes[place]);
      const folds = node.distance > 0 && !isParent.has(place) && degree[place] === 1;
      const name = folds ? `${node.apiVersion}/${node.kind}` : `!${place}`;
      alike.set(name, [...(alike.get(name) ?? []), place]);
    }
    for (const group of alike.values()) {
      const boxes = group.map((place) => /** @type {Box} */ (all[place]));
      const [first] = boxes;
      const rest = first && takeMore(more, parent, first);
      if (group.length < ALIKE && !(rest && group.length > 1)) {
        owner.children.push(...boxes);
        if (rest) owner.children.push(moreBox(owner, rest));
        continue;
      }
      const fold = foldOf(owner, boxes, rest ?? null, open);
      owner.children.push(fold);
      for (const place of group) inside[place] = fold;
    }
  }
  // Types of which nothing is shown.
  for (const rest of more) {
    const owner = all[rest.owner];
    if (owner && !owner.children.some((child) => child.key === foldKey(owner, rest.kind))) owner.children.push(moreBox(owner, rest));
  }
  for (const { children } of all) children.sort(byImportance);

  const right = root.children.filter((child) => child.layer > 0);
  const left = root.children.filter((child) => child.layer < 0);
  stack(right);
  stack(left);
  root.y = 0;
  /** @type {Box[]} */
  const boxes = [];
  /** @param {Box} of */
  const collect = (of) => { boxes.push(of); of.children.forEach(collect); };
  collect(root);
  columns(boxes);

  const drawn = new Set(boxes);
  /** @type {Map<string, Line>} */
  const lines = new Map();
  for (const edge of edges) {
    const [from, to] = [inside[edge.owner], inside[edge.dependent]];
    if (!from || !to || from === to || !drawn.has(from) || !drawn.has(to)) continue;
    const key = `${from.key}>${to.key}`;
    const gone = [from, to].some((end) => end.node?.state === "gone" || end.members.length > 0 && end.members.every((member) => member.state === "gone"));
    const before = lines.get(key);
    // One line for a fold: solid if one of its references blocks.
    if (!before || edge.blockOwnerDeletion && !before.edge.blockOwnerDeletion) lines.set(key, { key, from, to, edge, gone });
  }
  for (const { key, node, children } of boxes) {
    for (const child of children) {
      if (child.node || child.members.length > 0 || !node) continue;
      const edge = { owner: 0, dependent: 0, controller: false, blockOwnerDeletion: false, class: null };
      lines.set(`${key}>${child.key}`, { key: `${key}>${child.key}`, from: /** @type {Box} */ (boxes.find((of) => of.key === key)), to: child, edge, gone: false });
    }
  }
  return {
    boxes, lines: [...lines.values()], root,
    left: Math.min(...boxes.map((of) => of.x)),
    right: Math.max(...boxes.map((of) => of.x + of.width)),
    top: Math.min(...boxes.map((of) => of.y - of.height / 2)),
    bottom: Math.max(...boxes.map((of) => of.y + of.height / 2)),
  };
}

/**
 * The place of each node's neighbour that is nearer to the root: the first that is one step nearer.
 * @param {GraphNode[]} nodes
 * @param {Edge[]} edges
 */
export function parentsOf(nodes, edges) {
  /** @type {number[]} */
  const parents = nodes.map((_, place) => place === 0 ? -1 : -2);
  const link = (/** @type {number} */ child, /** @type {number} */ parent) => { if (parents[child] === -2) parents[child] = parent; };
  const distance = (/** @type {number} */ place) => nodes[place]?.distance ?? 0;
  for (const { owner, dependent } of edges) {
    if (distance(dependent) > 0 && distance(owner) === distance(dependent) - 1) link(dependent, owner);
    if (distance(owner) < 0 && distance(dependent) === distance(owner) + 1) link(owner, dependent);
  }
  return parents.map((parent) => parent === -2 ? 0 : parent);
}

/** @param {Box} owner @param {string} kind */
export const foldKey = (owner, kind) => `${owner.key}|${kind}`;

/**
 * @param {More[]} more
 * @param {number} owner
 * @param {Box} first
 */
const takeMore = (more, owner, first) => more.find((rest) => rest.owner === owner && rest.kind === first.kind && rest.resource === first.node?.resource);

/** @param {Box} owner @param {More} rest */
const moreBox = (owner, rest) => box(foldKey(owner, rest.kind), owner.layer + 1, { kind: rest.kind, more: rest.count, moreDeleted: rest.beingDeleted });

/**
 * @param {Box} owner
 * @param {Box[]} boxes
 * @param {More|null} rest
 * @param {Set<string>} open
 */
function foldOf(owner, boxes, rest, open) {
  const members = boxes.map((of) => /** @type {GraphNode} */ (of.node)).sort((a, b) => a.name < b.name ? -1 : 1);
  const kind = members[0]?.kind ?? "";
  const key = foldKey(owner, kind);
  const { columns, rows, width, height } = grid(members.length, open.has(key));
  return box(key, owner.layer + 1, {
    kind, members, more: rest?.count ?? 0, moreDeleted: rest?.beingDeleted ?? 0,
    width: Math.max(NODE.width, columns * width + 20), height: HEADER + rows * height + 10,
  });
}

/** What is in trouble comes first; then what has dependents; folds come last. @param {Box} a @param {Box} b */
function byImportance(a, b) {
  const rank = (/** @type {Box} */ of) => of.node === null ? 2 : of.children.length > 0 ? 0 : 1;
  return rank(a) - rank(b) || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0) || ((a.node?.name ?? "") < (b.node?.name ?? "") ? -1 : 1);
}

/**
 * Stacks siblings around 0, each in the middle of its own children.
 * @param {Box[]} siblings
 */
function stack(siblings) {
  /** The height of a box with all that hangs on it. @type {Map<Box, number>} */
  const heights = new Map();
  /** @param {Box} of @returns {number} */
  const measure = (of) => {
    const below = of.children.reduce((sum, child) => sum + measure(child) + GAP.y, -GAP.y);
    const height = Math.max(of.height, below);
    heights.set(of, height);
    return height;
  };
  /** @param {Box[]} boxes @param {number} middle */
  const place = (boxes, middle) => {
    const total = boxes.reduce((sum, of) => sum + (heights.get(of) ?? 0) + GAP.y, -GAP.y);
    let top = middle - total / 2;
    for (const of of boxes) {
      const height = heights.get(of) ?? 0;
      of.y = top + height / 2;
      place(of.children, of.y);
      top += height + GAP.y;
    }
  };
  siblings.forEach(measure);
  place(siblings, 0);
}

/** Gives each layer its own column. @param {Box[]} boxes */
function columns(boxes) {
  /** @type {Map<number, number>} */
  const widths = new Map();
  for (const of of boxes) widths.set(of.layer, Math.max(widths.get(of.layer) ?? 0, of.width));
  const layers = [...widths.keys()].sort((a, b) => a - b);
  /** @type {Map<number, number>} */
  const lefts = new Map();
  let x = 0;
  for (const layer of layers) {
    lefts.set(layer, x);
    x += (widths.get(layer) ?? 0) + GAP.x;
  }
  const origin = lefts.get(0) ?? 0;
  for (const of of boxes) {
    const left = (lefts.get(of.layer) ?? 0) - origin;
    of.x = of.layer < 0 ? left + (widths.get(of.layer) ?? 0) - of.width : left;
  }
}
