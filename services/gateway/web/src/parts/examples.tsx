/** Questions of the demo corpus by what they ask for. */
import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api";
import type { Example } from "../wire";

const SHOWN = 3;
const KINDS: [string, string, string][] = [
  ["parallel", "Side by side", "facts that do not wait for each other"],
  ["hybrid", "Two chains", "side by side, each of two steps"],
  ["sequential", "Step by step", "one fact leads to the next"],
  ["single", "One look-up", "nothing to split"],
];

export function Examples({ onPick }: { onPick: (question: string) => void }) {
  const [examples, setExamples] = useState<Example[]>([]);
  const [page, setPage] = useState(0);
  useEffect(() => {
    getJson<{ examples: Example[] }>("/v1/examples").then(
      (found) => setExamples(found.examples),
      () => setExamples([]),
    );
  }, []);
  if (examples.length === 0) return null;
  return (
    <section class="examples" aria-labelledby="examples-title">
      <div class="section-head">
        <h2 id="examples-title">Try one of these</h2>
        <button type="button" class="link" onClick={() => setPage(page + 1)}>
          Others
        </button>
      </div>
      <div class="example-grid">
        {KINDS.map(([kind, name, gloss]) => (
          <Kind key={kind} name={name} gloss={gloss} questions={turned(examples, kind, page)} onPick={onPick} />
        ))}
      </div>
    </section>
  );
}

function turned(examples: Example[], kind: string, page: number): string[] {
  const all = examples.filter((example) => example.kind === kind).map((example) => example.question);
  return Array.from({ length: Math.min(SHOWN, all.length) }, (_, i) => all[(page * SHOWN + i) % all.length] ?? "");
}

function Kind({ name, gloss, questions, onPick }: { name: string; gloss: string; questions: string[]; onPick: (question: string) => void }) {
  if (questions.length === 0) return null;
  return (
    <div class="kind">
      <h3>
        {name} <span>{gloss}</span>
      </h3>
      <ul>
        {questions.map((question) => (
          <li key={question}>
            <button type="button" dir="auto" onClick={() => onPick(question)}>
              {question}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
