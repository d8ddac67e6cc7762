/** Trajectories out of files and links: checked just enough that the page can draw them, with faults named by line. */
import type { Passage, SubQueryResult, Trajectory, Turn } from "./wire";

export interface Opened {
  name: string;
  trajectories: Trajectory[];
  faults: string[];
}

type Fields = Record<string, unknown>;

const fields = (value: unknown): Fields | null => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function passage(value: unknown): Passage {
  const from = fields(value) ?? {};
  const about = fields(from.metadata) ?? {};
  return {
    id: text(from.id),
    title: text(from.title),
    text: text(from.text),
    score: number(from.score),
    url: text(from.url),
    metadata: { source: text(about.source), page: number(about.page) },
  };
}

function result(value: unknown): SubQueryResult {
  const from = fields(value) ?? {};
  const { cached, failed } = from;
  return {
    query: text(from.query),
    passages: list(from.passages).map(passage),
    cached: cached === true,
    failed: failed === true,
    latency_ms: number(from.latency_ms),
  };
}

function turn(value: unknown, position: number): Turn {
  const from = fields(value) ?? {};
  const action = fields(from.action) ?? {};
  const timings = fields(from.timings) ?? {};
  const queries = list(action.queries).map(text);
  return {
    index: position,
    reasoning: text(from.reasoning),
    text: text(from.text),
    repeated: from.repeated === true,
    action:
      action.type === "search"
        ? { type: "search", queries, dropped: Math.min(64, number(action.dropped)), raw_queries: list(action.raw_queries).map(text) }
        : action.type === "answer"
          ? { type: "answer", text: text(action.text) }
          : { type: "malformed", reason: text(action.reason) },
    observation: list(from.observation).map(result),
    timings: { policy_ms: number(timings.policy_ms), search_ms: number(timings.search_ms) },
  };
}

/** Throws an Error in words where `value` is no trajectory. */
export function asTrajectory(value: unknown): Trajectory {
  const from = fields(value);
  if (!from) throw new Error("is not a JSON object");
  if (typeof from.question !== "string") throw new Error("has no question");
  if (!Array.isArray(from.turns)) throw new Error("has no turns");
  const usage = fields(from.usage) ?? {};
  const timings = fields(from.timings) ?? {};
  const policy = fields(from.policy) ?? {};
  return {
    id: text(from.id),
    question: from.question,
    mode: from.mode === "sequential" || from.mode === "no_search" ? from.mode : "parallel",
    answer: typeof from.answer === "string" ? from.answer : null,
    stop_reason: text(from.stop_reason),
    turns: from.turns.map(turn),
    usage: {
      llm_calls: number(usage.llm_calls),
      search_rounds: number(usage.search_rounds),
      sub_queries: number(usage.sub_queries),
      cache_hits: number(usage.cache_hits),
      prompt_tokens: number(usage.prompt_tokens),
      completion_tokens: number(usage.completion_tokens),
    },
    timings: {
      total_ms: number(timings.total_ms),
      policy_ms: number(timings.policy_ms),
      search_ms: number(timings.search_ms),
      overhead_ms: number(timings.overhead_ms),
    },
    policy: { model: text(policy.model), version: text(policy.version) },
    index: { fingerprint: text(fields(from.index)?.fingerprint) },
    detail: text(from.detail),
    citations: list(from.citations).map((each) => {
      const cited = fields(each) ?? {};
      return {
        passage_id: text(cited.passage_id),
        title: text(cited.title),
        turn: number(cited.turn),
        query: text(cited.query),
        url: text(cited.url),
        source: text(cited.source),
        page: number(cited.page) || null,
      };
    }),
  };
}

/** One JSON document, an array of them, or one a line. */
export function readTrajectories(name: string, content: string): Opened {
  try {
    const whole: unknown = JSON.parse(content);
    return readRows(name, Array.isArray(whole) ? whole.map((row): [string, unknown] => ["Entry", row]) : [["The file", whole]]);
  } catch {
    const lines = content.split("\n").filter((line) => line.trim());
    return readRows(name, lines.map((line): [string, unknown] => ["Line", line]), (line) => JSON.parse(line as string));
  }
}

function readRows(name: string, rows: [string, unknown][], parse: (row: unknown) => unknown = (row) => row): Opened {
  const opened: Opened = { name, trajectories: [], faults: [] };
  rows.forEach(([kind, row], i) => {
    const where = rows.length > 1 || kind === "Line" ? `${kind} ${i + 1}` : kind;
    try {
      opened.trajectories.push(asTrajectory(parse(row)));
    } catch (error) {
      opened.faults.push(`${where} ${error instanceof SyntaxError ? "is not JSON" : (error as Error).message}.`);
    }
  });
  return opened;
}
