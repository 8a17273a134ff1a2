"use strict";
const ROWS = new Map();
const LONGEST = Math.max(1e-9, ...OPERATORS.flatMap((operator) => operator.parts.map((part) => part.predicted_us || 0)));

function showOperators() {
  const cells = [["", ""], ["operator", ""], ["kind", "wide"], ["shape", "wide"], ["cut", ""], ["on each device", "wide"],
    ["time", "number"], ["of total", "number wide"]];
  byId("head").append(...cells.map(([text, name]) => make("span", { class: name }, text)));
  OPERATORS.forEach((operator) => byId("rows").append(makeRow(operator)));
  byId("filter").addEventListener("input", filterRows);
  byId("only-split").addEventListener("change", filterRows);
  byId("order").addEventListener("change", sortRows);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  filterRows();
}

function makeRow(operator) {
  const summary = make("summary", { class: "row" },
    make("span", { class: "bracket", "aria-hidden": "true" }, bracket(operator)),
    make("span", { class: "opname", title: fullName(operator) }, fullName(operator)),
    make("span", { class: "wide" }, operator.kind),
    make("span", { class: "wide soft" }, operator.shape.join("×")),
    make("span", { class: "cut" }, make("b", {}, operator.axis_name || (operator.parts.length ? "–" : "host")), makeTrack(cutPieces(operator))),
    makeTimes(operator),
    make("span", { class: "number" }, isFused(operator) ? "" : formatTime(operator.measured_us ?? operator.predicted_us)),
    make("span", { class: "number wide soft" }, isFused(operator) ? "" : formatShare(operator.of_total)));
  const time = isFused(operator) ? "" : `, ${formatTime(operator.predicted_us)}`;
  const label = `${fullName(operator)}, ${operator.kind}, ${describeCut(operator)}${time}`;
  summary.setAttribute("aria-label", label);
  const details = make("details", {}, summary);
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(makeBody(operator)); });
  const item = make("li", { class: operator.place === 0 ? "first" : "" }, details);
  const words = [operator.name, operator.kind, operator.axis_name || "", ...operator.parts.map((part) => `${part.device} ${part.kernel || ""}`),
    operator.parts.length > 1 ? "split" : ""];
  ROWS.set(operator.name, { item, details, summary, operator, words: words.join(" ").toLowerCase() });
  return item;
}

// The time of such an operator is that of the kernel that computes it, and shown with that kernel's operator.
function isFused(operator) {
  return operator.in_kernel_of !== null && !operator.predicted_us;
}

function fullName(operator) {
  return operator.in_kernel_of === null ? operator.name : `${operator.name} (in ${operator.in_kernel_of}'s kernel)`;
}

function bracket(operator) {
  if (operator.length === 1) return "─";
  return operator.place === 0 ? "┌" : operator.place === operator.length - 1 ? "└" : "│";
}

function makeTimes(operator) {
  const box = make("span", { class: "times wide" });
  for (const part of operator.parts) {
    const title = `${part.device}: ${formatTime(part.predicted_us)}`;
    box.append(makeTrack([[colour(part.device), (100 * (part.predicted_us || 0)) / LONGEST, title]]));
  }
  return box;
}

function makeBody(operator) {
  const facts = make("dl", { class: "facts" });
  const tell = (name, ...value) => facts.append(make("dt", {}, name), make("dd", {}, ...value));
  const step = DATA.steps[operator.step];
  tell("output", operator.shape.join(" × "));
  tell("step", `${operator.step + 1}, ${step.kind}${operator.length > 1 ? ` of ${operator.length} operators, place ${operator.place + 1}` : ""}`);
  for (const part of operator.parts) {
    const where = operator.axis === null ? "all of it" : `${operator.axis_name} ${part.begin}:${part.end}`;
    const sure = part.uncertainty ? ` ± ${(part.uncertainty * 100).toFixed(0)} %` : "";
    const measured = part.measured_us ? `, measured ${formatTime(part.measured_us)}` : "";
    const time = isFused(operator) ? `in ${operator.in_kernel_of}'s kernel` : `${formatTime(part.predicted_us)}${sure}${measured}`;
    tell(part.device, make("span", {}, `${where}, ${time}`), make("br"),
      make("span", { class: "soft" }, `${part.kernel || ""}${part.is_estimated ? ", estimated" : ""}`));
  }
  const twice = operator.parts.reduce((sum, part) => sum + part.share, 0) - 1;
  if (twice > 1e-9) tell("computed twice", `${(twice * 100).toFixed(1)} % (halo)`);
  tell("step's sharing", formatTime(step.share_us));
  tell("step's sync", formatTime(step.sync_us));
  if (operator.note) tell("why", operator.note);
  if (operator.sources.length) {
    const links = operator.sources.map((name) => make("div", {}, make("button", { type: "button", class: "link", onclick: () => openRow(name) }, name)));
    tell("reads", ...links);
  }
  return make("div", { class: "body" }, facts, makeWays(operator));
}

function makeWays(operator) {
  if (!operator.alternatives.length) return make("p", { class: "soft" }, "No alternatives were priced.");
  const longest = Math.max(...operator.alternatives.map((way) => way.total_us || 0), 1e-9);
  const table = make("table", { class: "ways" }, make("thead", {}, make("tr", {},
    ...["alternative", "compute of the slowest · sharing · meeting", "compute", "alone in all"].map((text) => make("th", { scope: "col" }, text)))));
  const body = make("tbody");
  for (const way of operator.alternatives) {
    const compute = Math.max(...way.compute_us.map((us) => us || 0));
    const slowest = DATA.devices[way.compute_us.indexOf(compute)];
    const bar = makeTrack([
      [colour(slowest), (100 * compute) / longest, `compute ${formatTime(compute)}`],
      ["p-sharing", (100 * (way.share_us || 0)) / longest, `sharing ${formatTime(way.share_us)}`],
      ["p-waiting", (100 * (way.sync_us || 0)) / longest, `meeting ${formatTime(way.sync_us)}`]]);
    body.append(make("tr", { class: way.is_chosen ? "chosen" : "" }, make("td", {}, way.label), make("td", {}, bar),
      make("td", { class: "soft" }, way.compute_us.map(formatTime).join(" / ")), make("td", {}, formatTime(way.total_us))));
  }
  table.append(body);
  const why = operator.length > 1
    ? "Priced as if it stood alone; inside its chain it needs no transfer and no synchronization."
    : "Priced as if it stood alone.";
  return make("div", {}, make("h3", {}, "What it could be"), table, make("p", { class: "soft" }, why));
}

function filterRows() {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const onlySplit = byId("only-split").checked;
  let shown = 0;
  for (const row of ROWS.values()) {
    const isShown = words.every((word) => row.words.includes(word)) && (!onlySplit || row.operator.parts.length > 1);
    row.item.hidden = !isShown;
    shown += isShown;
  }
  byId("count").textContent = `${shown} of ${OPERATORS.length}`;
}

function clearFilters() {
  byId("filter").value = "";
  byId("only-split").checked = false;
  filterRows();
}

function sortRows() {
  const rows = [...ROWS.values()];
  if (byId("order").value === "time") {
    rows.sort((a, b) => (b.operator.measured_us ?? b.operator.predicted_us ?? 0) - (a.operator.measured_us ?? a.operator.predicted_us ?? 0));
  }
  byId("rows").replaceChildren(...rows.map((row) => row.item));
}
