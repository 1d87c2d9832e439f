(function () {
"use strict";
const page = JSON.parse(document.getElementById("figures").textContent);
const KINDS = {f4: Float32Array, f8: Float64Array, i4: Int32Array, i2: Int16Array, i1: Int8Array,
               u4: Uint32Array, u2: Uint16Array, u1: Uint8Array};
const arrays = page.arrays.map(item => {
  const bytes = Uint8Array.from(atob(item.bdata), c => c.charCodeAt(0));
  return new KINDS[item.dtype](bytes.buffer);
});
function filled(value) {
  if (Array.isArray(value)) return value.map(filled);
  if (value === null || typeof value !== "object") return value;
  if ("$" in value) return arrays[value.$];
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, filled(v)]));
}
const plots = page.figures.map(figure => ({
  id: figure.id, data: filled(figure.data), layout: filled(figure.layout),
  element: document.getElementById(figure.id), off: {run: new Set(), kind: new Set()},
  names: {run: new Set(), kind: new Set()}, buttons: []}));
const several = plots.some(plot => plot.data.some(trace => trace.meta.run && !trace.meta.kind));

function seen(plot, meta) {
  return !(plot.off.run.has(meta.run) || plot.off.kind.has(meta.kind));
}
function swatch(trace) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("width", 26); svg.setAttribute("height", 12);
  const line = trace.line || {}, marker = trace.marker || {};
  function draw(name, attributes) {
    const shape = document.createElementNS(ns, name);
    for (const key in attributes) shape.setAttribute(key, attributes[key]);
    svg.appendChild(shape);
  }
  if ((trace.mode || "lines").includes("markers")) {
    const colour = (marker.line && marker.line.color) || marker.color;
    const strokes = {"cross-thin": "M7 6H19M13 0V12", cross: "M7 6H19M13 0V12",
                     "line-ns": "M13 0V12", x: "M8 1L18 11M18 1L8 11"};
    const d = strokes[marker.symbol];
    if (d) draw("path", {d, stroke: colour, "stroke-width": 2.5});
    else draw("circle", {cx: 13, cy: 6, r: 4, fill: colour});
  } else if (trace.fill === "toself") {
    draw("rect", {x: 0, y: 0, width: 26, height: 12, fill: trace.fillcolor});
  } else {
    const dashes = {dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4"};
    draw("path", {d: "M0 6H26", stroke: line.color, "stroke-width": Math.min(line.width || 2, 4),
                  "stroke-dasharray": dashes[line.dash] || "none"});
  }
  return svg;
}
function refresh(plot) {
  for (const button of plot.buttons)
    button.element.setAttribute("aria-pressed", String(!plot.off[button.sort].has(button.name)));
  const changes = {};
  for (const part of ["shapes", "annotations"])
    (plot.layout[part] || []).forEach((item, i) => {
      const [kind, run] = (item.name || "").split(/\|(.*)/s);
      if (kind === "events") changes[part + "[" + i + "].visible"] = seen(plot, {kind, run});
    });
  return Plotly.update(plot.element,
    {visible: plot.data.map(trace => seen(plot, trace.meta))}, changes);
}
function toggle(from, sort, name) {
  const hide = !from.off[sort].has(name);
  for (const plot of plots) {
    if (!plot.names[sort].has(name)) continue;
    if (hide) plot.off[sort].add(name); else plot.off[sort].delete(name);
    if (plot.drawn) refresh(plot);
  }
}
function alone(from, sort, name) {
  const others = [...from.names[sort]].filter(other => other !== name);
  const isAlone = others.every(other => from.off[sort].has(other)) && !from.off[sort].has(name);
  for (const plot of plots) {
    if (!plot.names[sort].has(name)) continue;
    for (const other of plot.names[sort])
      if (isAlone || other === name) plot.off[sort].delete(other); else plot.off[sort].add(other);
    if (plot.drawn) refresh(plot);
  }
}
function legend(plot) {
  const list = document.createElement("div");
  list.className = "legend";
  for (const trace of plot.data) {
    const meta = trace.meta;
    if (trace.showlegend === false) continue;
    const sort = several && meta.run && !meta.kind ? "run" : "kind", name = meta[sort];
    if (plot.names[sort].has(name)) continue;
    plot.names[sort].add(name);
    if (trace.visible === "legendonly") plot.off[sort].add(name);
    const button = document.createElement("button");
    button.type = "button";
    button.append(swatch(trace), " " + name);
    button.addEventListener("click", () => toggle(plot, sort, name));
    button.addEventListener("dblclick", () => alone(plot, sort, name));
    plot.buttons.push({element: button, sort, name, rank: trace.legendrank || 1000});
  }
  plot.buttons.sort((a, b) => a.rank - b.rank);
  list.append(...plot.buttons.map(button => button.element));
  plot.element.before(list);
}
let linking = false;
async function link(from, event) {
  if (linking || !Object.keys(event).some(key => /^xaxis\d*\.(range|autorange)/.test(key))) return;
  linking = true;
  const range = from.element._fullLayout.xaxis.range;
  for (const plot of plots) {
    if (plot === from || !plot.drawn || !(plot.layout.meta || {}).time) continue;
    const changes = {};
    for (const key of Object.keys(plot.layout))
      if (/^xaxis\d*$/.test(key)) changes[key + ".range"] = range.slice();
    await Plotly.relayout(plot.element, changes);
  }
  linking = false;
}
async function draw() {
  // what lies in space last: without a graphics card it is by far the slowest
  const inSpace = plot => Number("scene" in plot.layout);
  for (const plot of [...plots].sort((a, b) => inSpace(a) - inSpace(b))) {
    legend(plot);
    plot.layout.template = page.template;
    plot.layout.showlegend = false;
    plot.layout.autosize = true;
    for (const trace of plot.data) trace.visible = seen(plot, trace.meta);
    await Plotly.newPlot(plot.element, plot.data, plot.layout,
      {...page.config, toImageButtonOptions: {format: "svg", filename: plot.id}});
    plot.drawn = true;
    refresh(plot);
    if ((plot.layout.meta || {}).time)
      plot.element.on("plotly_relayout", event => link(plot, event));
    await new Promise(next => setTimeout(next));  // the page stays awake
  }
  document.body.dataset.drawn = String(plots.length);
}
draw();
})();
