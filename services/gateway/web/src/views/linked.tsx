/** A trajectory that a link names (kept by the gateway) or holds (packed in the link itself). */
import { useEffect, useState } from "preact/hooks";
import { Failure, storedAnswer } from "../api";
import { asTrajectory } from "../opened";
import { Board } from "../parts/board";
import { ProblemNote } from "../parts/problem";
import { unpack } from "../share";
import { fromTrajectory, type Trace } from "../trace";
import type { Problem, Trajectory } from "../wire";

export type Link = { view: "answer"; id: string } | { view: "packed"; data: string };
type Loaded = { trace: Trace; trajectory: Trajectory } | { problem: Problem } | null;

async function load(link: Link): Promise<Loaded> {
  try {
    const found: unknown = link.view === "answer" ? await storedAnswer(link.id) : await unpack(link.data);
    const trajectory = asTrajectory(found);
    return { trajectory, trace: fromTrajectory(trajectory) };
  } catch (error) {
    if (error instanceof Failure) return { problem: error.problem };
    const detail = "The link is cut off or was changed on its way. Ask for it again, or for the trajectory as a file.";
    return { problem: { type: "page:link", title: "This link holds no trajectory", status: 0, detail } };
  }
}

export function LinkedView({ route, say }: { route: Link; say: (text: string) => void }) {
  const [loaded, setLoaded] = useState<Loaded>(null);
  const [attempt, setAttempt] = useState(0);
  const what = route.view === "answer" ? route.id : route.data;
  useEffect(() => {
    let gone = false;
    setLoaded(null);
    void load(route).then((next) => gone || setLoaded(next));
    return () => {
      gone = true;
    };
  }, [what, attempt]);
  if (!loaded) return <p class="page note">Opening the trajectory</p>;
  if ("problem" in loaded)
    return (
      <div class="page">
        <h1 class="sr">Answer</h1>
        <ProblemNote problem={loaded.problem} onRetry={() => setAttempt(attempt + 1)} retry="Try again" />
      </div>
    );
  return (
    <div class="ask" data-asked="true" data-count={1}>
      <h1 class="sr">Answer</h1>
      <Saved key={what} trace={loaded.trace} trajectory={loaded.trajectory} say={say} />
    </div>
  );
}

export function Saved({ trace, trajectory, say }: { trace: Trace; trajectory: Trajectory; say: (text: string) => void }) {
  const shown = [{ key: 0, mode: trajectory.mode, trace, startedAt: null, request: { question: trajectory.question, mode: trajectory.mode } }];
  return <Board question={trajectory.question} shown={shown} playAtFirst say={say} />;
}
