/** An error in words, with the request id that the service's log knows it by, and a way on. */
import { useState } from "preact/hooks";
import { isKept, type KeyName, readKey, writeKey } from "../keys";
import type { Problem } from "../wire";

const WANTED: Record<KeyName, [string, string]> = {
  "api-key": ["API key", "This gateway asks for an API key."],
  "admin-token": ["Admin token", "This needs the admin token."],
};
const HINTS: Record<number, string> = {
  403: "The key given does not allow this.",
  429: "You are over your own limit. Wait a moment before you ask again.",
};

export interface ProblemProps {
  problem: Problem;
  onRetry?: () => void;
  retry?: string;
  /** Which key was refused, where one was. */
  needs?: KeyName;
}

export function ProblemNote({ problem, onRetry, retry = "Ask again", needs = "api-key" }: ProblemProps) {
  const [key, setKey] = useState(() => readKey(needs));
  const wantsKey = problem.status === 401 && onRetry !== undefined;
  const hint = problem.status === 401 ? WANTED[needs][1] : HINTS[problem.status];
  return (
    <div class="problem" role="alert">
      <h3>{problem.title}</h3>
      {hint && <p>{hint}</p>}
      <p dir="auto">{problem.detail}</p>
      {wantsKey && (
        <form
          class="key-form"
          onSubmit={(event) => {
            event.preventDefault();
            writeKey(needs, key.trim(), isKept(needs));
            onRetry();
          }}
        >
          <label>
            {WANTED[needs][0]}
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
