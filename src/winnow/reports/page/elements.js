"use strict";
// The page is a function of its address: `#view=...&a=CELL&...` names all that is shown, so that every view has a permanent link.

const VIEWS = { answer: "Answer", explore: "Charts", outcomes: "Outcomes", questions: "Questions", compare: "Compare", tables: "Tables", about: "About" };
const ROWS = 200;
let data, cells, started = performance.now();

// ---- Elements, the state in the address, and numbers.

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

function table(headings, rows, attributes) {
  const cell = (tag) => (entry) => (entry instanceof HTMLTableCellElement ? entry : h(tag, {}, entry));
  return h("div", { class: "wide" }, h("table", attributes || {},
    h("thead", {}, h("tr", {}, headings.map(cell("th")).map((heading) => (heading.setAttribute("scope", "col"), heading)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td")))))));
}

const number = (text) => h("td", { class: "number" }, text);
const numberHeading = (text) => h("th", { class: "number" }, text);
const muted = (text) => h("span", { class: "muted small" }, text);

function readState() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

function link(changes, base) {
  const state = { ...(base || {}), ...changes };
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== undefined && value !== "" && value !== null) parameters.set(name, value);
  return "#" + parameters;
}

function go(changes, base) { location.hash = link(changes, base || readState()); }

function select(label, options, chosen, onchange) {
  return h("label", {}, label + " ", h("select", { name: label, onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text))));
}

// A text in lines of about so many characters, which charts break where they find a line feed.
const wrap = (text, most) => text.split(" ").reduce((lines, word) => (lines.length && lines.at(-1).length + word.length < most ? [...lines.slice(0, -1), `${lines.at(-1)} ${word}`] : [...lines, word]), []).join("\n");

const findCell = (name) => cells.find((cell) => cell.name === name);
const cellOptions = () => cells.map((cell) => [cell.name, cell.name]);
const getMetric = (name) => data.metrics.find((metric) => metric.name === name) || data.metrics[0];

// A number as Python formats it: an exact half is rounded to the even digit, which toFixed rounds up.
function fixed(value, digits) {
  const scaled = Math.abs(value) * 10 ** digits, isHalf = Number.isInteger(value * 2 ** (digits + 1)) && scaled % 1 === 0.5;
  if (!isHalf) return value.toFixed(digits);
  return (Math.sign(value) * 2 * Math.round(scaled / 2) / 10 ** digits).toFixed(digits);
}

function formatValue(metric, value) {
  if (value === null || value === undefined) return "–";
  return metric.unit === "percent" ? fixed(100 * value, 1) : fixed(value, metric.digits);
}

function formatInterval(metric, interval) {
  if (!interval) return "–";
  return `${formatValue(metric, interval[0])} [${formatValue(metric, interval[1])}, ${formatValue(metric, interval[2])}]`;
}

const formatP = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p >= 0.0495 && p < 0.05 ? fixed(Math.min(p, 0.0499), 4) : fixed(p, 3)}`);

// A text with its commands as code, and with intervals that no line breaks.
const describe = (text) => text.replace(/\[[^\]]*\]/g, (interval) => interval.replaceAll(" ", "\u00a0")).split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
const formatSigned = (value, metric) => (value > 0 ? "+" : value < 0 ? "−" : "±") + fixed(Math.abs(value), metric && metric.unit !== "percent" ? metric.digits : 1);
const formatDifference = (difference, metric) => `${formatSigned(difference[0], metric)} [${formatSigned(difference[1], metric)}, ${formatSigned(difference[2], metric)}]`;
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// Cells by the first metric, best first, after that of the headline; those with another selection of questions come last.
function rankCells() {
  const name = data.metrics[0].name;
  const mean = (cell) => (cell.intervals[name] ? (data.metrics[0].lower ? -1 : 1) * cell.intervals[name][0] : -Infinity);
  const best = cells[data.story.headline.cells[0] ?? 0];
  const ranked = [...cells].sort((x, y) => (y === best) - (x === best) || mean(y) - mean(x));
  const isOther = (cell) => cell.selection !== best.selection;
  return ranked.sort((x, y) => isOther(x) - isOther(y));
}

// Exact two-sided p-value of McNemar's test: a binomial test of the discordant questions with probability 1/2.
function testMcNemar(won, lost) {
  const n = won + lost;
  if (!n) return 1;
  let logTerm = -n * Math.LN2, total = 0;
  for (let i = 0; i <= Math.min(won, lost); i++) {
    total += Math.exp(logTerm);
    logTerm += Math.log(n - i) - Math.log(i + 1);
  }
  return Math.min(1, 2 * total);
}
