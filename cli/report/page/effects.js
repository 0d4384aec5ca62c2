// What parameters do to the time: shares of the variance of log(time).

// Groups of candidates with one value; sums of squares around their means.
function grouped(groups, logs, size) {
  const count = new Array(size).fill(0), sum = new Array(size).fill(0);
  for (let i = 0; i < logs.length; ++i) { ++count[groups[i]]; sum[groups[i]] += logs[i]; }
  const means = sum.map((total, g) => count[g] ? total / count[g] : 0);
  let between = 0, used = 0;
  for (let g = 0; g < size; ++g) if (count[g]) { between += count[g] * means[g] ** 2; ++used; }
  return {means, between, used};
}
// Omega squared: the explained share of the variance, less what as many random groups would explain.
function explained(between, groups, total, count, within) {
  const freedom = count - groups;
  if (freedom <= 0 || !(total > 0)) return 0;
  const noise = within / freedom;
  return Math.max(0, (between - (groups - 1) * noise) / (total + noise));
}

// parameters: [{name, of: indices, values}], times in any unit. Returns the share of each parameter,
// and of pairs what both together explain beyond the sum of their own effects.
function effectsOf(parameters, times) {
  const logs = times.map(Math.log), count = logs.length;
  const all = logs.reduce((sum, x) => sum + x, 0) / Math.max(1, count);
  for (let i = 0; i < count; ++i) logs[i] -= all;
  const total = logs.reduce((sum, x) => sum + x * x, 0);
  const singles = parameters.map(parameter => {
    const {between, used} = grouped(parameter.of, logs, parameter.values.length);
    return {parameter, used, share: used > 1 ? explained(between, used, total, count, total - between) : 0};
  }).sort((x, y) => y.share - x.share);
  const several = singles.filter(one => one.used > 1).slice(0, 16), pairs = [];
  for (let i = 0; i < several.length; ++i)
    for (let j = i + 1; j < several.length; ++j) {
      const p = several[i].parameter, q = several[j].parameter, width = q.values.length;
      // The two effects together, fitted in turns: the groups are not of equal size.
      const rest = logs.slice();
      for (let turn = 0; turn < 4; ++turn)
        for (const one of [p, q]) {
          const {means} = grouped(one.of, rest, one.values.length);
          for (let c = 0; c < count; ++c) rest[c] -= means[one.of[c]];
        }
      const cells = new Array(count);
      for (let c = 0; c < count; ++c) cells[c] = p.of[c] * width + q.of[c];
      const {between, used} = grouped(cells, rest, p.values.length * width);
      const left = rest.reduce((sum, x) => sum + x * x, 0);
      const freedom = Math.max(1, used - several[i].used - several[j].used + 1), within = left - between;
      if (count < 2 * used || !(total > 0)) continue;  // nearly each cell by itself explains anything
      pairs.push({p, q, share: Math.max(0, (between - freedom * within / (count - used)) / total)});
    }
  pairs.sort((x, y) => y.share - x.share);
  return {singles, pairs};
}
