// Prompts and replies, alone or line by line next to others.

const decode = (numbers) => numbers.map((n) => (n < 0 ? data.passages[-1 - n][1] : data.texts[n])).join("");

function formatCall(call) {
  return call.prompt.map(([name, numbers]) => `<${name}>\n${decode(numbers)}`).join("\n");
}

function formatResult(call) {
  if (call.failed !== undefined) return `failed: ${call.failed}`;
  if (call.score !== undefined) return String(call.score);
  return decode(call.reply);
}

function showCall(call, answers, open, index, other) {
  const facts = [call.tokens && `${call.tokens[0]} tokens in, ${call.tokens[1]} out`, call.finish && `ended: ${call.finish}`, call.dropped && `${call.dropped} passages dropped`].filter(Boolean).join(", ");
  const text = formatCall(call), reply = formatResult(call);
  const changed = other && (formatCall(other) !== text || formatResult(other) !== reply);
  return h("details", { open: open || changed }, h("summary", {}, `${index + 1}. ${call.kind}, ${call.role}: `, h("b", {}, reply.length > 90 ? reply.slice(0, 89) + "…" : reply), " ", muted(facts),
    other ? h("span", { class: "tag " + (changed ? "warn" : "good") }, changed ? "differs" : "the same") : null),
    h("pre", {}, other ? showDifference(formatCall(other), text, answers) : markAnswers(text, answers)),
    h("pre", {}, other ? showDifference(formatResult(other), reply, answers) : markAnswers(reply, answers)));
}

// Lines of the second text; those that only it has are marked as added, and those that only the first has as removed.
function showDifference(first, second, answers) {
  const [a, b] = [first.split("\n"), second.split("\n")];
  if (a.length * b.length > 4e6) return [second];
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push(markAnswers(b[j++] + "\n", answers)), i++;
    else if (j < b.length && (i === a.length || common[i][j + 1] >= common[i + 1][j])) lines.push(h("span", { class: "added" }, "+ ", markAnswers(b[j++] + "\n", answers)));
    else lines.push(h("span", { class: "removed" }, "− " + a[i++] + "\n"));
  }
  return lines;
}
