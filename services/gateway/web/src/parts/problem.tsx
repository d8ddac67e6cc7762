/** An error in words, with the request id that the service's log knows it by, and a way on. */
import { useState } from "preact/hooks";
import { readKey, writeKey } from "../keys";
import type { Problem } from "../wire";

const HINTS: Record<number, string> = {
  401: "This gateway asks for an API key.",
  403: "The key given does not allow this.",
  429: "You are over your own limit. Wait a moment before you ask again.",
};

export function ProblemNote({ problem, onRetry, retry = "Ask again" }: { problem: Problem; onRetry?: () => void; retry?: string }) {
  const [key, setKey] = useState(() => readKey("api-key"));
  const wantsKey = problem.status === 401 && onRetry !== undefined;
  return (
    <div class="problem" role="alert">
      <h3>{problem.title}</h3>
      {HINTS[problem.status] && <p>{HINTS[problem.status]}</p>}
      <p dir="auto">{problem.detail}</p>
      {wantsKey && (
        <form
          class="key-form"
          onSubmit={(event) => {
            event.preventDefault();
            writeKey("api-key", key.trim(), false);
            onRetry();
          }}
        >
          <label>
            API key
            <input type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary">
            {retry}
          </button>
        </form>
      )}
      {onRetry && !wantsKey && (
        <button type="button" onClick={onRetry}>
          {retry}
        </button>
      )}
      {problem.request_id && (
        <p class="request-id">
          Request id <code>{problem.request_id}</code>
        </p>
      )}
    </div>
  );
}
