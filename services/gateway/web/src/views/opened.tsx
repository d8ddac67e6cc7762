/** Trajectories out of a file: dropped, or chosen. */
import { useMemo, useRef, useState } from "preact/hooks";
import { count, duration, MODES, stopInWords } from "../format";
import type { Opened } from "../opened";
import { fromTrajectory } from "../trace";
import { Saved } from "./linked";

const MOST_ROWS = 200;

export function OpenFile({ onFile }: { onFile: (file: File) => Promise<void> }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="link" onClick={() => input.current?.click()}>
        Open a trajectory file
      </button>
      <input
        ref={input}
        type="file"
        hidden
        accept=".json,.jsonl,.ndjson,application/json"
        onChange={(event) => {
          const file = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (file) void onFile(file);
        }}
      />
    </>
  );
}

export function OpenedView({ opened, onFile, say }: { opened: Opened | null; onFile: (file: File) => Promise<void>; say: (text: string) => void }) {
  const [chosen, setChosen] = useState(0);
  const [wanted, setWanted] = useState("");
  const all = opened?.trajectories ?? [];
  const rows = useMemo(() => {
    const needle = wanted.toLowerCase();
    return all.map((trajectory, at) => ({ trajectory, at })).filter(({ trajectory }) => `${trajectory.question} ${trajectory.answer}`.toLowerCase().includes(needle));
  }, [opened, wanted]);
  const trajectory = all[Math.min(chosen, all.length - 1)];

  if (!opened)
    return (
      <div class="page">
        <h1>Open a trajectory</h1>
        <p class="note">Drop a file anywhere on this page: one trajectory as JSON, or several, one a line. It stays in your browser.</p>
        <OpenFile onFile={onFile} />
      </div>
    );
  return (
    <div class="ask" data-asked="true" data-count={1}>
      <div class="page opened-head">
        <h1>
          <bdi>{opened.name}</bdi>
        </h1>
        <p class="note">{count(all.length, "trajectory", "trajectories")}</p>
        {opened.faults.length > 0 && (
          <div class="problem" role="alert">
            <h2>{count(opened.faults.length, "entry", "entries")} could not be read</h2>
            <ul>
              {opened.faults.slice(0, 5).map((fault) => (
                <li key={fault}>{fault}</li>
              ))}
            </ul>
          </div>
        )}
        {all.length > 1 && (
          <>
            <label class="filter">
              Filter
              <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
            </label>
            <ul class="entries scroll" tabIndex={0} aria-label="Trajectories">
              {rows.slice(0, MOST_ROWS).map(({ trajectory: row, at }) => (
                <li key={at}>
                  <button type="button" aria-current={at === chosen} onClick={() => setChosen(at)}>
                    <bdi class="entry-question">{row.question}</bdi>
                    <bdi class="entry-answer">{row.answer ?? stopInWords(row.stop_reason)}</bdi>
                    <span class="entry-meta">
                      {MODES[row.mode]} · {count(row.turns.length, "turn")} · {duration(row.timings.total_ms)}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
            {rows.length > MOST_ROWS && <p class="note">The first {MOST_ROWS} of {rows.length} are listed. Filter to see others.</p>}
          </>
        )}
      </div>
      {trajectory && <Saved key={`${opened.name}-${chosen}`} trajectory={trajectory} trace={fromTrajectory(trajectory)} say={say} />}
    </div>
  );
}
