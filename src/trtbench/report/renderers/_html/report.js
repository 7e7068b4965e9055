"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const root = document.documentElement;
  const palette = JSON.parse(document.getElementById("palette").textContent);
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => innerWidth < 620 && !printing;
  let printing = false;

  const isDark = () => {
    if (printing) return false;
    return root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
  };

  const say = (text) => {
    const toast = document.querySelector(".toast");
    toast.textContent = text;
    toast.classList.add("on");
    setTimeout(() => toast.classList.remove("on"), 1600);
  };

  // What the page carries is packed; every browser since 2023 can unpack it.
  const unpack = async (id) => {
    const letters = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(letters, (each) => each.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  const kept = {};
  const unpackOnce = (id) => (kept[id] ??= unpack(id));

  const save = (name, text, type) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Pages opened from a file may not use the clipboard; the old way still works there.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    say("Copied");
  };

  // ---- tables -------------------------------------------------------------------------------

  class SortedTable {
    constructor(figure) {
      this.figure = figure;
      this.id = figure.dataset.table;
      this.body = figure.querySelector("tbody");
      this.heads = all("th", figure);
      this.rows = all("tr", this.body);
      this.complete = !figure.dataset.more;
      this.heads.forEach((head, column) => this.makeSortable(head, column));
      const filter = figure.querySelector(".filter");
      filter?.addEventListener("input", () => this.filter(filter.value));
      for (const [name, action] of [
        [".copy-table", () => this.text("\t").then(copy)],
        [".save-table", () => this.text(",").then((text) => save(`${this.id}.csv`, text, "text/csv"))],
        [".more", () => this.load()],
      ]) {
        const button = figure.querySelector(name);
        if (!button) continue;
        button.hidden = false;
        button.addEventListener("click", action);
      }
    }

    makeSortable(head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.title = "Sort";
      head.append(button);
      button.addEventListener("click", () => this.sort(column));
    }

    // The rest of a long table becomes rows when somebody wants them.
    async load() {
      if (this.complete) return;
      this.complete = true;
      const more = JSON.parse(await unpackOnce("rows"))[this.id] ?? [];
      const right = this.heads.map((head) => head.classList.contains("right"));
      for (const cells of more) {
        const row = document.createElement("tr");
        cells.forEach(([text, value], place) => {
          const cell = document.createElement("td");
          cell.textContent = text;
          if (right[place]) cell.className = "right";
          else if (text.length > 40) cell.className = "long";
          if (value !== null) cell.dataset.v = value;
          row.append(cell);
        });
        this.rows.push(row);
      }
      this.body.append(...this.rows);
      this.figure.querySelector(".more").parentElement.remove();
    }

    async sort(column) {
      await this.load();
      const head = this.heads[column];
      const first = head.classList.contains("right") ? "descending" : "ascending";
      const other = { ascending: "descending", descending: "ascending" };
      const now = head.getAttribute("aria-sort");
      const direction = now ? other[now] : first;
      this.heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const compare = new Intl.Collator(undefined, { numeric: true }).compare;
      const keys = new Map(this.rows.map((row) => [row, keyOf(row.cells[column])]));
      this.rows.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        // What is not known comes last, whichever way the others go.
        if (x === null || y === null) return (x === null) - (y === null);
        if (typeof x === "number" && typeof y === "number") return sign * (x - y);
        return sign * compare(String(x), String(y));
      });
      this.body.append(...this.rows);
    }

    async filter(text) {
      await this.load();
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of this.rows) {
        const content = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => content.includes(word));
        shown += !row.hidden;
      }
      const status = this.figure.querySelector(".shown");
      status.textContent = words.length ? `${shown} of ${this.rows.length}` : "";
    }

    async text(separator) {
      await this.load();
      const quote = (cell) => {
        const value = cell.dataset?.v ?? cell.textContent;
        return separator === "," && /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
      };
      const names = this.heads.map((head) => ({ textContent: head.dataset.key }));
      const rows = this.rows.filter((row) => !row.hidden).map((row) => [...row.cells]);
      return [names, ...rows].map((row) => row.map(quote).join(separator)).join("\n") + "\n";
    }
  }

  const keyOf = (cell) => {
    if (cell.dataset.v !== undefined) return Number.isNaN(+cell.dataset.v) ? cell.dataset.v : +cell.dataset.v;
    const text = cell.textContent.trim();
    return text === "" || text.startsWith("–") ? null : text;
  };

  // ---- charts -------------------------------------------------------------------------------

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

  let figures = {};
  const draw = (place) => {
    const spec = figures[place.dataset.figure];
    if (!spec) return;
    const { data, layout, height } = prepared(spec);
    place.style.height = `${height}px`;
    if (printing) Plotly.purge(place);
    const filename = place.dataset.figure;
    place.querySelector(".loading")?.remove();
    const options = { ...config, toImageButtonOptions: { ...config.toImageButtonOptions, filename } };
    Plotly.react(place, data, layout, options);
    place.dataset.drawn = "yes";
  };
  const redraw = () => all(".plot[data-drawn]").forEach(draw);

  // The keyboard reaches what the mouse does: plus and minus zoom, arrows move, 0 shows all.
  const steer = (event) => {
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
    if (event.key === "0") { draw(place); return; }
    Plotly.relayout(place, changes);
  };

  const start = async () => {
    const places = all(".plot");
    if (!places.length) return;
    places.forEach((place) => {
      place.replaceChildren(Object.assign(document.createElement("p"), { className: "loading", textContent: "Drawing …" }));
      place.addEventListener("keydown", steer);
    });
    try {
      const [script, specs] = await Promise.all([unpackOnce("plotly"), unpackOnce("figures")]);
      figures = JSON.parse(specs);
      const element = document.createElement("script");
      element.textContent = script;
      document.head.append(element);
    } catch {
      places.forEach((place) => {
        place.replaceChildren(Object.assign(document.createElement("p"), {
          className: "failed", textContent: "This browser is too old to draw the chart; its numbers are in the tables.",
        }));
        place.style.height = "auto";
      });
      return;
    }
    // What is seen is drawn first; the rest follows, so that printing finds it.
    const waiting = new Set(places);
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting && waiting.delete(entry.target)) draw(entry.target);
    }, { rootMargin: "300px" });
    places.forEach((place) => seen.observe(place));
    const next = () => {
      const [place] = waiting;
      if (!place) { seen.disconnect(); root.dataset.ready = "yes"; return; }
      waiting.delete(place);
      draw(place);
      setTimeout(next, 0);
    };
    setTimeout(next, 50);
    // A chart inside something folded away has no width until it is opened.
    all("details").forEach((each) => each.addEventListener("toggle", () => all(".plot[data-drawn]", each).forEach(draw)));
  };

  // ---- page ---------------------------------------------------------------------------------

  const theme = document.querySelector(".theme");
  const label = () => { theme.textContent = `Theme: ${root.dataset.theme ?? "auto"}`; };
  theme.hidden = false;
  label();
  theme.addEventListener("click", () => {
    const next = { undefined: isDark() ? "light" : "dark", dark: "light", light: "dark" }[root.dataset.theme];
    root.dataset.theme = next;
    try { localStorage.setItem("trtbench-theme", next); } catch { /* a page from a mail may not keep anything */ }
    label();
    redraw();
  });
  prefersDark.addEventListener("change", redraw);

  all("figure.table").forEach((figure) => new SortedTable(figure));
  all(".copy-code").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => copy(button.parentElement.querySelector("code").textContent));
  });
  all(".save").forEach((button) => button.addEventListener("click", async () => {
    save(button.dataset.name, await unpackOnce(button.dataset.blob), "text/plain");
  }));

  if (innerWidth < 1000) document.querySelector(".toc details").open = false;
  const links = new Map(all(".toc a").map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  all("main > section").forEach((section) => watch.observe(section));

  addEventListener("beforeprint", () => {
    printing = true;
    redraw();
  });
  addEventListener("afterprint", () => { printing = false; redraw(); });

  start();
})();
