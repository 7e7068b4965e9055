// Zoom, search and rows to click, for one drawing of an engine; the drawing is complete without it.
(function () {
  const svg = document.currentScript.closest("svg");
  const world = svg.querySelector("g.world");
  const panel = svg.querySelector(".panel");
  const field = svg.querySelector("input");
  const choice = svg.querySelector("select");
  const box = svg.viewBox.baseVal;
  const size = { width: box.width, height: box.height };
  svg.removeAttribute("viewBox");
  let scale = 1, x = 0, y = 0, from = null, hits = [], hit = -1, chosen = null;

  const view = () => svg.getBoundingClientRect();
  function move() { world.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`); }
  function fit() {
    const r = view();
    const top = 44;  // below the field to search in
    scale = Math.min(r.width / size.width, (r.height - top) / size.height, 2) || 1;
    x = (r.width - size.width * scale) / 2;
    y = top + (r.height - top - size.height * scale) / 2;
    move();
  }
  function zoom(factor, px, py) {
    const next = Math.min(8, Math.max(0.01, scale * factor));
    x = px - (px - x) * next / scale;
    y = py - (py - y) * next / scale;
    scale = next;
    move();
  }
  function show(layer) {
    if (chosen) chosen.classList.remove("chosen");
    chosen = layer;
    if (!layer) { panel.hidden = true; return; }
    layer.classList.add("chosen");
    panel.textContent = layer.querySelector("title").textContent;
    panel.hidden = false;
  }
  function go(layer) {
    const r = view(), b = layer.querySelector("rect");
    scale = Math.max(scale, 1);
    x = r.width / 2 - (Number(b.getAttribute("x")) + 100) * scale;
    y = r.height / 2 - (Number(b.getAttribute("y")) + 17) * scale;
    move();
    show(layer);
  }
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const r = view();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - r.left, event.clientY - r.top);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    if (event.target.closest("foreignObject")) return;
    from = { x: event.clientX - x, y: event.clientY - y, moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    from.moved = true;
    x = event.clientX - from.x;
    y = event.clientY - from.y;
    move();
  });
  window.addEventListener("pointerup", () => { from = null; });
  svg.addEventListener("click", (event) => {
    if (event.target.closest("foreignObject")) return;
    const layer = event.target.closest("g.layer");
    if (layer) show(layer);
  });
  svg.addEventListener("keydown", (event) => {
    if (event.target === field) return;
    const r = view();
    if (event.key === "+") zoom(1.2, r.width / 2, r.height / 2);
    if (event.key === "-") zoom(1 / 1.2, r.width / 2, r.height / 2);
    if (event.key === "0") fit();
  });
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase();
    const layers = [...svg.querySelectorAll("g.layer")];
    hits = words ? layers.filter((g) => g.querySelector("title").textContent.toLowerCase().includes(words)) : [];
    layers.forEach((g) => g.classList.toggle("faint", Boolean(words) && !hits.includes(g)));
    hit = -1;
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits.length) { hit = (hit + 1) % hits.length; go(hits[hit]); }
    if (event.key === "Escape") { field.value = ""; field.dispatchEvent(new Event("input")); fit(); }
  });
  choice.addEventListener("change", () => {
    svg.querySelectorAll("g.layer").forEach((g) => {
      const colour = g.dataset.colours.split(" ")[choice.selectedIndex];
      const [r, green, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
      g.querySelector("rect").setAttribute("fill", colour);
      g.querySelectorAll("text").forEach((t) => t.classList.toggle("light", 0.3 * r + 0.59 * green + 0.11 * b < 140));
    });
    svg.querySelector("g.keys").style.display = choice.selectedIndex ? "none" : "";
  });
  svg.querySelector("foreignObject").style.display = "block";
  // A drawing inside folded details has no size until they are opened.
  new ResizeObserver(() => { if (!svg.dataset.seen && view().width) { svg.dataset.seen = "1"; fit(); } }).observe(svg);
})();
