// One question: contexts, rounds, votes.

function showQuestion(state, cell) {
  const question = cell.questions.find((number) => data.questions[number][0] === state.id) ?? data.questions.findIndex((entry) => entry[0] === state.id);
  if (question < 0) return h("p", { class: "note" }, `There is no question with the id ${state.id}.`);
  const [id, text, accepted, normalized] = data.questions[question];
  const others = [state.b, state.c].map(findCell).filter(Boolean), compared = [cell, ...others];
  if (others.length && !state.group) state.group = findGroup(compared, question);
  const rows = listGroup(compared, state);
  const at = rows.findIndex((row) => row.question === question);
  const step = (offset) => (at >= 0 && rows[at + offset] ? link({ id: rows[at + offset].id, off: "" }, state) : null);
  const pager = (label, href, key) => (href ? h("a", { href, id: key }, label) : muted(label));
  return [
    h("div", { class: "pager" }, h("a", { id: "back", href: link({ id: "", off: "", ...(others.length ? { view: "compare" } : {}) }, state) }, "↑ all questions"),
      pager("← previous (k)", step(-1), "previous"), pager("next (j) →", step(1), "next"), at >= 0 && muted(`${at + 1} of ${rows.length}`)),
    h("h2", {}, text), h("p", {}, "Accepted: ", accepted.join("; ") || "none", " ", muted(`normalized: ${normalized.join("; ")} · ${id}`)),
    h("div", { class: others.length ? "columns" : "" }, showCase(state, cell, question, null), others.map((other) => showCase(state, other, question, cell))),
    h("h3", {}, "Every cell's answer"),
    table(["cell", "answer", "outcome", ...data.metrics.slice(0, 3).map((m) => numberHeading(m.title)), ""], cells.flatMap((entry) => {
      const index = entry.questions.indexOf(question);
      if (index < 0) return [];
      return [[h("a", { href: link({ a: entry.name, b: "", c: "", group: "", off: "", view: "questions" }, state) }, entry.name), data.answers[entry.answers[index]],
        h("td", {}, outcomeTag(entry.outcomes[index])), ...data.metrics.slice(0, 3).map((m) => number(formatValue(m, entry.values[m.name][index]))),
        !compared.includes(entry) && h("a", { href: link({ view: "questions", a: cell.name, b: others.length ? others[0].name : entry.name, c: others.length ? entry.name : "", id }) }, "compare")]];
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

// Whole words only, as `has_answer` finds them.
function markAnswers(text, answers) {
  const LETTER = "[\\p{L}\\p{N}\\p{M}]", isLetter = (character) => new RegExp(LETTER, "u").test(character);
  const found = answers.map((answer) => answer.trim()).filter(Boolean).sort((x, y) => y.length - x.length).map((answer) => {
    const characters = [...answer], escaped = answer.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&").replace(/\s+/g, "\\s+");
    return (isLetter(characters[0]) ? `(?<!${LETTER})` : "") + escaped + (isLetter(characters.at(-1)) ? `(?!${LETTER})` : "");
  });
  if (!found.length) return [text];
  return text.split(new RegExp(`(${found.join("|")})`, "iu")).map((part, index) => (index % 2 ? h("mark", {}, part) : part));
}

function showContexts(state, entry, answers, canSwitch, isAnnotated) {
  if (!entry.contexts.length) return null;
  const off = new Set((state.off || "").split(",").filter(Boolean).map(Number));
  const tally = entry.tally && canSwitch ? entry.tally : null;
  const items = entry.contexts.map(([passage, rank, score, logOdds, logWeight, isGold, hasAnswer], index) => {
    const [title, text] = data.passages[passage];
    const facts = [rank ? `rank ${rank}` : "not retrieved", score !== null && `score ${score}`, logOdds !== null && `log-odds ${logOdds}`, logWeight && `log-weight ${logWeight}`].filter(Boolean).join(", ");
    const toggle = tally && h("input", { type: "checkbox", checked: !off.has(index), name: `passage ${index + 1}`, "aria-label": `Use passage ${index + 1}`, onclick: (event) => {
      event.preventDefault();
      const changed = new Set(off);
      if (!changed.delete(index)) changed.add(index);
      go({ off: [...changed].sort((x, y) => x - y).join(",") });
    } });
    return h("details", { open: Boolean(hasAnswer) && markAnswers(text, answers).length > 1 }, h("summary", {}, toggle, ` [${index + 1}] ${title} `, muted(facts), isGold ? h("span", { class: "tag good", title: isAnnotated ? "named by the data set" : "the first stored context that contains an accepted answer as text" },
      isAnnotated ? "gold" : "gold by its text") : null,
      hasAnswer ? h("span", { class: "tag good", title: "contains an accepted answer as text" }, "has answer") : null), h("pre", {}, markAnswers(text, answers)));
  });
  return h("div", {}, tally && showTally(tally, off), h("h3", {}, `${count(entry.contexts.length, "context")}, in prompt order`), items);
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
  const sorted = [...results].sort((x, y) => y.total - x.total);
  const share = (total) => (tally.rule === "votes" ? total / (sorted[0].total || 1) : Math.exp(total - sorted[0].total));
  return h("div", { class: "note", id: "tally", "data-answer": text }, off.size ? `Without ${off.size} of the passages: ` : "With all passages: ", h("b", {}, text), tie,
    muted(` (${unit}; no model is asked)`), sorted.length ? sorted.map((result) => h("div", {}, h("span", { class: "bar", style: `width:${(12 * share(result.total)).toFixed(2)}rem` }), `${result.text} ${tally.rule === "votes" && Number.isInteger(result.total) ? result.total : result.total.toFixed(2)}`)) : h("div", {}, "every answer is unknown"));
}
