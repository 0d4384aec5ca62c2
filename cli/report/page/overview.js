// The whole database: cards, GPUs, the table of problems, the heat map.
const summary = json("summary");
const rows = json("overview").map((row, index) => {
  const [gpu, layout, m, n, k, kind, batch, align, records, rejected, us, spread, tflops, configuration, roof,
    library_us, library, quarantined] = row;
  const size = m + "x" + n + "x" + k;
  return {index, gpu, layout, m, n, k, kind, batch, align, records, rejected, us, spread, tflops, configuration, roof,
    library_us, library, quarantined, size,
    ratio: us && library_us ? library_us / us : null,
    gpuName: gpu.split("|")[0],
    name: layout + " " + size + (kind === "f32" ? "" : " " + kind) + (batch > 1 ? " batch " + batch : ""),
    words: [gpu, layout, size, kind, "batch " + batch, align, configuration || "", library || ""].join(" ").toLowerCase()};
});
const severalGpus = new Set(rows.map(row => row.gpu)).size > 1;

function card(title, value, more) {
  return make("div", null, make("dt", null, title), make("dd", null, value, more ? make("small", null, more) : null));
}
function geometricMean(values) {
  return values.length ? Math.exp(values.reduce((sum, x) => sum + Math.log(x), 0) / values.length) : NaN;
}

function showSummary() {
  const ratios = rows.map(row => row.ratio).filter(known), winners = rows.filter(row => known(row.us));
  $("origin").textContent = summary.database + ", " + summary.made;
  $("version").textContent = summary.program_version;
  $("cards").append(card("GPUs", summary.gpus.length), card("Problems", digits(summary.problems, 6)),
    card("Candidates", digits(summary.records, 7)), card("Winners", digits(winners.length, 6)));
  if (ratios.length)
    $("cards").append(card("Speed over the library", digits(geometricMean(ratios), 4) + "×",
      "geometric mean of " + ratios.length + "; least " + digits(Math.min(...ratios), 3) + "×"));
  const roofs = rows.map(row => row.roof).filter(known);
  if (roofs.length)
    $("cards").append(card("Of the roofline", percent(geometricMean(roofs)), "geometric mean of " + roofs.length));
  const limits = [];
  if (summary.left_out_problems)
    limits.push(digits(summary.left_out_problems, 6) + " problems with the fewest candidates (" + digits(summary.left_out_records, 7)
      + " candidates) are left out.");
  if (rows.some(row => row.records > summary.most_candidates))
    limits.push("The page holds at most " + digits(summary.most_candidates, 6) + " candidates of a problem. Of those with more it has the 100 fastest, "
      + "every improvement of a search, and an even share of the others; counts are of all.");
  $("limits").textContent = limits.join(" ");
  const of = new Map();
  for (const row of rows) of.set(row.gpu, [...(of.get(row.gpu) || []), row]);
  const show = sortable($("gpus"), [
    {title: "GPU", value: g => g.key, cell: g => g.name || g.key},
    {title: "Capability", value: g => g.capability || null, cell: g => g.capability || "–"},
    {title: "Multiprocessors", number: true, value: g => g.multiprocessors || null, cell: g => g.multiprocessors || "–"},
    {title: "Stated f32 peak", number: true, value: g => g.peak_tflops || null, cell: g => g.peak_tflops ? rate(g.peak_tflops) : "–"},
    {title: "Stated bandwidth", number: true, value: g => g.bandwidth || null, cell: g => g.bandwidth ? digits(g.bandwidth / 1e12, 3) + " TB/s" : "–"},
    {title: "Clock", number: true, value: g => g.clock_mhz || null, cell: g => g.clock_mhz ? g.clock_mhz + " MHz" : "–"},
    {title: "L2", number: true, value: g => g.l2_bytes || null, cell: g => g.l2_bytes ? bytes(g.l2_bytes) : "–"},
    {title: "Power limit", number: true, value: g => g.power_limit_w || null, cell: g => g.power_limit_w ? digits(g.power_limit_w, 4) + " W" : "–"},
    {title: "Types", value: g => g.kinds, cell: g => g.kinds},
    {title: "Problems", number: true, value: g => g.count, cell: g => digits(g.count, 6)},
    {title: "Candidates", number: true, value: g => g.records, cell: g => digits(g.records, 7)}], {});
  show(summary.gpus.map(g => {
    const mine = of.get(g.key) || [];
    return {...g, count: mine.length, kinds: [...new Set(mine.map(row => row.kind))].sort().join(", "),
      records: mine.reduce((sum, row) => sum + row.records, 0)};
  }));
  const unknown = summary.gpus.filter(g => g.facts === false).map(g => g.name);
  $("facts").textContent = unknown.length
    ? "The clocks, the bandwidth, the L2 cache and the power limit of " + unknown.join(", ") + " are not stored in this database, so no peak and "
      + "no roofline of it are shown. Tuning any product there with this version stores them."
    : "";
  $("gpus").closest(".scroll").hidden = summary.gpus.length === 0;
}

function fillChoices(id, values) {
  $(id).replaceChildren(make("option", {value: ""}, "all"), ...[...new Set(values)].sort().map(value => make("option", {value}, value)));
}
function filtered() {
  const words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean), state = $("of-state").value;
  return rows.filter(row => (!$("of-gpu").value || row.gpu === $("of-gpu").value)
    && (!$("of-kind").value || row.kind === $("of-kind").value) && (!$("of-layout").value || row.layout === $("of-layout").value)
    && (state !== "slower" || (row.ratio !== null && row.ratio < 1)) && (state !== "faster" || row.ratio >= 1)
    && (state !== "none" || !known(row.us)) && words.every(word => row.words.includes(word)));
}

let showTable = null, currentRows = [], tableMost = 200;
function setUpTable() {
  fillChoices("of-gpu", rows.map(row => row.gpu));
  fillChoices("of-kind", rows.map(row => row.kind));
  fillChoices("of-layout", rows.map(row => row.layout));
  const columns = [
    {title: "Problem", value: row => row.name, cell: row => make("button", {type: "button", class: "open", "data-index": row.index,
      onclick: () => openProblem(row.index, true)}, row.name)},
    {title: "m", number: true, value: row => row.m, cell: row => row.m}, {title: "n", number: true, value: row => row.n, cell: row => row.n},
    {title: "k", number: true, value: row => row.k, cell: row => row.k},
    {title: "Time", number: true, down: false, value: row => row.us, cell: row => microseconds(row.us)},
    {title: "Rate", number: true, value: row => row.tflops, cell: row => rate(row.tflops, row.kind)},
    {title: "Of roofline", number: true, only: rows.some(row => known(row.roof)), value: row => row.roof, cell: row => percent(row.roof)},
    {title: "Library", number: true, down: false, only: rows.some(row => row.library_us), value: row => row.library_us,
      cell: row => make("span", {title: row.library}, microseconds(row.library_us))},
    {title: "Ratio", number: true, only: rows.some(row => known(row.ratio)), value: row => row.ratio,
      cell: row => make("span", {class: row.ratio === null ? null : row.ratio >= 1 ? "good" : "bad"}, row.ratio === null ? "–" : digits(row.ratio, 3) + "×")},
    {title: "Candidates", number: true, value: row => row.records, cell: row => digits(row.records, 7)},
    {title: "Rejected", number: true, value: row => row.rejected, cell: row => digits(row.rejected, 7)},
    {title: "Winner", value: row => row.configuration, cell: row => (row.quarantined ? "(not served) " : "") + (row.configuration || "none")}];
  if (severalGpus) columns.splice(1, 0, {title: "GPU", value: row => row.gpu, cell: row => row.gpuName});
  showTable = sortable($("table"), columns.filter(column => column.only !== false), {most: tableMost,
    attributes: row => ({"aria-current": row.index === shownProblem ? "true" : null}),
    after: (count, most) => { $("more").hidden = count <= most; $("more").textContent = "Show all " + count; }});
  $("more").addEventListener("click", () => { tableMost = Infinity; showTable(currentRows, Infinity); });
  let waiting = 0;
  const changed = () => { clearTimeout(waiting); waiting = setTimeout(applyFilter, 80); };
  $("filter").addEventListener("input", changed);
  $("filter").addEventListener("submit", event => { event.preventDefault(); applyFilter(); });
  $("table").addEventListener("keydown", event => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || !event.target.matches("button.open")) return;
    const buttons = [...$("table").querySelectorAll("button.open")], next = buttons[buttons.indexOf(event.target) + step];
    if (next) { next.focus(); event.preventDefault(); }
  });
}
function applyFilter() {
  currentRows = filtered();
  $("shown").textContent = currentRows.length === rows.length ? counted(rows.length, "problem") : currentRows.length + " of " + rows.length + " problems";
  showTable(currentRows);
  drawCoverage();
}

// Heat map over m x n of the shown problems: each size where there are few, else powers of two.
const COVERAGE = [
  {name: "problems", title: "number of problems", of: list => list.length, least: 0},
  {name: "rate", title: "rate, TFLOP/s (mean)", of: list => mean(list.map(row => row.tflops))},
  {name: "ratio", title: "speed over the library (geometric mean)", of: list => geometricMean(list.map(row => row.ratio).filter(known)), middle: 1},
  {name: "roof", title: "share of the roofline (mean)", of: list => mean(list.map(row => row.roof))},
  {name: "candidates", title: "candidates", of: list => list.reduce((sum, row) => sum + row.records, 0), least: 0}];
function mean(values) {
  const some = values.filter(known);
  return some.length ? some.reduce((sum, x) => sum + x, 0) / some.length : NaN;
}
function axisOf(values) {
  const sizes = [...new Set(values)].sort((x, y) => x - y);
  if (sizes.length <= 28) return {labels: sizes.map(String), of: size => sizes.indexOf(size)};
  const power = size => Math.floor(Math.log2(size)), low = power(sizes[0]), high = power(sizes[sizes.length - 1]);
  const labels = [];
  for (let p = low; p <= high; ++p) labels.push(2 ** p + "–" + (2 ** (p + 1) - 1));
  return {labels, of: size => power(size) - low};
}
function drawCoverage() {
  $("coverage-section").hidden = rows.length === 0;
  if (rows.length === 0) return;
  const value = COVERAGE.find(one => one.name === $("coverage-value").value) || COVERAGE[0];
  const list = currentRows.filter(row => value.name === "problems" || value.name === "candidates" || known(row[{rate: "tflops", ratio: "ratio", roof: "roof"}[value.name]]));
  if (list.length === 0) return figure($("coverage"), null, "No problem that is shown has this value.");
  const across = axisOf(list.map(row => row.n)), down = axisOf(list.map(row => row.m));
  const cells = down.labels.map(() => across.labels.map(() => []));
  for (const row of list) cells[down.of(row.m)][across.of(row.n)].push(row);
  const z = cells.map(line => line.map(cell => cell.length ? value.of(cell) : null));
  const hover = cells.map(line => line.map(cell => counted(cell.length, "problem") + (cell.length && cell.length <= 6 ? "<br>" + cell.map(row => plain(row.name + (severalGpus ? ", " + row.gpuName : ""))).join("<br>") : "")));
  const filled = cells.flat().filter(cell => cell.length).length;
  figure($("coverage"), {height: Math.min(620, 150 + 26 * down.labels.length),
    data: [{type: "heatmap", x: across.labels, y: down.labels, z, text: hover, hovertemplate: "m %{y}, n %{x}<br>%{z:.4~g}<br>%{text}<extra></extra>",
      xgap: 2, ygap: 2, colorscale: value.middle ? [[0, "#b3261e"], [0.5, "#e8e8e8"], [1, "#1a7f37"]] : "Viridis", zmid: value.middle, zmin: value.least, zmax: value.least === 0 ? Math.max(...z.flat()) : undefined,
      colorbar: {title: {text: value.title, side: "right"}, thickness: 14}}],
    layout: {xaxis: {type: "category", title: {text: "n"}}, yaxis: {type: "category", title: {text: "m"}}}},
    value.title[0].toUpperCase() + value.title.slice(1) + " over m and n, of " + counted(list.length, "problem") + " in " + counted(filled, "cell") + "."
      + (across.labels.some(label => label.includes("–")) || down.labels.some(label => label.includes("–")) ? " Sizes are grouped by powers of two." : ""),
    () => plainTable(value.title, ["m", "n", "problems", "value"],
      cells.flatMap((line, i) => line.map((cell, j) => [down.labels[i], across.labels[j], cell.length, digits(z[i][j], 4)]).filter(cell => cell[2]))));
}
function setUpCoverage() {
  const some = {rate: "tflops", ratio: "ratio", roof: "roof"};
  $("coverage-value").append(...COVERAGE.filter(one => !some[one.name] || rows.some(row => known(row[some[one.name]])))
    .map(one => make("option", {value: one.name}, one.title)));
  $("coverage-value").addEventListener("input", drawCoverage);
}
