// The part of the drawing that is in view: pan and zoom.

const LEAST = 0.15;
const MOST = 2.5;
const MARGIN = 52;
/** The least of its own: the smallest text has 11 pixels. */
const READABLE = 1;
/** Room for the root and the beginning of its dependents. */
const ROOM = 390;
/** A pointer that moves less has clicked. */
const STILL = 4;

/** @typedef {{left: number, right: number, top: number, bottom: number}} Bounds */

export class View {
  /**
   * @param {HTMLElement} place
   * @param {SVGElement} svg
   * @param {SVGElement} viewport
   * @param {HTMLElement} goesOn says where the drawing goes on
   */
  constructor(place, svg, viewport, goesOn) {
    this.place = place;
    this.goesOn = goesOn;
    this.viewport = viewport;
    svg.append(viewport);
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    /** Whether the drawing is kept in view. It is not any more once a person has moved it. */
    this.follows = true;
    /** @type {Bounds} */
    this.of = { left: 0, right: 1, top: 0, bottom: 1 };
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.dragged = false;
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    for (const end of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"])) {
      svg.addEventListener(end, (event) => this.up(event));
    }
    svg.addEventListener("click", (event) => { if (this.dragged) event.stopPropagation(); }, { capture: true });
    svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => { if (this.follows) this.fit(); }).observe(place);
  }

  follow() {
    this.follows = true;
  }

  /** The drawing has changed. @param {Bounds} of */
  bounds(of) {
    this.of = of;
    if (this.follows) this.fit();
  }

  /** Shows everything, or the root if everything would be too small to read. */
  fit() {
    const { width, height } = this.place.getBoundingClientRect();
    if (width === 0 || height === 0) return;
    this.follows = true;
    const { left, right, top, bottom } = this.of;
    const all = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
    // As large as the text of the page, which grows with the screen.
    const natural = parseFloat(getComputedStyle(document.documentElement).fontSize) / 11;
    this.scale = Math.max(READABLE, Math.min(natural, all));
    const fits = (/** @type {number} */ size, /** @type {number} */ room) => size * this.scale <= room - MARGIN;
    this.x = fits(right - left, width) ? width / 2 - this.scale * (left + right) / 2 : Math.max(Math.min(MARGIN, width / 24), left < 0 ? Math.min(width / 3, width - this.scale * ROOM) : 0);
    this.y = fits(bottom - top, height) ? height / 2 - this.scale * (top + bottom) / 2 : height / 2;
    this.apply(true);
  }

  /**
   * Zooms around a point of the place, or its middle.
   * @param {number} factor
   * @param {{x: number, y: number}} [at]
   */
  zoom(factor, at) {
    const { width, height } = this.place.getBoundingClientRect();
    const { x, y } = at ?? { x: width / 2, y: height / 2 };
    const next = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = x - (x - this.x) * next / this.scale;
    this.y = y - (y - this.y) * next / this.scale;
    this.scale = next;
    this.follows = false;
    this.apply(!at);
  }

  /** @param {number} x @param {number} y */
  pan(x, y) {
    this.x += x;
    this.y += y;
    this.follows = false;
    this.apply(true);
  }

  /** @param {boolean} smooth */
  apply(smooth) {
    this.viewport.classList.toggle("smooth", smooth);
    this.viewport.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    const { width, height } = this.place.getBoundingClientRect();
    const { left, right, top, bottom } = this.of;
    const beyond = [
      this.x + left * this.scale < 0 ? "←" : "", this.x + right * this.scale > width ? "→" : "",
      this.y + top * this.scale < 0 ? "↑" : "", this.y + bottom * this.scale > height ? "↓" : "",
    ].join("");
    this.goesOn.textContent = beyond ? `Drag to see more: ${beyond}` : "";
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.pointers.size === 1) this.dragged = false;
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const [x, y] = [event.clientX - before.x, event.clientY - before.y];
    if (!this.dragged) {
      if (Math.hypot(x, y) < STILL) return;
      this.dragged = true;
      /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    }
    this.follows = false;
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      if (other) {
        const box = this.place.getBoundingClientRect();
        const distance = (/** @type {{x: number, y: number}} */ at) => Math.hypot(at.x - other.x, at.y - other.y) || 1;
        const factor = distance({ x: event.clientX, y: event.clientY }) / distance(before);
        this.zoom(factor, { x: (event.clientX + other.x) / 2 - box.x, y: (event.clientY + other.y) / 2 - box.y });
      }
    } else {
      this.x += x;
      this.y += y;
      this.apply(false);
    }
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** @param {PointerEvent} event */
  up(event) {
    this.pointers.delete(event.pointerId);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    event.preventDefault();
    const box = this.place.getBoundingClientRect();
    const step = Math.max(-60, Math.min(60, event.deltaY * (event.deltaMode === 1 ? 16 : 1)));
    this.zoom(Math.exp(-step * 0.004), { x: event.clientX - box.x, y: event.clientY - box.y });
  }
}
