"use strict";
/** Predicted against measured times of every slice, both axes logarithmic, a band of ten percent. */
function showScatter() {
  const dots = [];
  for (const operator of OPERATORS) {
    for (const part of operator.parts) {
      if (part.predicted_us > 0 && part.measured_us > 0) dots.push({ operator, part });
    }
  }
  if (!dots.length) return;
  byId("scatter").hidden = false;
  const all = dots.flatMap(({ part }) => [part.predicted_us, part.measured_us]);
  const low = Math.log10(Math.min(...all)) - 0.1, high = Math.log10(Math.max(...all)) + 0.1;
  const size = 440, left = 62, bottom = 40;
  const x = (us) => left + ((Math.log10(us) - low) / (high - low)) * size;
  const y = (us) => 12 + size - ((Math.log10(us) - low) / (high - low)) * size;
  const svg = draw("svg", { viewBox: `0 0 ${left + size + 20} ${size + bottom + 12}`, width: left + size + 20, role: "img" });
  svg.append(draw("title", {}, "Predicted times over measured ones"));
  const ends = [10 ** low, 10 ** high];
  svg.append(draw("polygon", { class: "tolerance", points:
    `${x(ends[0])},${y(ends[0] * 1.1)} ${x(ends[1])},${y(ends[1] * 1.1)} ${x(ends[1])},${y(ends[1] / 1.1)} ${x(ends[0])},${y(ends[0] / 1.1)}` }));
  svg.append(draw("line", { class: "line", x1: x(ends[0]), y1: y(ends[0]), x2: x(ends[1]), y2: y(ends[1]) }));
  for (let power = Math.ceil(low); power <= high; power++) {
    const us = 10 ** power;
    svg.append(draw("line", { class: "grid", x1: x(us), x2: x(us), y1: 12, y2: 12 + size }));
    svg.append(draw("line", { class: "grid", x1: left, x2: left + size, y1: y(us), y2: y(us) }));
    svg.append(draw("text", { class: "soft", x: x(us), y: size + 28, "text-anchor": "middle" }, formatTime(us)));
    svg.append(draw("text", { class: "soft", x: left - 6, y: y(us) + 4, "text-anchor": "end" }, formatTime(us)));
  }
  svg.append(draw("text", { class: "soft", x: left + size / 2, y: size + 46, "text-anchor": "middle" }, "measured"));
  svg.append(draw("text", { class: "soft", x: 4, y: 10 }, "predicted"));
  for (const { operator, part } of dots) {
    const dot = draw("circle", { class: `span ${colour(part.device)}`, cx: x(part.measured_us), cy: y(part.predicted_us), r: 4 });
    dot.append(draw("title", {}, `${operator.name} on ${part.device}: predicted ${formatTime(part.predicted_us)}, measured ${formatTime(part.measured_us)}`));
    dot.addEventListener("click", () => openRow(operator.name));
    svg.append(dot);
  }
  byId("scatter-box").append(make("div", { class: "beside" }, svg, listErrors(dots)));
  const near = dots.filter(({ part }) => Math.abs(part.predicted_us / part.measured_us - 1) <= 0.1).length;
  byId("scatter-status").textContent =
    `${near} of ${dots.length} slices are predicted within 10 % (the shaded band); the time of a row is measured where it was.`;
}

/** Return a table of the slices whose prediction is furthest off, in time. */
function listErrors(dots) {
  const worst = [...dots].sort((a, b) => lost(b) - lost(a)).slice(0, 14);
  const body = make("tbody");
  for (const { operator, part } of worst) {
    const error = (part.predicted_us / part.measured_us - 1) * 100;
    body.append(make("tr", {},
      make("td", {}, make("button", { type: "button", class: "link", onclick: () => openRow(operator.name) }, shorten(operator.name, 34))),
      make("td", {}, part.device), make("td", {}, formatTime(part.predicted_us)), make("td", {}, formatTime(part.measured_us)),
      make("td", {}, `${error > 0 ? "+" : ""}${error.toFixed(0)} %`)));
  }
  const heads = ["furthest off, in time", "device", "predicted", "measured", "error"];
  return make("div", {}, make("table", { class: "ways errors" },
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))), body));
}

const lost = ({ part }) => Math.abs(part.predicted_us - part.measured_us);
