/** Every request that the page makes. All go to the origin it came from, and every failure is a `Failure` with words. */
import { type KeyName, readKey } from "./keys";
import { sentEvents } from "./sse";
import type { AnswerRequest, Problem, StreamEvent, Trajectory } from "./wire";

const TIMEOUT_MS = 15_000;
/** How long a file that was opened can be loaded again. */
const KEPT_MS = 600_000;
/** Waits before each further try to go on with a stream, after failures in a row. */
const RESUME_AFTER_MS = [50, 200, 500, 1_000, 2_000];

export class Failure extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

function local(type: string, title: string, detail: string): Failure {
  return new Failure({ type: `page:${type}`, title, status: 0, detail });
}

export const unreachable = (): Failure =>
  local("unreachable", "The gateway cannot be reached", "Nothing answers at this address. Is the service running, and are you online?");

export const lost = (): Failure =>
  local("lost", "The connection was lost", "The stream ended before the answer was complete. What had arrived is shown below.");

/** The admin token stands above the API key, which will do where there is none. */
function headers(key: KeyName): Record<string, string> {
  const secret = readKey(key) || readKey("api-key");
  return secret ? { authorization: `Bearer ${secret}` } : {};
}

async function failureOf(response: Response): Promise<Failure> {
  const fallback: Problem = {
    type: "page:http",
    title: `HTTP ${response.status}`,
    status: response.status,
    detail: response.statusText || "The service gave no reason.",
    request_id: response.headers.get("x-request-id") ?? undefined,
  };
  try {
    const body: unknown = await response.json();
    return new Failure(typeof body === "object" && body !== null ? { ...fallback, ...body } : fallback);
  } catch {
    return new Failure(fallback);
  }
}

async function send(path: string, init: RequestInit, key: KeyName): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { ...headers(key), ...init.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

export async function getJson<T>(path: string, key: KeyName = "api-key"): Promise<T> {
  const response = await send(path, { signal: AbortSignal.timeout(TIMEOUT_MS) }, key);
  return (await response.json()) as T;
}

export async function postJson<T>(path: string, key: KeyName): Promise<T> {
  const response = await send(path, { method: "POST", signal: AbortSignal.timeout(120_000) }, key);
  return (await response.json()) as T;
}

/** Sends documents, or takes one out; both need the admin token. */
export async function changeDocuments(path: string, init: RequestInit): Promise<void> {
  await send(path, { ...init, signal: AbortSignal.timeout(120_000) }, "admin-token");
}

/** How far a stream has been read: the answer's id, and that of its last event. */
interface Place {
  answer: string;
  last: string;
}

function connection(request: AnswerRequest, place: Place, signal: AbortSignal): Promise<Response> {
  const accept = "text/event-stream";
  if (place.answer) {
    const path = `/v1/answers/${encodeURIComponent(place.answer)}/events`;
    return send(path, { headers: { accept, "last-event-id": place.last }, signal }, "api-key");
  }
  const body = JSON.stringify({ ...request, stream: true });
  return send("/v1/answers", { method: "POST", headers: { accept, "content-type": "application/json" }, body, signal }, "api-key");
}

/**
 * Hands each event of one answer to `on`. A connection that breaks off is made again, and goes on with the event that comes next.
 * Throws a Failure for an answer that is refused, or that cannot be gone on with.
 */
export async function streamAnswer(request: AnswerRequest, signal: AbortSignal, on: (event: StreamEvent) => void): Promise<void> {
  const place: Place = { answer: "", last: "" };
  for (let failures = 0; ; failures++) {
    try {
      const response = await connection(request, place, signal);
      if (!response.body) throw lost();
      for await (const { id, data } of sentEvents(response.body)) {
        const event = JSON.parse(data) as StreamEvent;
        if (event.event === "turn.started") place.answer = event.id;
        place.last = id;
        failures = 0;
        on(event);
        if (event.event === "done" || event.event === "error") return;
      }
    } catch (error) {
      if (signal.aborted || (!place.answer && error instanceof Failure)) throw error;
      // Whoever answers, but not with the stream, does not hold it any more.
      if (error instanceof Failure && error.problem.status) throw lost();
    }
    const wait = RESUME_AFTER_MS[failures];
    if (!place.answer || wait === undefined) throw lost();
    await new Promise((resolve) => setTimeout(resolve, wait));
    signal.throwIfAborted();
  }
}

const ORIGINAL = /^(\/v1\/indexes\/[^/?#]+\/documents\/[^/?#]+\/content)(#page=\d+)?$/;

/** Whether an address is that of an uploaded document's file, and leads nowhere else. */
export function isOriginal(url?: string): boolean {
  const path = ORIGINAL.exec(url ?? "")?.[1];
  return path !== undefined && new URL(path, location.origin).pathname === path;
}

/** Fetches an uploaded document with the key. A PDF opens in the browser's own viewer, at its page; anything else is saved. */
export async function openOriginal(url: string, name: string): Promise<void> {
  const [, path = "", page = ""] = ORIGINAL.exec(url) ?? [];
  const response = await send(path, { signal: AbortSignal.timeout(120_000) }, "api-key");
  const isPdf = response.headers.get("content-type") === "application/pdf";
  const file = new Blob([await response.arrayBuffer()], { type: isPdf ? "application/pdf" : "application/octet-stream" });
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address + page;
  if (isPdf) link.target = "_blank";
  else link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
}

export function storedAnswer(id: string): Promise<Trajectory> {
  return getJson<Trajectory>(`/v1/answers/${encodeURIComponent(id)}`);
}
