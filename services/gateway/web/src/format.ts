/** Numbers and names in words. */

export function duration(ms: number): string {
  if (ms < 1) return ms > 0 ? "<1 ms" : "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = n > 0 ? Math.min(units.length - 1, Math.floor(Math.log10(n) / 3)) : 0;
  return `${(n / 1000 ** power).toFixed(power > 1 ? 1 : 0)} ${units[power]}`;
}

export function when(iso: string | undefined): string {
  const date = iso ? new Date(iso) : null;
  if (!date || Number.isNaN(date.getTime())) return "–";
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export const MODES: Record<string, string> = { parallel: "Parallel", sequential: "Sequential", no_search: "No search" };

const STOPS: Record<string, string> = {
  answered: "Answered",
  turn_limit: "Answered at the limit of turns",
  context_limit: "Stopped: the context was full",
  malformed: "Stopped: the policy wrote neither a search nor an answer",
  retrieval_failed: "Stopped: no sub-query could be searched",
  policy_failed: "Stopped: the policy failed",
  deadline: "Stopped at the deadline",
  cancelled: "Cancelled",
};

export function stopInWords(reason: string): string {
  return STOPS[reason] ?? reason;
}

/** Round steps of a time axis of `span` ms: about five of them. */
export function ticks(span: number): number[] {
  const rough = span / 5;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * base).find((each) => each >= rough) ?? base * 10;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step);
}

export function tickLabel(ms: number, span: number): string {
  if (ms === 0) return "0";
  return span < 2000 ? `${Math.round(ms)} ms` : `${Number((ms / 1000).toFixed(2))} s`;
}

/** Where a passage stands: its file, and the page of it where there are pages. */
export function placeInWords(source: string, page?: number | string | null): string {
  return page ? `${source}, page ${page}` : source;
}
