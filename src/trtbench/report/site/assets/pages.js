// What each page shows.
"use strict";

const MOST_CHARTS = 8;

function showRuns() { view(runTable(site.runs)); }

// ---- models

function showModels() {
  const names = Object.keys(site.pages).sort();
  view(el("div", { class: "cards" }, names.map(modelCard)));
}

function modelCard(name) {
  const runs = site.runs.filter((run) => run.network === name);
  const newest = runs.reduce((a, b) => (a.at > b.at ? a : b));
  const series = site.series.filter((each) => each.network === name);
  const changes = series.flatMap((each) => each.changes);
  const best = runs.filter((run) => run.items).reduce((a, b) => (a && a.items >= b.items ? a : b), null);
  const last = changes.reduce((a, b) => (a && a.at > b.at ? a : b), null);
  return el("article", { class: "card" },
    el("h2", {}, networkLink(name)),
    el("p", {}, `${runs.length} runs, ${series.length} series, newest ${dayText(newest.at)}`),
    best ? el("p", {}, "Most items/s: ", runLink(best.id, numberText(best.items)), el("span", { class: "dim" }, ` ${best.runtime} ${best.precision || ""} batch ${best.batch ?? "unknown"}`)) : null,
    el("p", {}, last ? [`Last change `, changeWords(last), el("span", { class: "dim" }, ` ${dayText(last.at)}`)] : el("span", { class: "dim" }, "No change of level")));
}

function changeWords(change) {
  return el("span", { class: change.change > 0 ? "bad" : "good" }, percentText(change.change));
}

// ---- one model

function showModel(network) {
  const runs = site.runs.filter((run) => run.network === network);
  const series = site.series.filter((each) => each.network === network);
  const all = readState().get("series") === "all";
  const shown = all ? series : series.slice(0, MOST_CHARTS);
  const more = series.length > shown.length
    ? el("p", {}, el("button", { type: "button", onclick: () => { writeState({ series: "all" }); showModel(network); } }, `Show all ${series.length} series`)) : null;
  view(
    series.length ? el("section", {}, el("h2", {}, "Over time"), el("div", { class: "charts" }, shown.map(seriesFigure)), more) : null,
    el("section", {}, el("h2", {}, "Runs"), runTable(runs, { fixed: ["network"] })));
}

// ---- pictures

const COLOURS = ["blue", "vermillion"];

// Runs that meet only on this page: the chart is described with the site, and gets its numbers here.
function filled(name, lines, unit = "") {
  const spec = JSON.parse(JSON.stringify(site.figures[name]).replaceAll("{unit}", unit));
  lines.forEach((line, k) => Object.assign(spec.lines[k], line));
  return figure(spec, spec.title);
}

function figure(spec, title, { notes = [], ...options } = {}) {
  return el("figure", { class: "chart" }, el("figcaption", {}, el("strong", {}, title)), charts.draw(spec, options), ...notes);
}

function legend(names) {
  return el("p", { class: "legend" }, names.map((name, k) => el("span", {}, el("i", { style: `background: var(--${COLOURS[k]})` }), name)));
}

function seriesFigure(series) {
  const runs = series.runs.map((id) => site.byId.get(id));
  const titles = { runs: runs.map((run) => [minuteText(run.at), timeText(run.median) + (run.reported ? "*" : ""), ...run.tags].join("\n")) };
  const click = (place) => { location.href = link("run.html", { id: series.runs[place] }); };
  return figure(series.figure, series.name, { notes: [changeList(series)].filter(Boolean), titles, click });
}

function changeList(series) {
  if (!series.changes.length) return null;
  return el("ul", { class: "changes" }, series.changes.map((change) => el("li", {},
    runLink(change.run, dayText(change.at)), " ", changeWords(change),
    ` ${timeText(change.before, 3)} → ${timeText(change.after, 3)}, ${change.confirmed ? "confirmed" : "not yet confirmed"}. `,
    change.causes.length
      ? ["Changed with it: ", change.causes.map(([name, before, after], k) => [k ? "; " : "", el("b", {}, name), ` ${before} → ${after}`]).flat()].flat()
      : "Nothing that was recorded changed with it.",
    " ", compareLink(series.runs[change.index - 1], change.run, "compare"))));
}

// ---- one run

async function showRun() {
  const id = readState().get("id");
  const run = site.byId.get(id);
  if (!run) { view(el("p", { class: "bad" }, id ? `There is no run ${id} here.` : "No run was named."), el("p", {}, el("a", { href: "index.html" }, "All runs"))); return; }
  document.querySelector("h1").textContent = runName(run);
  document.title = `${runName(run)} · ${site.title}`;
  let data;
  try { data = await loadRun(id); } catch (problem) { view(el("p", { class: "bad" }, problem.message)); return; }
  const head = el("p", { class: "dim" }, `${minuteText(run.at)} · ${run.machine}${run.device ? ` · ${run.device}` : ""} · `, networkLink(run.network), ` · run ${run.id}`);
  const tags = el("p", {}, data.tags.map((tag) => el("span", { class: "tag" }, tag)));
  view(head, data.tags.length ? tags : null, data.failed ? failedParts(data) : finishedParts(run, data), factsPart(data));
}

function failedParts(data) {
  return el("section", {}, el("p", { class: "bad" }, `Failed in stage ${data.stage}: ${data.failed}`), data.log.length ? el("pre", {}, data.log.join("\n")) : null);
}

function finishedParts(run, data) {
  return el("div", {}, numberCards(data), findingsPart(data), statisticsPart(data), el("div", { class: "charts" },
    data.samples ? figure(data.samples, `${data.headline} time, sample by sample`) : null,
    data.ranks.length ? ranksChart([data]) : null), neighbours(run));
}

function numberCards(data) {
  const main = data.columns[0];
  const cards = [
    ["Median", main ? timeText(main.median) : "–", data.interval ? `95 % over launches: ${timeText(data.interval[0])} to ${timeText(data.interval[1])}` : "repeatability unknown (1 launch)"],
    ["p99", main ? timeText(main.p99) : "–", main && main.p99 === null ? "too few samples" : `${data.count} samples`],
    ["Throughput", `${numberText(data.items)} items/s`, `${numberText(data.queries)} batches/s`],
    ...Object.entries(data.scores).map(([name, [value, low, high]]) => [name, numberText(value), low === null || low === undefined ? "" : `${numberText(low)} to ${numberText(high)}`]),
  ];
  return el("div", { class: "cards" }, cards.map(([title, value, detail]) => el("article", { class: "card" }, el("p", { class: "dim" }, title), el("p", { class: "big" }, value), el("p", { class: "dim" }, detail))));
}

function findingsPart(data) {
  if (!data.findings.length) return null;
  return el("section", {}, el("h2", {}, "Findings"), el("ul", { class: "findings" }, data.findings.map(([severity, code, message, remedy]) =>
    el("li", { class: severity }, el("b", {}, `${severity} ${code}`), ` ${message}`, remedy ? el("span", { class: "dim" }, ` → ${remedy}`) : null))));
}

const STATISTICS = ["median", "mean", "std", "min", "p90", "p95", "p99", "p99.9", "max"];

function statisticsPart(data) {
  const head = el("tr", {}, ["", ...STATISTICS, "n"].map((name) => el("th", { scope: "col", class: name ? "right" : null }, name)));
  const rows = data.columns.map((column) => el("tr", {}, el("td", {}, column.name), STATISTICS.map((name) => el("td", { class: "right" }, timeText(column[name]))), el("td", { class: "right" }, String(column.n))));
  return el("section", {}, el("h2", {}, "Statistics"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Statistics" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows))));
}

function ranksChart(list) {
  const [unit, scale] = unitOf(list[0].ranks[50]);
  const high = Math.max(...list.map((data) => data.ranks[99]));
  return filled("ranks", list.map((data) => ({ x: data.ranks.map((value) => Math.min(value, high) / scale), y: data.ranks.map((_, rank) => rank) })), unit);
}

function neighbours(run) {
  const series = site.series.find((each) => each.runs.includes(run.id));
  if (!series) return null;
  const place = series.runs.indexOf(run.id);
  const before = series.runs[place - 1];
  const after = series.runs[place + 1];
  return el("p", {}, "Same series: ", before ? [compareLink(before, run.id, "compare with the run before"), " · "] : null, after ? [compareLink(run.id, after, "compare with the next"), " · "] : null, networkLink(run.network));
}

function factsPart(data) {
  const facts = { "Model file": data.path, "SHA-256": data.sha256, Size: data.size ? sizeText(data.size) : null, ...data.options, ...data.environment };
  const pairs = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined);
  return el("section", {}, el("h2", {}, "Conditions"), el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value))))),
    data.command ? el("pre", {}, data.command) : null);
}

// ---- two runs

async function showCompare() {
  const state = readState();
  const ids = [state.get("a"), state.get("b")];
  const pickers = el("div", { class: "pickers" }, ["a", "b"].map((side, k) => picker(side, ids[k])),
    el("button", { type: "button", id: "swap", onclick: () => { writeState({ a: ids[1], b: ids[0] }); showCompare(); } }, "Swap"));
  if (!ids.every((id) => site.byId.has(id))) { view(pickers, el("p", { class: "dim" }, "Choose two runs: type a part of a model, a machine or an id.")); return; }
  let both;
  try { both = await Promise.all(ids.map(loadRun)); } catch (problem) { view(pickers, el("p", { class: "bad" }, problem.message)); return; }
  const runs = ids.map((id) => site.byId.get(id));
  if (both.some((data) => data.failed)) { view(pickers, el("p", { class: "bad" }, "A run that failed has nothing to compare.")); return; }
  const differing = differences(both);
  const blocking = differing.filter(([name, x, y]) => site.blocking.includes(name) && x !== null && y !== null);
  view(pickers, el("div", { class: "pair" }, runs.map((run, k) => el("p", {}, el("i", { style: `background: var(--${COLOURS[k]})` }), runLink(run.id, runName(run)), el("span", { class: "dim" }, ` ${minuteText(run.at)} · ${run.machine}`)))),
    blocking.length ? refusal(blocking) : ratios(both), legend(["A", "B"]), el("div", { class: "charts" },
      ranksChart(both), blocking.length ? null : shiftChart(both),
      both.some((data) => data.launches.length > 1) ? launchChart(both) : null),
    differencesPart(differing, both), el("p", {}, "For a verdict, measure both in turn: ", el("code", {}, `trtbench compare ${runs[0].model} ${runs[1].model}`)));
}

function picker(side, id) {
  const run = site.byId.get(id);
  const input = el("input", { type: "search", id: `pick-${side}`, value: run ? `${runName(run)} ${minuteText(run.at)}` : "", placeholder: "Search a run", autocomplete: "off", role: "combobox", "aria-expanded": "false", "aria-controls": `list-${side}` });
  const list = el("ul", { class: "choices", id: `list-${side}`, hidden: true });
  const choose = (each) => { writeState({ [side]: each.id }); showCompare(); };
  const fill = () => {
    const matches = tables.matcher(input.value);
    const found = site.runs.filter((each) => !each.failed && matches(haystack(each))).slice(0, 12);
    list.replaceChildren(...found.map((each) => el("li", {}, el("button", { type: "button", onclick: () => choose(each) }, `${runName(each)} `, el("span", { class: "dim" }, `${minuteText(each.at)} · ${each.machine}`)))));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
  };
  input.addEventListener("focus", () => { input.select(); });
  input.addEventListener("input", fill);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") list.hidden = true;
    if (event.key === "Enter" && list.querySelector("button")) list.querySelector("button").click();
    if (event.key === "ArrowDown" && list.querySelector("button")) { list.querySelector("button").focus(); event.preventDefault(); }
  });
  return el("div", { class: "picker" }, el("label", { for: `pick-${side}` }, side.toUpperCase()), input, list);
}

function differences([a, b]) {
  const names = [...new Set([...Object.keys(a.basis), ...Object.keys(b.basis)])];
  const value = (data, name) => (data.basis[name] === undefined ? null : data.basis[name]);
  return names.map((name) => [name, value(a, name), value(b, name)]).filter(([, x, y]) => x !== y);
}

function refusal(blocking) {
  return el("section", { class: "refusal", id: "refusal" }, el("p", {}, el("b", {}, "Not comparable: a ratio of these two would mean nothing.")),
    el("ul", {}, blocking.map(([name, x, y]) => el("li", {}, `${name}: ${x} against ${y}`))));
}

function ratios([a, b]) {
  const [first, second] = [a.columns[0], b.columns[0]];
  const cards = ["median", "mean", "p99"].map((name) => {
    const [x, y] = [first[name], second[name]];
    const known = x && y;
    return el("article", { class: "card", "data-ratio": name }, el("p", { class: "dim" }, `${name} of ${a.headline}`),
      el("p", { class: "big" }, known ? percentText(y / x - 1) : "–"),
      el("p", { class: "dim" }, known ? `${timeText(x)} → ${timeText(y)}` : "too few samples"));
  });
  const rate = el("article", { class: "card", "data-ratio": "items" }, el("p", { class: "dim" }, "items/s"),
    el("p", { class: "big" }, a.items && b.items ? percentText(b.items / a.items - 1) : "–"),
    el("p", { class: "dim" }, `${numberText(a.items)} → ${numberText(b.items)}`));
  return el("section", {}, el("div", { class: "cards" }, cards, rate), el("p", { class: "dim" }, "Measured apart: part of a difference may be the day, not the model."));
}

function shiftChart([a, b]) {
  const ranks = [...Array(99).keys()].map((rank) => rank + 1);
  return filled("shift", [{ x: ranks, y: ranks.map((rank) => 100 * (b.ranks[rank] / a.ranks[rank] - 1)) }]);
}

function launchChart(list) {
  const [unit, scale] = unitOf(list[0].launches[0]);
  return filled("launches", list.map(({ launches }) => ({ x: launches.map((_, n) => n + 1), y: launches.map((value) => value / scale) })), unit);
}

const VOLATILE = ["Load before (1, 5, 15 min)", "Memory", "Host", "GPU"]; // the last two stand among the conditions

function differencesPart(differing, [a, b]) {
  const surroundings = [...new Set([...Object.keys(a.environment), ...Object.keys(b.environment)])]
    .filter((name) => !VOLATILE.includes(name) && a.environment[name] !== b.environment[name])
    .map((name) => [name, a.environment[name] ?? null, b.environment[name] ?? null]);
  const bytes = a.sha256 !== b.sha256 ? [["model file", (a.sha256 || "").slice(0, 12), (b.sha256 || "").slice(0, 12)]] : [];
  const rows = [...differing, ...bytes, ...surroundings];
  if (!rows.length) return el("p", {}, "Nothing else that was recorded differs.");
  const cell = (value) => el("td", {}, value === null ? "not recorded" : String(value));
  return el("section", {}, el("h2", {}, "What differs"), el("div", { class: "scroll" }, el("table", { id: "differences" },
    el("thead", {}, el("tr", {}, ["", "A", "B"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map(([name, x, y]) => el("tr", { class: site.blocking.includes(name) && x !== null && y !== null ? "blocks" : null }, el("td", {}, name), cell(x), cell(y)))))));
}

// ---- beginning

function show() {
  const page = document.body.dataset.page;
  if (page === "runs") showRuns();
  if (page === "models") showModels();
  if (page === "model") showModel(document.body.dataset.network);
  if (page === "run") showRun();
  if (page === "compare") showCompare();
}

document.getElementById("copy-link").addEventListener("click", copyLink);
if (["run", "compare"].includes(document.body.dataset.page)) window.addEventListener("hashchange", show);
show();
