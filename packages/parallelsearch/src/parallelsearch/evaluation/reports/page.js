"use strict";
// Lines of data: the index first, then passages (P) and trajectories (T) in the order in which they are referred to.
const lines = document.getElementById("data").textContent.split("\n");
const index = JSON.parse(lines[0]);
const passages = [], trajectories = [];
for (const line of lines) {
  if (line[0] === "P") passages.push(line);
  else if (line[0] === "T") trajectories.push(line);
}
const at = (list, number) => JSON.parse(list[number].slice(1));
const byId = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

// places[column][question] is the number of a trajectory; right[column][question] whether its answer is right.
const places = index.columns.map(() => new Map()), right = index.columns.map(() => new Map());
index.trajectories.forEach(([column, question, isRight], number) => {
  places[column].set(question, number);
  right[column].set(question, isRight);
});

function options(select, values, chosen) {
  values.forEach((value, position) => select.add(new Option(value, position, false, position === chosen)));
}

function marks(question, columns) {
  const span = make("span", "marks");
  for (const column of columns) {
    const known = right[column].get(question);
    span.append(make("span", known ? "right" : "wrong", known === undefined ? "·" : known ? "✓" : "✗"));
  }
  return span;
}

function shown() {
  const words = byId("words").value.toLowerCase(), set = byId("set").value, kind = byId("kind").value, which = byId("which").value;
  const [a, b] = sides();
  return index.questions.map((question, number) => ({ question, number })).filter(({ question, number }) => {
    if (set !== "" && question.set !== set) return false;
    if (kind !== "" && question.kind !== kind) return false;
    if (words && !(question.question + " " + question.id).toLowerCase().includes(words)) return false;
    const left = right[a].get(number), other = right[b].get(number);
    if (which === "differ") return left !== other;
    if (which === "wrong") return left === false || other === false;
    return left !== undefined || other !== undefined;
  });
}

const sides = () => [Number(byId("left").value), Number(byId("right").value)];
let current = null;

function list() {
  const found = shown(), box = byId("questions");
  byId("count").textContent = `${found.length} of ${index.questions.length} questions` + (found.length > 500 ? ", the first 500 are listed" : "");
  box.replaceChildren();
  for (const { question, number } of found.slice(0, 500)) {
    const button = make("button");
    button.setAttribute("aria-current", String(number === current));
    button.append(marks(number, [...new Set(sides())]), `${question.question} `, make("span", "meta", `${question.set} · ${question.kind}`));
    button.onclick = () => { current = number; list(); draw(); };
    box.append(button);
  }
}

function drawTurn(turn, gold) {
  const box = make("div", "turn");
  if (turn.reasoning) box.append(make("p", "reasoning", turn.reasoning));
  if (turn.type === "answer") box.append(make("p", "query", `Answer: ${turn.text}`));
  if (turn.type === "malformed") box.append(make("p", "query", "Malformed:"), make("pre", "", turn.text));
  if (turn.type === "search" && !turn.results.length) box.append(make("p", "query", `Searched before, not again: ${turn.queries.join(" ## ")}`));
  for (const result of turn.results) {
    box.append(make("p", "query", `⌕ ${result.query}${result.failed ? " (failed)" : ""}`));
    for (const number of result.passages) {
      const passage = at(passages, number);
      const line = make("div", "passage" + (gold.has(passage.title) ? " gold" : ""));
      line.append(make("strong", "", passage.title), ` ${passage.text}`);
      box.append(line);
    }
  }
  if (turn.dropped) box.append(make("p", "meta", `${turn.dropped} further sub-queries dropped`));
  return box;
}

function drawSide(column, question) {
  const box = make("section", "side"), number = places[column].get(current);
  box.append(make("h3", "", index.columns[column]));
  if (number === undefined) { box.append(make("p", "meta", "not asked")); return box; }
  const trajectory = at(trajectories, number), isRight = right[column].get(current);
  box.append(make("p", isRight ? "right" : "wrong", `${isRight ? "✓" : "✗"} ${trajectory.answer ?? "no answer"}`));
  box.append(make("p", "meta", `${trajectory.stop_reason} · ${trajectory.llm_calls} LLM calls · ${trajectory.sub_queries} sub-queries · ` +
    `${(trajectory.total_ms / 1000).toFixed(2)} s · reward ${trajectory.reward.toFixed(2)}`));
  const gold = new Set(question.titles);
  trajectory.turns.forEach((turn) => box.append(drawTurn(turn, gold)));
  return box;
}

function draw() {
  const box = byId("sides");
  box.replaceChildren();
  if (current === null) return;
  const question = index.questions[current];
  const head = byId("asked");
  head.replaceChildren(make("strong", "", question.question), make("p", "meta",
    `${question.set} · ${question.id} · ${question.type} (${question.kind}) · gold: ${question.golden_answers.join(" | ")}` +
    (question.titles.length ? ` · evidence: ${question.titles.join(" | ")}` : "")));
  for (const column of new Set(sides())) box.append(drawSide(column, question));
}

options(byId("left"), index.columns, 0);
options(byId("right"), index.columns, Math.min(1, index.columns.length - 1));
for (const [name, values] of [["set", index.questions.map((one) => one.set)], ["kind", index.questions.map((one) => one.kind)]]) {
  byId(name).add(new Option("all", ""));
  [...new Set(values)].forEach((value) => byId(name).add(new Option(value, value)));
}
for (const name of ["words", "set", "kind", "which", "left", "right"]) byId(name).oninput = () => { list(); draw(); };
const first = shown()[0];
current = first ? first.number : null;
list();
draw();
