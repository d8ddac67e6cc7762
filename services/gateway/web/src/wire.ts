/** The shapes that the gateway and the trainer speak, as far as this page reads them. */

export type Mode = "parallel" | "sequential" | "no_search";

export interface Passage {
  id: string;
  title: string;
  text: string;
  score: number;
  url?: string;
  /** Of a document: `source`, `page`, `section`, `date`, and what the document says itself. */
  metadata?: Record<string, string | number>;
}

export interface SubQueryResult {
  query: string;
  passages: Passage[];
  cached: boolean;
  failed: boolean;
  latency_ms: number;
}

export type Action =
  | { type: "search"; queries: string[]; dropped: number; raw_queries?: string[] }
  | { type: "answer"; text: string; opened?: boolean }
  | { type: "malformed"; reason?: string };

export interface Turn {
  index: number;
  reasoning: string;
  action: Action;
  observation: SubQueryResult[];
  text: string;
  repeated?: boolean;
  timings?: { policy_ms: number; search_ms: number };
}

export interface Usage {
  llm_calls: number;
  search_rounds: number;
  sub_queries: number;
  cache_hits: number;
  prompt_tokens: number;
  completion_tokens: number;
}

export interface Timings {
  total_ms: number;
  policy_ms: number;
  search_ms: number;
  overhead_ms: number;
}

export interface Citation {
  passage_id: string;
  title: string;
  turn: number;
  query: string;
  url?: string;
  source?: string;
  page?: number | null;
}

export interface Trajectory {
  id: string;
  question: string;
  mode: Mode;
  answer: string | null;
  stop_reason: string;
  turns: Turn[];
  usage: Usage;
  timings: Timings;
  policy?: { model: string; version: string };
  index?: { fingerprint: string };
  detail?: string;
  citations?: Citation[];
}

export interface AnswerRequest {
  question: string;
  mode: Mode;
  model?: string;
  index?: string;
  top_k?: number;
  max_turns?: number;
  max_sub_queries?: number;
  temperature?: number;
  deadline_s?: number;
  cache?: "use" | "bypass";
}

/** RFC 9457, as all services of the platform answer errors. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  request_id?: string;
  trajectory?: Trajectory;
}

export type StreamEvent =
  | { event: "turn.started"; id: string; turn: number }
  | { event: "reasoning.delta"; turn: number; text: string }
  | { event: "search.started"; turn: number; queries: string[]; dropped: number }
  | ({ event: "search.result"; turn: number; index: number } & SubQueryResult)
  | { event: "answer.delta"; turn: number; text: string }
  | ({ event: "done" } & Trajectory)
  | ({ event: "error" } & Problem);

export interface Example {
  kind: string;
  question: string;
}

export interface TrainingRun {
  id: string;
  state: string;
  spec: { name: string; kind: string; model?: string; data?: string; algorithm?: string; steps?: number };
  created_at: string;
  started_at?: string;
  finished_at?: string;
  detail?: string;
  last_log_lines?: string[];
  flags?: string[];
}

export interface DocumentState {
  source: string;
  state: "indexed" | "repeats" | "unreadable";
  reason: string;
  passages: number;
  uploaded: boolean;
}

export interface IndexStatus {
  name: string;
  index: { passages: number; documents: number | null; built_at: string } | null;
  work: { state: "idle" | "queued" | "running" | "done" | "failed"; detail: string };
  total: number;
  documents: DocumentState[];
}

export interface IndexList {
  indexes: { name: string; passages: number; documents: number | null }[];
  faults: Record<string, string>;
}

export interface StepMetrics {
  step: number;
  values: Record<string, number>;
}

export interface Checkpoint {
  step: number;
  path: string;
  bytes: number;
  created_at: string;
}
