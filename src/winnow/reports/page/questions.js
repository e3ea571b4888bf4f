// The list of questions of a cell.

function listRows(cell, state) {
  const words = (state.search || "").toLowerCase();
  const outcome = data.outcomes.findIndex((entry) => entry.name === state.outcome);
  const isSure = chooseConfidence(state);
  const rows = [];
  cell.questions.forEach((question, index) => {
    if ((outcome >= 0 && cell.outcomes[index] !== outcome) || !isSure(cell.confidences[index])) return;
    const [id, text, accepted] = data.questions[question];
    const answer = data.answers[cell.answers[index]];
    if (words && ![id, text, answer, ...accepted].some((part) => part.toLowerCase().includes(words))) return;
    rows.push({ question, index, id, text, accepted, answer });
  });
  const key = state.sort;
  const keys = { text: (row) => row.text, answer: (row) => row.answer, outcome: (row) => cell.outcomes[row.index], ...(cell.confidences.length && { confidence: (row) => cell.confidences[row.index] ?? -1 }) };
  const value = keys[key] || (key && cell.values[key] ? (row) => cell.values[key][row.index] ?? -Infinity : null);
  if (value) rows.sort((x, y) => (typeof value(x) === "string" ? value(x).localeCompare(value(y)) : value(y) - value(x)));
  return rows;
}

// A test of confidences for the range of the address in percent, such as "40-60", which only ends in its upper bound at 100.
function chooseConfidence(state) {
  const [low, high] = (state.confidence || "").split("-").map(Number);
  if (!(high >= low)) return () => true;
  return (confidence) => confidence !== null && confidence !== undefined && 100 * confidence >= low - 1e-4 && (high >= 100 || 100 * confidence < high - 1e-4);
}

const formatConfidence = (confidence) => (confidence === null || confidence === undefined ? "–" : (100 * confidence).toFixed(0));

function outcomeTag(index) {
  const outcome = data.outcomes[index];
  const tone = outcome.name === "right" ? "good" : outcome.name.includes("unknown") ? "warn" : "bad";
  return h("span", { class: `tag ${tone}`, title: outcome.meaning }, outcome.title);
}

const searchBox = (state, placeholder = "question, answer or id") => h("label", {}, "Search ", h("input", { type: "search", id: "search", value: state.search || "", placeholder,
  onchange: (event) => go({ search: event.target.value, more: "" }) }));

function listQuestions(state, cell, rows, extra) {
  const most = Number(state.more) || ROWS;
  const metric = data.metrics[0];
  const prompts = data.cases[cells.indexOf(cell)] || {};
  return [
    muted(`${rows.length} of ${cell.questions.length} questions · `),
    h("a", { href: "#", id: "export", onclick: (event) => { event.preventDefault(); saveText("questions.jsonl", rows.map((row) => JSON.stringify(describeRow(cell, row))).join("\n") + "\n"); } }, "save them as JSONL"), linkRun(cell),
    table(["id", "question", "accepted", "answer", "outcome", numberHeading(metric.title), cell.confidences.length && numberHeading("confidence"), "prompts"].filter(Boolean), rows.slice(0, most).map((row) => [
      h("a", { href: link({ view: "questions", a: cell.name, id: row.id, ...(extra || {}) }, keepFilters(state)) }, row.id),
      row.text, row.accepted.slice(0, 4).join("; "), row.answer, h("td", {}, outcomeTag(cell.outcomes[row.index])),
      number(formatValue(metric, cell.values[metric.name][row.index])), cell.confidences.length && number(formatConfidence(cell.confidences[row.index])), row.question in prompts ? "yes" : muted("no"),
    ].filter(Boolean))),
    rows.length > most && h("a", { href: link({ more: most + ROWS * 5 }, state) }, `Show ${Math.min(ROWS * 5, rows.length - most)} more`),
  ];
}

// A cell's MLflow run, where the page is one of those that `flows.ui` serves.
const linkRun = (cell) => (location.protocol === "http:" && cell.key ? [muted(" · "), h("a", { href: `/run/${cell.key}` }, "MLflow run")] : null);

// What an annotator needs of a question, in the file that the list can be saved as.
const describeRow = (cell, row) => ({ question_id: row.id, question: row.text, answers: row.accepted, cell: cell.name, answer: row.answer,
  outcome: data.outcomes[cell.outcomes[row.index]].name, ...(cell.confidences.length && { confidence: cell.confidences[row.index] }), ...Object.fromEntries(data.metrics.map((metric) => [metric.name, cell.values[metric.name][row.index]])) });

const keepFilters = (state) => ({ outcome: state.outcome, confidence: state.confidence, search: state.search, sort: state.sort, group: state.group });

function showQuestions(state) {
  const cell = findCell(state.a) || rankCells()[0];
  if (state.id) return showQuestion(state, cell);
  const counts = countOutcomes(cell);
  const rows = listRows(cell, state);
  const sorts = [["", "order of the data"], ["text", "question"], ["answer", "answer"], ["outcome", "outcome"], ...(cell.confidences.length ? [["confidence", "confidence"]] : []), ...data.metrics.map((m) => [m.name, m.title])];
  return [
    h("div", { class: "controls" },
      select("Cell", cellOptions(), cell.name, (value) => go({ a: value })),
      select("Outcome", [["", "all"], ...data.outcomes.map((entry, index) => [entry.name, `${entry.title} (${counts[index]})`])
        .filter(([name], index) => counts[index] || name === state.outcome)], state.outcome || "", (value) => go({ outcome: value, more: "" })),
      state.confidence && select("Confidence", [["", "all"], [state.confidence, `${state.confidence.replace(/(\.\d)\d+/g, "$1")} %`]], state.confidence, (value) => go({ confidence: value, more: "" })),
      select("Sort by", sorts, state.sort || "", (value) => go({ sort: value })), searchBox(state)),
    listQuestions(state, cell, rows),
  ];
}
