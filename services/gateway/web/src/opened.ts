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

const isPlain = (entry: [string, unknown]): entry is [string, string | number] => typeof entry[1] === "string" || typeof entry[1] === "number";

function passage(value: unknown): Passage {
  const from = fields(value) ?? {};
  const about = fields(from.metadata) ?? {};
  return {
    ...from,
    id: text(from.id),
    title: text(from.title),
    text: text(from.text),
    score: number(from.score),
    url: text(from.url),
    metadata: Object.fromEntries(Object.entries(about).filter(isPlain)),
  };
}

function result(value: unknown): SubQueryResult {
  const from = fields(value) ?? {};
  const { cached, failed } = from;
  return {
    ...from,
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
    ...from,
    index: position,
    reasoning: text(from.reasoning),
    text: text(from.text),
    repeated: from.repeated === true,
    action:
      action.type === "search"
        ? { ...action, type: "search", queries, dropped: Math.min(64, number(action.dropped)), raw_queries: list(action.raw_queries).map(text) }
        : action.type === "answer"
          ? { ...action, type: "answer", text: text(action.text) }
          : { ...action, type: "malformed", reason: text(action.reason) },
    observation: list(from.observation).map(result),
    timings: { ...timings, policy_ms: number(timings.policy_ms), search_ms: number(timings.search_ms) },
  };
}

/** What the page draws is checked; what else a trajectory holds is kept as it is. Throws an Error in words where `value` is none. */
export function asTrajectory(value: unknown): Trajectory {
  const from = fields(value);
  if (!from) throw new Error("is not a JSON object");
  if (typeof from.question !== "string") throw new Error("has no question");
  if (!Array.isArray(from.turns)) throw new Error("has no turns");
  const { event: _, ...rest } = from;
  const usage = fields(from.usage) ?? {};
  const timings = fields(from.timings) ?? {};
  const policy = fields(from.policy) ?? {};
  return {
    ...rest,
    id: text(from.id),
    question: from.question,
    mode: from.mode === "sequential" || from.mode === "no_search" ? from.mode : "parallel",
    answer: typeof from.answer === "string" ? from.answer : null,
    stop_reason: text(from.stop_reason),
    turns: from.turns.map(turn),
    usage: {
      ...usage,
      llm_calls: number(usage.llm_calls),
      search_rounds: number(usage.search_rounds),
      sub_queries: number(usage.sub_queries),
      cache_hits: number(usage.cache_hits),
      prompt_tokens: number(usage.prompt_tokens),
      completion_tokens: number(usage.completion_tokens),
    },
    timings: {
      ...timings,
      total_ms: number(timings.total_ms),
      policy_ms: number(timings.policy_ms),
      search_ms: number(timings.search_ms),
      overhead_ms: number(timings.overhead_ms),
    },
    policy: { ...policy, model: text(policy.model), version: text(policy.version) },
    index: { ...fields(from.index), fingerprint: text(fields(from.index)?.fingerprint) },
    detail: text(from.detail),
    citations: list(from.citations).map((each) => {
      const cited = fields(each) ?? {};
      return {
        ...cited,
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

/** What a file holds; one that cannot be read at all (a folder, a file too large for a text) is a fault like others. */
export async function readFile(file: File): Promise<Opened> {
  try {
    return readTrajectories(file.name, await file.text());
  } catch {
    return { name: file.name, trajectories: [], faults: ["The file cannot be read. A folder, or a file too large, is none to open here."] };
  }
}

/** One JSON document, an array of them, or one a line. */
function readTrajectories(name: string, content: string): Opened {
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
