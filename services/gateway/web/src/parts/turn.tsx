/** One turn: what it does in words, the bar of its generation, a lane for each sub-query, and its reasoning folded beneath. */
import { useMemo } from "preact/hooks";
import { count, duration } from "../format";
import { OPEN, type TraceTurn } from "../trace";
import type { Peeked } from "./peek";
import { Bar, LaneRow } from "./lane";

export interface TurnProps {
  turn: TraceTurn;
  id: string;
  opened: ReadonlySet<string>;
  highlighted: string | null;
  onToggle: (lane: string) => void;
  onPeek: (peeked: Peeked | null) => void;
}

export const laneId = (turn: string, position: number): string => `${turn}-q${position}`;

function headline(turn: TraceTurn): string {
  const { action, lanes } = turn;
  if (turn.repeated) return "Asks only what it asked before, so nothing is searched";
  if (!action) return turn.end === OPEN ? "Thinking" : "Writes";
  if (action.type === "answer") return "Answers";
  if (action.type === "malformed") return "Writes neither a search nor an answer";
  const searched = lanes.filter((lane) => lane.state !== "dropped").length;
  return searched === 1 ? "Searches one thing" : `Searches ${searched} things at once`;
}

function wait(turn: TraceTurn): string {
  const lanes = turn.lanes.filter((lane) => lane.state !== "dropped");
  const open = lanes.filter((lane) => lane.state === "waiting").length;
  if (open) return `${lanes.length - open} of ${lanes.length} back`;
  const slowest = Math.max(0, ...lanes.map((lane) => lane.end - lane.start));
  return lanes.length > 1 ? `all back after ${duration(slowest)}` : "";
}

/** A turn that has not changed is not drawn again: of twenty, one changes at a time. */
export function TurnBlock(props: TurnProps) {
  return useMemo(() => drawTurn(props), [props.turn, props.id, props.opened, props.highlighted]);
}

function drawTurn({ turn, id, opened, highlighted, onToggle, onPeek }: TurnProps) {
  return (
    <li class="turn" data-start={turn.start}>
      <div class="turn-head">
        <h4>
          <span class="number">{turn.index + 1}</span>
          {headline(turn)}
        </h4>
        <span class="turn-wait">{wait(turn)}</span>
      </div>
      {turn.action?.type === "malformed" && turn.action.reason && (
        <p class="note" dir="auto">
          {turn.action.reason}
        </p>
      )}
      <div class="row policy">
        <span class="label">{turn.written === OPEN ? "policy is writing" : "policy writes"}</span>
        <span class="track" aria-hidden="true">
          <Bar start={turn.start} end={turn.written} />
        </span>
        <span class="meta">{turn.written === OPEN ? "" : duration(turn.written - turn.start)}</span>
      </div>
      {turn.lanes.length > 0 && (
        <ol class="lanes" aria-label={`Turn ${turn.index + 1}: ${count(turn.lanes.length, "sub-query", "sub-queries")}`}>
          {turn.lanes.map((lane, i) => {
            const lane_id = laneId(id, i);
            return (
              <LaneRow
                key={i}
                lane={lane}
                id={lane_id}
                first={i === 0}
                open={opened.has(lane_id)}
                highlighted={highlighted}
                onToggle={() => onToggle(lane_id)}
                onPeek={(row) => onPeek(row && lane.state !== "dropped" && !opened.has(lane_id) ? { lane, row } : null)}
              />
            );
          })}
        </ol>
      )}
      {turn.reasoning && (
        <details class="reasoning">
          <summary>
            <span>Reasoning</span>
            {turn.written === OPEN && turn.end === OPEN && <bdi class="gist">{turn.reasoning.slice(-120)}</bdi>}
          </summary>
          <p dir="auto">{turn.reasoning.trim()}</p>
        </details>
      )}
    </li>
  );
}
