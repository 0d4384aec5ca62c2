// Figures: a plot by plotly, a caption that says it in words, and its numbers as a table.
const figures = new Map();  // element -> how to draw it again
let plotlyReady = false;

function theme(layout, height) {
  const text = colour("text"), line = colour("line");
  const axis = {gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true};
  return {...layout, height, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: {color: text, size: 12, family: getComputedStyle(document.body).fontFamily},
    margin: {l: 60, r: 20, t: 20, b: 48, ...(layout.margin || {})},
    hoverlabel: {bgcolor: colour("card"), bordercolor: line, font: {color: text}, align: "left"},
    legend: {orientation: "h", y: 1.02, yanchor: "bottom", x: 0, ...(layout.legend || {})},
    xaxis: {...axis, ...(layout.xaxis || {})}, yaxis: {...axis, ...(layout.yaxis || {})}};
}

// A logarithmic axis: of many decades each has a label, of few also their 2 and 5.
function logAxis(values, title) {
  const some = values.filter(value => value > 0), span = some.length ? Math.max(...some) / Math.min(...some) : 1;
  return {type: "log", title: {text: title}, tickformat: "~g", ...(span > 200 ? {dtick: 1} : span > 6 ? {dtick: "D2"} : {})};
}

// plot: {data, layout, height} or null, or a function that makes it (its colours depend on the theme).
function figure(element, plot, words, table, click) {
  const old = element.querySelector(".plot");
  if (old && plotlyReady) Plotly.purge(old);
  const place = make("div", {class: "plot", role: "img", "aria-label": words});
  element.replaceChildren(...(plot ? [place] : []), make("figcaption", null, words));
  if (table) {
    const details = make("details", null, make("summary", null, "The numbers as a table"));
    details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(table()); });
    element.append(details);
  }
  if (!plot) { figures.delete(element); return; }
  const draw = () => {
    const {data, layout, height} = typeof plot === "function" ? plot() : plot;
    const size = height || 360;
    place.style.minHeight = size + "px";
    Plotly.react(place, data, theme(layout || {}, size), {displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
    if (click && place.removeAllListeners) { place.removeAllListeners("plotly_click"); place.on("plotly_click", click); }
  };
  figures.set(element, draw);
  if (plotlyReady) draw(); else place.style.minHeight = ((typeof plot === "function" ? 0 : plot.height) || 360) + "px";
}
function drawAll() {
  for (const [element, draw] of figures) if (element.isConnected) draw(); else figures.delete(element);
}
function startPlotly() {
  if (plotlyReady) return;
  const script = document.createElement("script");
  script.textContent = $("plotly").textContent;
  $("plotly").remove();
  document.head.append(script);
  if (typeof Plotly === "undefined" && typeof moduleName !== "undefined") window.Plotly = moduleName;
  plotlyReady = true;
  drawAll();
}
