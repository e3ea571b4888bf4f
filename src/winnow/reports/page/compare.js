// Two cells, question by question.

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

// The difference of the first metric with the p-value that is corrected for all pairs of the page.
function describeCorrected(first, second) {
  const difference = findDifference(first, second), metric = data.metrics[0];
  if (first.first === second.first) return h("b", {}, `Both gave the same answers.`);
  if (!difference) return "";
  const [value, low, high, , corrected] = difference;
  return h("b", {}, `${metric.title}: ${formatSigned(value, metric)} [${formatSigned(low, metric)}, ${formatSigned(high, metric)}], ${formatP(corrected)} after the correction for the ${data.numTests} pairs of this page: ${corrected < 0.05 ? "" : "not "}significant.`);
}

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
      ". This test is of these two cells alone, and not corrected for the number of pairs that you look at. ", describeCorrected(first, second)),
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
