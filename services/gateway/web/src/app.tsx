/** The frame of the page: header, the view that the hash names, files dropped anywhere, and a voice for screen readers. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useAsking } from "./asking";
import { type Opened, readFile } from "./opened";
import { FIRST_CHOICES } from "./parts/composer";
import { HealthBanner, HealthLine, useHealth } from "./parts/health";
import { Settings } from "./parts/settings";
import { type Route, useRoute } from "./route";
import { AskView } from "./views/ask";
import { DocumentsView } from "./views/documents";
import { HistoryView } from "./views/history";
import { OpenedView, OpenFile } from "./views/opened";
import { LinkedView } from "./views/linked";
import { TrainingView } from "./views/training";

const NAV: [Route["view"], string, string][] = [
  ["ask", "#/", "Ask"],
  ["history", "#/history", "History"],
  ["documents", "#/documents", "Documents"],
  ["training", "#/training", "Training"],
];
const TITLES: Record<Route["view"], string> = {
  ask: "Ask",
  history: "History",
  answer: "Answer",
  packed: "Answer",
  opened: "Opened file",
  documents: "Documents",
  training: "Training",
};

export function App() {
  const route = useRoute();
  const [said, setSaid] = useState("");
  const asking = useAsking(setSaid);
  const health = useHealth();
  const [settings, setSettings] = useState(false);
  const [opened, setOpened] = useState<Opened | null>(null);
  const [question, setQuestion] = useState("");
  const [choices, setChoices] = useState(FIRST_CHOICES);
  const main = useRef<HTMLElement>(null);
  const from = useRef(route);

  async function open(file: File): Promise<void> {
    setOpened(await readFile(file));
    location.hash = "#/opened";
  }
  const dragging = useDrop((file) => void open(file));

  useEffect(() => {
    document.title = `${TITLES[route.view]} · ParallelSearch`;
  }, [route.view]);
  useEffect(() => {
    // What led here may be gone with its view, and the focus with it.
    if (from.current !== route && document.activeElement === document.body) main.current?.focus({ preventScroll: true });
    from.current = route;
  }, [route]);

  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href="#/" aria-label="ParallelSearch, ask a question">
          <Mark />
          ParallelSearch
        </a>
        <nav aria-label="Views">
          {NAV.map(([view, href, name]) => (
            <a key={view} href={href} aria-current={route.view === view ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <button type="button" class="quiet" onClick={() => setSettings(true)}>
          Settings
        </button>
      </header>
      <HealthBanner health={health} />
      <main ref={main} tabIndex={-1}>
        {route.view === "ask" && <AskView asking={asking} question={question} choices={choices} onQuestion={setQuestion} onChoices={setChoices} say={setSaid} />}
        {route.view === "history" && <HistoryView />}
        {(route.view === "answer" || route.view === "packed") && <LinkedView route={route} say={setSaid} />}
        {route.view === "opened" && <OpenedView opened={opened} onFile={open} say={setSaid} />}
        {route.view === "documents" && <DocumentsView index={route.index} say={setSaid} />}
        {route.view === "training" && <TrainingView run={route.run} />}
      </main>
      <footer class="foot">
        <HealthLine health={health} />
        <OpenFile onFile={open} />
        <a href="/docs">API reference</a>
      </footer>
      <div class="sr" role="status" aria-live="polite">
        {said}
      </div>
      {dragging && (
        <div class="drop" aria-hidden="true">
          <p>Drop a trajectory, or a JSONL file of several</p>
        </div>
      )}
      {settings && <Settings onClose={() => setSettings(false)} />}
    </>
  );
}

export function Mark() {
  return (
    <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
      <rect x="1" y="2.5" width="9" height="3" rx="1.5" />
      <rect x="1" y="6.5" width="14" height="3" rx="1.5" />
      <rect x="1" y="10.5" width="6" height="3" rx="1.5" />
    </svg>
  );
}

/** A field that takes files itself takes what is dropped on it. */
const isTaken = (event: DragEvent): boolean => event.target instanceof Element && event.target.matches("input[type=file]");

/** Whether a file hovers over the page; a dropped one is handed on. */
function useDrop(onFile: (file: File) => void): boolean {
  const [dragging, setDragging] = useState(false);
  useEffect(() => {
    const over = (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      setDragging(!isTaken(event));
      if (!isTaken(event)) event.preventDefault();
    };
    const leave = (event: DragEvent): void => {
      if (event.relatedTarget === null) setDragging(false);
    };
    const drop = (event: DragEvent): void => {
      setDragging(false);
      if (isTaken(event)) return;
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (file) onFile(file);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  return dragging;
}
