/** Moves time on the lanes. A frame renders nothing: it gives a new length to the bars that grow in it, and only to these. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import type { Trace } from "./trace";

const LEAST_SPAN_MS = 400;
const LEAST_LIVE_SPAN_MS = 2_000;
/** While answers arrive, the axis grows by this factor when it is full, instead of a little in every frame. */
const GROWTH = 1.5;
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
}

/** The board's element holds `--span`; its traces are drawn up to a time each. */
export function useClock(timed: Timed[], playAtFirst: boolean): Clock {
  const board = useRef<HTMLDivElement>(null);
  const [span, setSpan] = useState(LEAST_LIVE_SPAN_MS);
  const [replayFrom, setReplayFrom] = useState<number | null>(() => (playAtFirst && !calm() ? performance.now() : null));
  const running = timed.some((each) => each.trace.status === "running");
  const longest = Math.max(1, ...timed.map((each) => (each.trace.status === "running" ? 0 : each.trace.end)));
  const speed = Math.max(1, longest / REPLAY_LONGEST_MS);

  useLayoutEffect(() => {
    let frame = 0;
    function draw(): void {
      const clock = performance.now();
      const nows = timed.map(({ trace, startedAt }) => {
        if (trace.status === "running") return clock - (startedAt ?? clock);
        return replayFrom === null ? trace.end : (clock - replayFrom) * speed;
      });
      setSpan((old) => wanted(timed, nows, old));
      drawTraces(board.current, nows);
      if (replayFrom !== null && (clock - replayFrom) * speed > longest) setReplayFrom(null);
      else if (running || replayFrom !== null) frame = requestAnimationFrame(draw);
    }
    draw();
    return () => cancelAnimationFrame(frame);
  });
  useLayoutEffect(() => board.current?.style.setProperty("--span", span.toFixed(1)), [span]);

  return { board, span, replay: () => setReplayFrom(performance.now()) };
}

function wanted(timed: Timed[], nows: number[], old: number): number {
  const settled = timed.filter(({ trace }) => trace.status !== "running").map(({ trace }) => trace.end * 1.02);
  const live = nows.filter((_, i) => timed[i]?.trace.status === "running");
  const least = Math.max(LEAST_SPAN_MS, ...settled);
  if (live.length === 0) return least;
  let span = Math.max(LEAST_LIVE_SPAN_MS, old, least);
  while (Math.max(...live) > span * 0.97) span *= GROWTH;
  return span;
}

/** The last length given to a bar, so that one that stands is left alone. */
const lengths = new WeakMap<HTMLElement, number>();

function drawTraces(board: HTMLDivElement | null, nows: number[]): void {
  board?.querySelectorAll<HTMLElement>(".trace").forEach((trace, i) => {
    const now = nows[i] ?? 0;
    for (const bar of trace.querySelectorAll<HTMLElement>(".bar")) {
      const start = Number(bar.dataset.start);
      const length = Math.max(0, Math.min(now, Number(bar.dataset.end)) - start);
      if (lengths.get(bar) === length) continue;
      lengths.set(bar, length);
      bar.style.setProperty("--length", length.toFixed(1));
    }
    for (const turn of trace.querySelectorAll<HTMLElement>(".turn")) turn.toggleAttribute("data-ahead", now < Number(turn.dataset.start));
    const elapsed = trace.querySelector("[data-elapsed]");
    if (elapsed) elapsed.textContent = `${(now / 1000).toFixed(1)} s`;
  });
}
