/** Training runs: what runs, how it learns by question kind, and its checkpoints. */
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson, problemOf } from "../api";
import { when } from "../format";
import { ProblemNote } from "../parts/problem";
import type { Problem, TrainingRun } from "../wire";
import { RunView } from "./run";

const EVERY_MS = 5_000;
export const BASE = "/v1/training-runs";

export interface Polled<T> {
  value: T | null;
  problem: Problem | null;
  again: () => void;
}

/** Asks again every few seconds while `live` says so of what is there, which stays when an attempt fails. */
export function usePolled<T>(path: string, live: (value: T) => boolean): Polled<T> {
  const [state, setState] = useState<{ value: T | null; problem: Problem | null }>({ value: null, problem: null });
  const [attempt, setAttempt] = useState(0);
  const goesOn = useRef(live);
  goesOn.current = live;
  useEffect(() => {
    let timer = 0;
    let gone = false;
    let there: T | null = null;
    async function ask(): Promise<void> {
      try {
        const value = await getJson<T>(path, "read");
        if (gone) return;
        there = value;
        setState({ value, problem: null });
      } catch (error) {
        if (gone) return;
        setState((old) => ({ ...old, problem: problemOf(error) }));
      }
      if (there !== null && goesOn.current(there)) timer = setTimeout(() => void ask(), EVERY_MS);
    }
    void ask();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [path, attempt]);
  return { ...state, again: () => setAttempt((n) => n + 1) };
}

/** A gateway whose trainer does not answer says 503 or 504; that is no fault of the person's. */
export function TrainerProblem({ problem, onRetry }: { problem: Problem; onRetry: () => void }) {
  const absent = problem.status >= 502;
  const shown = absent
    ? { ...problem, title: "The trainer is not reachable", detail: `Training runs are kept by the trainer, a service of its own, which does not answer through this gateway. Start it, then try again. (${problem.detail})` }
    : problem;
  return <ProblemNote problem={shown} onRetry={onRetry} retry="Try again" />;
}

export const isLive = (run: TrainingRun): boolean => run.state === "queued" || run.state === "running";

export function TrainingView({ run }: { run: string | null }) {
  return run ? <RunView key={run} id={run} /> : <RunList />;
}

function RunList() {
  const { value, problem, again } = usePolled<{ runs: TrainingRun[]; next?: string | null }>(BASE, ({ runs }) => runs.some(isLive));
  return (
    <div class="page wide">
      <h1>Training runs</h1>
      {problem && <TrainerProblem problem={problem} onRetry={again} />}
      {value && value.runs.length === 0 && (
        <p class="note">
          No run yet. Submit one with <code>parallelsearch train submit</code>.
        </p>
      )}
      {value && value.runs.length > 0 && (
        <div class="table-frame" tabIndex={0} role="region" aria-label="Training runs">
          <table>
            <thead>
              <tr>
                <th scope="col">Run</th>
                <th scope="col">State</th>
                <th scope="col">Learns by</th>
                <th scope="col">Created</th>
                <th scope="col">Signs of trouble</th>
              </tr>
            </thead>
            <tbody>
              {value.runs.map((run) => (
                <tr key={run.id}>
                  <th scope="row">
                    <a href={`#/training/${encodeURIComponent(run.id)}`}>
                      <bdi>{run.spec.name}</bdi>
                    </a>
                  </th>
                  <td>
                    <RunState state={run.state} />
                  </td>
                  <td>{run.spec.algorithm ?? run.spec.kind}</td>
                  <td>{when(run.created_at)}</td>
                  <td>{run.flags?.join(", ") || "none"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value?.next && (
        <p class="note">
          These are the newest {value.runs.length}. <code>parallelsearch train list --limit 1000</code> shows more.
        </p>
      )}
    </div>
  );
}

const STATE_MARKS: Record<string, string> = { queued: "○", running: "◐", succeeded: "●", failed: "✕", cancelled: "–" };

export function RunState({ state }: { state: string }) {
  return (
    <span class="run-state" data-state={state}>
      <span aria-hidden="true">{STATE_MARKS[state] ?? "·"}</span> {state}
    </span>
  );
}
