// The winner as tiles: C in blocks, a block in warps, a warp in threads.
function tileDrawing(whole, part, names) {
  const room = 210, scale = room / Math.max(whole.m, whole.n);
  const width = Math.max(4, whole.n * scale), height = Math.max(4, whole.m * scale);
  const across = Math.ceil(whole.n / part.n), down = Math.ceil(whole.m / part.m);
  const svg = make("svg", {svg: 1, viewBox: "-1 -1 " + (width + 2) + " " + (height + 2), width: width + 2, height: height + 2,
    role: "img", "aria-label": names.whole + " of " + whole.m + " by " + whole.n + " in " + across * down + " parts of " + part.m + " by " + part.n});
  svg.style.maxWidth = width + 2 + "px";
  const w = part.n * scale, h = part.m * scale;
  svg.append(make("rect", {svg: 1, x: 0, y: 0, width, height, fill: "var(--card)", stroke: "var(--soft)"}));
  // The first part is filled; lines closer than two pixels are left out.
  svg.append(make("rect", {svg: 1, x: 0, y: 0, width: Math.min(w, width), height: Math.min(h, height), fill: "var(--accent)", "fill-opacity": 0.55}));
  if (w >= 2) for (let i = 1; i < across; ++i) svg.append(make("line", {svg: 1, x1: i * w, x2: i * w, y1: 0, y2: height, stroke: "var(--soft)", "stroke-width": 0.6}));
  if (h >= 2) for (let i = 1; i < down; ++i) svg.append(make("line", {svg: 1, x1: 0, x2: width, y1: i * h, y2: i * h, stroke: "var(--soft)", "stroke-width": 0.6}));
  const edge = whole.m % part.m || whole.n % part.n ? "; parts at the edge are not full" : "";
  return make("figure", null, svg, make("figcaption", null,
    names.whole + " " + whole.m + " × " + whole.n + " in " + digits(across * down, 7) + " " + names.part + (across * down > 1 ? "s" : "") + " of " + part.m + " × " + part.n
      + (w < 2 || h < 2 ? " (too many to draw each)" : "") + edge + (part.note ? "; " + part.note : "") + "."));
}
function tilesOf(row, winner) {
  const levels = [{name: "C", m: row.m, n: row.n}, ...winner.tiles];
  const drawings = [];
  for (let i = 0; i + 1 < levels.length; ++i)
    drawings.push(tileDrawing(levels[i], levels[i + 1], {whole: i === 0 ? "C" : "A " + levels[i].name + "’s", part: levels[i + 1].name}));
  return make("div", {class: "tiles"}, ...drawings);
}
