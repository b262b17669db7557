"use strict";
// The page's charts: lines with a band and thin seeds. A drag or Ctrl and the wheel zoom, a double click shows all
// again; a legend's button hides its line; the pointer, or the arrow keys, read values off.
(() => {
  const WIDTH = 720, HEIGHT = 340, LEFT = 56, RIGHT = 14, TOP = 10, BOTTOM = 44; // of a drawing, in its own units
  const SMALLEST = 8; // a drag below it is a click, or goes along one axis only

  function svg(name, attributes, parent, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  function html(name, attributes, parent, text) {
    const node = Object.assign(document.createElement(name), attributes);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  }

  const shorten = (value) => String(Number(value.toPrecision(6)));

  function written(value, percent) {
    if (percent) return `${shorten(100 * value)} %`;
    if (Math.abs(value) >= 1e6) return `${shorten(value / 1e6)}M`;
    return Math.abs(value) >= 1e3 ? `${shorten(value / 1e3)}k` : shorten(value);
  }

  function ticks(low, high, most) {
    const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= least * 0.999);
    const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
    return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  }

  // The value of a line at x, on a straight line between its points; null beyond its ends.
  function at(xs, ys, x) {
    if (!ys.length || x < xs[0] || x > xs[xs.length - 1]) return null;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    if (xs[high] === xs[low]) return ys[high];
    return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
  }

  class Chart {
    constructor(figure, data, id) {
      this.data = data;
      this.shown = data.lines.map(() => true);
      const ends = (line) => [line.x, ...line.seeds.map(([x]) => x)].map((x) => x[x.length - 1] ?? 0);
      const xs = data.lines.flatMap(ends);
      this.whole = { x: [0, 1.01 * Math.max(...xs) || 1], y: [-0.02, 1.02] };
      this.view = this.whole;
      this.legend(figure);
      this.frame(figure, id);
      this.listen();
      this.draw();
    }

    legend(figure) {
      const list = html("div", { className: "legend" }, figure);
      this.data.lines.forEach((line, index) => {
        const button = html("button", { type: "button" }, list);
        button.setAttribute("aria-pressed", "true");
        const swatch = svg("svg", { width: 36, height: 10, "aria-hidden": "true" }, button);
        svg("path", { d: "M1 5H35", ...this.pen(line) }, swatch);
        button.append(line.label);
        button.addEventListener("click", () => {
          this.shown[index] = !this.shown[index];
          button.setAttribute("aria-pressed", this.shown[index]);
          this.draw();
        });
      });
    }

    frame(figure, id) {
      const box = html("div", { className: "plot" }, figure);
      this.svg = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "img" }, box);
      svg("title", {}, this.svg, `${this.data.title}: ${this.data.y} over ${this.data.x}`);
      const inside = { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
      svg("rect", inside, svg("clipPath", { id: `inside-${id}` }, this.svg));
      this.axes = svg("g", { class: "axes" }, this.svg);
      const clipped = svg("g", { "clip-path": `url(#inside-${id})` }, this.svg);
      const layer = () => this.data.lines.map(() => svg("g", { fill: "none" }, clipped));
      this.layers = { band: layer(), seeds: layer(), iqm: layer() }; // no band lies over another's line
      svg("rect", { ...inside, class: "border" }, this.svg);
      const middle = [LEFT + inside.width / 2, TOP + inside.height / 2];
      svg("text", { x: middle[0], y: HEIGHT - 6, class: "name" }, this.svg, this.data.x);
      svg("text", { transform: `translate(13 ${middle[1]}) rotate(-90)`, class: "name" }, this.svg, this.data.y);
      this.cursor = svg("path", { class: "cursor" }, this.svg);
      this.rubber = svg("rect", { class: "rubber" }, this.svg);
      this.tip = html("div", { className: "tip", hidden: true }, box);
      this.reset = html("button", { type: "button", className: "reset", hidden: true }, box, "show all");
      this.reset.addEventListener("click", () => this.zoom(this.whole));
    }

    pen({ color, dashes }) {
      return { stroke: color, "stroke-width": 2.4, "stroke-dasharray": dashes.map((each) => 2.4 * each).join(" ") };
    }

    // From numbers to places in the drawing, and back.
    px(x) { return LEFT + (x - this.view.x[0]) * this.unit("x"); }
    py(y) { return HEIGHT - BOTTOM - (y - this.view.y[0]) * this.unit("y"); }
    ux(px) { return this.view.x[0] + (px - LEFT) / this.unit("x"); }
    uy(py) { return this.view.y[0] + (HEIGHT - BOTTOM - py) / this.unit("y"); }
    unit(axis) {
      const [low, high] = this.view[axis];
      return (axis === "x" ? WIDTH - LEFT - RIGHT : HEIGHT - TOP - BOTTOM) / (high - low);
    }

    path(xs, ys) {
      const places = xs.map((x, index) => `${this.px(x).toFixed(1)} ${this.py(ys[index]).toFixed(1)}`);
      return places.length ? `M${places.join("L")}` : "";
    }

    draw() {
      const [bottom, right, { percent }] = [HEIGHT - BOTTOM, WIDTH - RIGHT, this.data];
      this.axes.replaceChildren();
      for (const x of ticks(...this.view.x, 8)) {
        svg("path", { d: `M${this.px(x)} ${TOP}V${bottom}` }, this.axes);
        svg("text", { x: this.px(x), y: bottom + 16, class: "x" }, this.axes, written(x, percent.includes("x")));
      }
      for (const y of ticks(...this.view.y, 6)) {
        svg("path", { d: `M${LEFT} ${this.py(y)}H${right}` }, this.axes);
        svg("text", { x: LEFT - 6, y: this.py(y) + 4, class: "y" }, this.axes, written(y, percent.includes("y")));
      }
      this.data.lines.forEach((line, index) => this.drawLine(line, index));
      this.reset.hidden = this.view === this.whole;
      this.point(null);
    }

    drawLine(line, index) {
      for (const [name, layer] of Object.entries(this.layers)) {
        layer[index].replaceChildren();
        layer[index].setAttribute("class", name);
        layer[index].setAttribute("visibility", this.shown[index] ? "visible" : "hidden");
      }
      if (line.low.length) {
        const outline = this.path([...line.x, ...[...line.x].reverse()], [...line.high, ...[...line.low].reverse()]);
        svg("path", { d: `${outline}Z`, fill: line.color, "fill-opacity": 0.15 }, this.layers.band[index]);
      }
      const thin = { stroke: line.color, "stroke-width": 0.7, "stroke-opacity": 0.6 };
      for (const [x, y] of line.seeds) svg("path", { d: this.path(x, y), ...thin }, this.layers.seeds[index]);
      const way = this.path(line.x, line.y), dot = { d: `${way}h0`, "stroke-width": 7, "stroke-linecap": "round" };
      svg("path", { d: way, ...this.pen(line), ...(line.x.length === 1 && dot) }, this.layers.iqm[index]);
    }

    zoom(view) {
      const within = ([low, high], [least, most]) => [Math.max(low, least), Math.min(high, most)];
      const next = view === this.whole ? view : { x: within(view.x, this.whole.x), y: within(view.y, this.whole.y) };
      const far = ([low, high], [least, most]) => high - low < 1e-4 * (most - least);
      if (far(next.x, this.whole.x) || far(next.y, this.whole.y)) return;
      this.view = ["x", "y"].every((axis) => next[axis].join() === this.whole[axis].join()) ? this.whole : next;
      this.draw();
    }

    scale(factor, x, y) {
      const around = ([low, high], fixed) => [fixed - (fixed - low) * factor, fixed + (high - fixed) * factor];
      this.zoom({ x: around(this.view.x, x), y: around(this.view.y, y) });
    }

    // Where an event is, in the drawing's own units.
    place(event) {
      const box = this.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH, y = ((event.clientY - box.top) / box.height) * HEIGHT;
      return [Math.min(Math.max(x, LEFT), WIDTH - RIGHT), Math.min(Math.max(y, TOP), HEIGHT - BOTTOM)];
    }

    listen() {
      let start = null;
      this.svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.pointerType === "touch") return;
        start = this.place(event);
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener("pointermove", (event) => {
        const [x, y] = this.place(event);
        if (start) this.stretch(...this.corners(start, [x, y]));
        this.point(this.ux(x));
      });
      this.svg.addEventListener("pointerup", (event) => {
        if (!start) return;
        const [[left, top], [right, bottom]] = this.corners(start, this.place(event));
        start = null;
        this.stretch([0, 0], [0, 0]);
        if (Math.max(right - left, bottom - top) < SMALLEST) return; // a click
        this.zoom({ x: [this.ux(left), this.ux(right)], y: [this.uy(bottom), this.uy(top)] });
      });
      this.svg.addEventListener("pointerleave", () => this.point(null));
      this.svg.addEventListener("dblclick", () => this.zoom(this.whole));
      this.svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return; // the wheel alone scrolls the page
        event.preventDefault();
        const [x, y] = this.place(event);
        this.scale(event.deltaY < 0 ? 0.8 : 1.25, this.ux(x), this.uy(y));
      }, { passive: false });
      this.svg.addEventListener("keydown", (event) => this.press(event));
    }

    // Upper left and lower right of a drag; one that is all but along an axis takes the other axis whole.
    corners([x0, y0], [x1, y1]) {
      const wide = Math.abs(x1 - x0) >= SMALLEST, high = Math.abs(y1 - y0) >= SMALLEST;
      if (wide && !high) [y0, y1] = [TOP, HEIGHT - BOTTOM];
      if (high && !wide) [x0, x1] = [LEFT, WIDTH - RIGHT];
      return [[Math.min(x0, x1), Math.min(y0, y1)], [Math.max(x0, x1), Math.max(y0, y1)]];
    }

    stretch([left, top], [right, bottom]) {
      const sides = { x: left, y: top, width: right - left, height: bottom - top };
      for (const [side, value] of Object.entries(sides)) this.rubber.setAttribute(side, value);
    }

    press(event) {
      const [low, high] = this.view.x, step = (high - low) / 20;
      const x = this.pointed ?? (low + high) / 2, y = (this.view.y[0] + this.view.y[1]) / 2;
      const actions = {
        ArrowLeft: () => this.point(x - step),
        ArrowRight: () => this.point(x + step),
        "+": () => this.scale(0.8, x, y),
        "-": () => this.scale(1.25, x, y),
        Escape: () => this.zoom(this.whole),
      };
      if (!(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    // Read values off at the evaluation nearest to x, of those in view; null: nowhere.
    point(x) {
      const known = this.data.lines.flatMap((line, index) => (this.shown[index] ? line.x : []));
      const near = known.filter((each) => each >= this.view.x[0] && each <= this.view.x[1]);
      const hidden = x === null || !near.length;
      this.tip.hidden = hidden;
      this.cursor.setAttribute("visibility", hidden ? "hidden" : "visible");
      const nearer = (best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best);
      this.pointed = hidden ? null : near.reduce(nearer);
      if (hidden) return;
      const px = this.px(this.pointed), { percent } = this.data;
      this.cursor.setAttribute("d", `M${px} ${TOP}V${HEIGHT - BOTTOM}`);
      this.tip.replaceChildren();
      const exact = percent.includes("x") ? written(this.pointed, true) : this.pointed.toLocaleString("en");
      html("b", {}, this.tip, `${this.data.x}: ${exact}`);
      this.data.lines.forEach((line, index) => {
        const [y, low, high] = [line.y, line.low, line.high].map((ys) => at(line.x, ys, this.pointed));
        if (!this.shown[index] || y === null) return;
        const short = (value) => `${(100 * value).toFixed(1)} %`;
        const row = html("div", {}, this.tip);
        svg("path", { d: "M0 4H28", ...this.pen(line) }, svg("svg", { width: 28, height: 8 }, row));
        row.append(` ${line.label}: ${short(y)}${low === null ? "" : ` [${short(low)}, ${short(high)}]`}`);
      });
      this.tip.style.left = px > WIDTH / 2 ? "auto" : `${(100 * (px + 12)) / WIDTH}%`;
      this.tip.style.right = px > WIDTH / 2 ? `${(100 * (WIDTH - px + 12)) / WIDTH}%` : "auto";
    }
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    new Chart(figure, data[figure.dataset.chart], figure.dataset.chart);
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "copied";
      } catch { // a browser that forbids it: the text is marked, and Ctrl-C copies it
        getSelection().selectAllChildren(text);
        button.textContent = "Ctrl-C";
      }
    });
  }

  // What is folded away on the screen is printed.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });
})();
