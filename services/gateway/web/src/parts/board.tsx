/** One answer, or two beside each other on one time axis, and what can be done with them. */
import { useState } from "preact/hooks";
import { type Timed, useClock } from "../clock";
import { duration } from "../format";
import { storedAnswer } from "../api";
import { readKey } from "../keys";
import { copy, curl, pack } from "../share";
import type { Trace } from "../trace";
import type { AnswerRequest, Mode, Trajectory } from "../wire";
import { Peek, usePeek } from "./peek";
import { TraceView } from "./trace";

export interface Shown extends Timed {
  key: number;
  mode: Mode;
  request: AnswerRequest | null;
}

export interface BoardProps {
  question: string;
  shown: Shown[];
  playAtFirst?: boolean;
  /** Whether the question stands on the page already, so that only a screen reader needs it again. */
  questionStands?: boolean;
  say: (text: string) => void;
  onAsk?: (requests: AnswerRequest[]) => void;
  onBeside?: (request: AnswerRequest) => void;
}

export function Board({ question, shown, playAtFirst = false, questionStands = false, say, onAsk, onBeside }: BoardProps) {
  const clock = useClock(shown, playAtFirst);
  const { peeked, show, hold } = usePeek();
  const first = shown[0];
  const requests = shown.map((each) => each.request).filter((request) => request !== null);
  const again = onAsk && requests.length ? () => onAsk(requests) : undefined;
  const settled = shown.every((each) => each.trace.status !== "running");
  return (
    <article class="result" aria-labelledby="result-question">
      <h2 id="result-question" class={questionStands ? "sr" : "question"}>
        <bdi>{question}</bdi>
      </h2>
      {shown.length > 1 && <Verdict shown={shown} />}
      <div class="board" data-count={shown.length} ref={clock.board}>
        {shown.map((each) => (
          <TraceView key={each.key} id={`a${each.key}`} mode={each.mode} trace={each.trace} span={clock.span} onPeek={show} {...(again && { onRetry: again })} />
        ))}
      </div>
      {settled && first && (
        <Actions
          shown={first}
          say={say}
          {...(first.trace.turns.length > 0 && { onReplay: clock.replay })}
          {...(again && !shown.some((each) => each.trace.problem) && { onAgain: again })}
          {...(onBeside && shown.length === 1 && first.request && first.mode === "parallel" && first.trace.status === "done" && { onBeside: () => onBeside(other(first.request!)) })}
        />
      )}
      {peeked && <Peek peeked={peeked} hold={hold} leave={() => show(null)} />}
    </article>
  );
}

/** The same question one thing after the other; past the cache, which the first answer has filled. */
export function other(request: AnswerRequest): AnswerRequest {
  return { ...request, mode: "sequential", cache: "bypass" };
}

function Verdict({ shown }: { shown: Shown[] }) {
  const [first, second] = shown.map((each) => each.trace);
  if (first?.status !== "done" || second?.status !== "done") return null;
  return (
    <p class="verdict" role="status">
      {compared(first, second)}
    </p>
  );
}

export function compared(first: Trace, second: Trace): string {
  const calls = [first, second].map((trace) => trace.trajectory?.usage.llm_calls ?? trace.turns.length);
  const saved = 1 - first.end / second.end;
  const times = `${duration(first.end)} and ${calls[0]} LLM calls in parallel, ${duration(second.end)} and ${calls[1]} in sequence`;
  if (Math.abs(saved) < 0.03) return `${times}: no difference in time.`;
  return `${times}: ${Math.round(Math.abs(saved) * 100)} % ${saved > 0 ? "less" : "more"} time.`;
}

interface ActionsProps {
  shown: Shown;
  say: (text: string) => void;
  onReplay?: () => void;
  onAgain?: () => void;
  onBeside?: () => void;
}

function Actions({ shown, say, onReplay, onAgain, onBeside }: ActionsProps) {
  const [copied, setCopied] = useState({ name: "", done: false });
  const { trajectory } = shown.trace;
  const { request } = shown;
  async function put(name: string, text: Promise<string> | string): Promise<void> {
    const done = await copy(await text);
    setCopied({ name, done });
    say(done ? `${name} copied.` : `${name}: the browser did not let it be copied.`);
    setTimeout(() => setCopied({ name: "", done: false }), 2_000);
  }
  const copier = (name: string, text: () => Promise<string> | string) => (
    <button type="button" onClick={() => void put(name, text())}>
      {copied.name !== name ? `Copy ${name === "Link" ? "link" : name}` : copied.done ? "Copied" : "Not copied"}
    </button>
  );
  return (
    <div class="actions" role="group" aria-label="With this answer">
      {onBeside && (
        <button type="button" class="strong" onClick={onBeside}>
          Compare with sequential
        </button>
      )}
      {onReplay && (
        <button type="button" onClick={onReplay}>
          Replay
        </button>
      )}
      {onAgain && (
        <button type="button" onClick={onAgain}>
          Ask again
        </button>
      )}
      <span class="spring" />
      {trajectory && copier("Link", () => linkTo(trajectory))}
      {trajectory && copier("JSON", () => JSON.stringify(trajectory, null, 2))}
      {request && copier("curl", () => curl(request, readKey("api-key") !== ""))}
    </div>
  );
}

/** Short where the gateway keeps the answer; else the link holds the whole trajectory. */
async function linkTo(trajectory: Trajectory): Promise<string> {
  const page = location.href.split("#")[0];
  try {
    const stored = await storedAnswer(trajectory.id);
    if (stored.id === trajectory.id) return `${page}#/answers/${encodeURIComponent(trajectory.id)}`;
  } catch {
    // Not kept, or kept for somebody else.
  }
  return `${page}#/t/${await pack(trajectory)}`;
}
