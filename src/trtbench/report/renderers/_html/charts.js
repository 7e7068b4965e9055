// Figures on a page: a description names colours and sizes, which become those of the scheme here.
"use strict";
const charts = (() => {
  const root = document.documentElement;
  const palette = JSON.parse(document.getElementById("palette").textContent);
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => innerWidth < 620 && !printing;
  let printing = false;

  const isDark = () => {
    if (printing) return false;
    return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
  };

  const shade = (name) => {
    const [token, alpha] = name.slice(1).split("/");
    const colour = palette[token][isDark() ? 1 : 0];
    if (!alpha) return colour;
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgba(${parts.join(",")},${alpha})`;
  };

  // Colours are names in the description; here they become those of the scheme.
  const painted = (value) => {
    if (typeof value === "string") return value.startsWith("@") ? shade(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(painted);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, painted(each)]));
  };

  const cut = (text, length) => {
    if (text.length <= length || text.includes("&")) return text;
    const head = Math.ceil(length * 0.6);
    return `${text.slice(0, head)}…${text.slice(-(length - head - 1))}`;
  };

  const prepared = (spec) => {
    const { data, layout } = painted(spec);
    const grid = { gridcolor: shade("@pale"), linecolor: shade("@grey"), zerolinecolor: shade("@pale") };
    for (const key of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
      const axis = { automargin: true, ticks: "outside", tickcolor: shade("@pale"), ...grid, ...layout[key] };
      axis.title = { standoff: 10, ...axis.title, font: { size: narrow() ? 12 : 14 } };
      layout[key] = axis;
    }
    const names = data.filter((trace) => trace.showlegend !== false && trace.name).length;
    if (narrow()) {
      if (layout.yaxis?.ticktext) layout.yaxis.ticktext = layout.yaxis.ticktext.map((text) => cut(text, 18));
      data.forEach((trace) => { if (trace.name) trace.name = cut(trace.name, 34); });
      (layout.annotations ?? []).forEach((note) => { note.font = { ...note.font, size: 11 }; });
      if (layout.xaxis && !layout.xaxis.tickvals) layout.xaxis.nticks = 5;
    }
    return {
      data,
      // On paper, what is higher than a page would be cut.
      height: printing ? Math.min(spec.height, 620) : spec.height + (narrow() && names > 2 ? 18 * names : 0),
      layout: {
        ...layout,
        font: { family: getComputedStyle(document.body).fontFamily, size: narrow() ? 11 : 13, color: shade("@ink") },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: narrow() ? { l: 44, r: 12, t: 28, b: 44 } : { l: 64, r: 24, t: 32, b: 52 },
        legend: { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", ...layout.legend },
        hoverlabel: { align: "left", namelength: -1 },
        // Plotly would make it half black from a background that is transparent.
        modebar: { bgcolor: shade("@paper/0.85"), color: shade("@grey"), activecolor: shade("@ink") },
        // Where fingers scroll, dragging must not zoom.
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
        ...(printing ? { width: 680 } : { autosize: true }),
      },
    };
  };

  const config = {
    responsive: true, displaylogo: false, scrollZoom: false, doubleClick: "reset",
    showTips: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" }, sendData: false, plotlyServerURL: "",
  };

  const draw = (place, spec, filename = "chart") => {
    const { data, layout, height } = prepared(spec);
    place.style.height = `${height}px`;
    if (printing) Plotly.purge(place);
    place.querySelector(".loading")?.remove();
    const options = { ...config, toImageButtonOptions: { ...config.toImageButtonOptions, filename } };
    Plotly.react(place, data, layout, options);
    place.dataset.drawn = "yes";
  };

  // The keyboard reaches what the mouse does: plus and minus zoom, arrows move, 0 shows all.
  const steer = (redraw) => (event) => {
    const place = event.currentTarget;
    const step = { ArrowLeft: -0.15, ArrowRight: 0.15 }[event.key];
    const factor = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 }[event.key];
    const layout = place._fullLayout;
    if (!layout || (!step && !factor && event.key !== "0")) return;
    event.preventDefault();
    const changes = {};
    for (const key of Object.keys(layout).filter((name) => /^xaxis\d*$/.test(name))) {
      if (event.key === "0") { changes[`${key}.autorange`] = true; continue; }
      const ends = layout[key].range.map((end) => layout[key].r2l(end));
      const [middle, half] = [(ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2];
      const at = middle + (step ?? 0) * 2 * half;
      changes[`${key}.range`] = [at - half * (factor ?? 1), at + half * (factor ?? 1)].map((end) => layout[key].l2r(end));
    }
    if (event.key === "0") { redraw(place); return; }
    Plotly.relayout(place, changes);
  };

  const print = (on) => { printing = on; };
  return { draw, steer, print, isDark, prefersDark };
})();
