"use strict";
// Everything shown is text nodes and attributes: nothing of the data is ever parsed as markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
const OPERATORS = DATA.operators;
const PLACES = new Map(OPERATORS.map((operator, index) => [operator.name, index]));
const DEVICES = new Map(DATA.devices.map((name, index) => [name, index]));
const SVG = "http://www.w3.org/2000/svg";

/** Return an element with properties and children; text children become text nodes. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return an SVG element with attributes and perhaps a text. */
function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

const byId = (id) => document.getElementById(id);

function formatTime(us) {
  if (us === null || us === undefined) return "–";
  const size = Math.abs(us);
  if (size < 999.5) return `${Number(us.toPrecision(3))} µs`;
  if (size < 999500) return `${Number((us / 1e3).toPrecision(3))} ms`;
  return `${Number((us / 1e6).toPrecision(3))} s`;
}

function formatBytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1048576) return `${Number((count / 1024).toPrecision(3))} KiB`;
  return `${Number((count / 1048576).toPrecision(3))} MiB`;
}

const formatShare = (share) => (share === null || share === undefined ? "–" : `${(share * 100).toFixed(1)} %`);

function shorten(text, width) {
  if (text.length <= width) return text;
  const tail = Math.floor(width / 2);
  return `${text.slice(0, width - tail - 1)}…${text.slice(-tail)}`;
}

/** Return the class of a device's colour; of the host another one. */
function colour(name) {
  return DEVICES.has(name) ? `f${DEVICES.get(name) % 6}` : "fh";
}

/** Return a horizontal bar of pieces [class, width in percent, title]. */
function makeTrack(pieces) {
  const track = make("div", { class: "track" });
  for (const [name, percent, title] of pieces) {
    const piece = make("i", { class: name, title });
    piece.style.width = `${percent}%`;
    track.append(piece);
  }
  return track;
}

/** Return how an operator's output is divided, as pieces of a bar. */
function cutPieces(operator) {
  if (!operator.parts.length) return [["fh", 100, "host"]];
  if (operator.bounds.length) {
    const whole = operator.bounds[operator.bounds.length - 1] || 1;
    return DATA.devices
      .map((name, i) => [colour(name), (100 * (operator.bounds[i + 1] - operator.bounds[i])) / whole,
        `${name} ${operator.bounds[i]}:${operator.bounds[i + 1]}`])
      .filter((piece) => piece[1] > 0);
  }
  const sum = operator.parts.reduce((total, part) => total + part.share, 0) || 1;
  return operator.parts.map((part) => [colour(part.device), (100 * part.share) / sum, part.device]);
}

function describeCut(operator) {
  if (!operator.parts.length) return "on the host";
  if (operator.axis === null) return `all on ${operator.parts[0].device}`;
  const parts = operator.parts.map((part) => `${part.device} ${part.begin}:${part.end}`).join(", ");
  return `${operator.axis_name} cut, ${parts}`;
}

/** Open an operator's row, bring it into view and focus it. */
function openRow(name) {
  const row = ROWS.get(name);
  if (!row) return;
  if (row.item.hidden) clearFilters();
  row.details.open = true;
  row.item.scrollIntoView({ block: "center" });
  row.summary.focus({ preventScroll: true });
}

/** Return one of the buttons above a picture. */
function makeButton(label, action, more = {}) {
  return make("button", { type: "button", onclick: action, ...more }, label);
}
