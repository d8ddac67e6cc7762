/** A trace: what the lanes draw. Made of stream events while an answer arrives, or of a whole trajectory. Times in ms since the start. */
import type { Action, Passage, Problem, StreamEvent, SubQueryResult, Trajectory, Turn } from "./wire";

/** The end of what has not ended yet. */
export const OPEN = 1e9;

/** `unfinished`: the answer ended before this result came. */
export type LaneState = "waiting" | "done" | "cached" | "failed" | "dropped" | "unfinished";

export interface Lane {
  query: string;
  state: LaneState;
  start: number;
  end: number;
  passages: Passage[];
}

export interface TraceTurn {
  index: number;
  start: number;
  /** When the policy had written its text; `OPEN` while it writes. */
  written: number;
  end: number;
  reasoning: string;
  action: Action | null;
  repeated: boolean;
  lanes: Lane[];
}

export type Status = "running" | "done" | "failed" | "stopped";

export interface Trace {
  status: Status;
  turns: TraceTurn[];
  answer: string;
  end: number;
  trajectory: Trajectory | null;
  problem: Problem | null;
}

export const NEW: Trace = { status: "running", turns: [], answer: "", end: OPEN, trajectory: null, problem: null };

/** The trace after `event`, which arrived `at` ms after the question was sent. */
export function advance(trace: Trace, event: StreamEvent, at: number): Trace {
  switch (event.event) {
    case "turn.started":
      return { ...trace, answer: "", turns: [...closeLast(trace.turns, at), newTurn(event.turn, at)] };
    case "reasoning.delta":
      return changeTurn(trace, event.turn, (turn) => ({ ...turn, reasoning: turn.reasoning + event.text }));
    case "search.started": {
      const action: Action = { type: "search", queries: event.queries, dropped: event.dropped };
      const lanes = [...event.queries.map((query) => waiting(query, at)), ...droppedLanes(action, at)];
      return changeTurn(trace, event.turn, (turn) => ({ ...turn, written: at, action, lanes }));
    }
    case "search.result":
      return changeTurn(trace, event.turn, (turn) => ({ ...turn, lanes: landed(turn.lanes, event.index, event, at) }));
    case "answer.delta":
      return { ...trace, answer: trace.answer + event.text };
    case "done":
      return fromTrajectory(trajectoryOf(event));
    case "error":
      return failed(trace, event, at);
  }
}

/** The last event is the trajectory and its own name beside it, which is none of a trajectory's fields. */
export function trajectoryOf({ event: _, ...trajectory }: { event: "done" } & Trajectory): Trajectory {
  return trajectory;
}

/** What is left of a trace that ended before its answer. */
export function failed(trace: Trace, problem: Problem, at: number): Trace {
  const base = problem.trajectory ? fromTrajectory(problem.trajectory) : { ...trace, turns: closeLast(trace.turns, at), end: at };
  return { ...base, status: "failed", problem };
}

export function stopped(trace: Trace, at: number): Trace {
  return { ...trace, status: "stopped", turns: closeLast(trace.turns, at), end: at };
}

/** A trace on the trajectory's own clock: each turn is its generation, then its search. */
export function fromTrajectory(trajectory: Trajectory): Trace {
  let clock = 0;
  const turns = trajectory.turns.map((turn) => {
    const placed = placeTurn(turn, clock);
    clock = placed.end;
    return placed;
  });
  const end = Math.max(clock, trajectory.timings.total_ms);
  return { status: "done", turns, answer: trajectory.answer ?? "", end, trajectory, problem: null };
}

function placeTurn(turn: Turn, start: number): TraceTurn {
  const written = start + (turn.timings?.policy_ms ?? 0);
  const slowest = Math.max(0, ...turn.observation.map((result) => result.latency_ms));
  const end = written + Math.max(turn.timings?.search_ms ?? 0, slowest);
  const lanes = turn.observation.map((result) => lane(result, written, landsAt(result, written, end)));
  const { index, reasoning, action } = turn;
  return { index, start, written, end, reasoning, action, repeated: turn.repeated ?? false, lanes: [...lanes, ...droppedLanes(action, written)] };
}

/** A failed sub-query without a time of its own was waited for until the turn went on. */
function landsAt(result: SubQueryResult, written: number, end: number): number {
  return result.failed && result.latency_ms === 0 ? end : written + result.latency_ms;
}

function lane(result: SubQueryResult, start: number, end: number): Lane {
  const state = result.failed ? "failed" : result.cached ? "cached" : "done";
  return { query: result.query, state, start, end, passages: result.passages };
}

function waiting(query: string, at: number): Lane {
  return { query, state: "waiting", start: at, end: OPEN, passages: [] };
}

/** One lane for each sub-query over the limit, by its words where the trajectory holds them. */
function droppedLanes(action: Action, at: number): Lane[] {
  if (action.type !== "search" || action.dropped <= 0) return [];
  const key = (query: string): string => query.toLowerCase().split(/\s+/).join(" ").trim();
  const kept = new Set(action.queries.map(key));
  const rest = [...new Map((action.raw_queries ?? []).map((query) => [key(query), query])).entries()];
  const names = rest.filter(([folded]) => folded && !kept.has(folded)).map(([, query]) => query);
  return Array.from({ length: action.dropped }, (_, i) => ({
    query: names[i] ?? "",
    state: "dropped" as const,
    start: at,
    end: at,
    passages: [],
  }));
}

function landed(lanes: Lane[], index: number, result: SubQueryResult, at: number): Lane[] {
  return lanes.map((old, i) => (i === index ? lane(result, old.start, at) : old));
}

function newTurn(index: number, at: number): TraceTurn {
  return { index, start: at, written: OPEN, end: OPEN, reasoning: "", action: null, repeated: false, lanes: [] };
}

function closeLast(turns: TraceTurn[], at: number): TraceTurn[] {
  const last = turns.at(-1);
  if (!last) return turns;
  const lanes = last.lanes.map((each): Lane => (each.state === "waiting" ? { ...each, state: "unfinished", end: at } : each));
  return [...turns.slice(0, -1), { ...last, written: Math.min(last.written, at), end: Math.min(last.end, at), lanes }];
}

function changeTurn(trace: Trace, index: number, change: (turn: TraceTurn) => TraceTurn): Trace {
  return { ...trace, turns: trace.turns.map((turn) => (turn.index === index ? change(turn) : turn)) };
}
