// Theme, printing, and the order in which the page comes to life: tables first, then figures.
let shownProblem = -1;
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-pressed", String(name === "dark"));
  if (plotlyReady) drawAll();
}
const preferred = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = preferred.matches ? "dark" : "light";
$("theme").setAttribute("aria-pressed", String(preferred.matches));
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
preferred.addEventListener("change", event => setTheme(event.matches ? "dark" : "light"));

let themeBefore = "light";
addEventListener("beforeprint", () => {
  themeBefore = document.documentElement.dataset.theme;
  setTheme("light");
  document.querySelectorAll(".plot").forEach(place => { if (plotlyReady && place.layout) Plotly.relayout(place, {width: 680}); });
});
addEventListener("afterprint", () => {
  document.querySelectorAll(".plot").forEach(place => { if (plotlyReady && place.layout) Plotly.relayout(place, {width: null, autosize: true}); });
  setTheme(themeBefore);
});

function problemOfAddress() {
  const match = /^#problem-(\d+)$/.exec(location.hash);
  return match && Number(match[1]) < rows.length ? Number(match[1]) : -1;
}
addEventListener("hashchange", () => { const index = problemOfAddress(); if (index >= 0 && index !== shownProblem) openProblem(index, true); });

showSummary();
setUpTable();
setUpCoverage();
applyFilter();
if (rows.length === 0) {
  $("filter").hidden = true;
  document.querySelector(".tall").hidden = document.querySelector(".note.keys").hidden = true;
  $("shown").textContent = "";
  $("problems").after(make("p", null, "Nothing is stored yet. ", make("code", null, "autotune --sizes 1024"), " tunes a product and stores it."));
}
document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(() => {
  startPlotly();
  const named = problemOfAddress();
  if (rows.length) openProblem(named >= 0 ? named : mostMeasured(), named >= 0);
  document.documentElement.dataset.ready = "true";
}, 0)));
function mostMeasured() {
  return rows.reduce((best, row) => row.records > rows[best].records ? row.index : best, 0);
}
