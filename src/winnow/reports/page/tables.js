// The tables of the report: sorted by a column, filtered, with the columns that one wants; and what made the numbers.

function readNumber(text) {
  const found = String(text).replace(/^</, "").match(/^[+\-−]?[\d,]*\.?\d+/);
  return found ? Number(found[0].replace("−", "-").replace(/,/g, "")) : null;
}

function sortRows(rows, column, isDescending) {
  const isUndefined = (row) => !/\d/.test(row[column].replace(/\(.*\)$/, ""));  // "– (0)" is a group without questions
  const isNumeric = rows.every((row) => isUndefined(row) || readNumber(row[column]) !== null) && !rows.every(isUndefined);
  const isEmpty = (row) => (isNumeric ? isUndefined(row) : /^[–-]?$/.test(row[column].trim()));
  const compare = isNumeric ? (x, y) => (readNumber(x[column]) ?? -Infinity) - (readNumber(y[column]) ?? -Infinity) : (x, y) => x[column].localeCompare(y[column]);
  const sorted = rows.filter((row) => !isEmpty(row)).sort(compare);
  return [...(isDescending ? sorted.reverse() : sorted), ...rows.filter(isEmpty)];
}

// The number of columns that say what a row is, which come before the first metric and the numbers of questions.
const countLabels = (names) => Math.max(1, names.findIndex((name) => (name in data.glossary && name !== "gold") || ["n", "questions", "A - B"].includes(name)));

// Keep the first columns in sight while a table is scrolled sideways. Their widths are known when the table is in the document.
function pinLabels(box, num) {
  setTimeout(() => {
    for (const row of box.querySelectorAll("tr")) [...row.cells].slice(0, num).reduce((left, cell) => {
      cell.style.left = `${left}px`;
      cell.classList.add("pinned");
      return left + cell.offsetWidth;
    }, 0);
  });
  return box;
}

function showTables(state) {
  const names = data.tables.map((entry, index) => [String(index), entry.title]);
  const place = data.tables[Number(state.table)] ? Number(state.table) : 0;
  const entry = data.tables[place];
  const hidden = new Set((state.hide || "").split(",").filter(Boolean).map(Number));
  const words = (state.search || "").toLowerCase();
  const found = entry.rows.filter((row) => !words || row.some((text) => text.toLowerCase().includes(words)));
  const rows = state.by ? sortRows(found, Number(state.by), state.order === "down") : found;
  const shown = entry.columns.map((name, index) => index).filter((index) => !hidden.has(index));
  const isNumeric = (index) => index > 0 && entry.rows.some((row) => readNumber(row[index]) !== null);
  const heading = (index) => {
    const isBy = state.by === String(index);
    const order = isBy && state.order !== "down" ? "down" : "up";
    return h("th", { class: isNumeric(index) ? "number" : null, "aria-sort": isBy ? (state.order === "down" ? "descending" : "ascending") : "none", title: data.glossary[entry.columns[index]] },
      h("a", { href: link({ by: String(index), order }, state) }, entry.columns[index], isBy ? (state.order === "down" ? " ↓" : " ↑") : ""));
  };
  return [
    h("div", { class: "controls" }, select("Table", names, names[place][0], (value) => go({ table: value, by: "", order: "", hide: "", search: "" })), searchBox(state, "words in the rows"),
      h("a", { href: "#", onclick: (event) => { event.preventDefault(); save("table.csv", [entry.columns, ...rows].map((row) => shown.map((index) => row[index]))); } }, "save as CSV"),
      h("details", { class: "inline" }, h("summary", {}, "Columns"), entry.columns.map((name, index) => h("label", {}, h("input", { type: "checkbox", name: `column ${name}`, checked: !hidden.has(index), onchange: () => {
        if (!hidden.delete(index)) hidden.add(index);
        go({ hide: [...hidden].join(",") });
      } }), ` ${name} `)))),
    h("h2", {}, entry.title), h("p", { class: "muted" }, entry.caption),
    pinLabels(h("div", { class: "tall" }, table(shown.map(heading), rows.map((row) => shown.map((index) => (isNumeric(index) ? number(row[index]) : row[index]))))), countLabels(shown.map((index) => entry.columns[index]))),
    muted(`${rows.length} of ${entry.rows.length} rows`),
    data.howToRead && h("details", {}, h("summary", {}, "How to read the differences"), h("p", {}, data.howToRead)),
  ];
}

function showAbout() {
  const list = (entries) => h("dl", {}, Object.entries(entries).map(([name, value]) => [h("dt", {}, h("b", {}, name)), h("dd", {}, value)]));
  return [
    [...data.notes, ...data.story.limits].map((note) => h("p", { class: "note" }, describe(note))),
    h("h2", {}, "What made the numbers"), list(data.provenance),
    data.howToRead && [h("h2", {}, "How to read the differences"), h("p", {}, data.howToRead)],
    h("h2", {}, "Columns"), list(data.glossary),
  ];
}
