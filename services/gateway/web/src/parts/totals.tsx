/** What an answer cost: calls, rounds, sub-queries, cache hits, and its time by stage. */
import { duration } from "../format";
import { OPEN, type Trace } from "../trace";
import type { Usage } from "../wire";

function counted(trace: Trace): Pick<Usage, "llm_calls" | "search_rounds" | "sub_queries" | "cache_hits"> {
  if (trace.trajectory) return trace.trajectory.usage;
  const lanes = trace.turns.flatMap((turn) => turn.lanes).filter((lane) => lane.state !== "dropped");
  return {
    llm_calls: trace.turns.length,
    search_rounds: trace.turns.filter((turn) => turn.action?.type === "search").length,
    sub_queries: lanes.length,
    cache_hits: lanes.filter((lane) => lane.state === "cached").length,
  };
}

export function Totals({ trace }: { trace: Trace }) {
  const usage = counted(trace);
  const figures: [string, string][] = [
    ["LLM calls", String(usage.llm_calls)],
    ["rounds", String(usage.search_rounds)],
    ["sub-queries", String(usage.sub_queries)],
    ["cache hits", String(usage.cache_hits)],
  ];
  return (
    <div class="totals">
      <dl>
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <div>
          <dt>in all</dt>
          <dd>{trace.end === OPEN ? <span key="live" data-elapsed /> : <span key="end">{duration(trace.end)}</span>}</dd>
        </div>
      </dl>
      {trace.trajectory && <Stages trace={trace} />}
    </div>
  );
}

function Stages({ trace }: { trace: Trace }) {
  const timings = trace.trajectory?.timings;
  if (!timings || timings.total_ms <= 0) return null;
  const stages: [string, number][] = [
    ["policy", timings.policy_ms],
    ["search", timings.search_ms],
    ["gateway", timings.overhead_ms],
  ];
  return (
    <div class="stages">
      <div class="stage-bar" aria-hidden="true">
        {stages.map(([name, ms]) => (
          <span key={name} class={`stage-${name}`} style={{ "flex-grow": Math.max(0, ms) }} />
        ))}
      </div>
      <ul aria-label="Time by stage">
        {stages.map(([name, ms]) => (
          <li key={name}>
            <span class={`swatch stage-${name}`} aria-hidden="true" />
            {name} <b>{duration(ms)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}
