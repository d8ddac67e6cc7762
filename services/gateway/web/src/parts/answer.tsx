/** The answer on top, with numbered citations that jump to their passage. */
import { placeInWords, stopInWords } from "../format";
import type { Trace } from "../trace";
import type { Citation } from "../wire";
import { Linked } from "./passages";

/** From here on an answer is set as text, not as a headline. */
const LONG = 90;

export interface AnswerProps {
  trace: Trace;
  onCite: (citation: Citation) => void;
}

function Missing({ trace }: { trace: Trace }) {
  if (trace.status === "running") return <p class="answer pending">{trace.turns.length ? "Looking into it" : "Asking"}</p>;
  if (trace.status === "stopped") return <p class="answer none">Stopped before an answer</p>;
  return <p class="answer none">No answer</p>;
}

export function Answer({ trace, onCite }: AnswerProps) {
  const citations = trace.trajectory?.citations ?? [];
  const reason = trace.trajectory?.stop_reason ?? "answered";
  return (
    <div class="answer-block">
      {trace.answer.trim() ? (
        <p class="answer" data-long={trace.answer.length > LONG}>
          <bdi>{trace.answer.trim()}</bdi>
          {citations.length > 0 && (
            <span class="cites">
              {citations.map((citation, i) => (
                <button type="button" class="cite" key={citation.passage_id} aria-label={`Source ${i + 1}: ${citation.title}`} onClick={() => onCite(citation)}>
                  {i + 1}
                </button>
              ))}
            </span>
          )}
        </p>
      ) : (
        <Missing trace={trace} />
      )}
      {reason !== "answered" && trace.status !== "running" && <p class="stop-reason">{stopInWords(reason)}</p>}
      {citations.length > 0 && <Sources citations={citations} onCite={onCite} />}
    </div>
  );
}

function Sources({ citations, onCite }: { citations: Citation[]; onCite: (citation: Citation) => void }) {
  return (
    <ol class="sources" aria-label="Sources">
      {citations.map((citation) => (
        <li key={citation.passage_id}>
          <button type="button" class="link" onClick={() => onCite(citation)}>
            <bdi>{citation.title || citation.passage_id}</bdi>
          </button>
          {citation.source && <Linked url={citation.url} source={citation.source} words={placeInWords(citation.source, citation.page)} />}
          <span class="found-by">
            found by <bdi>{citation.query}</bdi>
          </span>
        </li>
      ))}
    </ol>
  );
}
