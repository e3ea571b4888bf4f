// Charts of single answers' confidence, which is the agreement of the replies behind an answer, and of trainings.

const CURVE_KINDS = { coverage: "risk against coverage", calibration: "calibration of confidence", confidence: "how sure answers are" };
const BINS = 10, MOST_PANELS = 12;

const binOf = (confidence) => Math.min(BINS - 1, Math.floor(BINS * confidence + 1e-9));
const nameBin = (bin) => `${(100 * bin) / BINS}-${(100 * (bin + 1)) / BINS}`;

// The kinds of charts that the page has data for.
function listKinds() {
  const hasConfidence = cells.some((cell) => cell.confidences.length) && listShares().length > 0;
  return { ...KINDS, ...(hasConfidence ? CURVE_KINDS : {}), ...(Object.keys(data.curves).length ? { training: "curves of trainings" } : {}) };
}

// Wilson's 95 % interval of a mean of n values between 0 and 1. It is wider than need be for values that are not 0 or 1.
function computeWilson(mean, n) {
  const z = 1.959964, center = (mean + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt(Math.max(0, mean * (1 - mean)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, center - half), Math.min(1, center + half)];
}

// [confidence, value] of the answered questions of a cell, most confident first; "unknown" answers no question.
function listConfident(cell, metric) {
  const values = cell.values[metric.name];
  return cell.confidences.map((confidence, index) => [confidence, values[index]]).filter(([confidence, value]) => confidence !== null && value !== null).sort((x, y) => y[0] - x[0]);
}

// The metrics that charts of confidence draw, of which another one is replaced by the first.
const listShares = () => data.metrics.filter((metric) => metric.unit === "percent");
const chooseShare = (name) => listShares().find((metric) => metric.name === name) || listShares()[0];

// What the values of a chart are called.
const nameValues = (choice) => (choice.kind === "training" ? choice.logged : choice.kind === "coverage" && !choice.metric.lower ? `100 − ${choice.metric.title}` : choice.metric.title);

function buildCurvePoint(point, sum, n, rest) {
  const mean = sum / n, [low, high] = computeWilson(mean, n);
  return { ...point, ...rest, n, mean: 100 * mean, from: 100 * low, to: 100 * high, text: `${fixed(100 * mean, 1)} [${fixed(100 * low, 1)}, ${fixed(100 * high, 1)}]` };
}

// The error of the answers whose confidence is at least a threshold, by the share that they answer of the questions for which the metric is defined.
function listCoverage(point, metric) {
  const cell = findCell(point.cell), ranked = listConfident(cell, metric), curve = [];
  const numDefined = cell.values[metric.name].filter((value) => value !== null).length;
  ranked.reduce((sum, [confidence, value], index) => {
    const total = sum + (metric.lower ? value : 1 - value);
    const isLast = index + 1 === ranked.length || ranked[index + 1][0] !== confidence;  // equal confidence is one point
    if (isLast) curve.push(buildCurvePoint(point, total, index + 1, { at: (100 * (index + 1)) / numDefined, confidence: (100 * confidence).toFixed(0), range: `${(100 * confidence).toFixed(12)}-100` }));
    return total;
  }, 0);
  return curve;
}

// The metric of the answers by their confidence, in at most ten bins of equal width.
function listCalibration(point, metric) {
  const bins = new Map();
  for (const [confidence, value] of listConfident(findCell(point.cell), metric)) {
    const bin = binOf(confidence);
    const [sum, total, n] = bins.get(bin) || [0, 0, 0];
    bins.set(bin, [sum + value, total + confidence, n + 1]);
  }
  return [...bins.entries()].sort((x, y) => x[0] - y[0]).map(([bin, [sum, total, n]]) => buildCurvePoint(point, sum, n, { at: (100 * total) / n, confidence: ((100 * total) / n).toFixed(0), range: nameBin(bin) }));
}

function buildCurves(choice, points, width) {
  const { metric } = choice, isRisk = choice.kind === "coverage";
  const drawn = points.filter((point) => findCell(point.cell).confidences.length).flatMap((point) => (isRisk ? listCoverage : listCalibration)(point, metric));
  const x = { field: "at", type: "quantitative", title: isRisk ? "questions answered, %" : "confidence, %", scale: { domain: [0, 100] } };
  const axis = { type: "quantitative", title: `${nameValues(choice)} of the answers, %`, scale: { zero: true } };
  const { field, color, key, shape } = describeColors(choice.color, drawn, { symbolFillColor: "transparent" });
  const tooltip = [{ field: "words", title: "setting" }, { field: "text", title: `${axis.title}, 95 % interval` }, { field: "n", title: "answers" }, { field: "confidence", title: isRisk ? "confidence at least, %" : "mean confidence, %" }];
  const other = ["k", ...listFields().map((one) => one.name)].find((name) => ![choice.color, choice.facet, NONE].includes(name) && new Set(drawn.map((point) => point[describeField(name)?.field])).size > 1);
  const dash = other && describeField(other, { legend: { orient: "bottom" } });  // what color and panels leave open
  const common = { x, detail: [{ field: "cell" }], ...(color && { color }), tooltip }, plain = color ? {} : { color: data.colors[0] };
  const [facet, columns] = describePanels(choice, drawn, width);
  const size = { width: Math.max(150, Math.min(520, width / columns - 80)), height: 280 };
  const layer = [
    ...(isRisk ? [] : [{ data: { values: [{ at: 0, mean: 0 }, { at: 100, mean: 100 }] }, mark: { type: "line", strokeDash: [4, 4], color: style("--muted") }, encoding: { x, y: { field: "mean", ...axis } } }]),
    { mark: { type: "rule", opacity: 0.5, aria: false, ...plain }, encoding: { ...common, y: { field: "from", ...axis }, y2: { field: "to" } } },
    { mark: { type: "line", opacity: 0.6, description: "line of one cell", interpolate: isRisk ? "step-before" : "linear", ...plain }, encoding: { ...common, ...(dash && { strokeDash: dash }), y: { field: "mean", ...axis } } },
    { mark: { type: "point", filled: true, size: 60, opacity: 1, cursor: "pointer", ...plain }, encoding: { ...common, y: { field: "mean", ...axis }, color: undefined, ...(shape && { shape }), ...(field ? fillOracles(color, key) : {}) } }];
  return facet ? { data: { values: drawn }, facet, columns, spec: { ...size, layer } } : { data: { values: drawn }, ...size, layer };
}

// How many answers have each confidence, and how many of them are right.
function buildHistograms(choice, points, width) {
  const { metric } = choice, most = points.filter((point) => findCell(point.cell).confidences.length).slice(0, MOST_PANELS);
  const columns = Math.min(3, most.length) || 1;
  const right = metric.lower ? [`${metric.title} below 50`, "higher"] : [`${metric.title} at least 50`, "lower"];
  const panels = most.map((point) => ({ ...point, words: wrap(point.words, width / columns / 7) }));
  const values = panels.flatMap((point) => listConfident(findCell(point.cell), metric).map(([confidence, value]) => ({ words: point.words, cell: point.cell, confidence: 100 * confidence, range: nameBin(binOf(confidence)), right: right[(value < 0.5) === Boolean(metric.lower) ? 0 : 1] })));
  return { data: { values }, facet: { field: "words", type: "nominal", sort: panels.map((point) => point.words), title: null, header: { labelFontSize: 11 } }, columns,
    spec: { width: Math.max(150, width / columns - 70), height: 150, mark: { type: "bar", cursor: "pointer" }, encoding: {
      x: { field: "confidence", type: "quantitative", bin: { step: 100 / BINS, extent: [0, 100] }, title: "confidence, %" }, y: { aggregate: "count", type: "quantitative", title: "answers" },
      color: { field: "right", type: "nominal", title: null, scale: { domain: right, range: [data.colors[0], "#8a8f98"] }, legend: { orient: "bottom" } }, detail: [{ field: "cell" }, { field: "range" }], tooltip: [{ field: "words", title: "setting" }, { aggregate: "count", title: "answers" }, { field: "right", title: " " }] } } };
}

const listLogged = () => [...new Set(Object.values(data.curves).flatMap((curves) => Object.keys(curves)))];

// What the trainings behind the cells logged at their optimizer steps.
function buildTrainings(choice, points, width) {
  const values = Object.entries(data.curves).flatMap(([model, curves]) => (curves[choice.logged] || []).map(([step, value]) => ({ model, step, value })));
  return { data: { values }, width: Math.max(300, width - 120), height: 320, mark: { type: "line", point: values.length < 200 }, encoding: {
    x: { field: "step", type: "quantitative", title: "optimizer step", axis: { tickMinStep: 1 } }, y: { field: "value", type: "quantitative", title: choice.logged, scale: { zero: false } },
    color: { field: "model", type: "nominal", scale: { range: data.colors }, legend: { orient: "bottom", columns: 1, labelLimit: 600 } }, tooltip: [{ field: "model" }, { field: "step" }, { field: "value", title: choice.logged }] } };
}

const CONFIDENCE = "Confidence is the share of several replies that agree with the answer; for a single reply it is what the reply states, or its likelihood. A click opens the questions of a point or a bar. ";
const CURVE_NOTES = {
  coverage: `${CONFIDENCE}A point takes all answers that are at least as confident as it says; “unknown” answers no question. Intervals are those of each point alone. `,
  calibration: `${CONFIDENCE}On the dashed line, answers are right as often as they are sure; the number of answers of a bin is in its tooltip. Intervals are those of each bin alone. `,
  confidence: `${CONFIDENCE}At most ${MOST_PANELS} cells are drawn; hold a setting fixed to choose. `,
  training: "A resumed training begins where it was resumed. MLflow has the same curves, of every run. ",
};
const CURVE_COLUMNS = { coverage: ["cell", "at", "mean", "from", "to", "n", "confidence"], calibration: ["cell", "at", "mean", "from", "to", "n"], confidence: ["cell", "confidence", "right"], training: ["model", "step", "value"] };

const listCurveRows = (choice, points) => BUILDERS[choice.kind](choice, points, 900).data.values.map((row) => Object.fromEntries(CURVE_COLUMNS[choice.kind].map((name) => [name, row[name]])));
