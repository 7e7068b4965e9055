// Data, words and state that all pages share. Text reaches the page as text only, never as markup.
"use strict";

const site = { runs: [], series: [], pages: {}, blocking: [], byId: new Map() };
const waiting = new Map();
const details = new Map();

function trtbenchSite(data) {
  Object.assign(site, data);
  site.byId = new Map(site.runs.map((run) => [run.id, run]));
}

function trtbenchRun(data) {
  details.set(data.id, data);
  for (const resolve of waiting.get(data.id) || []) resolve(data);
  waiting.delete(data.id);
}

// Pages opened from a disk may not fetch; they may load scripts, so a run is a script.
function loadRun(id) {
  if (details.has(id)) return Promise.resolve(details.get(id));
  return new Promise((resolve, reject) => {
    if (waiting.has(id)) { waiting.get(id).push(resolve); return; }
    waiting.set(id, [resolve]);
    const script = document.createElement("script");
    script.src = `data/runs/${encodeURIComponent(id)}.js`;
    script.onerror = () => { waiting.delete(id); reject(new Error(`the file of run ${id} is missing`)); };
    document.head.append(script);
  });
}

// ---- elements

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function view(...children) {
  document.getElementById("view").replaceChildren(...children.flat().filter(Boolean));
}

function toast(text) {
  const box = document.querySelector(".toast");
  box.textContent = text;
  box.classList.add("on");
  setTimeout(() => box.classList.remove("on"), 1800);
}

// ---- words

function significant(value, digits) {
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  const [whole, part] = value.toFixed(Math.min(decimals, 12)).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
  return part ? `${grouped}.${part}` : grouped;
}

function unitOf(seconds) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (Math.abs(seconds) >= scale) return [unit, scale];
  }
  return ["ns", 1e-9];
}

function timeText(seconds, digits = 4) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0 s";
  const [unit, scale] = unitOf(seconds);
  return `${significant(seconds / scale, digits)} ${unit}`;
}

function numberText(value, digits = 4) {
  return value === null || value === undefined ? "–" : value === 0 ? "0" : significant(value, digits);
}

function percentText(fraction, digits = 1) {
  return `${fraction >= 0 ? "+" : "−"}${Math.abs(100 * fraction).toFixed(digits)} %`;
}

function sizeText(bytes) {
  if (!bytes) return "–";
  for (const [unit, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (bytes >= scale) return `${significant(bytes / scale, 3)} ${unit}`;
  }
  return `${bytes} B`;
}

function dayText(text) { return text.slice(0, 10); }
function minuteText(text) { return text.slice(0, 16).replace("T", " "); }

function runName(run) {
  return [run.model, run.runtime, run.precision, `batch ${run.batch ?? "unknown"}`].filter(Boolean).join(" · ");
}

// ---- state in the address

function readState() {
  return new Map(new URLSearchParams(location.hash.slice(1)).entries());
}

function writeState(changes) {
  const state = readState();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") state.delete(key);
    else state.set(key, String(value));
  }
  const text = new URLSearchParams([...state]).toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function link(page, state) {
  const text = new URLSearchParams(Object.entries(state || {})).toString();
  return text ? `${page}#${text}` : page;
}

function runLink(id, text) { return el("a", { href: link("run.html", { id }) }, text || id); }
function compareLink(a, b, text) { return el("a", { href: link("compare.html", { a, b }) }, text); }

function networkLink(name) {
  const page = site.pages[name];
  return page ? el("a", { href: page }, name) : name;
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("Link copied");
  } catch {
    prompt("The link to this view:", location.href);
  }
}
