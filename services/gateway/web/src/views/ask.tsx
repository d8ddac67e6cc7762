/** The first view: a question, and its answer as it arrives. */
import type { Asking } from "../asking";
import { readHistory } from "../history";
import { Board } from "../parts/board";
import { type Choices, Composer } from "../parts/composer";
import { Examples } from "../parts/examples";
import { EntryList } from "./history";

export interface AskProps {
  asking: Asking;
  question: string;
  choices: Choices;
  onQuestion: (question: string) => void;
  onChoices: (choices: Choices) => void;
  say: (text: string) => void;
}

export function AskView({ asking, question, choices, onQuestion, onChoices, say }: AskProps) {
  const { runs } = asking;
  const running = runs.some((run) => run.trace.status === "running");
  const shown = runs.map(({ key, request, trace, startedAt }) => ({ key, request, trace, startedAt, mode: request.mode }));
  const recent = runs.length ? [] : readHistory().slice(0, 4);

  function pick(text: string): void {
    onQuestion(text);
    document.getElementById("question")?.focus();
  }

  return (
    <div class="ask" data-asked={runs.length > 0} data-count={runs.length}>
      {runs.length === 0 ? (
        <div class="lead">
          <h1>What would you like to know?</h1>
          <p>The model splits a question into sub-queries that do not wait for each other, and searches them at the same time.</p>
        </div>
      ) : (
        <h1 class="sr">Ask</h1>
      )}
      <Composer
        question={question}
        choices={choices}
        running={running}
        compact={runs.length > 0}
        onQuestion={onQuestion}
        onChoices={onChoices}
        onAsk={asking.ask}
        onStop={asking.stop}
      />
      {runs[0] && (
        <Board key={runs[0].key} question={runs[0].request.question} questionStands={question.trim() === runs[0].request.question} shown={shown} say={say} onAsk={asking.ask} onBeside={asking.beside} />
      )}
      {runs.length === 0 && <Examples onPick={pick} />}
      {recent.length > 0 && (
        <section class="recent" aria-labelledby="recent-title">
          <div class="section-head">
            <h2 id="recent-title">Asked before</h2>
            <a href="#/history">All</a>
          </div>
          <EntryList entries={recent} />
        </section>
      )}
    </div>
  );
}
