/** What was asked in this browser. */
import { useState } from "preact/hooks";
import { count, duration, MODES, when } from "../format";
import { clearHistory, type Entry, readHistory } from "../history";
import { pack } from "../share";

async function show(entry: Entry): Promise<void> {
  location.hash = `#/t/${await pack(entry.trajectory)}`;
}

export function EntryList({ entries }: { entries: Entry[] }) {
  return (
    <ul class="entries">
      {entries.map((entry) => {
        const { trajectory } = entry;
        return (
          <li key={trajectory.id}>
            <button type="button" onClick={() => void show(entry)}>
              <bdi class="entry-question">{trajectory.question}</bdi>
              <bdi class="entry-answer">{trajectory.answer ?? "no answer"}</bdi>
              <span class="entry-meta">
                {MODES[trajectory.mode]} · {count(trajectory.usage.llm_calls, "call")} · {duration(trajectory.timings.total_ms)} · {when(entry.at)}
              </span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

export function HistoryView() {
  const [entries, setEntries] = useState(readHistory);
  return (
    <div class="page">
      <div class="section-head">
        <h1>History</h1>
        {entries.length > 0 && (
          <button
            type="button"
            class="link"
            onClick={() => {
              clearHistory();
              setEntries([]);
            }}
          >
            Forget all
          </button>
        )}
      </div>
      {entries.length ? <EntryList entries={entries} /> : <p class="note">Nothing was asked in this browser yet. What you ask is listed here, for this browser alone.</p>}
    </div>
  );
}
