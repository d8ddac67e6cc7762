/** Asking, kept above the views so that an answer goes on arriving while the person looks elsewhere. */
import { useRef, useState } from "preact/hooks";
import { Failure, lost, streamAnswer, unreachable } from "./api";
import { remember } from "./history";
import { advance, failed, NEW, stopped, type Trace, trajectoryOf } from "./trace";
import type { AnswerRequest, Problem, StreamEvent } from "./wire";

/** Events that come within one frame are drawn at once. */
const FRAME_MS = 33;

export interface Run {
  key: number;
  request: AnswerRequest;
  trace: Trace;
  /** On the clock of `performance.now()`. */
  startedAt: number;
}

export interface Asking {
  runs: Run[];
  ask: (requests: AnswerRequest[]) => void;
  /** Asks one more beside those on the page. */
  beside: (request: AnswerRequest) => void;
  stop: () => void;
}

function problemOf(error: unknown): Problem {
  if (error instanceof Failure) return error.problem;
  return (navigator.onLine ? lost() : unreachable()).problem;
}

export function useAsking(say: (text: string) => void): Asking {
  const [runs, setRuns] = useState<Run[]>([]);
  const nextKey = useRef(1);
  const aborts = useRef(new Map<number, AbortController>());

  function change(key: number, next: (trace: Trace) => Trace): void {
    setRuns((all) => all.map((run) => (run.key === key ? { ...run, trace: next(run.trace) } : run)));
  }

  async function follow(run: Run): Promise<void> {
    const abort = new AbortController();
    aborts.current.set(run.key, abort);
    const clock = (): number => performance.now() - run.startedAt;
    let pending: [StreamEvent, number][] = [];
    const flush = (): void => {
      const batch = pending;
      pending = [];
      if (batch.length) change(run.key, (trace) => batch.reduce((so_far, [event, at]) => advance(so_far, event, at), trace));
    };
    try {
      await streamAnswer(run.request, abort.signal, (event) => {
        if (!pending.length) setTimeout(flush, FRAME_MS);
        pending.push([event, clock()]);
        announce(event, say);
        if (event.event === "done") remember(trajectoryOf(event));
      });
      flush();
    } catch (error) {
      flush();
      change(run.key, (trace) => (abort.signal.aborted ? stopped(trace, clock()) : failed(trace, problemOf(error), clock())));
    } finally {
      aborts.current.delete(run.key);
    }
  }

  function start(request: AnswerRequest): Run {
    const run = { key: nextKey.current++, request, trace: NEW, startedAt: performance.now() };
    void follow(run);
    return run;
  }

  function stop(): void {
    for (const abort of aborts.current.values()) abort.abort();
  }

  return {
    runs,
    stop,
    ask(requests) {
      stop();
      say("The question was sent.");
      setRuns(requests.map(start));
    },
    beside(request) {
      const run = start(request);
      setRuns((all) => [...all.slice(0, 1), run]);
    },
  };
}

function announce(event: StreamEvent, say: (text: string) => void): void {
  if (event.event === "search.started") {
    const n = event.queries.length;
    say(`Turn ${event.turn + 1}: searching ${n === 1 ? "one sub-query" : `${n} sub-queries at once`}.`);
  }
  if (event.event === "done") say(`Answer: ${event.answer ?? "none"}.`);
}
