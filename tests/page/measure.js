// What is wrong with how the page looks now: a list of sentences, which is empty if nothing is.

const problems = new Set();
const found = document.querySelector("#found");
const name = (of) => `${of.tagName.toLowerCase()}${of.id ? `#${of.id}` : ""}.${of.getAttribute("class") ?? ""} "${of.textContent.slice(0, 40)}"`;
const isShown = (of) => of.checkVisibility({ visibilityProperty: true }) && !of.closest(".hidden, .skip, option");

if (document.documentElement.scrollWidth > innerWidth) problems.add("the page scrolls sideways");

// Whatever is cut says so.
for (const of of document.querySelectorAll("body *")) {
  const style = getComputedStyle(of);
  if (of instanceof SVGElement || !isShown(of) || style.display === "inline") continue;
  if (["hidden", "clip"].includes(style.overflowX) && of.scrollWidth > of.clientWidth + 1 && style.textOverflow !== "ellipsis") problems.add(`cut: ${name(of)}`);
  if (["hidden", "clip"].includes(style.overflowY) && of.scrollHeight > of.clientHeight + 2 && style.webkitLineClamp === "none") problems.add(`cut below: ${name(of)}`);
}

// No text is under anything, as far as it can be seen, and none is broken into letters.
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const [node, of] = [walker.currentNode, walker.currentNode.parentElement];
  if (!node.data.trim() || !isShown(of) || of.closest("title, noscript, dialog:not([open])")) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const rects = range.getClientRects();
  if (rects.length > 2 && node.data.trim().length < 3 * rects.length) problems.add(`broken into letters: ${name(of)}`);
  for (const rect of rects) {
    const seen = { left: Math.max(0, rect.left), right: Math.min(innerWidth, rect.right), top: rect.top, bottom: rect.bottom, of };
    for (let around = of; around; around = around.parentElement) {
      if (getComputedStyle(around).overflowX === "visible" || getComputedStyle(around).display === "inline") continue;
      const clip = around.getBoundingClientRect();
      seen.left = Math.max(seen.left, clip.left);
      seen.right = Math.min(seen.right, clip.right);
      seen.top = Math.max(seen.top, clip.top);
      seen.bottom = Math.min(seen.bottom, clip.bottom);
    }
    if (seen.right <= seen.left || seen.bottom <= seen.top) continue;
    texts.push(seen);
    // What a search finds covers the page.
    const hit = found.hidden ? document.elementFromPoint((seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2) : null;
    const host = of.closest(".box, .search") ?? of;
    if (hit && !hit.contains(host) && !host.contains(hit)) problems.add(`${name(hit)} is over ${name(of)}`);
  }
}
texts.forEach((a, place) => {
  for (const b of texts.slice(place + 1)) {
    const [width, height] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
    if (a.of !== b.of && width > 1 && height > 3 && found.contains(a.of) === found.contains(b.of)) problems.add(`on each other: ${name(a.of)} and ${name(b.of)}`);
  }
});
if (texts.length < 20) problems.add(`only ${texts.length} texts are seen`);

// The drawing can be read, and says where it goes on.
const drawing = document.querySelector("#drawing");
if (drawing.checkVisibility()) {
  for (const text of drawing.querySelectorAll("text")) {
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (size < 10.99) problems.add(`${size} pixels: ${name(text)}`);
  }
  const [box, drawn] = [drawing.getBoundingClientRect(), drawing.querySelector(".boxes").getBoundingClientRect()];
  const said = document.querySelector("#goes-on").textContent;
  const sides = { "←": box.left - drawn.left, "→": drawn.right - box.right, "↑": box.top - drawn.top, "↓": drawn.bottom - box.bottom };
  for (const [arrow, beyond] of Object.entries(sides)) {
    if (Math.abs(beyond) > 2 && beyond > 0 !== said.includes(arrow)) problems.add(`"${said}" is wrong about ${arrow}: ${beyond}`);
  }
}

// Each control is large enough, and nothing is over it.
if (found.hidden) {
  for (const of of document.querySelectorAll("button, input, select, a[href]")) {
    if (!isShown(of) || of.closest("dialog")) continue;
    of.scrollIntoView({ block: "center" });
    const { left, right, top, bottom } = of.getBoundingClientRect();
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    if (left < 0 || right > innerWidth || right - left < 24 || bottom - top < 24) problems.add(`too small, or outside: ${name(of)}`);
    if (!of.contains(hit)) problems.add(`${hit && name(hit)} is over ${name(of)}`);
  }
  scrollTo(0, 0);
}
return [...problems];
