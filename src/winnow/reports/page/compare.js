// Two or three cells, question by question.

const LETTERS = ["A", "B", "C"];

const findCompared = (state) => [state.a, state.b, state.c].map(findCell).filter(Boolean);

// The common questions of the cells by the letters of those that are right, such as "AB", "A", "B" and "none".
function groupRows(compared) {
  const [right, none] = ["right", "no_answers"].map((name) => data.outcomes.findIndex((outcome) => outcome.name === name));
  const places = compared.map((cell) => new Map(cell.questions.map((question, index) => [question, index])));
  const letters = LETTERS.slice(0, compared.length), most = 2 ** compared.length - 1;
  const groups = Object.fromEntries(Array.from({ length: most + 1 }, (_, n) => [letters.filter((_, at) => (most - n) & (1 << (letters.length - 1 - at))).join("") || "none", []]));
  for (const question of compared[0].questions) {
    if (!places.every((place) => place.has(question))) continue;
    const indices = places.map((place) => place.get(question));
    if (compared[0].outcomes[indices[0]] === none) continue;  // nothing is right or wrong
    const found = letters.filter((_, n) => compared[n].outcomes[indices[n]] === right).join("") || "none";
    const [id, text, accepted] = data.questions[question];
    groups[found].push({ question, index: indices[0], id, text, accepted, indices });
  }
  return groups;
}

function nameGroup(group, num) {
  const all = num === 2 ? "both" : "all";
  if (group === "none") return `${all} wrong`;
  return group.length === num ? `${all} right` : group.length === 1 ? `only ${group} right` : `${[...group].join(" and ")} right`;
}

function listGroup(compared, state) {
  return compared.length > 1 ? groupRows(compared)[state.group] || [] : listRows(compared[0], state);
}

const findGroup = (compared, question) =>
  Object.entries(groupRows(compared)).find(([, rows]) => rows.some((row) => row.question === question))?.[0];

// The difference of two cells over their common questions: exact match with a test of these alone, and the first metric as the page tests it.
function describePair(first, second, letters) {
  const groups = groupRows([first, second]), [won, lost] = [groups.A.length, groups.B.length];
  const total = Object.values(groups).reduce((all, rows) => all + rows.length, 0);
  const difference = findDifference(first, second), metric = data.metrics[0];
  const alone = `${letters[0]} − ${letters[1]} = ${total ? formatSigned((100 * (won - lost)) / total) : "–"} points of exact match: ${won} won and ${lost} lost of ${total} questions, ${formatP(testMcNemar(won, lost))} for these two cells alone (McNemar's exact test)`;
  if (first.first === second.first) return h("p", {}, `${alone}. `, h("b", {}, "Both gave the same answers."));
  if (!difference) return h("p", {}, `${alone}.`);
  return h("p", {}, `${alone}. `, h("b", {}, `${metric.title}: ${formatDifference(difference, metric)}, ${formatP(difference[4])} after the correction for the ${data.numTests} pairs of this page: ${difference[4] < 0.05 ? "" : "not "}significant.`));
}

// A question with the answer and the outcome of each cell, for annotation.
function describeCompared(compared, row) {
  const answers = compared.map((cell, n) => ({ cell: cell.name, answer: data.answers[cell.answers[row.indices[n]]], outcome: data.outcomes[cell.outcomes[row.indices[n]]].name }));
  return { question_id: row.id, question: row.text, accepted: row.accepted, answers };
}

function showCompare(state) {
  const first = findCell(state.a) || rankCells()[0];
  if (state.id) return showQuestion(state, first);
  const baseline = first === cells[data.story.headline.cells[0]] ? cells[data.story.headline.cells[1]] : null;
  const others = rankCells().filter((cell) => cell !== first && cell.selection === first.selection);
  const second = findCell(state.b) || baseline || others.find((cell) => String(cell.answers) !== String(first.answers)) || others[0] || first;
  const third = findCell(state.c);
  const compared = [first, second, third].filter(Boolean);
  const names = { a: first.name, b: second.name, c: third?.name };
  const choose = (letter, options, chosen) => select(letter.toUpperCase(), options, chosen, (value) => go({ ...names, [letter]: value, group: "" }));
  const controls = h("div", { class: "controls" }, choose("a", cellOptions(), first.name), choose("b", cellOptions(), second.name),
    choose("c", [["", "none"], ...cellOptions()], third?.name || ""));
  if (compared.some((cell) => cell.selection !== first.selection))
    return [controls, h("p", { class: "note" }, "These cells answer different selections of questions and are not compared.")];
  const groups = groupRows(compared);
  const mixed = Object.keys(groups).filter((group) => group !== "none" && group.length < compared.length);
  const chosen = groups[state.group] ? state.group : mixed.reduce((most, group) => (groups[group].length > groups[most].length ? group : most));
  const rows = groups[chosen], most = Number(state.more) || ROWS;
  return [controls, describePair(first, second, "AB"), third && [describePair(first, third, "AC"), describePair(second, third, "BC")],
    h("div", { class: "flow" }, Object.entries(groups).map(([group, own]) => h("a", { href: link({ view: "compare", ...names, group }), "aria-current": group === chosen ? "true" : null },
      h("b", {}, own.length), nameGroup(group, compared.length)))),
    h("h2", {}, `${nameGroup(chosen, compared.length)}: ${count(rows.length, "question")}`),
    h("a", { href: "#", id: "export", onclick: (event) => { event.preventDefault(); saveText("compared.jsonl", rows.map((row) => JSON.stringify(describeCompared(compared, row))).join("\n") + "\n"); } }, "save them as JSONL, with the answers of these cells"),
    table(["id", "question", "accepted", ...compared.map((_, n) => LETTERS[n])], rows.slice(0, most).map((row) => [
      h("a", { href: link({ view: "questions", ...names, group: chosen, id: row.id }) }, row.id), row.text, row.accepted.slice(0, 4).join("; "),
      ...compared.map((cell, n) => h("td", {}, data.answers[cell.answers[row.indices[n]]], outcomeTag(cell.outcomes[row.indices[n]]))),
    ])),
    rows.length > most && h("a", { href: link({ more: most + ROWS * 5 }, state) }, "Show more"),
  ];
}
