// Helpers: elements, numbers as text, tables that sort, decoding of columns.
const $ = id => document.getElementById(id);
const json = id => JSON.parse($(id).textContent);

// An element with attributes and children; text is never taken for HTML.
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "rect", "text", "line", "title"].includes(tag) && attributes && attributes.svg;
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name === "svg" || value === undefined || value === null) continue;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

const known = value => value !== null && value !== undefined && Number.isFinite(value);
function digits(value, count) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(Math.max(0, count - 1));
  return value.toLocaleString("en", {maximumSignificantDigits: Math.max(count, size >= 1 ? Math.ceil(Math.log10(size + 1)) : 1)});
}
function microseconds(us) {
  if (!known(us)) return "–";
  if (us < 1e3) return digits(us, 4) + " µs";
  if (us < 1e6) return digits(us / 1e3, 4) + " ms";
  return digits(us / 1e6, 4) + " s";
}
const integers = kind => /^i8|^i32/.test(kind);
function rate(tflops, kind) {
  if (!known(tflops)) return "–";
  const unit = integers(kind || "") ? "OP/s" : "FLOP/s";
  return tflops < 1 ? digits(tflops * 1e3, 4) + " G" + unit : digits(tflops, 4) + " T" + unit;
}
function bytes(count) {
  if (!known(count)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < 4) count /= 1024, ++unit;
  return digits(count, 4) + " " + units[unit];
}
const percent = share => known(share) ? digits(100 * share, 3) + "%" : "–";
const median = sorted => sorted.length % 2 ? sorted[(sorted.length - 1) / 2]
  : (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2;

const counted = (count, noun) => digits(count, 7) + " " + noun + (count === 1 ? "" : "s");

// plotly takes some HTML in labels.
const plain = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// Columns: numbers with blanks between (nothing: not known), or one character for each index.
const numbers = text => text === "" ? [] : text.split(" ").map(word => word === "" ? NaN : Number(word));
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PLACE = Object.fromEntries([...DIGITS].map((digit, i) => [digit, i]));
const indices = column => typeof column === "string" ? Array.from(column, digit => PLACE[digit]) : column;

// A table that its headings sort. columns: {title, value(row), cell(row), number}. Returns a
// function that shows other rows.
function sortable(table, columns, options) {
  const head = make("tr"), body = table.tBodies[0] || table.appendChild(make("tbody"));
  const state = {rows: [], by: options.by || 0, down: options.down || false, most: options.most || 500};
  const show = () => {
    const {value} = columns[state.by];
    const missing = x => x === null || x === undefined || Number.isNaN(x);
    const sorted = state.rows.slice().sort((p, q) => {
      const x = value(p), y = value(q);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const order = typeof x === "string" ? x.localeCompare(y, "en", {numeric: true}) : x - y;
      return state.down ? -order : order;
    });
    body.replaceChildren(...sorted.slice(0, state.most).map(row => {
      const line = make("tr", options.attributes ? options.attributes(row) : {});
      for (const column of columns) {
        const cell = make("td", {class: column.number ? "number" : column.wrap ? "wrap" : null});
        const content = column.cell(row);
        cell.append(content instanceof Node ? content : String(content));
        line.append(cell);
      }
      return line;
    }));
    [...head.cells].forEach((cell, i) =>
      cell.setAttribute("aria-sort", i === state.by ? (state.down ? "descending" : "ascending") : "none"));
    if (options.after) options.after(sorted.length, state.most);
  };
  columns.forEach((column, i) => head.append(make("th", {scope: "col", class: column.number ? "number" : null},
    make("button", {type: "button", onclick: () => {
      state.down = state.by === i ? !state.down : Boolean(column.number && column.down !== false);
      state.by = i;
      show();
    }}, column.title))));
  (table.tHead || table.createTHead()).replaceChildren(head);
  return (rows, most) => { state.rows = rows; if (most) state.most = most; show(); };
}

// A table of words and numbers, for those who do not see a figure.
function plainTable(caption, titles, rows) {
  return make("div", {class: "scroll"}, make("table", null, make("caption", null, caption),
    make("thead", null, make("tr", null, ...titles.map(title => make("th", {scope: "col"}, title)))),
    make("tbody", null, ...rows.map(row => make("tr", null, ...row.map(cell => make("td", null, String(cell))))))));
}
