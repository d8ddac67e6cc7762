/** One sub-query: a row with its bar, and its passages when opened. */
import type { Lane } from "../trace";
import { count, duration } from "../format";
import { Passages } from "./passages";

export interface LaneProps {
  lane: Lane;
  id: string;
  open: boolean;
  first: boolean;
  highlighted: string | null;
  onToggle: () => void;
  onPeek: (row: HTMLElement | null) => void;
}

const MARK = { waiting: "", done: "", cached: "◆", failed: "✕", dropped: "–", unfinished: "…" };

function meta({ state, start, end }: Lane): string {
  if (state === "done") return duration(end - start);
  return state === "waiting" ? "searching" : state === "unfinished" ? "not back" : state;
}

/** What the row says to who cannot see its bar. */
function spoken({ state, start, end, passages }: Lane): string {
  const found = count(passages.length, "passage");
  switch (state) {
    case "waiting":
      return ", searching";
    case "dropped":
      return ", dropped: over the limit of sub-queries";
    case "unfinished":
      return ", not back when the answer ended";
    case "failed":
      return ", failed: retrieval gave no result";
    default:
      return `, ${found} in ${duration(end - start)}${state === "cached" ? ", from the cache" : ""}`;
  }
}

/** Its length is the clock's. */
export function Bar({ start, end }: { start: number; end: number }) {
  return <span class="bar" data-start={start} data-end={end} style={{ "--start": start }} />;
}

export function LaneRow({ lane, id, open, first, highlighted, onToggle, onPeek }: LaneProps) {
  const inert = lane.state === "dropped";
  return (
    <li class="lane" data-state={lane.state}>
      <button
        type="button"
        id={id}
        class="row"
        aria-expanded={inert ? undefined : open}
        aria-disabled={inert}
        tabIndex={first ? 0 : -1}
        onClick={inert ? undefined : onToggle}
        onMouseEnter={(event) => onPeek(event.currentTarget)}
        onMouseLeave={() => onPeek(null)}
        onFocus={(event) => event.currentTarget.matches(":focus-visible") && onPeek(event.currentTarget)}
        onBlur={() => onPeek(null)}
      >
        <span class="label">
          <bdi>{lane.query || "another sub-query"}</bdi>
          <span class="sr">{spoken(lane)}</span>
        </span>
        <span class="track" aria-hidden="true">
          <Bar start={lane.start} end={lane.end} />
        </span>
        <span class="meta" aria-hidden="true">
          {MARK[lane.state] && <span class="mark">{MARK[lane.state]}</span>}
          {meta(lane)}
        </span>
      </button>
      {open && <Passages lane={lane} id={`${id}-passages`} highlighted={highlighted} />}
    </li>
  );
}
