/** The card that shows a sub-query's passages while its row is hovered or focused. The row's own panel says the same to a screen reader. */
import type { Lane } from "../trace";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Score } from "./passages";

const IN_MS = 140;
const OUT_MS = 180;

export interface Peeked {
  lane: Lane;
  row: HTMLElement;
}

/** `show` waits a little both ways, so that the pointer can move over the card. */
export function usePeek(): { peeked: Peeked | null; show: (next: Peeked | null) => void; hold: () => void } {
  const [peeked, setPeeked] = useState<Peeked | null>(null);
  const timer = useRef(0);
  useEffect(() => {
    const escape = (event: KeyboardEvent): void => {
      if (event.key === "Escape") setPeeked(null);
    };
    addEventListener("keydown", escape);
    return () => {
      removeEventListener("keydown", escape);
      clearTimeout(timer.current);
    };
  }, []);
  return {
    peeked,
    hold: () => clearTimeout(timer.current),
    show(next) {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setPeeked(next), next ? IN_MS : OUT_MS);
    },
  };
}

export function Peek({ peeked, hold, leave }: { peeked: Peeked; hold: () => void; leave: () => void }) {
  const card = useRef<HTMLDivElement>(null);
  const { lane, row } = peeked;
  useLayoutEffect(() => {
    const element = card.current;
    if (!element) return;
    const place = row.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = element;
    const below = place.bottom + height + 8 < innerHeight;
    element.style.left = `${Math.max(12, Math.min(place.left + 16, innerWidth - width - 12))}px`;
    element.style.top = `${below ? place.bottom + 4 : Math.max(8, place.top - height - 4)}px`;
  });
  useEffect(() => {
    addEventListener("scroll", leave, { passive: true });
    return () => removeEventListener("scroll", leave);
  }, []);
  return (
    <div class="peek" ref={card} aria-hidden="true" onMouseEnter={hold} onMouseLeave={leave}>
      <p class="peek-query">
        <bdi>{lane.query}</bdi>
      </p>
      {lane.passages.length === 0 && <p class="note">{lane.state === "failed" ? "Retrieval failed for this sub-query." : lane.state === "waiting" ? "Searching…" : "No passage was found."}</p>}
      {lane.passages.slice(0, 4).map((passage, i) => (
        <div class="peek-passage" key={i}>
          <p class="passage-head">
            <bdi class="title">{passage.title || "Untitled"}</bdi>
            <span class="source">
              <bdi>{passage.id}</bdi>
            </span>
            <Score value={passage.score} />
          </p>
          <p class="passage-text" dir="auto">
            {passage.text}
          </p>
        </div>
      ))}
    </div>
  );
}
