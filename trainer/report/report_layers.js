// A card with a map of layers over steps: forty curves cannot be read, forty rows of colours can. Used by the page's
// own script, whose helpers it is given.
"use strict";
const layerCard = (runs, {element, digits, css}) => {
  const quantities = [
    {key: "share", title: "share of s", note: "a layer's part of s = Σ ⟨d, v⟩, of all layers'", percent: true},
    {key: "pairing", title: "⟨d, v⟩", note: "a layer's part of s; without constraint radius · ‖d‖*", log: true},
    {key: "dual_norm", title: "dual norm", note: "radius · ‖d‖* of a layer", log: true},
    {key: "weight_norm", title: "weight norm", note: "‖W‖ over the layer's radius; 1 is the sphere"},
    {key: "probe_ratio", title: "smoothness", note: "‖g(y) − g(x)‖* over ‖y − x‖ of a step, of a layer", log: true},
  ];
  const shares = (map) => {
    const totals = map.step.map((_, k) => map.value.reduce((sum, row) => sum + Math.abs(row[k] || 0), 0));
    return {...map, value: map.value.map((row) => row.map((v, k) => (v === null || !totals[k] ? null : v / totals[k])))};
  };
  const mapOf = (run, key) => (key === "share" ? run.layers.pairing && shares(run.layers.pairing) : run.layers[key]);
  const mapped = runs.filter((run) => Object.keys(run.layers).length);
  const usable = quantities.filter(({key}) => mapped.some((run) => mapOf(run, key)));
  if (!usable.length) return null;

  const own = {run: mapped[0], quantity: usable[0]};
  const canvas = element("canvas", {role: "img", "data-layers": "", "aria-label": "layers over steps"});
  const note = element("p"), told = element("p", {class: "told"}), legend = element("p", {class: "legend"});
  const text = (value) => (own.quantity.percent ? digits(100 * value, 3) + " %" : digits(value, 4));

  // Dark to bright through blue, green and yellow: ordered also without colours.
  const stops = [[38, 20, 80], [50, 80, 150], [35, 140, 140], [110, 195, 90], [250, 230, 60]];
  const colour = (t) => {
    const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return "rgb(" + stops[i].map((c, k) => Math.round(c + (at - i) * (stops[i + 1][k] - c))).join(" ") + ")";
  };
  const rangeOf = (values, log) => {
    const used = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
    return [used.reduce((a, b) => Math.min(a, b), Infinity), used.reduce((a, b) => Math.max(a, b), -Infinity)];
  };

  let layout = null;
  const draw = () => {
    const map = mapOf(own.run, own.quantity.key), width = canvas.parentElement.clientWidth;
    note.textContent = own.quantity.note;
    told.textContent = "";
    layout = null;
    if (!map || !width) {
      canvas.height = 0;
      canvas.style.height = "0";
      legend.textContent = map ? "" : own.run.name + " did not record it.";
      return;
    }
    const rows = map.names.length, row = Math.max(4, Math.min(18, Math.floor(440 / rows))), ratio = devicePixelRatio || 1;
    const pen = canvas.getContext("2d"), font = Math.max(9, Math.min(12, row - 1)) + "px sans-serif", named = row >= 9;
    const short = (name) => (name.length > 34 ? "…" + name.slice(-33) : name);
    pen.font = font;
    const left = named ? 10 + Math.max(...map.names.map((name) => pen.measureText(short(name)).width)) : 4, below = 22;
    const height = rows * row + below;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    pen.scale(ratio, ratio);
    pen.font = font;
    pen.clearRect(0, 0, width, height);
    const [low, high] = rangeOf(map.value.flat(), own.quantity.log);
    const scale = own.quantity.log ? Math.log : (v) => v;
    const place = (v) => (high > low ? (scale(v) - scale(low)) / (scale(high) - scale(low)) : 0.5);
    const columns = map.step.length, cell = (width - left - 4) / columns;
    map.value.forEach((values, i) => values.forEach((v, k) => {
      const known = Number.isFinite(v) && (!own.quantity.log || v > 0);
      pen.fillStyle = known ? colour(place(v)) : css("--grid");
      pen.fillRect(left + k * cell, i * row, Math.ceil(cell + 0.5), row - (row > 8 ? 1 : 0));
    }));
    pen.fillStyle = css("--soft");
    pen.textBaseline = "middle";
    if (named) map.names.forEach((name, i) => pen.fillText(short(name), 2, i * row + row / 2));
    pen.font = "12px sans-serif";
    pen.fillText("step " + map.step[0].toLocaleString("en"), left, height - 8);
    const last = map.step[columns - 1].toLocaleString("en");
    pen.fillText(last, width - 4 - pen.measureText(last).width, height - 8);
    legend.replaceChildren(text(low) + " ", element("span", {class: "scale", style:
      "background: linear-gradient(90deg, " + [0, 0.25, 0.5, 0.75, 1].map(colour).join(", ") + ")"}), " " + text(high)
      + (own.quantity.log ? ", logarithmic" : ""));
    layout = {map, left, row, cell};
  };
  canvas.addEventListener("mousemove", (event) => {
    if (!layout) return;
    const i = Math.floor(event.offsetY / layout.row), k = Math.floor((event.offsetX - layout.left) / layout.cell);
    const inside = i >= 0 && k >= 0 && i < layout.map.names.length && k < layout.map.step.length;
    told.textContent = inside ? layout.map.names[i] + ", step " + layout.map.step[k].toLocaleString("en") + ": "
      + (layout.map.value[i][k] === null ? "not finite" : text(layout.map.value[i][k])) : "";
  });
  addEventListener("resize", () => draw());

  const buttons = usable.map((quantity) => [quantity, element("button", {type: "button", onclick: () => {
    own.quantity = quantity;
    refresh();
  }}, quantity.title)]);
  const choose = mapped.length < 2 ? null : element("select", {"aria-label": "run", onchange: () => {
    own.run = mapped[choose.selectedIndex];
    refresh();
  }}, ...mapped.map((run) => element("option", {}, run.name)));
  const refresh = () => {
    buttons.forEach(([quantity, node]) => node.setAttribute("aria-pressed", String(quantity === own.quantity)));
    draw();
  };
  const card = element("section", {class: "card chart wide"}, element("div", {class: "head"},
    element("div", {}, element("h2", {}, "Layers"), note), element("div", {class: "tools"}, choose,
      element("span", {class: "switch"}, ...buttons.map(([, node]) => node)))), element("div", {}, canvas), legend, told);
  return {card, refresh};
};
