/** Where a question is written, and how it is to be answered. */
import { useEffect, useRef, useState } from "preact/hooks";
import { getJson } from "../api";
import { KEYS_CHANGED } from "../keys";
import type { AnswerRequest, Mode } from "../wire";
import { MODES } from "../format";
import { other } from "./board";

export interface ComposerProps {
  question: string;
  choices: Choices;
  running: boolean;
  compact: boolean;
  onQuestion: (question: string) => void;
  onChoices: (choices: Choices) => void;
  onAsk: (requests: AnswerRequest[]) => void;
  onStop: () => void;
}

/** How a question is to be answered. */
export interface Choices {
  mode: Mode;
  /** Whether the same question is asked in sequence as well. */
  beside: boolean;
  /** Empty: the gateway's own. */
  model: string;
  /** Empty: the default one. */
  index: string;
  options: Options;
}

interface Options {
  top_k: number;
  max_turns: number;
  max_sub_queries: number;
  deadline_s: number;
  cache: "use" | "bypass";
}

const DEFAULTS: Options = { top_k: 3, max_turns: 4, max_sub_queries: 8, deadline_s: 60, cache: "use" };
export const FIRST_CHOICES: Choices = { mode: "parallel", beside: false, model: "", index: "", options: DEFAULTS };
const LIMITS: [Exclude<keyof Options, "cache">, string, number, number][] = [
  ["top_k", "Passages a sub-query", 1, 20],
  ["max_turns", "Searches at most", 0, 16],
  ["max_sub_queries", "Sub-queries a search", 1, 64],
  ["deadline_s", "Deadline in seconds", 1, 600],
];

const OF_INDEX = "parallelsearch:";

/** The models beside the gateway's own, and the names of the indexes beside the default one. */
function useNames(): { models: string[]; indexes: string[] } {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    const ask = (): void =>
      void getJson<{ data: { id: string }[] }>("/v1/models").then(
        ({ data }) => setNames(data.map((model) => model.id)),
        () => setNames([]),
      );
    ask();
    addEventListener(KEYS_CHANGED, ask);
    return () => removeEventListener(KEYS_CHANGED, ask);
  }, []);
  return {
    models: names.filter((id) => !id.startsWith("parallelsearch")),
    indexes: names.filter((id) => id.startsWith(OF_INDEX)).map((id) => id.slice(OF_INDEX.length)),
  };
}

const within = (min: number, value: number, max: number): number => Math.min(max, Math.max(min, Math.round(value || min)));

export function Composer({ question, choices, running, compact, onQuestion, onChoices, onAsk, onStop }: ComposerProps) {
  const { mode, beside, model, index, options } = choices;
  const choose = (chosen: Partial<Choices>): void => onChoices({ ...choices, ...chosen });
  const { models, indexes } = useNames();
  const field = useRef<HTMLTextAreaElement>(null);

  useEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  }, [question, compact]);

  useEffect(() => {
    function slash(event: KeyboardEvent): void {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      field.current?.focus();
    }
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);

  function ask(): void {
    if (!question.trim()) {
      field.current?.focus();
      return;
    }
    const request: AnswerRequest = { question: question.trim(), mode, ...options, ...(model && { model }), ...(index && { index }) };
    onAsk(beside && mode === "parallel" ? [{ ...request, cache: "bypass" }, other(request)] : [request]);
  }

  return (
    <form
      class="composer"
      data-compact={compact}
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <label class="sr" for="question">
        Question
      </label>
      <textarea
        id="question"
        ref={field}
        rows={1}
        dir="auto"
        placeholder="Who is older, Claude Monet or Camille Pissarro?"
        value={question}
        onInput={(event) => onQuestion(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          ask();
        }}
      />
      <div class="controls">
        <fieldset class="modes">
          <legend class="sr">Mode</legend>
          {Object.entries(MODES).map(([value, name]) => (
            <label key={value}>
              <input type="radio" name="mode" value={value} checked={mode === value} onChange={() => choose({ mode: value as Mode })} />
              <span>{name}</span>
            </label>
          ))}
        </fieldset>
        <label class="check" data-off={mode !== "parallel"}>
          <input type="checkbox" checked={beside} disabled={mode !== "parallel"} onChange={(event) => choose({ beside: event.currentTarget.checked })} />
          <span>Sequential beside it</span>
        </label>
        <span class="spring" />
        {running ? (
          <button key="stop" type="button" class="primary" onClick={onStop}>
            Stop
          </button>
        ) : (
          <button key="ask" type="submit" class="primary">
            Ask
          </button>
        )}
      </div>
      <details class="options">
        <summary>Model and limits</summary>
        <div class="option-grid">
          <label>
            Model
            <select value={model} onChange={(event) => choose({ model: event.currentTarget.value })}>
              <option value="">The gateway's own</option>
              {models.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          {indexes.length > 0 && (
            <label>
              Index
              <select value={index} onChange={(event) => choose({ index: event.currentTarget.value })}>
                <option value="">The default one</option>
                {indexes.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
          )}
          {LIMITS.map(([name, words, min, max]) => (
            <label key={name}>
              {words}
              <input
                type="number"
                min={min}
                max={max}
                value={options[name]}
                onChange={(event) => choose({ options: { ...options, [name]: within(min, event.currentTarget.valueAsNumber, max) } })}
              />
            </label>
          ))}
          <label>
            Cache
            <select value={options.cache} onChange={(event) => choose({ options: { ...options, cache: event.currentTarget.value as Options["cache"] } })}>
              <option value="use">use</option>
              <option value="bypass">bypass</option>
            </select>
          </label>
        </div>
        <p class="note">Two answers beside each other always bypass the cache, so that their times compare.</p>
      </details>
    </form>
  );
}
