/** Passages of one sub-query. Their text is text: never markup, and isolated from its surroundings' direction. */
import { useState } from "preact/hooks";
import { isOriginal, openOriginal, problemOf } from "../api";
import { placeInWords } from "../format";
import type { Lane } from "../trace";
import type { Passage } from "../wire";

/** A document that was uploaded, fetched when it is asked for. */
function Original({ url, source, words }: { url: string; source: string; words: string }) {
  const [problem, setProblem] = useState("");
  const open = () =>
    openOriginal(url, source).then(
      () => setProblem(""),
      (error: unknown) => setProblem(problemOf(error).detail),
    );
  return (
    <span class="source">
      <button type="button" class="link" aria-label={`Open ${words}`} onClick={() => void open()}>
        <bdi>{words}</bdi>
      </button>
      {problem && <span role="alert"> {problem}</span>}
    </span>
  );
}

/** Only where the address leads to the web or to an uploaded document; anything else is shown as words. */
export function Linked({ url, source, words }: { url?: string; source?: string; words: string }) {
  if (url && isOriginal(url)) return <Original url={url} source={source ?? words} words={words} />;
  const link = /^https?:\/\//i.test(url ?? "") ? url : null;
  return (
    <span class="source">
      {link ? (
        <a href={link} target="_blank" rel="noopener noreferrer">
          <bdi>{words}</bdi>
        </a>
      ) : (
        <bdi>{words}</bdi>
      )}
    </span>
  );
}

function Source({ passage }: { passage: Passage }) {
  const { source, page } = passage.metadata ?? {};
  return <Linked url={passage.url} source={source ? String(source) : undefined} words={source ? placeInWords(String(source), page) : passage.id} />;
}

export function Score({ value }: { value: number }) {
  return (
    <span class="score">
      <span class="sr">score </span>
      {value.toFixed(3)}
    </span>
  );
}

export function Passages({ lane, id, highlighted }: { lane: Lane; id: string; highlighted: string | null }) {
  if (lane.state === "failed") return <p class="passages note" id={id}>Retrieval failed for this sub-query; the turn went on without it.</p>;
  if (lane.state === "waiting" || lane.state === "unfinished") return <p class="passages note" id={id}>Nothing has come back.</p>;
  if (lane.passages.length === 0) return <p class="passages note" id={id}>No passage was found.</p>;
  return (
    <ol class="passages" id={id} aria-label={`Passages for: ${lane.query}`}>
      {lane.passages.map((passage, i) => (
        <li key={passage.id + i} id={`${id}-${i}`} class={passage.id === highlighted ? "passage cited" : "passage"} tabIndex={-1}>
          <p class="passage-head">
            <bdi class="title">{passage.title || "Untitled"}</bdi>
            <Source passage={passage} />
            <Score value={passage.score} />
          </p>
          <p class="passage-text" dir="auto">
            {passage.text}
          </p>
        </li>
      ))}
    </ol>
  );
}
