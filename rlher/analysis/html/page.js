"use strict";
// Interactive charts: lines with a band, and thin lines for seeds. Dragging or Ctrl + wheel zooms, a double click
// resets the zoom, a legend button hides its line, the pointer or the arrow keys show values. Small charts have no
// legend: their lines are hidden with those of the chart above them.
(() => {
  const LARGE = [720, 340], SMALL = [480, 250], LEFT = 56, RIGHT = 14, TOP = 10, BOTTOM = 44; // units of the viewBox
  const MIN_DRAG = 8; // a shorter drag is a click, or along one axis only

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

  function format(value, percent) {
    if (percent) return `${shorten(100 * value)}%`;
    if (Math.abs(value) >= 1e6) return `${shorten(value / 1e6)}M`;
    return Math.abs(value) >= 1e3 ? `${shorten(value / 1e3)}k` : shorten(value);
  }

  function ticks(low, high, count) {
    const spacing = (high - low) / count, power = 10 ** Math.floor(Math.log10(spacing));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= spacing * 0.999);
    const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
    return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  }

  // The value of a line at x, interpolated linearly; null outside its range.
  function interpolate(xs, ys, x) {
    if (!ys.length || x < xs[0] || x > xs[xs.length - 1]) return null;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    if (xs[high] === xs[low]) return ys[high];
    return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
  }

  // The range of the values of a chart with a margin; all of [0, 1] in per cent.
  function rangeOfY({ lines, percent }) {
    if (percent.includes("y")) return [-0.02, 1.02];
    const ys = lines.flatMap((line) => [...line.y, ...line.low, ...line.high, ...line.seeds.flatMap(([, y]) => y)]);
    const low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
    const margin = 0.05 * (high - low || Math.abs(high) || 1);
    return [low - margin, high + margin];
  }

  class Chart {
    // `leader`: the chart whose legend a small chart shares.
    constructor(figure, data, id, leader) {
      this.data = data;
      [this.width, this.height] = leader ? SMALL : LARGE;
      this.followers = [];
      leader?.followers.push(this);
      this.visible = data.lines.map(() => true);
      const lastX = (line) => [line.x, ...line.seeds.map(([x]) => x)].map((x) => x[x.length - 1] ?? 0);
      const xs = data.lines.flatMap(lastX);
      this.fullView = { x: [0, 1.01 * Math.max(...xs) || 1], y: rangeOfY(data) };
      this.view = this.fullView;
      if (!leader) this.addLegend(figure);
      this.addFrame(figure, id, leader);
      this.addListeners();
      this.draw();
    }

    addLegend(figure) {
      const list = html("div", { className: "legend" }, figure);
      this.data.lines.forEach((line, index) => {
        const button = html("button", { type: "button" }, list);
        button.setAttribute("aria-pressed", "true");
        const swatch = svg("svg", { width: 36, height: 10, "aria-hidden": "true" }, button);
        svg("path", { d: "M1 5H35", ...this.stroke(line) }, swatch);
        button.append(line.label);
        button.addEventListener("click", () => {
          const visible = !this.visible[index];
          button.setAttribute("aria-pressed", visible);
          for (const chart of [this, ...this.followers]) chart.show(line.index, visible);
        });
      });
    }

    show(index, visible) {
      this.visible = this.data.lines.map((line, each) => (line.index === index ? visible : this.visible[each]));
      this.draw();
    }

    addFrame(figure, id, leader) {
      const box = html("div", { className: "plot" }, figure);
      this.svg = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, tabindex: 0, role: "img" }, box);
      svg("title", {}, this.svg, `${this.data.title}: ${this.data.y} over ${this.data.x}`);
      const inside = { x: LEFT, y: TOP, width: this.width - LEFT - RIGHT, height: this.height - TOP - BOTTOM };
      svg("rect", inside, svg("clipPath", { id: `inside-${id}` }, this.svg));
      this.axes = svg("g", { class: "axes" }, this.svg);
      const clipped = svg("g", { "clip-path": `url(#inside-${id})` }, this.svg);
      const layer = () => this.data.lines.map(() => svg("g", { fill: "none" }, clipped));
      this.layers = { band: layer(), seeds: layer(), iqm: layer() }; // bands below all lines
      svg("rect", { ...inside, class: "border" }, this.svg);
      const middle = [LEFT + inside.width / 2, TOP + inside.height / 2];
      svg("text", { x: middle[0], y: this.height - 6, class: "name" }, this.svg, this.data.x);
      const side = { transform: `translate(13 ${middle[1]}) rotate(-90)`, class: "name" };
      if (!leader) svg("text", side, this.svg, this.data.y); // that of a small chart is in its caption
      this.cursor = svg("path", { class: "cursor" }, this.svg);
      this.selection = svg("rect", { class: "selection" }, this.svg);
      this.tip = html("div", { className: "tip", hidden: true }, box);
      this.reset = html("button", { type: "button", className: "reset", hidden: true }, box, "reset zoom");
      this.reset.addEventListener("click", () => this.zoom(this.fullView));
    }

    stroke({ color, dashes }) {
      return { stroke: color, "stroke-width": 2.4, "stroke-dasharray": dashes.map((each) => 2.4 * each).join(" ") };
    }

    // Data to viewBox coordinates, and back.
    toPx(x) { return LEFT + (x - this.view.x[0]) * this.pxPerUnit("x"); }
    toPy(y) { return this.height - BOTTOM - (y - this.view.y[0]) * this.pxPerUnit("y"); }
    fromPx(px) { return this.view.x[0] + (px - LEFT) / this.pxPerUnit("x"); }
    fromPy(py) { return this.view.y[0] + (this.height - BOTTOM - py) / this.pxPerUnit("y"); }
    pxPerUnit(axis) {
      const [low, high] = this.view[axis];
      return (axis === "x" ? this.width - LEFT - RIGHT : this.height - TOP - BOTTOM) / (high - low);
    }

    path(xs, ys) {
      const points = xs.map((x, index) => `${this.toPx(x).toFixed(1)} ${this.toPy(ys[index]).toFixed(1)}`);
      return points.length ? `M${points.join("L")}` : "";
    }

    draw() {
      const [bottom, right, { percent }] = [this.height - BOTTOM, this.width - RIGHT, this.data];
      this.axes.replaceChildren();
      for (const x of ticks(...this.view.x, 8)) {
        svg("path", { d: `M${this.toPx(x)} ${TOP}V${bottom}` }, this.axes);
        svg("text", { x: this.toPx(x), y: bottom + 16, class: "x" }, this.axes, format(x, percent.includes("x")));
      }
      for (const y of ticks(...this.view.y, 6)) {
        svg("path", { d: `M${LEFT} ${this.toPy(y)}H${right}` }, this.axes);
        svg("text", { x: LEFT - 6, y: this.toPy(y) + 4, class: "y" }, this.axes, format(y, percent.includes("y")));
      }
      this.data.lines.forEach((line, index) => this.drawLine(line, index));
      this.reset.hidden = this.view === this.fullView;
      this.showValues(null);
    }

    drawLine(line, index) {
      for (const [name, layer] of Object.entries(this.layers)) {
        layer[index].replaceChildren();
        layer[index].setAttribute("class", name);
        layer[index].setAttribute("visibility", this.visible[index] ? "visible" : "hidden");
      }
      if (line.low.length) {
        const outline = this.path([...line.x, ...[...line.x].reverse()], [...line.high, ...[...line.low].reverse()]);
        svg("path", { d: `${outline}Z`, fill: line.color, "fill-opacity": 0.15 }, this.layers.band[index]);
      }
      const thin = { stroke: line.color, "stroke-width": 0.7, "stroke-opacity": 0.6 };
      for (const [x, y] of line.seeds) svg("path", { d: this.path(x, y), ...thin }, this.layers.seeds[index]);
      const path = this.path(line.x, line.y), dot = { d: `${path}h0`, "stroke-width": 7, "stroke-linecap": "round" };
      svg("path", { d: path, ...this.stroke(line), ...(line.x.length === 1 && dot) }, this.layers.iqm[index]);
    }

    zoom(view) {
      const clamp = ([low, high], [min, max]) => [Math.max(low, min), Math.min(high, max)];
      const next = view === this.fullView ? view : { x: clamp(view.x, this.fullView.x), y: clamp(view.y, this.fullView.y) };
      const tooNarrow = ([low, high], [min, max]) => high - low < 1e-4 * (max - min);
      if (tooNarrow(next.x, this.fullView.x) || tooNarrow(next.y, this.fullView.y)) return;
      this.view = ["x", "y"].every((axis) => next[axis].join() === this.fullView[axis].join()) ? this.fullView : next;
      this.draw();
    }

    scale(factor, x, y) {
      const around = ([low, high], fixed) => [fixed - (fixed - low) * factor, fixed + (high - fixed) * factor];
      this.zoom({ x: around(this.view.x, x), y: around(this.view.y, y) });
    }

    // The position of an event in viewBox coordinates, within the frame.
    position(event) {
      const box = this.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.width, y = ((event.clientY - box.top) / box.height) * this.height;
      return [Math.min(Math.max(x, LEFT), this.width - RIGHT), Math.min(Math.max(y, TOP), this.height - BOTTOM)];
    }

    addListeners() {
      let start = null;
      this.svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.pointerType === "touch") return;
        start = this.position(event);
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener("pointermove", (event) => {
        const [x, y] = this.position(event);
        if (start) this.drawSelection(...this.corners(start, [x, y]));
        this.showValues(this.fromPx(x));
      });
      this.svg.addEventListener("pointerup", (event) => {
        if (!start) return;
        const [[left, top], [right, bottom]] = this.corners(start, this.position(event));
        start = null;
        this.drawSelection([0, 0], [0, 0]);
        if (Math.max(right - left, bottom - top) < MIN_DRAG) return; // a click
        this.zoom({ x: [this.fromPx(left), this.fromPx(right)], y: [this.fromPy(bottom), this.fromPy(top)] });
      });
      this.svg.addEventListener("pointerleave", () => this.showValues(null));
      this.svg.addEventListener("dblclick", () => this.zoom(this.fullView));
      this.svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return; // a plain wheel scrolls the page
        event.preventDefault();
        const [x, y] = this.position(event);
        this.scale(event.deltaY < 0 ? 0.8 : 1.25, this.fromPx(x), this.fromPy(y));
      }, { passive: false });
      this.svg.addEventListener("keydown", (event) => this.onKey(event));
    }

    // Upper left and lower right of a drag; a drag along one axis selects the full range of the other.
    corners([x0, y0], [x1, y1]) {
      const wide = Math.abs(x1 - x0) >= MIN_DRAG, high = Math.abs(y1 - y0) >= MIN_DRAG;
      if (wide && !high) [y0, y1] = [TOP, this.height - BOTTOM];
      if (high && !wide) [x0, x1] = [LEFT, this.width - RIGHT];
      return [[Math.min(x0, x1), Math.min(y0, y1)], [Math.max(x0, x1), Math.max(y0, y1)]];
    }

    drawSelection([left, top], [right, bottom]) {
      const sides = { x: left, y: top, width: right - left, height: bottom - top };
      for (const [side, value] of Object.entries(sides)) this.selection.setAttribute(side, value);
    }

    onKey(event) {
      const [low, high] = this.view.x, step = (high - low) / 20;
      const x = this.cursorX ?? (low + high) / 2, y = (this.view.y[0] + this.view.y[1]) / 2;
      const actions = {
        ArrowLeft: () => this.showValues(x - step),
        ArrowRight: () => this.showValues(x + step),
        "+": () => this.scale(0.8, x, y),
        "-": () => this.scale(1.25, x, y),
        Escape: () => this.zoom(this.fullView),
      };
      if (!(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    // Show the values at the evaluation nearest to x within the view; null hides them.
    showValues(x) {
      const evaluated = this.data.lines.flatMap((line, index) => (this.visible[index] ? line.x : []));
      const candidates = evaluated.filter((each) => each >= this.view.x[0] && each <= this.view.x[1]);
      const hidden = x === null || !candidates.length;
      this.tip.hidden = hidden;
      this.cursor.setAttribute("visibility", hidden ? "hidden" : "visible");
      const nearest = (best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best);
      this.cursorX = hidden ? null : candidates.reduce(nearest);
      if (hidden) return;
      const px = this.toPx(this.cursorX), { percent } = this.data;
      this.cursor.setAttribute("d", `M${px} ${TOP}V${this.height - BOTTOM}`);
      this.tip.replaceChildren();
      const exact = percent.includes("x") ? format(this.cursorX, true) : this.cursorX.toLocaleString("en");
      html("b", {}, this.tip, `${this.data.x}: ${exact}`);
      this.data.lines.forEach((line, index) => {
        const [y, low, high] = [line.y, line.low, line.high].map((ys) => interpolate(line.x, ys, this.cursorX));
        if (!this.visible[index] || y === null) return;
        const short = (value) => (percent.includes("y") ? `${(100 * value).toFixed(1)}%` : String(+value.toPrecision(4)));
        const row = html("div", {}, this.tip);
        svg("path", { d: "M0 4H28", ...this.stroke(line) }, svg("svg", { width: 28, height: 8 }, row));
        row.append(` ${line.label}: ${short(y)}${low === null ? "" : ` [${short(low)}, ${short(high)}]`}`);
      });
      this.tip.style.left = px > this.width / 2 ? "auto" : `${(100 * (px + 12)) / this.width}%`;
      this.tip.style.right = px > this.width / 2 ? `${(100 * (this.width - px + 12)) / this.width}%` : "auto";
    }
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const number = figure.dataset.chart; // a chart comes before the small ones that share its legend
    charts[number] = new Chart(figure, data[number], number, charts[data[number].legend]);
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "copied";
      } catch { // no clipboard access: select the text instead
        getSelection().selectAllChildren(text);
        button.textContent = "press Ctrl+C";
      }
    });
  }

  // Print collapsed sections in full.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
})();
