"use strict";
const NODE_W = 132, NODE_H = 44, RANK_W = 176, SPACE = 60, MOST_BENDS = 6000;

/** Places of the operators: ranks by longest path, order within a rank by the middle of the neighbours. */
function layOut() {
  const ranks = new Array(OPERATORS.length).fill(0);
  const edges = [];
  OPERATORS.forEach((operator, to) => {
    for (const source of new Set(operator.sources)) {
      const from = PLACES.get(source);
      if (from === undefined || from === to) continue;
      edges.push([from, to]);
      if (from < to) ranks[to] = Math.max(ranks[to], ranks[from] + 1);
    }
  });
  const bends = edges.reduce((sum, [from, to]) => sum + Math.max(0, ranks[to] - ranks[from] - 1), 0);
  const points = OPERATORS.map((_, index) => ({ rank: ranks[index], y: 0, near: [] }));
  const paths = edges.map(([from, to]) => {
    const path = [from];
    if (bends <= MOST_BENDS) {
      for (let rank = ranks[from] + 1; rank < ranks[to]; rank++) path.push(points.push({ rank, y: 0, near: [], isBend: true }) - 1);
    }
    path.push(to);
    for (let i = 1; i < path.length; i++) {
      points[path[i - 1]].near.push(path[i]);
      points[path[i]].near.push(path[i - 1]);
    }
    return path;
  });
  settle(points);
  return { points, paths };
}

function settle(points) {
  const columns = [];
  points.forEach((point, index) => (columns[point.rank] ||= []).push(index));
  const need = (point) => (point.isBend ? 22 : SPACE);
  for (const column of columns) place(column || [], points, need);
  for (let sweep = 0; sweep < 8; sweep++) {
    const order = sweep % 2 ? [...columns].reverse() : columns;
    for (const column of order) {
      if (!column) continue;
      for (const index of column) {
        const point = points[index];
        const near = sweep < 6
          ? point.near.filter((other) => (sweep % 2 ? points[other].rank > point.rank : points[other].rank < point.rank))
          : point.near;
        if (near.length) point.y = near.reduce((sum, other) => sum + points[other].y, 0) / near.length;
      }
      column.sort((a, b) => points[a].y - points[b].y);
      place(column, points, need, true);
    }
  }
  const top = Math.min(...points.map((point) => point.y));
  for (const point of points) point.y -= top;
}

/** Keep a column's order and its middle, and give each point the room it needs. */
function place(column, points, need, keep = false) {
  if (!column.length) return;
  const wished = column.map((index) => points[index].y);
  let at = 0;
  const placed = column.map((index, i) => {
    const room = need(points[index]) / 2;
    at = i === 0 ? (keep ? wished[0] : 0) : Math.max(keep ? wished[i] : -Infinity, at + room);
    const here = at;
    at += room;
    return here;
  });
  const shift = keep ? (wished.reduce((a, b) => a + b, 0) - placed.reduce((a, b) => a + b, 0)) / column.length : -at / 2;
  column.forEach((index, i) => { points[index].y = placed[i] + shift; });
}

class Graph {
  constructor() {
    this.box = byId("graph-box");
    this.scale = 1;
    this.chosen = -1;
    const { points, paths } = layOut();
    this.points = points;
    this.size = [
      (Math.max(...points.map((point) => point.rank)) + 1) * RANK_W + 20,
      Math.max(...points.map((point) => point.y)) + NODE_H + 40,
    ];
    this.svg = draw("svg", { tabindex: "0", role: "application", "aria-label": "The network; arrows step through the operators" });
    for (const path of paths) this.drawEdge(path);
    this.nodes = OPERATORS.map((operator, index) => this.drawNode(operator, index));
    this.box.append(this.svg);
    this.resize(1);
    byId("graph-controls").append(
      makeButton("larger", () => this.resize(this.scale * 1.4)), makeButton("smaller", () => this.resize(this.scale / 1.4)),
      makeButton("all", () => this.resize((this.box.clientWidth - 4) / this.size[0])),
      make("span", {}, "Heavy edges stay inside a chain; nothing is exchanged there. Arrows step, Enter opens the row."));
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.strip = new Strip(this);
    this.box.addEventListener("scroll", () => this.strip.follow());
    new ResizeObserver(() => this.strip.follow()).observe(this.box);
  }

  at(index) { return [10 + this.points[index].rank * RANK_W, 14 + this.points[index].y]; }

  resize(scale) {
    this.scale = Math.max(0.02, Math.min(2, scale));
    this.svg.setAttribute("viewBox", `0 0 ${this.size[0]} ${this.size[1]}`);
    this.svg.setAttribute("width", this.size[0] * this.scale);
    this.svg.setAttribute("height", this.size[1] * this.scale);
    if (this.strip) this.strip.follow();
  }

  drawEdge(path) {
    const isInner = OPERATORS[path[0]].step === OPERATORS[path[path.length - 1]].step;
    const stops = path.map((index) => this.at(index));
    let line = "";
    stops.forEach(([x, y], i) => {
      const isBend = this.points[path[i]].isBend;
      if (i === 0) { line = `M${x + NODE_W} ${y + NODE_H / 2}`; return; }
      const [px, py] = stops[i - 1];
      const from = px + NODE_W, middle = (from + x) / 2;
      line += `C${middle} ${py + NODE_H / 2} ${middle} ${y + NODE_H / 2} ${x} ${y + NODE_H / 2}`;
      if (isBend) line += `H${x + NODE_W}`;
    });
    this.svg.append(draw("path", { class: `edge${isInner ? " inner" : ""}`, d: line }));
  }

  drawNode(operator, index) {
    const [x, y] = this.at(index);
    const node = draw("g", { class: "node", transform: `translate(${x} ${y})` });
    node.append(draw("title", {}, `${operator.name}: ${describeCut(operator)}`));
    node.append(draw("rect", { class: "frame", width: NODE_W, height: NODE_H, rx: 7 }));
    node.append(draw("text", { x: 8, y: 14 }, shorten(operator.kind, 13)));
    node.append(draw("text", { class: "soft", x: NODE_W - 8, y: 14, "text-anchor": "end" }, operator.axis_name || ""));
    node.append(draw("text", { class: "name", x: 8, y: 27 }, shorten(operator.name, 19)));
    let left = 6;
    for (const [name, percent] of cutPieces(operator)) {
      const width = ((NODE_W - 12) * percent) / 100;
      node.append(draw("rect", { class: name, x: left, y: NODE_H - 11, width: Math.max(0, width - 1), height: 6, rx: 2 }));
      left += width;
    }
    node.addEventListener("click", () => { this.choose(index); openRow(operator.name); });
    this.svg.append(node);
    return node;
  }

  choose(index) {
    if (this.chosen >= 0) this.nodes[this.chosen].classList.remove("chosen");
    this.chosen = index;
    this.nodes[index].classList.add("chosen");
    const operator = OPERATORS[index];
    byId("graph-status").textContent = `${operator.name}, ${operator.kind}, ${describeCut(operator)}, ${formatTime(operator.predicted_us)}`;
    const [x, y] = this.at(index);
    this.box.scrollTo(x * this.scale - this.box.clientWidth / 2, y * this.scale - this.box.clientHeight / 2);
  }

  press(event) {
    if (event.key === "Enter" && this.chosen >= 0) {
      event.preventDefault(); // else the row that gets the focus is closed by the same key
      openRow(OPERATORS[this.chosen].name);
      return;
    }
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose(Math.max(0, Math.min(OPERATORS.length - 1, this.chosen + by)));
  }
}

/** All of the network on one line: how each operator is divided, and which part the picture below shows. */
class Strip {
  constructor(graph) {
    this.graph = graph;
    const count = OPERATORS.length;
    this.svg = draw("svg", { viewBox: `0 0 ${count} 100`, preserveAspectRatio: "none", "shape-rendering": "crispEdges" });
    OPERATORS.forEach((operator, index) => {
      let top = 0;
      for (const [name, percent] of cutPieces(operator)) {
        this.svg.append(draw("rect", { class: name, x: index, y: top, width: 1, height: percent }));
        top += percent;
      }
    });
    this.view = draw("rect", { class: "view", y: 0, height: 100 });
    this.svg.append(this.view);
    this.svg.addEventListener("pointerdown", (event) => this.jump(event));
    byId("graph-strip").append(this.svg);
    this.follow();
  }

  /** Frame the operators that lie in the visible part of the picture. */
  follow() {
    const from = this.graph.box.scrollLeft / this.graph.scale, to = from + this.graph.box.clientWidth / this.graph.scale;
    const seen = OPERATORS.map((_, index) => index).filter((index) => {
      const x = this.graph.at(index)[0];
      return x + NODE_W > from && x < to;
    });
    this.view.setAttribute("x", seen[0] || 0);
    this.view.setAttribute("width", seen.length ? seen[seen.length - 1] - seen[0] + 1 : 0);
  }

  jump(event) {
    const box = this.svg.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * OPERATORS.length);
    this.graph.choose(Math.max(0, Math.min(OPERATORS.length - 1, index)));
  }
}
