/** Moves time on the lanes. Bars are drawn by CSS from `--now` and `--span`, so a frame changes two numbers and renders nothing. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import type { Trace } from "./trace";

const LEAST_SPAN_MS = 400;
const LEAST_LIVE_SPAN_MS = 2_000;
const REPLAY_LONGEST_MS = 5_000;
const calm = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export interface Timed {
  trace: Trace;
  /** On the clock of `performance.now()`; null for one that is not live. */
  startedAt: number | null;
}

export interface Clock {
  board: RefObject<HTMLDivElement | null>;
  /** The span in ms that the ticks are made for. */
  span: number;
  replay: () => void;
  playing: boolean;
}

/** The board's element holds `--span`, its n-th `.trace` its own `--now`. */
export function useClock(timed: Timed[], playAtFirst: boolean): Clock {
  const board = useRef<HTMLDivElement>(null);
  const drawn = useRef(0);
  const [span, setSpan] = useState(LEAST_LIVE_SPAN_MS);
  const [replayFrom, setReplayFrom] = useState<number | null>(() => (playAtFirst && !calm() ? performance.now() : null));
  const running = timed.some((each) => each.trace.status === "running");
  const longest = Math.max(1, ...timed.map((each) => (each.trace.status === "running" ? 0 : each.trace.end)));
  const speed = Math.max(1, longest / REPLAY_LONGEST_MS);

  useEffect(() => {
    let frame = 0;
    function draw(): void {
      const clock = performance.now();
      const nows = timed.map(({ trace, startedAt }) => {
        if (trace.status === "running") return clock - (startedAt ?? clock);
        return replayFrom === null ? trace.end : (clock - replayFrom) * speed;
      });
      const target = wanted(timed, nows);
      drawn.current = running && drawn.current && !calm() ? drawn.current + (target - drawn.current) * 0.15 : target;
      apply(board.current, nows, drawn.current);
      setSpan((old) => (Math.abs(old - target) > old * 0.04 ? target : old));
      if (replayFrom !== null && (clock - replayFrom) * speed > longest) setReplayFrom(null);
      else if (running || replayFrom !== null) frame = requestAnimationFrame(draw);
    }
    draw();
    return () => cancelAnimationFrame(frame);
  });

  return { board, span, playing: replayFrom !== null, replay: () => setReplayFrom(performance.now()) };
}

function wanted(timed: Timed[], nows: number[]): number {
  const needs = timed.map(({ trace }, i) =>
    trace.status === "running" ? Math.max(LEAST_LIVE_SPAN_MS, (nows[i] ?? 0) * 1.15) : Math.max(LEAST_SPAN_MS, trace.end * 1.02),
  );
  return Math.max(LEAST_SPAN_MS, ...needs);
}

function apply(board: HTMLDivElement | null, nows: number[], span: number): void {
  if (!board) return;
  board.style.setProperty("--span", span.toFixed(1));
  board.querySelectorAll<HTMLElement>(".trace").forEach((element, i) => element.style.setProperty("--now", (nows[i] ?? 0).toFixed(1)));
}
