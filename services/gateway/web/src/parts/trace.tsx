/** One answer on its board: the answer, its totals and its lanes. */
import { useState } from "preact/hooks";
import { MODES, tickLabel, ticks } from "../format";
import type { Trace } from "../trace";
import type { Citation, Mode, Problem } from "../wire";
import { Answer } from "./answer";
import type { Peeked } from "./peek";
import { ProblemNote } from "./problem";
import { Totals } from "./totals";
import { laneId, TurnBlock } from "./turn";

export interface TraceProps {
  trace: Trace;
  mode: Mode;
  id: string;
  span: number;
  onPeek: (peeked: Peeked | null) => void;
  onRetry?: () => void;
}

const motion = (): ScrollBehavior => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

/** Brings a passage into view and gives it the focus, once its lane is drawn open. */
function jump(lane: string, position: number): void {
  const passage = document.getElementById(`${lane}-passages-${position}`);
  passage?.focus({ preventScroll: true });
  passage?.scrollIntoView({ block: "center", behavior: motion() });
}

function moveFocus(event: KeyboardEvent): void {
  const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -1e6, End: 1e6 };
  const by = moves[event.key];
  const from = event.target;
  if (by === undefined || !(from instanceof HTMLElement) || !from.matches("button.row")) return;
  const rows = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button.row")];
  event.preventDefault();
  rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(from) + by))]?.focus();
}

export function TraceView({ trace, mode, id, span, onPeek, onRetry }: TraceProps) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [highlighted, setHighlighted] = useState<string | null>(null);

  function toggle(lane: string): void {
    const next = new Set(opened);
    if (!next.delete(lane)) next.add(lane);
    onPeek(null);
    setOpened(next);
  }

  function cite(citation: Citation): void {
    const turn = trace.turns.find((each) => each.index === citation.turn);
    const lane = turn?.lanes.findIndex((each) => each.query === citation.query) ?? -1;
    if (!turn || lane < 0) return;
    const where = laneId(`${id}-t${turn.index}`, lane);
    const position = turn.lanes[lane]?.passages.findIndex((passage) => passage.id === citation.passage_id) ?? 0;
    setOpened(new Set([...opened, where]));
    setHighlighted(citation.passage_id);
    setTimeout(() => jump(where, position), 30);
  }

  const policy = trace.trajectory?.policy;
  return (
    <section class="trace" data-status={trace.status} aria-labelledby={`${id}-title`} aria-busy={trace.status === "running"}>
      <header class="trace-head">
        <h3 id={`${id}-title`}>{MODES[mode]}</h3>
        {policy?.model && (
          <p class="made-by">
            <bdi>{policy.model}</bdi>
            {policy.version && ` · version ${policy.version}`}
          </p>
        )}
      </header>
      <Answer trace={trace} onCite={cite} />
      {trace.problem && <Trouble problem={trace.problem} onRetry={onRetry} />}
      {trace.turns.length > 0 && (
        <>
          <Totals trace={trace} />
          <div class="chart" onKeyDown={moveFocus}>
            <Axis span={span} />
            <ol class="turns" aria-label="Turns">
              {trace.turns.map((turn) => (
                <TurnBlock
                  key={turn.index}
                  turn={turn}
                  id={`${id}-t${turn.index}`}
                  opened={opened}
                  highlighted={highlighted}
                  onToggle={toggle}
                  onPeek={onPeek}
                />
              ))}
            </ol>
          </div>
        </>
      )}
    </section>
  );
}

function Trouble({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return onRetry ? <ProblemNote problem={problem} onRetry={onRetry} /> : <ProblemNote problem={problem} />;
}

function Axis({ span }: { span: number }) {
  return (
    <div class="axis" aria-hidden="true">
      <div class="axis-track">
        {ticks(span).map((tick) => (
          <span key={tick} class="tick" style={{ "--at": tick }}>
            <span>{tickLabel(tick, span)}</span>
          </span>
        ))}
      </div>
    </div>
  );
}
