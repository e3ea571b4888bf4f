"use strict";
// The page is a function of its address: `#view=...&a=CELL&...` names all that is shown, so that every view has a permanent link.

const VIEWS = { findings: "Findings", matrix: "Matrix", outcomes: "Outcomes", questions: "Questions", compare: "Compare" };
const ROWS = 200;
let data, cells, started = performance.now();

// ---------------------------------------------------------------- elements

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

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function table(headings, rows, attributes) {
  const cell = (tag) => (entry) => (entry instanceof HTMLTableCellElement ? entry : h(tag, {}, entry));
  return h("div", { class: "wide" }, h("table", attributes || {},
    h("thead", {}, h("tr", {}, headings.map(cell("th")))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td")))))));
}

const number = (text) => h("td", { class: "number" }, text);
const numberHeading = (text) => h("th", { class: "number" }, text);
const muted = (text) => h("span", { class: "muted small" }, text);

// ---------------------------------------------------------------- state

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
  return h("label", {}, label + " ", h("select", { onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text))));
}

const findCell = (name) => cells.find((cell) => cell.name === name);
const cellOptions = () => cells.map((cell) => [cell.name, cell.name]);
const getMetric = (name) => data.metrics.find((metric) => metric.name === name) || data.metrics[0];

// ---------------------------------------------------------------- numbers

function formatValue(metric, value) {
  if (value === null || value === undefined) return "–";
  return metric.unit === "percent" ? (100 * value).toFixed(1) : value.toFixed(metric.digits);
}

function formatInterval(metric, interval) {
  if (!interval) return "–";
  return `${formatValue(metric, interval[0])} [${formatValue(metric, interval[1])}, ${formatValue(metric, interval[2])}]`;
}

const formatP = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);
const formatSigned = (value) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(1);
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// Cells by the first metric, highest first; those with another selection of questions than the highest come last.
function rankCells() {
  const name = data.metrics[0].name;
  const mean = (cell) => (cell.intervals[name] ? cell.intervals[name][0] : -Infinity);
  const ranked = [...cells].sort((x, y) => mean(y) - mean(x));
  const isOther = (cell) => cell.selection !== ranked[0].selection;
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

// ---------------------------------------------------------------- findings

function showFindings() {
  const metric = data.metrics[0];
  const items = data.findings.map((finding) => {
    const [first, second] = finding.cells;
    const target = second !== undefined ? { view: "compare", a: cells[first].name, b: cells[second].name }
      : first !== undefined ? { view: "questions", a: cells[first].name } : null;
    return h("div", { class: "finding" + (finding.significant ? " significant" : "") }, finding.text, " ",
      target && h("a", { href: link(target) }, second !== undefined ? "compare" : "questions"));
  });
  return [
    data.notes.map((note) => h("p", { class: "note" }, note)),
    h("h2", {}, "What the sweep found"), items,
    muted("● significant after correction for multiple testing"),
    h("h2", {}, `${metric.title} of every cell, with 95 % intervals`), drawIntervals(metric),
    h("h2", {}, "What made the numbers"),
    h("dl", {}, Object.entries(data.provenance).map(([name, value]) => [h("dt", {}, h("b", {}, name)), h("dd", {}, value)])),
  ];
}

function drawIntervals(metric) {
  const shown = cells.filter((cell) => cell.intervals[metric.name]);
  if (!shown.length) return muted("undefined in every cell");
  const sorted = [...shown].sort((x, y) => y.intervals[metric.name][0] - x.intervals[metric.name][0]);
  const [left, width, step] = [340, 640, 22];
  const high = Math.max(...sorted.map((cell) => cell.intervals[metric.name][2])) || 1;
  const low = Math.min(0, ...sorted.map((cell) => cell.intervals[metric.name][1]));
  const x = (value) => left + (width * (value - low)) / (high - low || 1);
  const image = svg("svg", { viewBox: `0 0 1080 ${sorted.length * step + 34}`, role: "img", width: "100%", "aria-label": `${metric.title} by cell` });
  for (let i = 0; i <= 4; i++) {
    const value = low + ((high - low) * i) / 4;
    image.append(svg("line", { x1: x(value), x2: x(value), y1: 0, y2: sorted.length * step + 6, class: "axis" }),
      svg("text", { x: x(value), y: sorted.length * step + 22, "text-anchor": "middle" }, formatValue(metric, value) + (metric.unit === "percent" ? " %" : "")));
  }
  sorted.forEach((cell, index) => {
    const [mean, from, to] = cell.intervals[metric.name];
    const y = index * step + 14;
    const group = svg("a", { href: link({ view: "questions", a: cell.name }) });
    group.append(svg("title", {}, `${cell.name}: ${formatInterval(metric, cell.intervals[metric.name])}`),
      svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, cell.name.length > 48 ? cell.name.slice(0, 47) + "…" : cell.name),
      svg("line", { x1: x(from), x2: x(to), y1: y, y2: y, class: "range" }), svg("circle", { cx: x(mean), cy: y, r: 4.5 }));
    image.append(group);
  });
  return image;
}

// ---------------------------------------------------------------- matrix

function heat(share) {
  const strength = 0.06 + 0.54 * Math.max(0, Math.min(1, share));
  return `background: rgba(var(--heat), ${strength.toFixed(3)})`;
}

function heatCell(metric, value, scale, title, href, below) {
  if (value === null || value === undefined) return h("td", { class: "value muted" }, "");
  const content = [formatValue(metric, value), below && h("small", {}, below)];
  return h("td", { class: "value", style: heat((value - scale[0]) / (scale[1] - scale[0] || 1)), title }, href ? h("a", { href }, content) : content);
}

function showMatrix(state) {
  const metric = getMetric(state.metric);
  const columns = [...new Map(cells.map((cell) => [`${cell.k}|${cell.gold}`, cell])).values()].sort((x, y) => x.k - y.k);
  const strategies = [...new Set(cells.map((cell) => cell.strategy))];
  const means = cells.map((cell) => cell.intervals[metric.name]).filter(Boolean).map((interval) => interval[0]);
  if (!means.length) return [controlsOfMatrix(metric), muted(`${metric.title} is undefined in every cell.`)];
  const scale = [Math.min(...means), Math.max(...means)];
  const rows = strategies.map((strategy) => [h("th", { scope: "row" }, strategy), ...columns.map((column) => {
    const found = cells.filter((cell) => cell.strategy === strategy && cell.k === column.k && cell.gold === column.gold);
    const cell = found[0], interval = cell && cell.intervals[metric.name];
    if (!interval) return heatCell(metric, null);
    const range = `${formatValue(metric, interval[1])}–${formatValue(metric, interval[2])}`;
    return heatCell(metric, interval[0], scale, `${cell.name}: ${formatInterval(metric, interval)}, ${interval[3]} questions`,
      link({ view: "questions", a: cell.name }), range);
  })]);
  return [
    controlsOfMatrix(metric),
    h("h2", {}, `${metric.title} by strategy, k and placement`),
    table(["strategy", ...columns.map((column) => `k=${column.k}, ${column.gold}`)], rows, { class: "heat" }),
    muted(`Each square opens its questions; small numbers are 95 % intervals. Colors go from ${formatValue(metric, scale[0])} (weakest) to ${formatValue(metric, scale[1])} (strongest).`), showPositions(metric),
  ];
}

const controlsOfMatrix = (metric) => h("div", { class: "controls" },
  select("Metric", data.metrics.map((m) => [m.name, m.title]), metric.name, (value) => go({ metric: value })));

function showPositions(metric) {
  const groups = new Map();
  let most = 0;
  for (const cell of cells) {
    if (!cell.k || cell.gold === "retrieved") continue;
    const values = cell.values[metric.name];
    values.forEach((value, index) => {
      const position = cell.positions[index];
      if (value === null || !position) return;
      most = Math.max(most, position);
      const key = `${cell.strategy}|${cell.k}`;
      if (!groups.has(key)) groups.set(key, { strategy: cell.strategy, k: cell.k, sums: {} });
      const sums = (groups.get(key).sums[position] ||= new Map());  // of a question, whose placements may be the same at this k
      const [sum, n] = sums.get(cell.questions[index]) || [0, 0];
      sums.set(cell.questions[index], [sum + value, n + 1]);
    });
  }
  if (!most) return null;
  const average = (sums) => [...sums.values()].reduce((total, [sum, n]) => total + sum / n, 0) / sums.size;
  const all = [...groups.values()].flatMap((group) => Object.values(group.sums).map(average));
  const scale = [Math.min(...all), Math.max(...all)];
  const positions = Array.from({ length: most }, (_, index) => index + 1).filter((position) => [...groups.values()].some((group) => group.sums[position]));
  const rows = [...groups.values()].map((group) => [h("th", { scope: "row" }, `${group.strategy}, k=${group.k}`), ...positions.map((position) => {
    const entry = group.sums[position];
    return entry ? heatCell(metric, average(entry), scale, count(entry.size, "question"), null, `n=${entry.size}`) : heatCell(metric, null);
  })]);
  return [h("h2", {}, `${metric.title} by the gold passage's position in the prompt`),
    table(["strategy", ...positions.map(String)], rows, { class: "heat" }), muted("Questions with a gold passage in the prompt, in the placements that move it. The placement “retrieved” is left out, because there an early position means that the question is an easy one to retrieve for.")];
}

// ---------------------------------------------------------------- outcomes

function countOutcomes(cell) {
  const counts = data.outcomes.map(() => 0);
  for (const outcome of cell.outcomes) counts[outcome] += 1;
  return counts;
}

function showOutcomes(state) {
  const counts = cells.map(countOutcomes);
  const used = data.outcomes.map((_, index) => index).filter((index) => counts.some((count) => count[index]));
  const rows = cells.map((cell, row) => [h("a", { href: link({ view: "outcomes", a: cell.name }) }, cell.name), ...used.map((index) => {
    const count = counts[row][index], share = count / cell.outcomes.length;
    return h("td", { class: "number", title: `${(100 * share).toFixed(1)} %` }, h("span", { class: "bar", style: `width:${(2 * share).toFixed(2)}rem` }),
      count ? h("a", { href: link({ view: "questions", a: cell.name, outcome: data.outcomes[index].name }) }, count) : "0");
  })]);
  const cell = findCell(state.a) || rankCells()[0];
  return [
    h("h2", {}, "What became of the questions"),
    muted("Counted without a judge, from what is stored: the first reason that applies. Each count opens its questions."),
    table(["cell", ...used.map((index) => h("th", { class: "number", title: data.outcomes[index].meaning }, data.outcomes[index].title))], rows, { class: "outcomes" }),
    h("h2", {}, "Outcomes of one cell"),
    h("div", { class: "controls" }, select("Cell", cellOptions(), cell.name, (value) => go({ a: value }))),
    drawFlow(cell),
    h("dl", {}, used.map((index) => [h("dt", {}, h("b", {}, data.outcomes[index].title)), h("dd", {}, data.outcomes[index].meaning)])),
  ];
}

function drawFlow(cell) {
  const counts = countOutcomes(cell);
  const total = cell.outcomes.length;
  let rest = total;
  const steps = [h("span", { class: "step" }, h("b", {}, total), "questions")];
  data.outcomes.forEach((outcome, index) => {
    if (!counts[index] || outcome.name === "right") return;
    rest -= counts[index];
    steps.push(h("a", { href: link({ view: "questions", a: cell.name, outcome: outcome.name }), title: outcome.meaning },
      h("b", { class: "bad" }, `− ${counts[index]}`), outcome.title));
  });
  steps.push(h("a", { href: link({ view: "questions", a: cell.name, outcome: "right" }) }, h("b", { class: "good" }, `= ${rest}`), "right"));
  return h("div", { class: "flow" }, steps);
}

// ---------------------------------------------------------------- questions

function listRows(cell, state) {
  const words = (state.search || "").toLowerCase();
  const outcome = data.outcomes.findIndex((entry) => entry.name === state.outcome);
  const rows = [];
  cell.questions.forEach((question, index) => {
    if (outcome >= 0 && cell.outcomes[index] !== outcome) return;
    const [id, text, accepted] = data.questions[question];
    const answer = data.answers[cell.answers[index]];
    if (words && ![id, text, answer, ...accepted].some((part) => part.toLowerCase().includes(words))) return;
    rows.push({ question, index, id, text, accepted, answer });
  });
  const key = state.sort;
  const keys = { text: (row) => row.text, answer: (row) => row.answer, outcome: (row) => cell.outcomes[row.index] };
  const value = keys[key] || (key && cell.values[key] ? (row) => cell.values[key][row.index] ?? -Infinity : null);
  if (value) rows.sort((x, y) => (typeof value(x) === "string" ? value(x).localeCompare(value(y)) : value(y) - value(x)));
  return rows;
}

function outcomeTag(index) {
  const outcome = data.outcomes[index];
  const tone = outcome.name === "right" ? "good" : outcome.name.includes("unknown") ? "warn" : "bad";
  return h("span", { class: `tag ${tone}`, title: outcome.meaning }, outcome.title);
}

const searchBox = (state) => h("label", {}, "Search ", h("input", { type: "search", id: "search", value: state.search || "",
  placeholder: "question, answer or id", onchange: (event) => go({ search: event.target.value, more: "" }) }));

function listQuestions(state, cell, rows, extra) {
  const most = Number(state.more) || ROWS;
  const metric = data.metrics[0];
  const prompts = data.cases[cells.indexOf(cell)] || {};
  return [
    muted(`${rows.length} of ${cell.questions.length} questions`),
    table(["id", "question", "accepted", "answer", "outcome", numberHeading(metric.title), "prompts"], rows.slice(0, most).map((row) => [
      h("a", { href: link({ view: "questions", a: cell.name, id: row.id, ...(extra || {}) }, keepFilters(state)) }, row.id),
      row.text, row.accepted.slice(0, 4).join("; "), row.answer, h("td", {}, outcomeTag(cell.outcomes[row.index])),
      number(formatValue(metric, cell.values[metric.name][row.index])), row.question in prompts ? "yes" : muted("no"),
    ])),
    rows.length > most && h("a", { href: link({ more: most + ROWS * 5 }, state) }, `Show ${Math.min(ROWS * 5, rows.length - most)} more`),
  ];
}

const keepFilters = (state) => ({ outcome: state.outcome, search: state.search, sort: state.sort, group: state.group });

function showQuestions(state) {
  const cell = findCell(state.a) || rankCells()[0];
  if (state.id) return showQuestion(state, cell);
  const counts = countOutcomes(cell);
  const rows = listRows(cell, state);
  const sorts = [["", "order of the data"], ["text", "question"], ["answer", "answer"], ["outcome", "outcome"], ...data.metrics.map((m) => [m.name, m.title])];
  return [
    h("div", { class: "controls" },
      select("Cell", cellOptions(), cell.name, (value) => go({ a: value })),
      select("Outcome", [["", "all"], ...data.outcomes.map((entry, index) => [entry.name, `${entry.title} (${counts[index]})`])
        .filter(([name], index) => counts[index] || name === state.outcome)], state.outcome || "", (value) => go({ outcome: value, more: "" })),
      select("Sort by", sorts, state.sort || "", (value) => go({ sort: value })), searchBox(state)),
    listQuestions(state, cell, rows),
  ];
}

// ---------------------------------------------------------------- one question

function showQuestion(state, cell) {
  const question = data.questions.findIndex((entry) => entry[0] === state.id);
  if (question < 0) return h("p", { class: "note" }, `There is no question with the id ${state.id}.`);
  const [id, text, accepted, normalized] = data.questions[question];
  const other = findCell(state.b);
  if (other && !state.group) state.group = findGroup(cell, other, question);
  const rows = state.b ? listPairs(cell, other, state) : listRows(cell, state);
  const at = rows.findIndex((row) => row.question === question);
  const step = (offset) => (at >= 0 && rows[at + offset] ? link({ id: rows[at + offset].id, off: "" }, state) : null);
  const pager = (label, href, key) => (href ? h("a", { href, id: key }, label) : muted(label));
  return [
    h("div", { class: "pager" }, h("a", { id: "back", href: link({ id: "", off: "", ...(other ? { view: "compare" } : {}) }, state) }, "↑ all questions"),
      pager("← previous (k)", step(-1), "previous"), pager("next (j) →", step(1), "next"), at >= 0 && muted(`${at + 1} of ${rows.length}`)),
    h("h2", {}, text), h("p", {}, "Accepted: ", accepted.join("; ") || "none", " ", muted(`normalized: ${normalized.join("; ")} · ${id}`)),
    h("div", { class: other ? "columns" : "" }, showCase(state, cell, question, null), other && showCase(state, other, question, cell)),
    h("h3", {}, "Every cell's answer"),
    table(["cell", "answer", "outcome", ...data.metrics.slice(0, 3).map((m) => numberHeading(m.title)), ""], cells.flatMap((entry) => {
      const index = entry.questions.indexOf(question);
      if (index < 0) return [];
      return [[h("a", { href: link({ a: entry.name, b: "", off: "", view: "questions" }, state) }, entry.name), data.answers[entry.answers[index]],
        h("td", {}, outcomeTag(entry.outcomes[index])), ...data.metrics.slice(0, 3).map((m) => number(formatValue(m, entry.values[m.name][index]))),
        entry !== cell && h("a", { href: link({ view: "questions", a: cell.name, b: entry.name, id }) }, "beside")]];
    })),
  ];
}

function showCase(state, cell, question, reference) {
  const index = cell.questions.indexOf(question);
  if (index < 0) return h("section", {}, h("h3", {}, cell.name), h("p", {}, "This cell does not answer the question."));
  const outcome = data.outcomes[cell.outcomes[index]];
  const answer = data.answers[cell.answers[index]];
  const entry = (data.cases[cells.indexOf(cell)] || {})[question];
  const head = [h("h3", {}, cell.name), h("p", {}, "Answer: ", h("b", {}, answer || "(empty)"), outcomeTag(cell.outcomes[index]), h("br"),
    muted(outcome.meaning + (entry ? ` Normalized: “${entry.normalized}”.` : "")))];
  const values = data.metrics.map((m) => `${m.title} ${formatValue(m, cell.values[m.name][index])}`).join(" · ");
  if (!entry) return h("section", {}, head, muted(values), h("p", { class: "note" }, "The page holds no prompts of this question."));
  const answers = data.questions[question][2];
  const other = reference && (data.cases[cells.indexOf(reference)] || {})[question];
  return h("section", {}, head, muted(values), entry.note && h("p", { class: "note" }, entry.note),
    entry.trace.length ? h("p", { class: "small" }, "Trace: ", entry.trace.join("; ")) : null,
    showContexts(state, entry, answers, !reference, data.questions[question][4]), showTimeline(entry, answers), entry.rounds.map((calls, round) => showRound(calls, round, entry, answers, other)));
}

// One line a round of a plan with several: what was requested, what came of it, and whether that has an accepted answer.
function showTimeline(entry, answers) {
  if (entry.rounds.length < 2) return null;
  const shorten = (text) => (text.length > 80 ? text.slice(0, 79) + "…" : text);
  const items = entry.rounds.map((calls, round) => {
    const texts = calls.map((call) => shorten((call.kind === "Search" ? `“${formatCall(call).replace(/^<query>\s*/, "").trim()}” → ` : "") + formatResult(call).replace(/\s+/g, " ")));
    const kinds = [...new Set(calls.map((call) => (call.kind === "Search" ? "search" : `${call.role}, ${call.kind.toLowerCase()}`)))].join("; ");
    const found = calls.some((call) => call.kind === "Search" && markAnswers(formatResult(call), answers).length > 1);
    const open = (event) => { event.preventDefault(); const details = event.target.closest("section").querySelectorAll("details.round")[round]; details.open = true; details.scrollIntoView(); details.querySelector("summary").focus(); };
    return h("li", {}, h("a", { href: "#", onclick: open }, `Round ${round + 1}`), " ", muted(calls.length > 1 ? `${calls.length} × ${kinds}` : kinds), " ",
      texts.length > 3 ? [...texts.slice(0, 3), "…"].join(" | ") : texts.join(" | "), found ? h("span", { class: "tag good" }, "found an answer") : null);
  });
  return h("div", {}, h("h3", {}, `${count(entry.rounds.length, "round")}`), h("ol", { class: "timeline" }, items));
}

// Requests of one round are served together. Long rounds are folded, unless a reply in them differs from the reference's.
function showRound(calls, round, entry, answers, other) {
  const references = other ? other.rounds[round] || [] : [];
  const shown = calls.map((call, index) => showCall(call, answers, calls.length === 1, index, references[index]));
  const title = `Round ${round + 1}: ${count(calls.length, "request")}`;
  const differs = calls.some((call, index) => references[index] && formatResult(references[index]) !== formatResult(call));
  return h("details", { class: "round", open: calls.length < 6 || round === entry.rounds.length - 1 || differs }, h("summary", {}, h("b", {}, title)), shown);
}

// Whole words only, except in scripts that do not separate words.
function markAnswers(text, answers) {
  const found = answers.filter((answer) => answer.trim()).sort((x, y) => y.length - x.length).map((answer) => {
    const escaped = answer.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return (/^\w/.test(answer.trim()) ? "(?<!\\w)" : "") + escaped + (/\w$/.test(answer.trim()) ? "(?!\\w)" : "");
  });
  if (!found.length) return [text];
  return text.split(new RegExp(`(${found.join("|")})`, "i")).map((part, index) => (index % 2 ? h("mark", {}, part) : part));
}

function showContexts(state, entry, answers, canSwitch, isAnnotated) {
  if (!entry.contexts.length) return null;
  const off = new Set((state.off || "").split(",").filter(Boolean).map(Number));
  const tally = entry.tally && canSwitch ? entry.tally : null;
  const items = entry.contexts.map(([passage, rank, score, logOdds, logWeight, isGold, hasAnswer], index) => {
    const [title, text] = data.passages[passage];
    const facts = [rank ? `rank ${rank}` : "not retrieved", score !== null && `score ${score}`, logOdds !== null && `log-odds ${logOdds}`, logWeight && `log-weight ${logWeight}`].filter(Boolean).join(", ");
    const toggle = tally && h("input", { type: "checkbox", checked: !off.has(index), "aria-label": `Use passage ${index + 1}`, onclick: (event) => {
      event.preventDefault();
      const changed = new Set(off);
      if (!changed.delete(index)) changed.add(index);
      go({ off: [...changed].sort((x, y) => x - y).join(",") });
    } });
    return h("details", {}, h("summary", {}, toggle, ` [${index + 1}] ${title} `, muted(facts), isGold ? h("span", { class: "tag good", title: isAnnotated ? "named by the data set" : "the first stored context that contains an accepted answer as text" },
      isAnnotated ? "gold" : "gold by its text") : null,
      hasAnswer ? h("span", { class: "tag good", title: "contains an accepted answer as text" }, "has answer") : null), h("pre", {}, markAnswers(text, answers)));
  });
  return h("div", {}, h("h3", {}, `${count(entry.contexts.length, "context")}, in prompt order`), items, tally && showTally(tally, off));
}

// The answer that follows from the ballots of the passages that are left, as winnow.strategies computes it.
function recount(tally, off) {
  const totals = new Map(), isCandidate = new Set();
  for (const ballot of tally.ballots) {
    if (off.has(ballot.context)) continue;
    if (ballot.source) isCandidate.add(ballot.key);
    if (!totals.has(ballot.key)) totals.set(ballot.key, { text: ballot.text, amounts: [] });
    totals.get(ballot.key).amounts.push(ballot.amount);
  }
  const results = [...totals].filter(([key]) => isCandidate.has(key)).map(([key, { text, amounts }]) => {
    if (tally.rule === "votes") return { key, text, total: amounts.reduce((x, y) => x + y, 0) };
    const largest = Math.max(...amounts);
    return { key, text, total: largest + Math.log(amounts.reduce((sum, value) => sum + Math.exp(value - largest), 0)) };
  });
  const most = Math.max(...results.map((result) => result.total));
  return { results, winners: results.filter((result) => result.total === most) };
}

function showTally(tally, off) {
  const { results, winners } = recount(tally, off);
  const text = !winners.length ? "unknown" : winners.length > 1 && tally.draws ? `a draw between ${winners.map((winner) => winner.text).join(", ")}` : winners[0].text;
  const unit = tally.rule === "votes" ? "votes" : "log-probability";
  const tie = winners.length > 1 && !tally.draws ? ` (a tie of ${winners.length}: the answer of the passage with the better rank)` : "";
  return h("div", { class: "note", id: "tally", "data-answer": text }, off.size ? `Without ${off.size} of the passages: ` : "With all passages: ", h("b", {}, text), tie,
    muted(` — ${[...results].sort((x, y) => y.total - x.total).map((result) => `${result.text} ${result.total.toFixed(2)}`).join("; ") || "every answer is unknown"} (${unit}; no model is asked)`));
}

// ---------------------------------------------------------------- prompts and replies

const decode = (numbers) => numbers.map((n) => (n < 0 ? data.passages[-1 - n][1] : data.texts[n])).join("");

function formatCall(call) {
  return call.prompt.map(([name, numbers]) => `<${name}>\n${decode(numbers)}`).join("\n");
}

function formatResult(call) {
  if (call.failed !== undefined) return `failed: ${call.failed}`;
  if (call.score !== undefined) return String(call.score);
  return decode(call.reply);
}

function showCall(call, answers, open, index, other) {
  const facts = [call.tokens && `${call.tokens[0]} tokens in, ${call.tokens[1]} out`, call.finish && `ended: ${call.finish}`, call.dropped && `${call.dropped} passages dropped`].filter(Boolean).join(", ");
  const text = formatCall(call), reply = formatResult(call);
  const changed = other && (formatCall(other) !== text || formatResult(other) !== reply);
  return h("details", { open: open || changed }, h("summary", {}, `${index + 1}. ${call.kind}, ${call.role}: `, h("b", {}, reply.length > 90 ? reply.slice(0, 89) + "…" : reply), " ", muted(facts),
    other ? h("span", { class: "tag " + (changed ? "warn" : "good") }, changed ? "differs" : "the same") : null),
    h("pre", {}, other ? showDifference(formatCall(other), text, answers) : markAnswers(text, answers)),
    h("pre", {}, other ? showDifference(formatResult(other), reply, answers) : markAnswers(reply, answers)));
}

// Lines of the second text; those that only it has are marked as added, and those that only the first has as removed.
function showDifference(first, second, answers) {
  const [a, b] = [first.split("\n"), second.split("\n")];
  if (a.length * b.length > 4e6) return [second];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push(markAnswers(b[j++] + "\n", answers)), i++;
    else if (j < b.length && (i === a.length || common[i][j + 1] >= common[i + 1][j])) lines.push(h("span", { class: "added" }, "+ ", markAnswers(b[j++] + "\n", answers)));
    else lines.push(h("span", { class: "removed" }, "− " + a[i++] + "\n"));
  }
  return lines;
}

// ---------------------------------------------------------------- compare

const GROUPS = { both: "both right", first: "only A right", second: "only B right", neither: "both wrong" };

function groupPairs(first, second) {
  const right = data.outcomes.findIndex((outcome) => outcome.name === "right");
  const places = new Map(second.questions.map((question, index) => [question, index]));
  const groups = { both: [], first: [], second: [], neither: [] };
  first.questions.forEach((question, index) => {
    if (!places.has(question)) return;
    const [x, y] = [first.outcomes[index] === right, second.outcomes[places.get(question)] === right];
    const [id, text, accepted] = data.questions[question];
    groups[x && y ? "both" : x ? "first" : y ? "second" : "neither"].push({ question, index, id, text, accepted, place: places.get(question) });
  });
  return groups;
}

function listPairs(first, second, state) {
  return second ? groupPairs(first, second)[state.group || "second"] : listRows(first, state);
}

const findGroup = (first, second, question) =>
  Object.entries(groupPairs(first, second)).find(([, rows]) => rows.some((row) => row.question === question))?.[0];

function showCompare(state) {
  const first = findCell(state.a) || rankCells()[0];
  const others = rankCells().filter((cell) => cell !== first && cell.selection === first.selection);
  const second = findCell(state.b) || others.find((cell) => String(cell.answers) !== String(first.answers)) || others[0] || first;
  const controls = h("div", { class: "controls" }, select("A", cellOptions(), first.name, (value) => go({ a: value, b: second.name })),
    select("B", cellOptions(), second.name, (value) => go({ a: first.name, b: value })));
  if (first.selection !== second.selection)
    return [controls, h("p", { class: "note" }, "These cells answer different selections of questions and are not compared.")];
  const groups = groupPairs(first, second);
  const [won, lost] = [groups.first.length, groups.second.length];
  const total = Object.values(groups).reduce((sum, group) => sum + group.length, 0);
  const p = testMcNemar(won, lost);
  const chosen = state.group || (won > lost ? "first" : "second");
  const rows = groups[chosen];
  const most = Number(state.more) || ROWS;
  return [controls,
    h("p", {}, `Exact match on ${total} common questions: A − B = ${total ? formatSigned((100 * (won - lost)) / total) : "–"} points, McNemar's exact test ${formatP(p)}`,
      p < 0.05 ? ". This test is of these two cells alone, and not corrected for the number of pairs that you look at." : ", not significant."),
    h("div", { class: "flow" }, Object.entries(GROUPS).map(([name, title]) => h("a", { href: link({ view: "compare", a: first.name, b: second.name, group: name }), "aria-current": name === chosen ? "true" : null },
      h("b", {}, groups[name].length), title))),
    h("h2", {}, `${GROUPS[chosen]}: ${count(rows.length, "question")}`),
    table(["id", "question", "accepted", "A", "B"], rows.slice(0, most).map((row) => [
      h("a", { href: link({ view: "questions", a: first.name, b: second.name, group: chosen, id: row.id }) }, row.id), row.text, row.accepted.slice(0, 4).join("; "),
      h("td", {}, data.answers[first.answers[row.index]], outcomeTag(first.outcomes[row.index])),
      h("td", {}, data.answers[second.answers[row.place]], outcomeTag(second.outcomes[row.place])),
    ])),
    rows.length > most && h("a", { href: link({ more: most + ROWS * 5 }, state) }, "Show more"),
  ];
}

// ---------------------------------------------------------------- page

function render() {
  const state = readState();
  const view = VIEWS[state.view] ? state.view : "findings";
  const show = { findings: showFindings, matrix: showMatrix, outcomes: showOutcomes, questions: showQuestions, compare: showCompare }[view];
  document.getElementById("views").replaceChildren(...Object.entries(VIEWS).map(([name, title]) =>
    h("a", { href: link({ view: name, a: state.a, b: name === "compare" ? state.b : "", metric: state.metric }), "aria-current": name === view ? "page" : null }, title)));
  document.getElementById("main").replaceChildren(...[show(state)].flat(Infinity).filter((node) => node !== null && node !== undefined && node !== false));
  document.body.dataset.view = view;
  document.body.dataset.milliseconds = Math.round(performance.now() - started);
  if (performance.memory) document.body.dataset.heap = performance.memory.usedJSHeapSize;
}

addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const follow = (id) => document.getElementById(id)?.click();
  const view = Object.keys(VIEWS)[Number(event.key) - 1];
  if (view) location.hash = link({ view, a: readState().a, metric: readState().metric });
  else if (event.key === "j") follow("next");
  else if (event.key === "k") follow("previous");
  else if (event.key === "Escape") follow("back");
  else if (event.key === "/" && document.getElementById("search")) { event.preventDefault(); document.getElementById("search").focus(); }
});
addEventListener("hashchange", () => { started = performance.now(); render(); scrollTo(0, 0); });

// A report links to this page with a digest of its cells: another sweep's page may have been written beside it since.
function warnOfOtherCells() {
  const asked = new URLSearchParams(location.search).get("cells");
  if (!asked || asked === data.digest) return;
  document.querySelector("header").append(h("p", { class: "note", id: "other-cells" },
    "This page is of other cells than the report that links to it. Run python -m flows.browse with the settings of the report."));
}

async function load() {
  const encoded = document.getElementById("data");
  const bytes = Uint8Array.from(atob(encoded.textContent.trim()), (character) => character.charCodeAt(0));
  encoded.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = JSON.parse(await new Response(stream).text());
  cells = data.cells;
  warnOfOtherCells();
  render();
}

load().catch((error) => {
  document.getElementById("main").replaceChildren(h("p", { class: "note" }, `The page could not be read: ${error.message}. It needs a browser of 2023 or later.`));
});
