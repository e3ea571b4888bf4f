// Outcomes: what became of the questions.

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
    return h("td", { class: "number", title: `${(100 * share).toFixed(1)} %` }, count ? h("a", { href: link({ view: "questions", a: cell.name, outcome: data.outcomes[index].name }) }, count) : "0",
      h("span", { class: "track" }, h("span", { class: "bar", style: `width:${(100 * share).toFixed(1)}%` })));
  })]);
  const cell = findCell(state.a) || rankCells()[0];
  return [
    h("h2", {}, "What became of the questions"),
    muted("Counted without a judge, from what is stored. A question counts in the first column from the left that applies. Each count opens its questions."),
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
