"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const root = document.documentElement;
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

  // What a spreadsheet would run, as in csv_cell of core/safety.py.
  const FORMULA = /(^|[;\t\n\r])((?:[^\S\t\n\r]|")*[-=+@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])/g;

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
      for (const [address, cells] of more) {
        const row = document.createElement("tr");
        cells.forEach(([text, value], place) => {
          const cell = document.createElement("td");
          const link = place === 0 && address ? document.createElement("a") : null;
          if (link) { link.href = address; cell.append(link); }
          (link ?? cell).textContent = text;
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
      this.rows = tables.ordered(this.rows, (row) => keyOf(row.cells[column]), direction === "descending");
      this.body.append(...this.rows);
    }

    async filter(text) {
      await this.load();
      const matches = tables.matcher(text);
      let shown = 0;
      for (const row of this.rows) {
        row.hidden = !matches([...row.cells].map((cell) => cell.textContent.toLowerCase()).join(" "));
        shown += !row.hidden;
      }
      const status = this.figure.querySelector(".shown");
      status.textContent = text.trim() ? `${shown} of ${this.rows.length}` : "";
    }

    async text(separator) {
      await this.load();
      const quote = (cell) => {
        let value = cell.dataset?.v ?? cell.textContent;
        if (separator === "\t") value = value.replace(/[\t\r\n]+/g, " ");
        if (Number.isNaN(+value)) value = value.replace(FORMULA, "$1'$2");
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

  // ---- page ---------------------------------------------------------------------------------

  const theme = document.querySelector(".theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const label = () => { theme.textContent = `Theme: ${root.dataset.theme ?? "auto"}`; };
  theme.hidden = false;
  label();
  theme.addEventListener("click", () => {
    const next = { undefined: prefersDark.matches ? "light" : "dark", dark: "light", light: "dark" }[root.dataset.theme];
    root.dataset.theme = next;
    try { localStorage.setItem("trtbench-theme", next); } catch { /* a page from a mail may not keep anything */ }
    label();
  });

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
  root.dataset.ready = "yes";
})();
