"use strict";
const LANE = 40, GAP = 12, LEFT = 130, TOP = 30, BAR = 26;

/** The timeline: a view [from, to] in microseconds on the predicted or the measured run. */
class Timeline {
  constructor() {
    this.isMeasured = false;
    this.box = byId("timeline-box");
    this.chosen = -1;
    const both = DATA.timeline.length > 0 && DATA.measured.length > 0;
    if (!DATA.timeline.length && !DATA.measured.length) {
      byId("timeline").hidden = true;
      return;
    }
    const controls = byId("timeline-controls");
    if (both) {
      this.modes = ["predicted", "measured"].map((name, index) =>
        makeButton(name, () => this.switchTo(index === 1), { "aria-pressed": index === 0 ? "true" : "false" }));
      controls.append(...this.modes);
    }
    controls.append(
      makeButton("zoom in", () => this.zoom(0.5)), makeButton("zoom out", () => this.zoom(2)),
      makeButton("all", () => this.fit()),
      make("span", {}, "Keys on the picture: + and − zoom, arrows move and step, Enter opens the row."));
    this.svg = draw("svg", { tabindex: "0", role: "application", "aria-label": "Timeline of the devices" });
    this.box.append(this.svg);
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.switchTo(!DATA.timeline.length);
  }

  switchTo(isMeasured) {
    this.isMeasured = isMeasured;
    if (this.modes) {
      this.modes.forEach((mode, i) => mode.setAttribute("aria-pressed", String((i === 1) === isMeasured)));
    }
    this.spans = isMeasured ? DATA.measured : DATA.timeline;
    this.end = Math.max(...this.spans.map((span) => span.start_us + span.duration_us)) || 1;
    const used = new Set(this.spans.map((span) => span.track));
    this.tracks = [...DATA.devices, ...[...used].filter((track) => !DEVICES.has(track))];
    this.bands = this.findBands();
    this.chosen = -1;
    this.fit();
  }

  /** Return for each step of several operators when its first launch starts and its last one ends. */
  findBands() {
    const bands = new Map();
    for (const span of this.spans) {
      if (span.step === null || (span.kind !== "launch" && span.kind !== "host")) continue;
      const band = bands.get(span.step) || { step: span.step, from: Infinity, to: 0 };
      band.from = Math.min(band.from, span.start_us);
      band.to = Math.max(band.to, span.start_us + span.duration_us);
      bands.set(span.step, band);
    }
    return [...bands.values()].filter((band) => DATA.steps[band.step].kind === "chain");
  }

  fit() { this.from = 0; this.to = this.end; this.draw(); }

  zoom(factor, middle = (this.from + this.to) / 2) {
    const width = Math.max(1, Math.min(this.end, (this.to - this.from) * factor));
    const share = (middle - this.from) / (this.to - this.from);
    this.move(middle - width * share, width);
  }

  move(from, width = this.to - this.from) {
    this.from = Math.max(0, Math.min(from, this.end - width));
    this.to = this.from + width;
    this.draw();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const width = this.to - this.from;
    if (event.shiftKey) return this.move(this.from + Math.sign(event.deltaY || event.deltaX) * width * 0.1);
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.from + ((x - LEFT) / (this.width - LEFT)) * width);
  }

  press(event) {
    const width = this.to - this.from;
    const actions = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.fit(),
      PageDown: () => this.move(this.from + width * 0.8), PageUp: () => this.move(this.from - width * 0.8),
      ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
      Home: () => this.move(0), End: () => this.move(this.end),
      Enter: () => this.chosen >= 0 && openRow(this.spans[this.chosen].name),
    };
    if (!actions[event.key] || event.metaKey || event.altKey || event.ctrlKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  step(by) {
    this.choose(Math.max(0, Math.min(this.spans.length - 1, this.chosen + by)));
    const span = this.spans[this.chosen];
    if (span.start_us < this.from || span.start_us > this.to) {
      this.move(span.start_us - (this.to - this.from) * 0.1);
    }
  }

  choose(index) {
    this.chosen = index;
    const span = this.spans[index];
    const what = { launch: "computes", publish: "publishes", read: "reads", write: "receives", map: "takes hold of", unmap: "gives back",
      wait: "waits", host: "runs", fetch: "fetches", reclaim: "reclaims" }[span.kind] || span.kind;
    const size = span.size_bytes ? `, ${formatBytes(span.size_bytes)}` : "";
    byId("timeline-status").textContent =
      `${span.track} ${what} ${span.name}${size} for ${formatTime(span.duration_us)} from ${formatTime(span.start_us)}` +
      (span.step === null ? "" : `, step ${span.step + 1}`);
    this.draw();
  }

  draw() {
    this.width = Math.max(360, this.box.clientWidth);
    const height = TOP + this.tracks.length * (LANE + GAP) + 6;
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren();
    const scale = (this.width - LEFT - 10) / (this.to - this.from);
    const x = (us) => LEFT + (us - this.from) * scale;
    const y = (track) => TOP + this.tracks.indexOf(track) * (LANE + GAP);
    this.drawBands(x, height);
    this.drawAxis(x, height);
    this.tracks.forEach((track) => {
      this.svg.append(draw("text", { x: 10, y: y(track) + LANE / 2 + 4 }, shorten(track, 18)));
      this.svg.append(draw("line", { class: "grid", x1: LEFT, x2: this.width, y1: y(track) + LANE + GAP / 2, y2: y(track) + LANE + GAP / 2 }));
    });
    this.drawSpans(x, y, scale);
    this.svg.append(draw("rect", { x: 0, y: 0, width: 0, height: 0 }));
  }

  drawBands(x, height) {
    this.bands.forEach((band, index) => {
      const left = Math.max(LEFT, x(band.from)), right = Math.min(this.width, x(band.to));
      if (right - left < 0.5) return;
      this.svg.append(draw("rect", { class: index % 2 ? "band2" : "band", x: left, y: 4, width: right - left, height: height - 8, rx: 4 }));
      const step = DATA.steps[band.step];
      if (right - left > 76 && step.nodes.length > 1) {
        this.svg.append(draw("text", { class: "soft", x: left + 6, y: 16 }, `chain of ${step.nodes.length} · ${step.axis_name}`));
      } else if (right - left > 16) {
        this.svg.append(draw("text", { class: "soft", x: left + 4, y: 16 }, step.axis_name));
      }
    });
  }

  drawAxis(x, height) {
    const rough = (this.to - this.from) / Math.max(2, this.width / 120);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    for (let us = Math.ceil(this.from / step) * step; us <= this.to; us += step) {
      this.svg.append(draw("line", { class: "grid", x1: x(us), x2: x(us), y1: 20, y2: height }));
      this.svg.append(draw("text", { class: "soft", x: x(us) + 3, y: height - 3 }, formatTime(us)));
    }
  }

  drawSpans(x, y, scale) {
    const last = new Map();
    this.spans.forEach((span, index) => {
      const end = span.start_us + span.duration_us;
      if (end < this.from || span.start_us > this.to) return;
      const left = Math.max(LEFT, x(span.start_us));
      const width = Math.max(0.8, Math.min(this.width, x(end)) - left);
      if (width < 1 && last.get(span.track) > left - 0.6 && index !== this.chosen) return;
      last.set(span.track, left);
      const isWork = span.kind === "launch" || span.kind === "host";
      const top = y(span.track) + (isWork ? 4 : span.kind === "publish" ? 8 : 12);
      const bar = draw("rect", {
        class: `span ${isWork ? colour(span.track) : span.kind === "wait" ? "wait" : "share"}${index === this.chosen ? " chosen" : width < 4 ? " thin" : ""}`,
        x: left, y: top, width, height: isWork ? BAR + 6 : span.kind === "publish" ? BAR - 2 : BAR - 10, rx: Math.min(3, width / 3),
      });
      bar.addEventListener("click", () => { this.choose(index); if (isWork) openRow(span.name); });
      bar.addEventListener("pointerenter", () => { byId("timeline-status").textContent =
        `${span.track}: ${span.kind} ${span.name}, ${formatTime(span.duration_us)}`; });
      this.svg.append(bar);
      if (span.other && this.tracks.includes(span.other)) {
        this.svg.append(draw("line", { class: width < 2 ? "tie faint" : "tie", x1: left, x2: left + width, y1: y(span.other) + LANE / 2, y2: top + 8 }));
      }
      const room = Math.floor((width - 8) / 6.4);
      const label = [span.name, span.name.split("/").pop()].find((text) => text.length <= room);
      if (isWork && label) this.svg.append(draw("text", { class: "on", x: left + 5, y: top + 20 }, label));
    });
  }
}
