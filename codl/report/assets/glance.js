"use strict";
const PART_NAMES = {
  compute: "compute", repeated: "halos computed twice", disturbance: "slowed by each other", imbalance: "one waits for the other",
  sharing: "sharing data", waiting: "synchronization", overlap: "steps side by side", other: "other",
};

function showGlance() {
  const totals = DATA.totals;
  const chains = DATA.steps.filter((step) => step.kind === "chain");
  byId("model").textContent = DATA.model.split(/[\\/]/).pop();
  byId("summary").textContent =
    `${OPERATORS.length} operators in ${DATA.steps.length} steps, ${chains.length} of them chains, over ` +
    `${DATA.devices.join(", ")}; planned by ${DATA.planner || "hand"}.`;
  DATA.devices.forEach((name, index) => {
    const origin = DATA.origins[index] ? `, profile ${DATA.origins[index]}` : ", no profile";
    byId("legend").append(make("li", {}, make("span", { class: `swatch ${colour(name)}` }), name,
      make("span", { class: "soft" }, origin.slice(2))));
  });
  for (const note of DATA.notes) byId("notes").append(make("li", {}, note));
  showTiles(totals, chains);
  showBars(totals);
}

function showTiles(totals, chains) {
  const tile = (value, label) => byId("tiles").append(make("div", { class: "tile" }, make("b", {}, value),
    make("span", {}, label)));
  const plan = totals.predicted_us;
  if (totals.measured_us) tile(formatTime(totals.measured_us), "measured");
  if (plan) tile(formatTime(plan), "predicted");
  if (plan && totals.best_single_us) {
    tile(`${(totals.best_single_us / plan).toFixed(2)}×`, `the speed of ${totals.best_single} alone`);
  }
  if (plan && totals.ideal_us) tile(`${(plan / totals.ideal_us).toFixed(2)}×`, "the time of the no-overhead ideal");
  const split = OPERATORS.filter((operator) => operator.parts.length > 1);
  tile(`${split.length} of ${OPERATORS.length}`, "operators split");
  const axes = new Map();
  for (const operator of split) axes.set(operator.axis_name, (axes.get(operator.axis_name) || 0) + 1);
  const told = [...axes].sort((a, b) => b[1] - a[1]).map(([axis, count]) => `${axis}\u00a0${count}`);
  if (told.length) tile(told.slice(0, 3).join(" · "), "cut along");
  const lengths = chains.map((chain) => chain.nodes.length);
  if (lengths.length) tile(`${Math.max(...lengths)}`, `operators in the longest of ${lengths.length} chains`);
  if (DATA.planning_ms) tile(formatTime(DATA.planning_ms * 1e3), "to plan");
}

function showBars(totals) {
  const rows = [];
  if (totals.ideal_us) rows.push(["no-overhead ideal", totals.ideal_us, [["p-plain", totals.ideal_us, ""]]]);
  if (totals.predicted_us) {
    const parts = Object.entries(totals.parts || { compute: totals.predicted_us })
      .filter(([, us]) => us > 0)
      .map(([name, us]) => [`p-${name}`, us, `${PART_NAMES[name] || name}: ${formatTime(us)}`]);
    rows.push(["this plan", totals.predicted_us, parts]);
  }
  if (totals.measured_us) rows.push(["measured", totals.measured_us, [["p-plain", totals.measured_us, ""]]]);
  totals.single_us.forEach((us, index) => {
    const name = DATA.devices[index];
    if (us) rows.push([`all on ${name}`, us, [[colour(name), us, ""]]]);
  });
  if (!rows.length) {
    byId("bars").append(make("p", { class: "soft" }, "Nothing is predicted: there are no profiles that know all of it."));
    return;
  }
  const longest = Math.max(...rows.map((row) => row[1]));
  const table = make("table", { "aria-label": "Time of the plan, compared with alternatives" });
  for (const [name, us, pieces] of rows) {
    const track = makeTrack(pieces.map(([kind, part, title]) => [kind, (100 * part) / longest, title]));
    table.append(make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, track),
      make("td", { class: "value" }, formatTime(us))));
  }
  byId("bars").append(table);
  if (totals.parts) {
    const key = make("p", { class: "key" });
    for (const [name, us] of Object.entries(totals.parts)) {
      if (Math.abs(us) < totals.predicted_us * 5e-4) continue;
      key.append(make("span", {}, make("i", { class: `swatch p-${name}` }),
        `${PART_NAMES[name] || name} ${formatShare(us / totals.predicted_us)}`));
    }
    byId("bars").append(key);
  }
}
