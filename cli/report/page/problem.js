// One problem: winner, roofline, the search, parameters, rejections, candidates.
const OUTCOMES = ["ok", "compile error", "launch error", "wrong result", "timeout"];
const COLUMNS = ["template", "outcome", "us", "spread", "seconds", "search", "place", "registers", "spill", "shared", "intensity", "predicted", "blocks",
  "occupancy"];
const catalog = json("catalog"), strings = json("strings");

// The parameters of a template with the index of each candidate's value; values that no candidate has are left out.
function parametersOf(template, count) {
  const known = catalog[template.name] || [];
  const parameters = template.of ? known.map((parameter, i) => ({...parameter, of: indices(template.of[i])}))
    : template.parameters.map(parameter => ({...known.find(one => one.name === parameter.name), ...parameter, of: indices(parameter.of)}));
  return parameters.map(parameter => {
    const of = parameter.of.length === count ? parameter.of : new Array(count).fill(parameter.of[0]);
    const used = [...new Set(of)].sort((x, y) => parameter.values[x] - parameter.values[y]), place = new Map(used.map((value, i) => [value, i]));
    return {...parameter, values: used.map(value => parameter.values[value]), of: of.map(value => place.get(value))};
  });
}

function decode(details) {
  const text = Object.fromEntries(COLUMNS.map((name, i) => [name, details.columns[i]]));
  const template = indices(text.template), outcome = indices(text.outcome);
  const column = Object.fromEntries(COLUMNS.slice(2).map(name => [name, numbers(text[name])]));
  const of = details.templates.map(() => 0), counts = details.templates.map((one, t) => template.filter(other => other === t).length);
  const parameters = details.templates.map((one, t) => parametersOf(one, counts[t]));
  const candidates = template.map((t, i) => {
    const one = {index: i, template: t, within: of[t]++, outcome: outcome[i]};
    for (const name in column) one[name] = column[name].length ? column[name][i] : NaN;
    if (!known(one.place)) one.place = i + 1;
    return one;
  });
  const winner = details.winner && {...details.winner, driver: strings[details.winner.driver],
    tiles: details.winner.tiles.map(([name, m, n, note]) => ({name, m, n, note: strings[note]}))};
  return {...details, candidates, parameters, winner, ok: candidates.filter(one => one.outcome === 0 && known(one.us)),
    roofs: JSON.parse(strings[details.roofs]), memories: JSON.parse(strings[details.memories]),
    searches: details.searches.map(([strategy, seed, seconds, date]) => ({strategy: strings[strategy], seed, seconds, date})),
    baselines: details.baselines.map(([name, variant, us, spread, date]) => ({name: strings[name], variant: strings[variant], us, spread, date})),
    rejections: details.rejections.map(([outcome, name, reason, example, count]) => ({outcome: OUTCOMES[outcome], template: strings[name], reason: strings[reason], example, count}))};
}
function labelOf(parameter, index) {
  const value = parameter.values[index];
  return value === null ? "not there" : (parameter.labels || {})[value] || String(value);
}
// The configuration in the form of the tables, with the parameters that the tile does not say.
function configurationOf(details, one) {
  const value = {}, rest = [];
  for (const parameter of details.parameters[one.template]) {
    const index = parameter.of[one.within], word = labelOf(parameter, index), tile = /^TILE_[MNK]$/.test(parameter.name);
    if (tile) value[parameter.name] = word;
    else if (parameter.values[index] !== null && parameter.values[index] !== parameter.plain)
      rest.push(parameter.name.toLowerCase() + (word === "yes" ? "" : "=" + word));
  }
  const tile = ["TILE_M", "TILE_N", "TILE_K"].filter(name => name in value).map(name => value[name]).join("x");
  return [details.templates[one.template].name, tile, ...rest].filter(Boolean).join(" ");
}
const rateOf = (details, us) => details.flops / us * 1e-6;  // TFLOP/s

function section(title, ...children) {
  return make("section", {"aria-label": title}, make("h3", null, title), ...children);
}
function facts(pairs) {
  return make("dl", {class: "facts"}, ...pairs.filter(pair => pair && pair[1] !== null && pair[1] !== undefined)
    .flatMap(([name, value]) => [make("dt", null, name), make("dd", null, value)]));
}

function openProblem(index, move) {
  shownProblem = index;
  const row = rows[index], details = decode(json("details-" + index));
  for (const line of $("table").tBodies[0].rows)
    line.setAttribute("aria-current", String(Number(line.querySelector("button.open").dataset.index) === index));
  $("problem-section").hidden = false;
  $("problem-title").textContent = row.name + " on " + row.gpuName;
  const more = details.records - details.candidates.length;
  $("problem-words").textContent = counted(details.records, "candidate") + ", " + digits(row.rejected, 7) + " of them rejected."
    + (more > 0 ? " The figures show " + digits(details.candidates.length, 6) + " of them: the 100 fastest, every improvement of a search, and an even share of the others." : "");
  const place = $("problem");
  place.replaceChildren();
  place.append(winnerSection(row, details));
  for (const make of [pricesSection, rooflineSection, progressSection, parameterSection, rejectionSection, candidateSection]) {
    const part = make(row, details);
    if (part) place.append(part);
  }
  if (plotlyReady) drawAll();
  if (move) {
    if (location.hash !== "#problem-" + index) history.replaceState(null, "", "#problem-" + index);
    $("problem-title").focus({preventScroll: true});
    $("problem-title").scrollIntoView();
  }
}

function winnerSection(row, details) {
  const w = details.winner;
  if (!w) return section("Winner", make("p", null, "No winner is stored."), librariesOf(details));
  const one = details.candidates[w.index], plan = w.plan;
  const steps = plan ? plan.steps.map(([role, kernel, grid, block, cluster, shared]) => role + " (" + kernel + "): grid " + grid.join("×") + ", block " + block.join("×")
    + (cluster.some(x => x > 1) ? ", cluster " + cluster.join("×") : "") + ", " + bytes(shared) + " of dynamic shared memory").join("; ") : null;
  return section("Winner", w.quarantined ? make("p", {class: "bad"}, "It is not served: " + w.quarantined) : null,
    facts([["Configuration", make("code", null, row.configuration)],
      ["Time", microseconds(one.us) + " (spread " + digits(one.spread, 2) + "%, " + w.samples + " samples, " + (w.cold ? "cold" : "warm") + "), " + rate(rateOf(details, one.us), row.kind)],
      known(row.roof) ? ["Of the roofline", percent(row.roof)] : null,
      w.limit ? ["Limited by", w.limit + " (by the cost model, which predicted " + microseconds(one.predicted) + ")"] : null,
      ["Registers", known(one.registers) ? one.registers + " a thread" + (known(one.spill) ? ", " + bytes(one.spill) + " of spills" : ", no spills") : "not known"],
      ["Shared memory", known(one.shared) ? bytes(one.shared) + " a block" : plan ? "none" : "not known"],
      known(one.blocks) ? ["Occupancy", percent(one.occupancy / 100) + " of the threads: " + counted(one.blocks, "block") + " on a multiprocessor, limited by " + w.occupancy_limit] : null,
      plan ? ["Bytes per flop", digits(plan.global_bytes / details.flops, 3) + " requested from global memory; " + digits(details.bytes / details.flops, 3) + " if each operand moved once"] : null,
      plan && plan.shared_bytes ? ["Shared bytes per flop", digits(plan.shared_bytes / details.flops, 3)] : null,
      plan ? ["Padding", plan.issued_flops / details.flops < 1.0005 ? "none" : percent(plan.issued_flops / details.flops - 1) + " more multiply-adds than the product has"] : null,
      plan && plan.workspace ? ["Workspace", bytes(plan.workspace)] : null,
      steps ? ["Launches", steps] : null,
      ["Error", digits(w.error_ratio, 3) + " of its bound; norm-wise " + digits(w.normwise_error, 3)],
      w.clock_mhz ? ["Clock, power", digits(w.clock_mhz, 4) + " MHz, " + digits(w.power_w, 4) + " W" + (w.power_limit_w ? " of " + digits(w.power_limit_w, 4) + " W allowed" : "")] : null,
      w.energy !== "-" ? ["Energy a product", w.energy] : null,
      w.objective !== "time" ? ["Chosen by", w.objective] : null,
      ["Measured", w.date + ", " + w.origin + (w.driver ? ", driver " + w.driver : "")]]),
    librariesOf(details), w.tiles.length ? tilesOf(row, w) : null);
}
// What the order of sums costs at each size of its n and k.
function pricesSection(row, details) {
  if (!details.prices.length) return null;
  return section("Price of the order", plainTable("Times in this order and in any", ["product", "in this order", "in any order", "ratio"],
    details.prices.map(([name, us, free]) => [name, microseconds(us), free === null ? "not tuned" : microseconds(free), free === null ? "–" : digits(us / free, 3) + "×"])));
}
function librariesOf(details) {
  if (!details.baselines.length) return make("p", {class: "note"}, "No other library was measured for this problem.");
  const best = details.winner ? details.candidates[details.winner.index].us : NaN;
  return plainTable("Other libraries, measured beside", ["library", "variant", "time", "spread", "winner’s speed over it", "date"],
    details.baselines.map(b => [b.name, b.variant, microseconds(b.us), digits(b.spread, 2) + "%", known(best) ? digits(b.us / best, 4) + "×" : "–", b.date]));
}

function hoverOf(details, one) {
  return plain(configurationOf(details, one)).replace(/((?:\S+ ){5})/g, "$1<br>") + "<br>" + microseconds(one.us) + ", " + rate(rateOf(details, one.us))
    + (known(one.registers) ? "<br>" + one.registers + " registers" : "") + (known(one.occupancy) ? ", occupancy " + one.occupancy + "%" : "");
}

function rooflineSection(row, details) {
  const some = details.ok.filter(one => known(one.intensity));
  const element = make("figure");
  if (!some.length) {
    figure(element, null, "No plan of this version is known for the measured candidates, so there is no roofline.");
    return section("Roofline", element);
  }
  const own = details.flops / details.bytes, xs = some.map(one => one.intensity);
  const unit = Math.max(...some.map(one => rateOf(details, one.us)), ...details.roofs.map(roof => roof.rate / 1e12)) < 1 ? 1e3 : 1;
  const shown = us => unit * rateOf(details, us), rates = some.map(one => shown(one.us));
  const low = Math.min(own, ...xs) / 2, high = Math.max(own, ...xs) * 2, peak = unit * Math.max(0, ...details.roofs.map(roof => roof.rate)) / 1e12;
  const w = details.winner ? details.candidates[details.winner.index] : null;
  const plot = () => {
    const data = details.templates.map((template, t) => {
      const mine = some.filter(one => one.template === t);
      return {type: "scatter", mode: "markers", name: plain(template.name), x: mine.map(one => one.intensity), y: mine.map(one => shown(one.us)),
        text: mine.map(one => hoverOf(details, one)), hovertemplate: "%{text}<extra></extra>",
        marker: {size: 6, opacity: 0.6, symbol: t}};
    }).filter(trace => trace.x.length);
    const lines = (name, x, y, dash) => data.push({type: "scatter", mode: "lines", name: plain(name), x, y, hoverinfo: "name", line: {dash, width: 1.5, color: colour("soft")}});
    for (const roof of details.roofs) lines(roof.name + ": " + rate(roof.rate / 1e12, row.kind), [low, high], [unit * roof.rate / 1e12, unit * roof.rate / 1e12], "solid");
    details.memories.forEach((memory, i) => {
      const end = peak > 0 ? Math.min(high, peak * 1e12 / unit / memory.rate) : high;
      if (end > low) lines(memory.name + ": " + digits(memory.rate / 1e12, 3) + " TB/s", [low, end], [unit * low * memory.rate / 1e12, unit * end * memory.rate / 1e12], i ? "dash" : "dot");
    });
    details.baselines.slice(0, 3).forEach(b => lines(b.name + ", " + b.variant, [low, high], [shown(b.us), shown(b.us)], "dashdot"));
    const spans = [Math.min(...rates), ...details.baselines.map(b => shown(b.us))].filter(known);
    data.push({type: "scatter", mode: "lines", name: "intensity of the problem", hoverinfo: "name", x: [own, own],
      y: [Math.min(...spans) / 1.5, Math.max(peak, ...rates) * 1.2], line: {dash: "dot", width: 1, color: colour("c")}});
    if (w && known(w.intensity))
      data.push({type: "scatter", mode: "markers", name: "winner", x: [w.intensity], y: [shown(w.us)], text: [hoverOf(details, w)], hovertemplate: "%{text}<extra>winner</extra>",
        marker: {size: 15, symbol: "star", color: colour("b"), line: {color: colour("text"), width: 1}}});
    return {data, height: 460, layout: {xaxis: logAxis([low, high], "flop per byte requested from global memory"),
      yaxis: logAxis([...rates, peak], (unit === 1 ? "T" : "G") + (integers(row.kind) ? "OP/s" : "FLOP/s"))}};
  };
  figure(element, plot, "Rate of " + digits(some.length, 6) + " measured candidates over the flop per byte that their blocks request (L2 serves many of these bytes)."
    + (w && known(w.intensity) ? " The winner: " + rate(rateOf(details, w.us), row.kind) + " at " + digits(w.intensity, 3) + " flop per byte." : "")
    + (details.roofs.length ? " Roofs are the stated peak rates; L2’s is the cost model’s. The dotted vertical line is the product’s own intensity, where each operand moves once."
      : " No roofs are drawn: the clocks and the bandwidth of this device are not stored in the database."));
  return section("Roofline", element);
}

function progressSection(row, details) {
  const series = new Map();
  for (const one of details.ok) {
    const key = known(one.search) ? one.search : -1;
    series.set(key, [...(series.get(key) || []), one]);
  }
  if (details.ok.length < 2) return null;
  const first = new Map();
  for (const one of details.candidates) {
    const key = known(one.search) ? one.search : -1;
    if (!first.has(key)) first.set(key, one.place);
  }
  const lines = [...series].sort(([x], [y]) => x - y).map(([key, list]) => {
    const search = details.searches[key], name = search ? search.strategy + ", seed " + search.seed + ", " + search.date.slice(0, 16).replace("T", " ") : "in no stored search";
    let best = Infinity;
    const steps = [];
    for (const one of list) if (one.us < best) { best = one.us; steps.push({x: one.place - first.get(key) + 1, seconds: one.seconds, us: best, one}); }
    const last = list[list.length - 1];
    steps.push({x: last.place - first.get(key) + 1, seconds: last.seconds, us: best, one: null});
    return {key, name, search, steps, count: list.length};
  });
  const trace = (line, x) => ({type: "scatter", mode: "lines+markers", name: plain(line.name), line: {shape: "hv", width: 2}, marker: {size: 5}, x, y: line.steps.map(step => step.us),
    text: line.steps.map(step => step.one ? plain(configurationOf(details, step.one)).replace(/((?:\S+ ){5})/g, "$1<br>") : "the end"), hovertemplate: "%{y} µs<br>%{text}<extra></extra>"});
  const library = (data, span) => details.baselines.slice(0, 1).forEach(b => data.push({type: "scatter", mode: "lines", name: plain(b.name + ", " + b.variant), x: span, y: [b.us, b.us], line: {dash: "dashdot", width: 1.5, color: colour("soft")}}));
  const yaxis = logAxis([...lines.flatMap(line => line.steps.map(step => step.us)), ...details.baselines.slice(0, 1).map(b => b.us)], "best so far, µs");
  const evaluations = make("figure"), seconds = make("figure"), timed = lines.filter(line => line.steps.every(step => known(step.seconds)));
  const words = lines.map(line => line.name + ": " + line.count + (details.records > details.candidates.length ? " shown" : " measured") + ", best " + microseconds(Math.min(...line.steps.map(step => step.us)))).join("; ");
  const table = () => plainTable("Improvements", ["search", "evaluation", "seconds", "time"], lines.flatMap(line => line.steps.filter(step => step.one)
    .map(step => [line.name, step.x, known(step.seconds) ? step.seconds : "–", microseconds(step.us)])));
  figure(evaluations, () => {
    const data = lines.map(line => trace(line, line.steps.map(step => step.x)));
    library(data, [1, Math.max(...lines.flatMap(line => line.steps.map(step => step.x)))]);
    return {data, layout: {xaxis: {title: {text: "candidates evaluated, rejected ones counted"}}, yaxis}};
  }, "Best time so far over evaluations. " + words + ".", table);
  const parts = [evaluations];
  if (timed.length) {
    figure(seconds, () => {
      const data = timed.map(line => trace(line, line.steps.map(step => step.seconds)));
      library(data, [0, Math.max(1, ...timed.flatMap(line => line.steps.map(step => step.seconds)))]);
      return {data, layout: {xaxis: {title: {text: "seconds since the search began"}}, yaxis}};
    }, "Best time so far over time, compiling counted. Dates of records are whole seconds.");
    parts.push(seconds);
  }
  return section("Progress of the search", make("div", {class: "two"}, ...parts),
    make("p", {class: "note"}, "A finalist’s time is that of the race at the search’s end, at the place where it was first measured. Which search a candidate belongs to is inferred from dates."));
}

function parameterSection(row, details) {
  const usable = details.templates.map((template, t) => t).filter(t => details.ok.filter(one => one.template === t).length >= 8);
  if (!usable.length) return section("Parameters", make("p", {class: "note"}, "Fewer than eight candidates of each template were measured: too few to compare values."));
  const count = t => details.ok.filter(one => one.template === t).length;
  usable.sort((x, y) => count(y) - count(x));
  const choice = make("select", null, ...usable.map(t => make("option", {value: t}, details.templates[t].name + " (" + count(t) + ")")));
  const which = make("select"), pair = make("select");
  const shares = make("figure"), values = make("figure"), pairTable = make("div"), cells = make("figure");
  let now = null;
  const chosen = () => {
    const t = Number(choice.value), mine = details.ok.filter(one => one.template === t);
    const parameters = details.parameters[t].map(parameter => ({...parameter, of: mine.map(one => parameter.of[one.within])}));
    now = {mine, times: mine.map(one => one.us), rejectedOf: details.candidates.filter(one => one.template === t && one.outcome !== 0), all: details.parameters[t], ...effectsOf(parameters, mine.map(one => one.us))};
    const varied = now.singles.filter(one => one.used > 1);
    which.replaceChildren(...varied.map((one, i) => make("option", {value: i}, one.parameter.name)));
    pair.replaceChildren(...now.pairs.slice(0, 20).map((one, i) => make("option", {value: i}, one.p.name + " and " + one.q.name)));
    const top = varied.slice(0, 14).reverse();
    figure(shares, top.length ? () => ({height: 130 + 22 * top.length, data: [{type: "bar", orientation: "h", y: top.map(one => one.parameter.name), x: top.map(one => 100 * one.share),
      text: top.map(one => plain(one.parameter.help || "")), hovertemplate: "%{x:.1f}%<br>%{text}<extra></extra>", textposition: "none", marker: {color: colour("accent")}}],
      layout: {xaxis: {title: {text: "share of the variance of log(time), %"}, rangemode: "tozero"}, yaxis: {type: "category"}}}) : null,
      "How much each parameter of " + details.templates[t].name + " alone explains, over " + mine.length + " measured candidates (ω², in which chance is taken off). A search does not draw values evenly, so this describes what it measured.",
      () => plainTable("Shares", ["parameter", "share", "meaning"], varied.map(one => [one.parameter.name, percent(one.share), one.parameter.help || ""])));
    pairTable.replaceChildren(now.pairs.length === 0 ? make("p", {class: "note"}, "Too few candidates for pairs: a pair needs twice as many as it has cells.") : plainTable("Pairs that interact most: what both explain beyond their own effects", ["pair", "share"],
      now.pairs.slice(0, 8).map(one => [one.p.name + " and " + one.q.name, percent(one.share)])));
    drawValues();
    drawPair();
  };
  const drawValues = () => {
    const one = now.singles.filter(single => single.used > 1)[Number(which.value)];
    if (!one) return figure(values, null, "No parameter was varied.");
    const parameter = one.parameter, groups = parameter.values.map(() => []), bad = parameter.values.map(() => 0);
    parameter.of.forEach((value, i) => groups[value].push(now.times[i]));
    const whole = now.all.find(other => other.name === parameter.name);
    for (const rejected of now.rejectedOf) ++bad[whole.of[rejected.within]];
    const labels = parameter.values.map((value, i) => labelOf(parameter, i));
    figure(values, () => ({data: groups.map((group, i) => ({type: "box", name: plain(labels[i]), y: group, boxpoints: group.length < 60 ? "all" : "outliers", jitter: 0.4, pointpos: 0,
      marker: {size: 3, color: colour("accent")}, line: {width: 1.2}, showlegend: false})).filter(trace => trace.y.length),
      layout: {yaxis: logAxis(now.times, "time, µs"), xaxis: {type: "category", title: {text: parameter.name}}}}),
      parameter.name + (parameter.help ? ": " + parameter.help : "") + ". Distribution of times for each value.",
      () => plainTable(parameter.name, ["value", "measured", "fastest", "median", "rejected"], groups.map((group, i) => {
        const sorted = group.slice().sort((x, y) => x - y);
        return [labels[i], group.length, microseconds(sorted[0]), sorted.length ? microseconds(median(sorted)) : "–", bad[i]];
      })));
  };
  const drawPair = () => {
    const one = now.pairs[Number(pair.value)];
    pair.closest("label").hidden = !one;
    if (!one) return figure(cells, null, "");
    const {p, q} = one, best = p.values.map(() => q.values.map(() => null)), many = p.values.map(() => q.values.map(() => 0));
    now.times.forEach((us, i) => {
      const x = p.of[i], y = q.of[i];
      ++many[x][y];
      if (best[x][y] === null || us < best[x][y]) best[x][y] = us;
    });
    const rows = p.values.map((value, i) => labelOf(p, i)), columns = q.values.map((value, i) => labelOf(q, i));
    figure(cells, {data: [{type: "heatmap", z: best.map(line => line.map(us => us === null ? null : Math.log10(us))), x: columns, y: rows, colorscale: "Viridis", reversescale: true, showscale: false, xgap: 2, ygap: 2,
      text: best.map((line, i) => line.map((us, j) => us === null ? "not measured" : microseconds(us) + ", " + many[i][j] + " measured")), hovertemplate: p.name + " %{y}, " + q.name + " %{x}<br>%{text}<extra></extra>"}],
      layout: {xaxis: {type: "category", title: {text: q.name}}, yaxis: {type: "category", title: {text: p.name}}}},
      "Fastest time for each pair of values; lighter is faster, empty was not measured.",
      () => plainTable(p.name + " and " + q.name, [p.name, q.name, "measured", "fastest"], rows.flatMap((label, i) => columns.map((other, j) => [label, other, many[i][j], microseconds(best[i][j])])).filter(line => line[2])));
  };
  choice.addEventListener("input", chosen);
  which.addEventListener("input", drawValues);
  pair.addEventListener("input", drawPair);
  const part = section("Parameters", make("form", null, make("label", null, "Template ", choice)),
    make("div", {class: "two"}, shares, make("div", null, make("form", null, make("label", null, "Values of ", which)), values),
      pairTable, make("div", null, make("form", null, make("label", null, "Pair ", pair)), cells)));
  chosen();
  return part;
}

function rejectionSection(row, details) {
  const bad = details.candidates.filter(one => one.outcome !== 0);
  if (!details.rejections.length) return section("Rejected candidates", make("p", {class: "note"}, "None was rejected."));
  const element = make("figure"), byValue = make("figure"), names = details.templates.map(template => template.name);
  figure(element, () => ({height: 140 + 26 * names.length, data: OUTCOMES.map((outcome, o) => ({type: "bar", orientation: "h", name: outcome, y: names.map(plain), x: names.map((name, t) => details.candidates.filter(one => one.template === t && one.outcome === o).length),
    marker: {color: colour(["d", "b", "c", "bad", "a"][o])}})).filter(trace => trace.x.some(Boolean)),
    layout: {barmode: "stack", xaxis: {title: {text: "candidates"}}, yaxis: {type: "category"}}}),
    "Outcomes of the candidates of each template.", () => plainTable("Outcomes", ["template", ...OUTCOMES], names.map((name, t) => [name, ...OUTCOMES.map((outcome, o) => details.candidates.filter(one => one.template === t && one.outcome === o).length)])));
  // Where: the outcomes of each value of a parameter, of the template and the parameter that tell most.
  const places = [];
  details.templates.forEach((template, t) => {
    const mine = details.candidates.filter(one => one.template === t);
    if (mine.every(one => one.outcome === 0)) return;
    for (const parameter of details.parameters[t]) {
      const counts = parameter.values.map(() => OUTCOMES.map(() => 0));
      for (const one of mine) ++counts[parameter.of[one.within]][one.outcome];
      const bad = counts.map(line => line.slice(1).reduce((sum, x) => sum + x, 0)), all = counts.map(line => line.reduce((sum, x) => sum + x, 0));
      const share = bad.reduce((sum, x) => sum + x, 0) / mine.length;
      // Chi squared of the values' shares of rejections, less what it would be by chance.
      const used = all.filter(Boolean).length;
      const apart = share < 1 ? all.reduce((sum, n, i) => sum + (n ? n * (bad[i] / n - share) ** 2 : 0), 0) / (share * (1 - share)) - (used - 1) : 0;
      if (used > 1) places.push({template, parameter, counts, all, bad, apart});
    }
  });
  places.sort((x, y) => y.apart - x.apart);
  const where = make("select", null, ...places.map((place, i) => make("option", {value: i}, place.template.name + ": " + place.parameter.name)));
  const drawPlace = () => {
    const place = places[Number(where.value)];
    if (!place) return figure(byValue, null, "");
    const labels = place.parameter.values.map((value, i) => labelOf(place.parameter, i));
    figure(byValue, () => ({data: OUTCOMES.map((outcome, o) => ({type: "bar", name: outcome, x: labels.map(plain), y: place.counts.map(line => line[o]), marker: {color: colour(["d", "b", "c", "bad", "a"][o])}}))
      .filter(trace => trace.y.some(Boolean)), layout: {barmode: "stack", yaxis: {title: {text: "candidates"}}, xaxis: {type: "category", title: {text: place.parameter.name}}}}),
      "Outcomes of " + place.template.name + " for each value of " + place.parameter.name + (place.parameter.help ? " (" + place.parameter.help + ")" : "") + ".",
      () => plainTable(place.parameter.name, ["value", "candidates", "rejected", "share"], labels.map((label, i) => [label, place.all[i], place.bad[i], place.all[i] ? percent(place.bad[i] / place.all[i]) : "–"])));
  };
  where.addEventListener("input", drawPlace);
  drawPlace();
  const table = make("table", null, make("caption", null, "Reasons; numbers are written as #"));
  const show = sortable(table, [
    {title: "Candidates", number: true, value: r => r.count, cell: r => digits(r.count, 7)}, {title: "Template", value: r => r.template, cell: r => r.template},
    {title: "Outcome", value: r => r.outcome, cell: r => r.outcome},
    {title: "Reason", wrap: true, value: r => r.reason, cell: r => r.example ? make("details", null, make("summary", null, r.reason), make("code", null, r.example)) : r.reason || "(none is stored)"}], {by: 0, down: true});
  show(details.rejections);
  return section("Rejected candidates", make("div", {class: "two"}, element,
    places.length ? make("div", null, make("form", null, make("label", null, "Values of ", where)), byValue) : null), make("div", {class: "scroll"}, table),
    details.other_rejections ? make("p", {class: "note"}, digits(details.other_rejections, 7) + " more have rarer reasons.") : null);
}

function candidateSection(row, details) {
  const fastest = details.ok.slice().sort((x, y) => x.us - y.us), most = 50, table = make("table", null, make("caption", {class: "hidden"}, "Fastest candidates"));
  if (!fastest.length) return null;
  const show = sortable(table, [
    {title: "Time", number: true, down: false, value: one => one.us, cell: one => microseconds(one.us)},
    {title: "Over the fastest", number: true, down: false, value: one => one.us, cell: one => digits(one.us / fastest[0].us, 4) + "×"},
    {title: "Rate", number: true, value: one => -one.us, cell: one => rate(rateOf(details, one.us), row.kind)},
    {title: "Predicted", number: true, only: fastest.some(one => known(one.predicted)), value: one => one.predicted, cell: one => microseconds(one.predicted)},
    {title: "Registers", number: true, only: fastest.some(one => known(one.registers)), value: one => one.registers, cell: one => known(one.registers) ? one.registers : "–"},
    {title: "Spills", number: true, only: fastest.some(one => known(one.registers)), value: one => one.spill || 0, cell: one => known(one.spill) ? bytes(one.spill) : "–"},
    {title: "Shared", number: true, value: one => one.shared, cell: one => bytes(one.shared)},
    {title: "Occupancy", number: true, only: fastest.some(one => known(one.occupancy)), value: one => one.occupancy, cell: one => known(one.occupancy) ? one.occupancy + "%" : "–"},
    {title: "Configuration", value: one => configurationOf(details, one), cell: one => make("code", null, configurationOf(details, one))}].filter(column => column.only !== false), {most, down: false});
  const words = make("input", {type: "search", placeholder: "simt tma"}), count = make("output");
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const some = wanted.length ? fastest.filter(one => { const text = configurationOf(details, one); return wanted.every(word => text.includes(word)); }) : fastest;
    show(some);
    count.textContent = some.length > most ? most + " of " + digits(some.length, 6) : counted(some.length, "candidate");
  };
  words.addEventListener("input", filter);
  filter();
  const form = make("form", {role: "search", "aria-label": "Filter the candidates"}, make("label", null, "Search ", words), count);
  form.addEventListener("submit", event => event.preventDefault());
  return section("Fastest candidates", form, make("div", {class: "scroll"}, table));
}
