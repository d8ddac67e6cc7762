/** Every request that the page makes. All go to the origin it came from, and every failure is a `Failure` with words. */
import { type KeyName, readKey } from "./keys";
import { heard, sentEvents } from "./sse";
import type { AnswerRequest, Problem, StreamEvent, Trajectory } from "./wire";

const TIMEOUT_MS = 15_000;
/** Of what takes its time: files on their way, weights that are loaded. */
const LONG_MS = 120_000;
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

const slow = (): Failure => local("slow", "No answer in time", "The service did not answer in time. Try again in a moment.");

const foreign = (): Failure =>
  local("foreign", "This is no answer of the gateway", "Something between this page and the gateway answered in its place: a login page, perhaps.");

/** What a request is for. Asking takes the API key, changing the admin token; reading and changing take the other where theirs is not there. */
type Purpose = "ask" | "read" | "change";
const KEYS: Record<Purpose, KeyName[]> = { ask: ["api-key"], read: ["api-key", "admin-token"], change: ["admin-token", "api-key"] };

function headers(purpose: Purpose): Record<string, string> {
  const secret = KEYS[purpose].map(readKey).find((key) => key);
  if (!secret) return {};
  // A header takes no other characters, and no key has them.
  if (!/^[\x20-\x7e]+$/.test(secret)) {
    const detail = "The key that was given holds characters that no key has: quotes, spaces or letters that came along. Copy it anew.";
    throw new Failure({ type: "page:key", title: "This is no key", status: 401, detail });
  }
  return { authorization: `Bearer ${secret}` };
}

/** What went wrong with a request that was sent; one that the person took back stays what it is. */
function mishap(error: unknown): unknown {
  if (error instanceof Failure) return error;
  if (error instanceof SyntaxError) return foreign();
  if (!(error instanceof DOMException)) return unreachable();
  return error.name === "TimeoutError" ? slow() : error;
}

/** The problem that an error is. */
export const problemOf = (error: unknown): Problem => (error instanceof Failure ? error : unreachable()).problem;

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

async function send(path: string, init: RequestInit, purpose: Purpose): Promise<Response> {
  const carried = { ...headers(purpose), ...init.headers };
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: carried });
  } catch (error) {
    throw mishap(error);
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function asked<T>(path: string, init: RequestInit, purpose: Purpose): Promise<T> {
  const response = await send(path, init, purpose);
  try {
    return (await response.json()) as T;
  } catch (error) {
    throw mishap(error);
  }
}

export function getJson<T>(path: string, purpose: Purpose = "ask"): Promise<T> {
  return asked<T>(path, { signal: AbortSignal.timeout(TIMEOUT_MS) }, purpose);
}

/** Has something changed: the admin's alone. */
export function postJson<T>(path: string): Promise<T> {
  return asked<T>(path, { method: "POST", signal: AbortSignal.timeout(LONG_MS) }, "change");
}

/** Sends documents, or takes one out; both need the admin token. */
export async function changeDocuments(path: string, init: RequestInit): Promise<void> {
  await send(path, { ...init, signal: AbortSignal.timeout(LONG_MS) }, "change");
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
    return heard(send(path, { headers: { accept, "last-event-id": place.last }, signal }, "ask"));
  }
  const body = JSON.stringify({ ...request, stream: true });
  return send("/v1/answers", { method: "POST", headers: { accept, "content-type": "application/json" }, body, signal }, "ask");
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
  const response = await send(path, { signal: AbortSignal.timeout(LONG_MS) }, "ask");
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
