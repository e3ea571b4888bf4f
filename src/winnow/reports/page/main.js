// Views, keys and the start of the page.

function render() {
  const state = readState();
  const view = VIEWS[state.view] ? state.view : "answer";
  const show = { answer: showAnswer, explore: showExplore, outcomes: showOutcomes, questions: showQuestions, compare: showCompare, tables: showTables, about: showAbout }[view];
  document.getElementById("views").replaceChildren(...Object.entries(VIEWS).map(([name, title]) =>
    h("a", { href: link({ view: name, a: state.a, ...(name === "compare" ? { b: state.b, c: state.c } : {}), metric: state.metric }), "aria-current": name === view ? "page" : null }, title)));
  document.getElementById("main").replaceChildren(...[listUnknown(state), show(state)].flat(Infinity).filter((node) => node !== null && node !== undefined && node !== false));
  document.body.dataset.view = view;
  document.title = [state.id, VIEWS[view], data.title].filter(Boolean).join(" · ");
  document.body.dataset.milliseconds = Math.round(performance.now() - started);
  if (performance.memory) document.body.dataset.heap = performance.memory.usedJSHeapSize;
}

// What the address names that the page does not have, with what it has.
function listUnknown(state) {
  const known = { view: Object.keys(VIEWS), kind: Object.keys(listKinds()), metric: data.metrics.map((metric) => metric.name), cost: data.metrics.map((metric) => metric.name),
    outcome: data.outcomes.map((outcome) => outcome.name), table: data.tables.map((_, index) => String(index)), ...Object.fromEntries(["a", "b", "c", "baseline"].map((name) => [name, cells.map((cell) => cell.name)])) };
  for (const field of data.cells.length ? listFields() : []) known[`only ${field.name}`] = field.values;
  return Object.entries(known).filter(([name, values]) => state[name] && !values.includes(state[name])).map(([name, values]) =>
    h("p", { class: "note" }, `The address says ${name}=${state[name]}, which this page does not have. It has ${values.join(", ")}.`));
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
addEventListener("hashchange", (event) => {
  started = performance.now();
  const places = [event.oldURL, event.newURL].map((url) => new URLSearchParams(new URL(url).hash.slice(1)));
  const isSame = ["view", "id", "table", ...(places[1].get("id") ? ["a", "b", "c"] : [])].every((name) => (places[0].get(name) || "") === (places[1].get(name) || ""));
  if (isSame) renderInPlace();
  else { render(); scrollTo(0, 0); }
});

// Render after a choice within a view: what was open stays open, and the focus and the place on the screen stay where they were.
function renderInPlace() {
  const main = document.getElementById("main"), top = scrollY, { tagName, name, textContent } = document.activeElement;
  const folds = (node) => [...node.querySelectorAll("details")], open = folds(main).map((details) => details.open);
  render();
  if (folds(main).length === open.length) folds(main).forEach((details, index) => { details.open = open[index]; });
  const focused = [...main.querySelectorAll(tagName)].find((node) => (name ? node.name === name : node.textContent === textContent));
  if (focused) focused.focus({ preventScroll: true });
  scrollTo(0, top);
}

async function inflate(id) {
  const encoded = document.getElementById(id);
  const bytes = Uint8Array.from(atob(encoded.textContent.trim()), (character) => character.charCodeAt(0));
  encoded.remove();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function load() {
  document.head.append(h("script", {}, `(() => {${await inflate("library")}\n})();`));  // its names are its own
  data = JSON.parse(await inflate("data"));
  cells = data.cells;
  render();
}

load().catch((error) => {
  document.getElementById("main").replaceChildren(h("p", { class: "note" }, `The page could not be read: ${error.message}. It needs a browser of 2023 or later.`));
});
