/** One training run: its curves, its checkpoints, and promoting one into the policy. */
import { useState } from "preact/hooks";
import { postJson, problemOf } from "../api";
import { bytes, when } from "../format";
import { readKey, writeKey } from "../keys";
import { Curve, metricsOf } from "../parts/curves";
import { ProblemNote } from "../parts/problem";
import type { Checkpoint, Problem, StepMetrics, TrainingRun } from "../wire";
import { BASE, isLive, RunState, TrainerProblem, usePolled } from "./training";

export function RunView({ id }: { id: string }) {
  const path = `${BASE}/${encodeURIComponent(id)}`;
  const { value: run, problem, again } = usePolled<TrainingRun>(path, isLive);
  return (
    <div class="page wide">
      <p class="crumb">
        <a href="#/training">Training runs</a>
      </p>
      <h1>
        <bdi>{run?.spec.name ?? id}</bdi>
      </h1>
      {problem && <TrainerProblem problem={problem} onRetry={again} />}
      {run && <About run={run} />}
      {run && <Curves path={path} live={isLive(run)} />}
      {run && <Checkpoints path={path} live={isLive(run)} />}
      {run && (run.last_log_lines?.length ?? 0) > 0 && (
        <details class="log" open={run.state === "failed"}>
          <summary>Last lines of the log</summary>
          <pre tabIndex={0}>{run.last_log_lines?.join("\n")}</pre>
        </details>
      )}
    </div>
  );
}

function About({ run }: { run: TrainingRun }) {
  const { spec } = run;
  return (
    <div class="about">
      <p>
        <RunState state={run.state} /> · {spec.algorithm ?? spec.kind} · {spec.steps ? `${spec.steps} steps · ` : ""}created {when(run.created_at)}
        {run.finished_at ? ` · finished ${when(run.finished_at)}` : ""}
      </p>
      {run.detail && <p dir="auto">{run.detail}</p>}
      {(run.flags?.length ?? 0) > 0 && (
        <p class="flags">
          <b>Signs of trouble:</b> {run.flags?.join(", ")}
        </p>
      )}
    </div>
  );
}

function Curves({ path, live }: { path: string; live: boolean }) {
  const { value, problem, again } = usePolled<{ steps: StepMetrics[] }>(`${path}/metrics`, () => live);
  const metrics = metricsOf(value?.steps ?? []);
  return (
    <section aria-labelledby="curves-title">
      <h2 id="curves-title">Curves by question kind</h2>
      {problem && <ProblemNote problem={problem} onRetry={again} retry="Try again" />}
      {value && metrics.length === 0 && <p class="note">No step is finished yet.</p>}
      <div class="curves">
        {metrics.map((metric) => (
          <Curve key={metric.name} metric={metric} />
        ))}
      </div>
    </section>
  );
}

type Outcome = { step: number; version: string } | { problem: Problem } | null;

function Checkpoints({ path, live }: { path: string; live: boolean }) {
  const { value, problem, again } = usePolled<{ checkpoints: Checkpoint[] }>(`${path}/checkpoints`, () => live);
  const [token, setToken] = useState(() => readKey("admin-token"));
  const [busy, setBusy] = useState<number | null>(null);
  const [outcome, setOutcome] = useState<Outcome>(null);

  async function promote(step: number): Promise<void> {
    writeKey("admin-token", token.trim(), false);
    setBusy(step);
    setOutcome(null);
    try {
      setOutcome(await postJson<{ step: number; version: string }>(`${path}/checkpoints/${step}/promote`));
    } catch (error) {
      const problem = problemOf(error);
      setOutcome({ problem: problem.type === "page:slow" ? { ...problem, detail: "The policy may still be loading the checkpoint." } : problem });
    }
    setBusy(null);
  }

  return (
    <section aria-labelledby="checkpoints-title">
      <h2 id="checkpoints-title">Checkpoints</h2>
      {problem && <ProblemNote problem={problem} onRetry={again} retry="Try again" />}
      {value && value.checkpoints.length === 0 && <p class="note">None is written yet.</p>}
      {value && value.checkpoints.length > 0 && (
        <>
          <label class="token">
            Admin token <span class="hint">needed to promote; for this tab only</span>
            <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
          </label>
          <ul class="checkpoints">
            {value.checkpoints.map((checkpoint) => (
              <li key={checkpoint.step}>
                <b>Step {checkpoint.step}</b>
                <span>
                  {bytes(checkpoint.bytes)} · {when(checkpoint.created_at)}
                </span>
                <button type="button" disabled={busy !== null} onClick={() => void promote(checkpoint.step)}>
                  {busy === checkpoint.step ? "Loading into the policy" : "Promote"}
                  <span class="sr"> step {checkpoint.step}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      {outcome && "problem" in outcome && <ProblemNote problem={outcome.problem} />}
      {outcome && "version" in outcome && (
        <p class="done" role="status">
          Step {outcome.step} is promoted: the policy serves version {outcome.version}.
        </p>
      )}
    </section>
  );
}
