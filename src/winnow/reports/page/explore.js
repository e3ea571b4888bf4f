// Charts in Vega-Lite over the cells. The address holds every choice.

const KINDS = { dots: "settings side by side", lines: "lines", difference: "differences to a baseline", matrix: "matrix", cost: "metric against cost" };
const SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"];
const MOST_OFFSET = 14;
const NONE = "-", LINE = "strategy and settings";
const OWN = [LINE, "strategy", "k", "placement"];  // fields in which cells without passages are on their own

// The fields in which the cells differ, such as strategy, k and placement, with their values in order.
function listFields() {
  const names = [...new Set(cells.flatMap((cell) => Object.keys(cell.fields)))];
  const isClosed = cells.every((cell) => cell.closed);  // then these are the cells that differ
  const fields = names.map((name) => ({ name, values: [...new Set(cells.filter((cell) => isClosed || !cell.closed || name === "strategy").map((cell) => cell.fields[name]))].filter((value) => value !== undefined).map(String) }));
  for (const field of fields) {
    if (field.name === "placement") field.values.sort((x, y) => data.placements.indexOf(x) - data.placements.indexOf(y));
    else if (field.values.every((value) => value !== "" && !isNaN(value))) field.values.sort((x, y) => x - y);
  }
  return fields.filter((field) => field.values.length > 1);
}

// The chart that the address asks for; what it leaves open follows from the cells.
function chooseChart(state) {
  const fields = listFields().map((field) => field.name), held = Object.fromEntries(fields.filter((name) => state[`only ${name}`]).map((name) => [name, state[`only ${name}`]]));
  const isClosed = cells.filter((cell) => isHeld(cell, held)).every((cell) => cell.closed);  // which differ in their own fields alone
  const names = isClosed ? fields.filter((name) => name === LINE || name === "strategy") : fields;
  const first = (...wanted) => wanted.find((name) => names.includes(name)) || NONE;
  const allow = (name, fallback) => (name === NONE || names.includes(name) ? name : fallback);
  const kind = listKinds()[state.kind] ? state.kind : "dots", isCurve = CURVE_KINDS[kind] !== undefined;
  const x = isCurve ? NONE : allow(state.x, kind === "lines" ? first("k", "samples", "placement", LINE, "strategy") : first(LINE, "strategy", ...names));
  const color = allow(state.color, kind === "lines" || isCurve ? first(...[LINE, "strategy", ...names].filter((name) => name !== x)) : first(...["k", ...names].filter((name) => name !== x)));
  const facet = allow(state.facet, first(...["placement", ...names].filter((name) => name !== x && name !== color && (name === "placement" || name === "k"))));
  const baseline = findCell(state.baseline) || cells[data.story.headline.cells[1] ?? data.story.headline.cells[0] ?? 0];
  return { kind, x, color, facet, held, baseline, metric: kind === "difference" ? data.metrics[0] : isCurve ? chooseShare(state.metric) : getMetric(state.metric), cost: getMetric(state.cost || data.cost), logged: listLogged().includes(state.logged) ? state.logged : listLogged()[0] };
}

// A cell without passages is shown beside those with them, unless a value that only such cells have is chosen.
const isOwn = (name, value) => OWN.includes(name) && cells.some((cell) => !cell.closed && String(cell.fields[name]) === value);
const isHeld = (cell, held) => Object.entries(held).every(([name, value]) => (cell.closed && isOwn(name, value)) || String(cell.fields[name]) === value);

// [difference, low, high, p, corrected p, questions] of a cell and the baseline, or null if the page does not hold it.
function findDifference(cell, baseline) {
  const [one, other] = [cell.first, baseline.first];
  for (const [first, second, difference, low, high, p, corrected, n] of data.pairs) {
    if (first === one && second === other) return [difference, low, high, p, corrected, n];
    if (first === other && second === one) return [-difference, -high, -low, p, corrected, n];
  }
  return null;
}

function listPoints(choice) {
  const { metric, held } = choice, fields = listFields();
  const scale = (m, value) => (m.unit === "percent" ? 100 * value : value);
  const shown = cells.filter((cell) => cell.intervals[metric.name] && isHeld(cell, held));
  return shown.map((cell) => {
    const [mean, low, high, n] = cell.intervals[metric.name];
    const difference = metric === data.metrics[0] ? findDifference(cell, choice.baseline) : null;
    const cost = cell.intervals[choice.cost.name];
    const same = cells.filter((other) => other !== cell && other.first === cell.first).map((other) => other.words);
    return {
      cell: cell.name, first: cell.first, words: cell.words, k: cell.k, closed: cell.closed, oracle: cell.oracle, value: scale(metric, mean), low: scale(metric, low), high: scale(metric, high), n,
      text: formatInterval(metric, cell.intervals[metric.name]), short: formatValue(metric, mean), costText: cost ? formatValue(choice.cost, cost[0]) : "", cost: cost ? scale(choice.cost, cost[0]) : null,
      difference: difference && difference[0], from: difference && difference[1], to: difference && difference[2], p: difference && difference[4], significant: difference ? difference[4] < 0.05 : false,
      against: cell.first === choice.baseline.first ? "equal results" : difference ? `${formatDifference(difference, metric)}, ${formatP(difference[4])} corrected for ${count(data.numTests, "pair")}` : "not held by this page",
      same: same.join("; ") || "none", numSame: same.length, ...Object.fromEntries(fields.map((field, index) => [`f${index}`, String(cell.fields[field.name] ?? "")])),
    };
  });
}

const label = (m) => (m.unit === "percent" ? `${m.title}, %` : m.title);

function describeField(name, extra) {
  const fields = listFields(), index = fields.findIndex((field) => field.name === name);
  return index < 0 ? undefined : { field: `f${index}`, type: "nominal", sort: fields[index].values, title: name, ...extra };
}

// A field as colors: a value has its own in every chart, also where others are held out; beyond seven, shapes tell them apart.
// Each point carries its color, so that one legend, which has the domain of the shapes, shows both.
function describeColors(name, points, extra) {
  const field = describeField(name);
  if (!field) return {};
  field.sort = [...field.sort, ...new Set(points.map((point) => point[field.field]).filter((value) => !field.sort.includes(value)))];  // of cells without passages
  const pick = (values, rule) => field.sort.map((_, index) => values[rule(index) % values.length]);
  const paints = pick(data.colors, (index) => index), shapes = pick(SHAPES, (index) => Math.floor(index / data.colors.length));
  for (const point of points) point.paint = paints[field.sort.indexOf(point[field.field])];
  const isShown = (_, index) => points.some((point) => point[field.field] === field.sort[index]);
  const domain = field.sort.filter(isShown), legend = { orient: "bottom", columns: 0, ...extra };
  const key = { ...field, scale: { domain, range: paints.filter(isShown) }, legend };
  const shape = { ...field, scale: { domain, range: shapes.filter(isShown) }, legend };
  return { field, color: { field: "paint", type: "nominal", scale: null, legend: null }, key, ...(field.sort.length > data.colors.length && { shape }) };
}

// The field of the panels, null without one, and how many panels are in a row.
function describePanels(choice, points, width) {
  if (choice.facet === NONE) return [null, 1];
  const { field, sort } = describeField(choice.facet), isNumber = sort.every((value) => value !== "" && !isNaN(value));
  const name = (value) => (isNumber ? `${choice.facet} = ${value}` : value);
  for (const point of points) point.panel = name(point[field]);
  const facet = { field: "panel", type: "nominal", sort: sort.map(name), title: null, header: { labelFontWeight: "bold", labelLimit: width / 3 } };
  return [facet, Math.min(3, new Set(points.map((point) => point[facet.field])).size)];
}

function buildTooltip(choice) {
  return [{ field: "words", title: "setting" }, { field: "text", title: choice.metric.title }, { field: "n", title: "questions" },
    ...(choice.metric === data.metrics[0] ? [{ field: "against", title: `against ${choice.baseline.words}` }] : []), { field: "same", title: "same answers" }];
}

// Points whose placement uses gold labels are hollow.
const fillOracles = (color, key) => ({ fill: { condition: { test: "datum.oracle", value: style("--back") }, ...(color || { value: data.colors[0] }), legend: null }, ...(color ? { stroke: key } : { stroke: { value: data.colors[0] } }) });

// The names of an axis that share its width, in lines.
function wrapLabels(name, width) {
  const { values } = listFields().find((field) => field.name === name);
  return `${JSON.stringify(Object.fromEntries(values.map((value) => [value, wrap(String(value), width / values.length / 7)])))}[datum.label]`;
}

// Points with their intervals; cells without passages are dashed lines through all panels.
function buildIntervals(choice, points, width) {
  const isFlat = choice.kind === "dots";
  const [place, value, second, offset] = isFlat ? ["y", "x", "x2", "yOffset"] : ["x", "y", "y2", "xOffset"];
  const withPassages = points.filter((point) => !point.closed), without = withPassages.length ? points.filter((point) => point.closed) : [];
  const isReference = choice.facet === NONE || OWN.includes(choice.facet);
  const drawn = withPassages.length ? withPassages : points;
  const { field: colored, color, key, shape } = describeColors(choice.color, drawn, { direction: "horizontal", titleOrient: "left", symbolFillColor: "transparent" });
  const [facet, columns] = describePanels(choice, isReference ? drawn : points, width);
  const size = { width: Math.max(120, (width - (isFlat ? 130 : 40)) / columns - (isFlat ? 24 : 60)) };
  const numColors = colored ? colored.sort.length : 1, numPlaces = choice.x === NONE ? 1 : describeField(choice.x).sort.length;
  const padding = Math.max(0.35, 1 - (numColors * MOST_OFFSET * numPlaces) / size.width);  // so that colors stand at most so many pixels apart
  const spot = choice.x === NONE ? undefined : describeField(choice.x, { axis: { labelAngle: 0, labelLimit: 230, ...(isFlat ? {} : { labelExpr: wrapLabels(choice.x, size.width) }) }, ...(isFlat ? {} : { scale: { paddingInner: padding } }), title: isFlat ? null : choice.x });
  const detail = listFields().map((field) => field.name).filter((name) => ![choice.x, choice.facet].includes(name)).map((name) => describeField(name));
  const shared = { detail, ...(spot && { [place]: spot }), ...(color && { color, [offset]: { field: colored.field, type: "nominal", sort: colored.sort } }), tooltip: buildTooltip(choice) };
  const axis = { type: "quantitative", title: label(choice.metric), scale: { zero: true, nice: true }, axis: { tickCount: isFlat ? Math.max(3, Math.round(size.width / 70)) : 6 } };
  const plain = color ? {} : { color: data.colors[0] };
  const marks = [
    { mark: { type: "rule", strokeWidth: 1.5, aria: false, ...plain }, encoding: { [value]: { field: "low", ...axis }, [second]: { field: "high" } } },
    ...(isFlat || choice.x === "strategy" ? [] : [{ mark: { type: "line", opacity: 0.45, description: "line between settings", ...plain }, encoding: { [value]: { field: "value", ...axis } } }]),
    { mark: { type: "point", filled: true, size: 70, opacity: 1, cursor: "pointer", strokeWidth: 1.6 },
      encoding: { [value]: { field: "value", ...axis }, color: undefined, ...(shape && { shape }), ...fillOracles(color, key) } },
  ].map((layer) => ({ ...layer, ...(isReference || !without.length ? {} : { transform: [{ filter: "!datum.closed" }] }), encoding: { ...shared, ...layer.encoding } }));
  const references = without.length ? [{ ...(isReference ? { data: { values: without } } : { transform: [{ filter: "datum.closed" }] }), mark: { type: "rule", strokeDash: [4, 4], color: style("--muted") }, encoding: { [value]: { field: "value", ...axis }, tooltip: buildTooltip(choice) } }] : [];
  size.height = isFlat ? Math.max(60, Math.min(numPlaces * Math.max(30, 15 * numColors + 16), 420)) : 240;
  const layer = [...references, ...marks];
  const values = isReference ? drawn : points;
  return facet ? { data: { values }, facet, columns, spec: { ...size, layer } } : { data: { values }, ...size, layer };
}

function buildDifferences(choice, points, width) {
  const isFirst = (point, index) => points.findIndex((other) => other.first === point.first) === index;
  const drawn = points.filter((point, index) => point.difference !== null && isFirst(point, index)).map((point) => ({ ...point, words: point.words + (point.numSame ? ` (+ ${point.numSame} equal)` : "") }));
  const y = { field: "words", type: "nominal", sort: { field: "difference", order: choice.metric.lower ? "ascending" : "descending" }, title: null, axis: { labelLimit: 420 } };
  const x = { type: "quantitative", axis: { tickCount: 9 }, title: `${label(choice.metric)}: difference to ${choice.baseline.words}` };
  const color = { field: "significant", type: "nominal", title: "significant after correction", scale: { domain: [true, false], range: [data.colors[0], "#8a8f98"] }, legend: { orient: "bottom", labelExpr: "datum.value ? 'yes' : 'no'" } };
  const common = { y, color, tooltip: buildTooltip(choice) };
  return { data: { values: drawn }, width: Math.max(200, width - 480), height: { step: 20 }, layer: [
    { data: { values: [{ zero: 0 }] }, mark: { type: "rule", color: style("--muted") }, encoding: { x: { field: "zero", ...x } } },
    { mark: { type: "rule", strokeWidth: 1.5, aria: false }, encoding: { ...common, x: { field: "from", ...x }, x2: { field: "to" } } },
    { mark: { type: "point", filled: true, size: 70, opacity: 1, cursor: "pointer" }, encoding: { ...common, x: { field: "difference", ...x } } }] };
}

function buildMatrix(choice, points, width) {
  const column = (point) => (point.k ? `k=${point.k}, ` : "") + cells.find((cell) => cell.name === point.cell).fields.placement;
  const values = points.map((point) => ({ ...point, column: column(point), line: cells.find((cell) => cell.name === point.cell).strategy }));
  const columns = [...new Set([...values].sort((x, y) => x.k - y.k).map((point) => point.column))];
  const encoding = { x: { field: "column", type: "nominal", sort: columns, title: null, axis: { orient: "top", labelAngle: columns.length > 4 ? -30 : 0, labelLimit: 240 } },
    y: { field: "line", type: "nominal", sort: null, title: null, axis: { labelLimit: 300 } }, tooltip: buildTooltip(choice) };
  return { data: { values }, width: Math.min(width - 260, 130 * columns.length), height: { step: 34 }, encoding, layer: [
    { mark: { type: "rect", cursor: "pointer" }, encoding: { color: { field: "value", type: "quantitative", title: label(choice.metric), scale: { scheme: "blues", zero: false } } } },
    { mark: { type: "text", cursor: "pointer", fontSize: 12 }, encoding: { text: { field: "short" }, color: { condition: { test: `datum.value > ${middle(values)}`, value: "white" }, value: "black" } } }] };
}

const middle = (values) => (Math.max(...values.map((point) => point.value)) + Math.min(...values.map((point) => point.value))) / 2;

// Whether the frontier that the page holds is that of the cells shown.
const isWholeFrontier = (choice) => data.frontier.length > 0 && choice.metric === data.metrics[0] && choice.cost.name === data.cost && !Object.keys(choice.held).length;

// The cells with their cost, and the best value that each cost buys.
function buildCosts(choice, points, width) {
  const drawn = points.filter((point) => point.cost !== null);
  const most = Math.max(...drawn.map((point) => point.cost)), least = Math.min(...drawn.map((point) => point.cost));
  const steps = (isWholeFrontier(choice) ? data.frontier : []).map(([cost, value, low, high]) => ({ cost, value, low, high }));
  // Only the cells on the frontier are named, so that names do not cover each other; all others say theirs when pointed at.
  const nameCell = (point) => findCell(point.cell).strategy + (point.k ? `, k=${point.k}` : "");
  const named = steps.filter((step, index) => !index || step.value !== steps[index - 1].value).flatMap((step) => {
    const level = drawn.filter((point) => !point.oracle && isNear(point.cost, step.cost) && isNear(point.value, step.value));
    return level.slice(0, 1).map((point) => ({ ...point, name: nameCell(point) + (level.length > 1 ? ` (+ ${level.length - 1} equal)` : "") }));
  });
  const scale = least > 0 && most / least >= 10 ? Math.log : (value) => value;
  const isRight = (point) => scale(point.cost) - scale(least) > 0.8 * (scale(most) - scale(least));
  const texts = [[named.filter((point) => !isRight(point)), "left"], [named.filter(isRight), "right"]].filter(([values]) => values.length);
  const x = { field: "cost", type: "quantitative", title: `${label(choice.cost)}, mean of the questions`, scale: scale === Math.log ? { type: "log", nice: false, padding: 12 } : { zero: false } };
  const y = { type: "quantitative", title: label(choice.metric) };
  const { color, key, shape } = describeColors(choice.x === NONE ? "strategy" : choice.x, drawn, { symbolFillColor: "transparent" });
  const common = { x, ...(color && { color }), tooltip: [...buildTooltip(choice), { field: "costText", title: choice.cost.title }] };
  return { width: Math.max(300, width - 90), height: 360, layer: [
    ...(steps.length ? [
      { data: { values: steps }, mark: { type: "area", interpolate: "step-after", opacity: 0.18, color: style("--muted") }, encoding: { x, y: { field: "low", ...y }, y2: { field: "high" } } },
      { data: { values: steps }, mark: { type: "line", interpolate: "step-after", strokeDash: [4, 4], color: style("--muted") }, encoding: { x, y: { field: "value", ...y } } }] : []),
    ...texts.map(([values, align]) => ({ data: { values }, mark: { type: "text", align, dx: align === "left" ? 8 : -8, dy: -10 }, encoding: { x, y: { field: "value", ...y }, text: { field: "name" } } })),
    ...["rule", "point"].map((type) => ({ data: { values: drawn }, mark: { type, ...(type === "point" ? { filled: true, size: 70, opacity: 1, cursor: "pointer" } : {}) },
      encoding: { ...common, y: { field: type === "rule" ? "low" : "value", ...y }, ...(type === "rule" && { y2: { field: "high" } }),
        ...(type === "point" && { color: undefined, ...(shape && { shape }), ...fillOracles(color, key) }) } }))] };
}

const isNear = (x, y) => Math.abs(x - y) <= 1e-4 * Math.max(Math.abs(x), Math.abs(y));

const BUILDERS = { dots: buildIntervals, lines: buildIntervals, difference: buildDifferences, matrix: buildMatrix, cost: buildCosts, coverage: buildCurves, calibration: buildCurves, confidence: buildHistograms, training: buildTrainings };
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Draw a chart into an element, which is part of the document by the time that the library has read the specification.
function drawChart(element, choice) {
  const points = listPoints(choice);
  const isEmpty = choice.kind !== "training" && (!points.length || (choice.kind === "cost" && points.every((point) => point.cost === null)));
  if (isEmpty) { element.replaceChildren(muted(`No cell of these settings has a value of ${points.length ? choice.cost.title : choice.metric.title}.`)); return points; }
  setTimeout(() => embedChart(element, choice, points));  // when the element is part of the document
  return points;
}

// Draw the points of a chart into an element of the document, whose width it takes.
async function embedChart(element, choice, points) {
  try {
    const spec = BUILDERS[choice.kind](choice, points, element.clientWidth || 900);
    if (CURVE_NOTES[choice.kind] && !spec.data.values.length) { element.replaceChildren(muted("No answer of these settings has a confidence.")); return; }
    const text = style("--text"), line = style("--line");
    const config = { background: style("--back"), lineBreak: "\n", font: "system-ui, sans-serif", view: { stroke: null }, legend: { labelColor: text, titleColor: text, labelLimit: 400, titleLimit: 400, labelFontSize: 12, titleFontSize: 12 }, header: { labelColor: text, labelFontSize: 12 },
      axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12 }, text: { color: text } };
    const description = `${listKinds()[choice.kind]}: ${nameValues(choice)} of ${count(points.length, "cell")}`;
    const { view } = await vegaEmbed(element, { $schema: "https://vega.github.io/schema/vega-lite/v6.json", description, ...spec, config }, { renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false }, downloadFileName: `winnow ${nameFile(choice)}` });
    view.addEventListener("click", (event, item) => item?.datum?.cell && go({ view: "questions", a: item.datum.cell, confidence: item.mark.marktype === "line" ? "" : item.datum.range }, {}));
  } catch (error) {
    element.replaceChildren(h("p", { class: "note" }, `This chart cannot be drawn: ${error.message}`));
  }
}

function showExplore(state) {
  const choice = chooseChart(state), fields = listFields();
  const chart = h("div", { class: "chart", id: "chart" });
  const points = drawChart(chart, choice);
  const numUndefined = cells.filter((cell) => !cell.intervals[choice.metric.name]).length;
  const numApart = choice.kind === "difference" ? points.filter((point) => point.difference === null && point.first !== choice.baseline.first).length : 0;
  const listOptions = (metrics) => metrics.map((metric) => [metric.name, metric.title]), offered = choice.kind === "difference" ? data.metrics.slice(0, 1) : CURVE_KINDS[choice.kind] ? listShares() : data.metrics;
  const options = [[NONE, "none"], ...fields.map((field) => [field.name, field.name])];
  const isFree = choice.kind === "dots" || choice.kind === "lines", isCurve = CURVE_NOTES[choice.kind] !== undefined;
  return [
    h("div", { class: "controls" },
      select("Chart", Object.entries(listKinds()), choice.kind, (value) => go({ kind: value, x: "", color: "", facet: "" })),
      choice.kind === "training" && select("Logged", listLogged().map((name) => [name, name]), choice.logged, (value) => go({ logged: value })),
      choice.kind !== "training" && select("Metric", listOptions(offered), choice.metric.name, (value) => go({ metric: value })),
      isFree && select(choice.kind === "dots" ? "Rows" : "x axis", options, choice.x, (value) => go({ x: value })),
      (isFree || CURVE_KINDS[choice.kind]) && choice.kind !== "confidence" && select("Color", options, choice.color, (value) => go({ color: value })),
      (isFree || CURVE_KINDS[choice.kind]) && choice.kind !== "confidence" && select("Panels", options, choice.facet, (value) => go({ facet: value })),
      choice.kind === "cost" && select("Cost", listOptions(data.metrics), choice.cost.name, (value) => go({ cost: value })),
      !isCurve && select(choice.kind === "difference" ? "Baseline" : "Compared in tooltips with", cells.map((cell) => [cell.name, cell.words]), choice.baseline.name, (value) => go({ baseline: value }))),
    choice.kind !== "training" && h("div", { class: "controls" }, fields.map((field) => select(`Only ${field.name}`, [["", "all"], ...field.values.map((value) => [String(value), String(value)])], choice.held[field.name] || "",
      (value) => go({ [`only ${field.name}`]: value })))),
    chart,
    numApart > 0 && muted(`${count(numApart, "cell")} not compared with the baseline: other questions, or a difference that this page does not hold. `),
    numUndefined > 0 && choice.kind !== "training" && muted(`${count(numUndefined, "cell")} without a value of ${choice.metric.title}. `),
    choice.kind === "difference" && muted("Intervals are those of each pair alone; colors follow the p-values that are corrected for all pairs of the page. "),
    choice.kind === "cost" && isWholeFrontier(choice) && muted("Dashed: the best value that a cost buys without gold labels, with the 95 % band of that best value over resampled questions. "),
    isCurve && muted(CURVE_NOTES[choice.kind]),
    isFree && points.some((point) => point.oracle) && muted("Hollow points use gold labels. "),
    isFree && points.some((point) => point.closed) && points.some((point) => !point.closed) && muted("Dashed lines are cells without passages. "),
    !isCurve && choice.metric.unit === "percent" && points.some((point) => point.closed) && data.selection && muted(`Cells without passages are ${data.selection}. `),
    !isCurve && muted(`A ${choice.kind === "matrix" ? "field" : "point"} opens its questions. `), muted("The menu at the chart's corner saves it as SVG or PNG; "), h("a", { href: "#", id: "print", onclick: (event) => { event.preventDefault(); printChart(chart, choice); } }, "print it or save it as PDF"), muted("; "), h("a", { href: "#", onclick: (event) => { event.preventDefault(); saveRows(isCurve ? listCurveRows(choice, points) : points, choice); } }, "save its values as CSV"),
    !isCurve && showPositions(choice.metric, choice.held),
  ];
}

// Print a chart alone in light colors, on a page of its size, which browsers also save as PDF.
async function printChart(chart, choice) {
  document.documentElement.classList.add("light");
  await embedChart(chart, choice, listPoints(choice));
  const box = chart.querySelector("svg")?.getBoundingClientRect();
  if (!box) return;
  const size = h("style", {}, `@page { size: ${Math.ceil(box.width) + 2}px ${Math.ceil(box.height) + 2}px; margin: 0 }`);
  document.head.append(size);
  document.body.classList.add("chart-only");
  addEventListener("afterprint", () => { size.remove(); document.body.classList.remove("chart-only"); document.documentElement.classList.remove("light"); embedChart(chart, choice, listPoints(choice)); }, { once: true });
  print();
}

// Save rows as a file of comma-separated values.
function save(name, rows) {
  const quote = (value) => (/[",\n]/.test(String(value ?? "")) ? `"${String(value).replace(/"/g, '""')}"` : String(value ?? ""));
  saveText(name, rows.map((row) => row.map(quote).join(",")).join("\n") + "\n");
}

// Points with the fields of their cells by name, and curves as they are.
function saveRows(rows, choice) {
  const names = listFields().map((field) => field.name), drawing = /^(f\d+|paint|panel|first|words|numSame|text|short|costText|against|closed)$/;
  const told = { metric: nameValues(choice), ...(choice.kind === "cost" && { "cost of": choice.cost.title }), ...(!CURVE_NOTES[choice.kind] && choice.metric === data.metrics[0] && { "compared with": choice.baseline.name }) };
  const named = rows.map((row) => ({ ...told, ...Object.fromEntries(names.map((name, index) => [name, row[`f${index}`]]).filter(([, value]) => value !== undefined)), ...Object.fromEntries(Object.entries(row).filter(([name]) => !drawing.test(name))) }));
  save(`${data.title} ${nameFile(choice)}.csv`, [Object.keys(named[0] || {}), ...named.map(Object.values)]);
}

const nameFile = (choice) => `${choice.kind} ${nameValues(choice)}${choice.kind === "difference" ? ` to ${choice.baseline.name}` : ""}`;
const saveText = (name, text) => h("a", { href: URL.createObjectURL(new Blob([text])), download: name }).click();

// The metric by the position of the gold passage in the prompt.

function heat(share) {
  const strength = 0.06 + 0.54 * Math.max(0, Math.min(1, share));
  return `background: rgba(var(--heat), ${strength.toFixed(3)})`;
}

function heatCell(metric, value, scale, title, below) {
  if (value === null || value === undefined) return h("td", { class: "value muted" }, "");
  return h("td", { class: "value", style: heat((value - scale[0]) / (scale[1] - scale[0] || 1)), title }, formatValue(metric, value), h("small", {}, below));
}

function showPositions(metric, held) {
  if (!metric.mean) return null;  // its value is not a mean over questions
  const groups = new Map();
  let most = 0;
  for (const cell of cells) {
    if (!cell.k || !cell.moves || !isHeld(cell, held)) continue;
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
    return entry ? heatCell(metric, average(entry), scale, count(entry.size, "question"), `n=${entry.size}`) : heatCell(metric, null);
  })]);
  return [h("h2", {}, `${metric.title} by the gold passage's position in the prompt`),
    table(["strategy", ...positions.map((position) => `position ${position}`)], rows, { class: "heat" }), muted("Questions with a gold passage in the prompt, in the placements that move it. Placements in retrieved order are left out, because there an early position means that the question is an easy one to retrieve for.")];
}
