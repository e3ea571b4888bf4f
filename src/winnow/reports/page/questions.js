// The list of questions of a cell.

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
    muted(`${rows.length} of ${cell.questions.length} questions · `),
    h("a", { href: "#", id: "export", onclick: (event) => { event.preventDefault(); saveText("questions.jsonl", rows.map((row) => JSON.stringify(describeRow(cell, row))).join("\n") + "\n"); } }, "save them as JSONL"), linkRun(cell),
    table(["id", "question", "accepted", "answer", "outcome", numberHeading(metric.title), "prompts"], rows.slice(0, most).map((row) => [
      h("a", { href: link({ view: "questions", a: cell.name, id: row.id, ...(extra || {}) }, keepFilters(state)) }, row.id),
      row.text, row.accepted.slice(0, 4).join("; "), row.answer, h("td", {}, outcomeTag(cell.outcomes[row.index])),
      number(formatValue(metric, cell.values[metric.name][row.index])), row.question in prompts ? "yes" : muted("no"),
    ])),
    rows.length > most && h("a", { href: link({ more: most + ROWS * 5 }, state) }, `Show ${Math.min(ROWS * 5, rows.length - most)} more`),
  ];
}

// A cell's MLflow run, where the page is one of those that `flows.ui` serves.
const linkRun = (cell) => (location.protocol === "http:" && cell.key ? [muted(" · "), h("a", { href: `/run/${cell.key}` }, "MLflow run")] : null);

// What an annotator needs of a question, in the file that the list can be saved as.
const describeRow = (cell, row) => ({ question_id: row.id, question: row.text, answers: row.accepted, cell: cell.name, answer: row.answer,
  outcome: data.outcomes[cell.outcomes[row.index]].name, ...Object.fromEntries(data.metrics.map((metric) => [metric.name, cell.values[metric.name][row.index]])) });

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
