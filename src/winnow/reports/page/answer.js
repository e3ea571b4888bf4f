// The first screen: the setting to use, how sure that is, one chart, and what else the sweep found.


function showAnswer() {
  const { headline, findings, cost, limits } = data.story;
  const reach = Math.max(...[headline, ...findings].flatMap((finding) => finding.interval.map(Math.abs)), 0);
  const chart = h("div", { class: "chart", id: "chart" });
  drawChart(chart, chooseChart({}));
  return [
    h("section", { class: "headline" }, h("p", { class: "answer" }, describe(headline.text)), h("p", { class: "muted" },
      [cost, cells.some((cell) => cell.oracle) && "hollow points use gold labels, which nobody has for a new question", data.numTests > 0 && `p is corrected for all ${count(data.numTests, "pair")} of this page with different answers (Holm), intervals are those of each difference alone`, linkFinding(headline)].filter(Boolean).flatMap((part, index) => (index ? [" · ", part] : [part])))),
    h("div", { class: "first" },
      h("figure", {}, chart, h("figcaption", { class: "muted small" }, `${data.metrics[0].title} with 95 % intervals${cells.some((cell) => cell.closed) ? `; dashed: without passages${data.selection ? `, ${data.selection}` : ""}` : ""}${cells.some((cell) => cell.oracle) ? `; ${data.numGold} of ${data.numQuestions} questions have a gold passage, without one the passages are as retrieved` : ""}; a point opens its questions. `,
        h("a", { href: link({ view: "explore" }) }, "Other charts"))),
      h("ol", { class: "findings" }, findings.map((finding) => h("li", { class: finding.is_significant ? "significant" : "" },
        describe(finding.text), " ", linkFinding(finding), drawDifference(finding.interval, reach))),
        findings.length > 0 && h("li", { class: "muted small key" }, "Green numbers: significant after the correction. Bars: the difference with its interval, and a line at 0."))),
    showNotes("What bounds these numbers", limits), showNotes("Warnings", data.notes),
  ];
}

function showNotes(title, texts) {
  if (!texts.length) return null;
  return h("details", { class: "note first-text" }, h("summary", {}, h("b", {}, `${title} (${texts.length})`), h("span", { class: "muted" }, ` ${texts[0]}`)), texts.map((text) => h("p", {}, describe(text))));
}

function linkFinding(finding) {
  const [first, second] = finding.cells;
  if (first === undefined) return null;
  const target = second === undefined ? { view: "questions", a: cells[first].name } : { view: "compare", a: cells[first].name, b: cells[second].name };
  return h("a", { href: link(target) }, second === undefined ? "questions" : "compare");
}

// A difference with its interval as a bar; zero is in the middle, and all bars have one scale.
function drawDifference(interval, reach) {
  if (!interval.length || !reach) return null;
  const [value, low, high] = interval.map((bound) => 50 + (50 * bound) / reach);
  const format = (bound) => formatSigned(bound, data.metrics[0]);
  return h("div", { class: "difference", role: "img", "aria-label": `difference ${format(interval[0])}, 95 % interval from ${format(interval[1])} to ${format(interval[2])}` },
    h("i", { class: "zero" }), h("i", { class: "range", style: `left:${low}%;width:${high - low}%` }), h("i", { class: "value", style: `left:${value}%` }));
}
