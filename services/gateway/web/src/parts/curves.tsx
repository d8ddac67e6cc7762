/** Small charts of a run's metrics: one for each metric, one line for each kind of question. Lines differ by dash as well as by shade. */
import type { StepMetrics } from "../wire";

const WIDTH = 320;
const HEIGHT = 130;
const KIND_CLASS: Record<string, string> = { parallel: "a", sequential: "b", hybrid: "c", unlabelled: "d", "": "e" };

interface Line {
  kind: string;
  points: [number, number][];
}

export interface Metric {
  name: string;
  lines: Line[];
}

/** `exact_match/parallel` is the line `parallel` of the chart `exact_match`; charts with kinds come first. */
export function metricsOf(steps: StepMetrics[]): Metric[] {
  const charts = new Map<string, Map<string, [number, number][]>>();
  for (const { step, values } of steps) {
    for (const [full, value] of Object.entries(values)) {
      const cut = full.lastIndexOf("/");
      const tail = full.slice(cut + 1);
      const [name, kind] = cut > 0 && tail in KIND_CLASS ? [full.slice(0, cut), tail] : [full, ""];
      const lines = charts.get(name) ?? new Map<string, [number, number][]>();
      charts.set(name, lines.set(kind, [...(lines.get(kind) ?? []), [step, value]]));
    }
  }
  const metrics = [...charts].map(([name, lines]) => ({ name, lines: [...lines].map(([kind, points]) => ({ kind, points })) }));
  return metrics.sort((a, b) => b.lines.length - a.lines.length || a.name.localeCompare(b.name));
}

const short = (value: number): string => (Math.abs(value) >= 1000 || (value !== 0 && Math.abs(value) < 0.001) ? value.toExponential(1) : String(Number(value.toFixed(3))));

export function Curve({ metric }: { metric: Metric }) {
  const points = metric.lines.flatMap((line) => line.points);
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const x = (value: number): number => (right === left ? WIDTH / 2 : ((value - left) / (right - left)) * WIDTH);
  const y = (value: number): number => (high === low ? HEIGHT / 2 : HEIGHT - ((value - low) / (high - low)) * HEIGHT);
  const words = metric.lines.map((line) => `${line.kind || "all"} ${short(line.points.at(-1)?.[1] ?? 0)}`).join(", ");
  return (
    <figure class="curve">
      <figcaption>
        <h4>{metric.name.replaceAll("_", " ")}</h4>
      </figcaption>
      <svg viewBox={`-4 -6 ${WIDTH + 8} ${HEIGHT + 12}`} role="img" aria-label={`${metric.name}, steps ${left} to ${right}; now: ${words}`}>
        {[0, HEIGHT].map((at) => (
          <line key={at} class="rule" x1={0} x2={WIDTH} y1={at} y2={at} />
        ))}
        {metric.lines.map(({ kind, points: line }) => (
          <polyline key={kind} class={`line line-${KIND_CLASS[kind] ?? "e"}`} points={line.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ")} />
        ))}
      </svg>
      <p class="range" aria-hidden="true">
        <span>{short(low)} to {short(high)}</span>
        <span>step {left}–{right}</span>
      </p>
      <ul class="legend" aria-hidden="true">
        {metric.lines.map(({ kind, points: line }) => (
          <li key={kind}>
            <svg viewBox="0 0 22 6" width="22" height="6">
              <line class={`line line-${KIND_CLASS[kind] ?? "e"}`} x1="0" x2="22" y1="3" y2="3" />
            </svg>
            {kind || "all"} <b>{short(line.at(-1)?.[1] ?? 0)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}
