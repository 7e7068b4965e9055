// Line charts as SVG, drawn here because two runs may meet only in the browser.
"use strict";
const charts = (() => {
  const W = 640, H = 300, LEFT = 64, RIGHT = 14, TOP = 12, BOTTOM = 46;
  const svg = (name, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  const ends = (values) => {
    const known = values.filter((value) => value !== null && Number.isFinite(value));
    if (!known.length) return [0, 1];
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const room = high > low ? 0.04 * (high - low) : Math.abs(low) * 0.05 || 1;
    return [low - room, high + room];
  };

  const steps = ([low, high], count) => {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= rough) * power;
    const first = Math.ceil(low / step) * step;
    return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, k) => +(first + k * step).toPrecision(12));
  };

  // Six dates at most, each on midnight where the range has several days.
  const days = ([low, high]) => {
    const step = Math.max(1, Math.ceil((high - low) / 86400 / 6)) * 86400;
    return high - low < 2 * 86400 ? steps([low, high], 4) : steps([low, high], 6).map((at) => Math.round(at / step) * step).filter((at, k, all) => at >= low && at <= high && all.indexOf(at) === k);
  };
  const dateText = (seconds, range) => {
    const text = new Date(seconds * 1000).toISOString();
    return range[1] - range[0] < 2 * 86400 ? text.slice(5, 16).replace("T", " ") : text.slice(0, 10);
  };

  // A chart with a title under the pointer for each point; click is called with the point's place.
  const draw = (spec, { titles = {}, click } = {}) => {
    const all = spec.lines.filter((line) => line.x.length);
    const ranges = { x: ends(all.flatMap((line) => line.x)), y: ends(all.flatMap((line) => line.y)) };
    const at = (x) => LEFT + ((x - ranges.x[0]) / (ranges.x[1] - ranges.x[0])) * (W - LEFT - RIGHT);
    const up = (y) => H - BOTTOM - ((y - ranges.y[0]) / (ranges.y[1] - ranges.y[0])) * (H - TOP - BOTTOM);
    const xText = (x) => (spec.x.time ? dateText(x, ranges.x) : numberText(x));
    const root = svg("svg", { class: "plot", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": spec.title });
    for (const y of steps(ranges.y, 5)) {
      root.append(svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: up(y), y2: up(y) }),
        svg("text", { x: LEFT - 6, y: up(y) + 4, "text-anchor": "end" }, numberText(y)));
    }
    for (const x of spec.x.time ? days(ranges.x) : steps(ranges.x, 6)) {
      root.append(svg("text", { x: at(x), y: H - BOTTOM + 18, "text-anchor": "middle" }, xText(x)));
    }
    root.append(svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, spec.x.label),
      svg("text", { transform: `translate(14 ${(H - BOTTOM + TOP) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.y.label));
    all.forEach((line) => {
      const colour = `var(--${line.colour})`;
      const places = line.x.map((x, k) => [x, line.y[k], k]).filter(([, y]) => y !== null);
      if (["line", "dotted", "both"].includes(line.style)) {
        const path = line.x.map((x, k) => (line.y[k] === null ? "" : `${k && line.y[k - 1] !== null ? "L" : "M"}${at(x).toFixed(1)} ${up(line.y[k]).toFixed(1)}`)).join("");
        root.append(svg("path", { d: path, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": line.style === "dotted" ? "2 3" : "none" }));
      }
      const marks = ["points", "ring", "both"].includes(line.style);
      const name = line.name ? `${line.name}: ` : "";
      places.forEach(([x, y, k]) => {
        const mark = svg("circle", { cx: at(x).toFixed(1), cy: up(y).toFixed(1), r: marks ? 3 : 5, fill: marks && line.style !== "ring" ? colour : "transparent", stroke: line.style === "ring" ? colour : "none" },
          svg("title", {}, titles[line.name]?.[k] ?? `${name}${numberText(y)} · ${spec.x.label} ${xText(x)}`));
        if (click && line.style === "points") { mark.classList.add("link"); mark.addEventListener("click", () => click(k)); }
        root.append(mark);
        if (line.texts[k]) root.append(svg("text", { x: at(x) + 6, y: up(y) + 14, class: "dim" }, line.texts[k]));
      });
    });
    return root;
  };
  return { draw };
})();
