// Pictures as SVG: dots and lines on two axes, drawn once for the width there is.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const ROOM = { left: 62, right: 16, top: 14, bottom: 34 };

function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function niceTicks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((each) => each * power >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return ticks.map((tick) => (Math.abs(tick) < step * 1e-6 ? 0 : tick));
}

// Write a tick with as many decimals as its step needs, so that even steps look even.
function tickText(tick, ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(tick) || 1;
  let decimals = 0;
  while (decimals < 9 && Math.abs(step * 10 ** decimals - Math.round(step * 10 ** decimals)) > 1e-6 * step * 10 ** decimals) decimals += 1;
  return tick.toFixed(decimals).replace("-", "−");
}

function timeTicks(low, high, count) {
  const day = 86400e3;
  const span = high - low;
  if (span < 2 * day) return niceTicks(low, high, count);
  const ticks = [];
  const months = Math.max(1, Math.ceil(span / (30.4 * day) / count));
  if (span < 45 * day) {
    const step = Math.max(1, Math.ceil(span / day / count)) * day;
    for (let tick = Math.ceil(low / day) * day; tick <= high; tick += step) ticks.push(tick);
    return ticks;
  }
  const at = new Date(low);
  for (let k = 1; k < 600; k += months) {
    const tick = Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + k, 1);
    if (tick > high) break;
    ticks.push(tick);
  }
  return ticks.length ? ticks : [low, high];
}

function timeTickText(tick, span) {
  const text = new Date(tick).toISOString();
  if (span < 2 * 86400e3) return text.slice(5, 16).replace("T", " ");
  return span < 45 * 86400e3 ? text.slice(5, 10) : text.slice(0, 7);
}

// A chart: {x: {label, kind: "time"|"count", prefix}, y: {unit, zero}, lines, dots, marks}.
// A line has points [[x, y], ...], a colour and perhaps dashes; a dot has x, y, a title and a link.
function chart({ x, y, lines = [], dots = [], marks = [], height = 240, label }) {
  const width = Math.max(320, Math.min(640, window.innerWidth - 56)); // words keep their size on small screens
  const xs = [...lines.flatMap((line) => line.points.map((p) => p[0])), ...dots.map((dot) => dot.x)];
  const ys = [...lines.flatMap((line) => line.points.map((p) => p[1])), ...dots.map((dot) => dot.y)];
  const [xLow, xHigh] = spread(xs, 0.02);
  const [yLow, yHigh] = spread(ys, 0.08, y.zero);
  const px = (v) => ROOM.left + ((v - xLow) / (xHigh - xLow)) * (width - ROOM.left - ROOM.right);
  const py = (v) => height - ROOM.bottom - ((v - yLow) / (yHigh - yLow)) * (height - ROOM.top - ROOM.bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "plot" });
  const rungs = niceTicks(yLow, yHigh, 4);
  for (const tick of rungs) {
    root.append(svg("line", { class: "grid", x1: ROOM.left, x2: width - ROOM.right, y1: py(tick), y2: py(tick) }));
    root.append(text(ROOM.left - 8, py(tick) + 4, tickText(tick, rungs) + (y.unit || ""), "end"));
  }
  const ticks = x.kind === "time" ? timeTicks(xLow, xHigh, 6) : niceTicks(xLow, xHigh, 6).filter((tick) => x.kind !== "count" || Number.isInteger(tick));
  for (const tick of ticks) {
    const words = x.kind === "time" ? timeTickText(tick, xHigh - xLow) : (x.prefix || "") + tickText(tick, ticks);
    root.append(text(px(tick), height - ROOM.bottom + 18, words, "middle"));
    root.append(svg("line", { class: "tick", x1: px(tick), x2: px(tick), y1: height - ROOM.bottom, y2: height - ROOM.bottom + 4 }));
  }
  if (x.label) root.append(text((ROOM.left + width - ROOM.right) / 2, height - 2, x.label, "middle"));
  root.append(svg("line", { class: "axis", x1: ROOM.left, x2: width - ROOM.right, y1: height - ROOM.bottom, y2: height - ROOM.bottom }));
  for (const mark of marks) root.append(...markNodes(mark, px, py, height));
  for (const line of lines) root.append(lineNode(line, px, py));
  for (const dot of dots) root.append(dotNode(dot, px, py));
  return root;
}

function spread(values, margin, zero) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (zero) low = Math.min(low, 0);
  if (!(high > low)) { const half = Math.abs(low) * 0.1 || 1; low -= half; high += half; }
  const room = (high - low) * margin;
  return [zero && low === 0 ? 0 : low - room, high + room];
}

function text(x, y, words, anchor, name = "words") {
  const node = svg("text", { x, y, "text-anchor": anchor, class: name });
  node.textContent = words;
  return node;
}

function lineNode(line, px, py) {
  const points = line.points.map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`).join(" ");
  return svg("polyline", { points, fill: "none", class: line.name || "line", "stroke-dasharray": line.dashes, style: line.colour ? `stroke: ${line.colour}` : null });
}

function dotNode(dot, px, py) {
  const circle = svg("circle", { cx: px(dot.x).toFixed(1), cy: py(dot.y).toFixed(1), r: dot.r || 3.4, class: dot.name || "dot", style: dot.colour ? `fill: ${dot.colour}` : null });
  const title = svg("title");
  title.textContent = dot.title || "";
  circle.append(title);
  if (!dot.href) return circle;
  const anchor = svg("a", { href: dot.href });
  anchor.append(circle);
  return anchor;
}

function markNodes(mark, px, py, height) {
  const at = px(mark.x);
  const nodes = [svg("line", { class: `mark ${mark.name}`, x1: at, x2: at, y1: ROOM.top, y2: height - ROOM.bottom })];
  nodes.push(text(at + 5, ROOM.top + 9, mark.text, "start", `words ${mark.name}`));
  return nodes;
}

const COLOURS = ["var(--blue)", "var(--vermillion)", "var(--green)", "var(--purple)", "var(--orange)", "var(--sky)"];

function figure(picture, title, ...notes) {
  return el("figure", { class: "chart" }, el("figcaption", {}, el("strong", {}, title)), picture, ...notes);
}

function legend(names) {
  return el("p", { class: "legend" }, names.map((name, k) =>
    el("span", {}, el("i", { style: `background: ${COLOURS[k % COLOURS.length]}` }), name)));
}
