// The list of runs: search, filters, order, and two runs picked for a comparison.
"use strict";

const PART = 100;
const FILTERS = [
  ["network", "Model"], ["runtime", "Runtime"], ["precision", "Precision"], ["batch", "Batch"],
  ["machine", "Machine"], ["tag", "Tag"], ["state", "State"],
];
const REPORTED = "as another tool printed it, without samples; a mean where it printed no median";
const COLUMNS = [
  { key: "at", title: "When", cell: (run) => runLink(run.id, minuteText(run.at)) },
  { key: "model", title: "Model", cell: (run) => el("span", { class: "name" }, run.model) },
  { key: "runtime", title: "Runtime", cell: (run) => run.runtime },
  { key: "precision", title: "Precision", cell: (run) => run.precision || "–" },
  { key: "batch", title: "Batch", right: true, cell: (run) => String(run.batch ?? "unknown") },
  { key: "median", title: "Median", right: true, cell: (run) => run.failed
    ? el("span", { class: "bad", title: run.failed }, "failed")
    : run.reported ? el("span", { title: REPORTED }, `${timeText(run.median)}*`) : timeText(run.median) },
  { key: "items", title: "Items/s", right: true, cell: (run) => numberText(run.items) },
  { key: "device", title: "Where", cell: (run) => el("span", { title: run.machine }, run.device || run.machine) },
  { key: "tags", title: "Tags", cell: (run) => el("span", {}, run.tags.map((tag) => el("span", { class: "tag" }, tag)),
    run.warnings ? el("span", { class: "tag warn", title: "findings that are warnings or errors" }, `${run.warnings} ⚠`) : null) },
];

function valueOf(run, key) {
  if (key === "tag") return run.tags;
  if (key === "state") return [run.failed ? "failed" : run.warnings ? "with warnings" : "clean"];
  const value = run[key];
  return value === null || value === undefined ? [] : [String(value)];
}

function haystack(run) {
  if (!run.words) {
    const parts = [run.id, run.model, run.runtime, run.precision, `batch ${run.batch ?? "unknown"}`, run.protocol, run.machine, run.device, run.at, run.failed, ...run.tags];
    run.words = parts.filter(Boolean).join(" ").toLowerCase();
  }
  return run.words;
}

function chosenRuns(runs, state) {
  const matches = tables.matcher(state.get("q") || "");
  const wanted = FILTERS.map(([key]) => [key, state.get(key)]).filter(([, value]) => value);
  const since = state.get("since");
  return runs.filter((run) =>
    matches(haystack(run)) &&
    wanted.every(([key, value]) => valueOf(run, key).includes(value)) &&
    (!since || run.at >= since));
}

function ordered(runs, order) {
  const down = order.startsWith("-");
  const key = down ? order.slice(1) : order;
  return tables.ordered(runs, (run) => run[key], down);
}

function picked() { return (readState().get("pick") || "").split(",").filter((id) => site.byId.has(id)); }

function pick(id, on) {
  const now = picked().filter((each) => each !== id);
  if (on) now.push(id);
  writeState({ pick: now.slice(-2).join(",") });
}

function runTable(runs, { fixed = [] } = {}) {
  const controls = FILTERS.filter(([key]) => !fixed.includes(key));
  const root = el("section", { class: "runs" });
  const status = el("p", { class: "dim", role: "status", id: "shown" });
  const body = el("tbody");
  const head = el("tr", {}, el("th", { scope: "col" }, el("span", { class: "visually-hidden" }, "Compare")));
  const more = el("button", { type: "button", onclick: () => { writeState({ rows: limit() + PART * 5 }); draw(); } });
  const tray = el("div", { class: "tray", hidden: true });
  const limit = () => Number(readState().get("rows")) || PART;
  const order = () => readState().get("sort") || "-at";

  for (const column of COLUMNS) {
    const button = el("button", { type: "button", onclick: () => {
      const now = order();
      writeState({ sort: now === column.key ? `-${column.key}` : now === `-${column.key}` ? column.key : ["at", "items"].includes(column.key) ? `-${column.key}` : column.key });
      draw();
    } }, column.title);
    head.append(el("th", { scope: "col", class: column.right ? "right" : null, "data-key": column.key }, button));
  }

  function row(run, chosen) {
    const box = el("input", { type: "checkbox", "aria-label": `Pick ${run.id}`, onchange: (event) => { pick(run.id, event.target.checked); draw(); } });
    box.checked = chosen.includes(run.id);
    box.disabled = Boolean(run.failed);
    return el("tr", { "data-run": run.id, class: box.checked ? "picked" : null }, el("td", {}, box),
      COLUMNS.map((column) => el("td", { class: column.right ? "right" : null }, column.cell(run))));
  }

  function draw() {
    const state = readState();
    const found = ordered(chosenRuns(runs, state), order());
    const chosen = picked();
    body.replaceChildren(...found.slice(0, limit()).map((run) => row(run, chosen)));
    for (const cell of head.querySelectorAll("[data-key]")) {
      const now = order();
      const key = cell.getAttribute("data-key");
      cell.setAttribute("aria-sort", now === key ? "ascending" : now === `-${key}` ? "descending" : "none");
    }
    status.textContent = found.length === runs.length ? `${runs.length} runs` : `${found.length} of ${runs.length} runs`;
    more.hidden = found.length <= limit();
    more.textContent = `Show more (${found.length - limit()} hidden)`;
    drawTray(chosen);
    syncControls(state);
  }

  function drawTray(chosen) {
    tray.hidden = !chosen.length;
    const names = chosen.map((id) => el("li", {}, runName(site.byId.get(id)), " ", el("span", { class: "dim" }, minuteText(site.byId.get(id).at))));
    const go = chosen.length === 2
      ? el("a", { class: "button", id: "compare", href: link("compare.html", { a: chosen[0], b: chosen[1] }) }, "Compare these two")
      : el("span", { class: "dim" }, "Pick one more run to compare");
    tray.replaceChildren(el("ol", {}, names), el("div", { class: "actions" }, go, el("button", { type: "button", class: "quiet", onclick: () => { writeState({ pick: null }); draw(); } }, "Clear")));
  }

  function syncControls(state) {
    for (const control of root.querySelectorAll("[data-filter]")) {
      const value = state.get(control.getAttribute("data-filter")) || "";
      if (control.value !== value) control.value = value;
    }
  }

  const apply = (event) => { writeState({ [event.target.getAttribute("data-filter")]: event.target.value, rows: null }); draw(); };
  const search = el("input", { type: "search", "data-filter": "q", placeholder: "Search runs: model, machine, tag, id…", "aria-label": "Search runs", oninput: apply });
  const selects = controls.map(([key, title]) => filterSelect(runs, key, title, apply));
  const since = el("label", {}, "Since", el("input", { type: "date", "data-filter": "since", onchange: apply }));
  const clear = el("button", { type: "button", class: "quiet", onclick: () => {
    writeState(Object.fromEntries([...FILTERS.map(([key]) => [key, null]), ["q", null], ["since", null], ["rows", null]])); draw(); } }, "Reset");
  root.append(
    el("div", { class: "controls" }, search, selects, since, clear), status,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, el("table", {}, el("thead", {}, head), body)),
    el("p", {}, more), tray);
  draw();
  window.addEventListener("hashchange", draw);
  return root;
}

function filterSelect(runs, key, title, apply) {
  const values = [...new Set(runs.flatMap((run) => valueOf(run, key)))];
  values.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const same = values.length === 1 && runs.every((run) => valueOf(run, key).length);
  if (!values.length || same) return null;
  const options = [el("option", { value: "" }, "All"), ...values.map((value) => el("option", { value }, value))];
  return el("label", {}, title, el("select", { "data-filter": key, onchange: apply }, options));
}
