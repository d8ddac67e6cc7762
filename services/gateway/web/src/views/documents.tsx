/** The indexes of the retriever, what became of each document in one, and uploading more. File names and reasons are text. */
import { useRef, useState } from "preact/hooks";
import { changeDocuments, problemOf } from "../api";
import { count } from "../format";
import { ProblemNote } from "../parts/problem";
import type { DocumentState, IndexList, IndexStatus, Problem } from "../wire";
import { usePolled } from "./training";

const BASE = "/v1/indexes";
const TYPES = ".txt,.md,.markdown,.html,.htm,.pdf,.docx,.csv";
const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

const pathOf = (index: string): string => `${BASE}/${encodeURIComponent(index)}`;
const isBusy = ({ work }: IndexStatus): boolean => work.state === "queued" || work.state === "running";

export function DocumentsView({ index, say }: { index: string | null; say: (text: string) => void }) {
  return index ? <OneIndex key={index} name={index} say={say} /> : <Indexes />;
}

function Indexes() {
  const { value, problem, again } = usePolled<IndexList>(BASE, () => false);
  const [name, setName] = useState("");
  return (
    <div class="page">
      <h1>Documents</h1>
      {problem && <ProblemNote problem={problem} onRetry={again} retry="Try again" />}
      {value && (
        <ul class="entries">
          {value.indexes.map((each) => (
            <li key={each.name}>
              <a href={`#/documents/${encodeURIComponent(each.name)}`}>
                <bdi>{each.name}</bdi>
              </a>
              <span class="entry-meta">
                {each.documents === null ? "built of passages" : count(each.documents, "document")} · {count(each.passages, "passage")}
              </span>
            </li>
          ))}
          {Object.entries(value.faults).map(([fault, detail]) => (
            <li key={fault}>
              <bdi>{fault}</bdi> <span class="note">{detail}</span>
            </li>
          ))}
        </ul>
      )}
      <form
        class="controls"
        onSubmit={(event) => {
          event.preventDefault();
          location.hash = `#/documents/${encodeURIComponent(name.trim())}`;
        }}
      >
        <label>
          New index <input required pattern={NAME} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit">Open</button>
      </form>
    </div>
  );
}

function OneIndex({ name, say }: { name: string; say: (text: string) => void }) {
  const { value, problem, again } = usePolled<IndexStatus>(`${pathOf(name)}?limit=1000`, isBusy);
  const [refused, setRefused] = useState<{ problem: Problem; again: () => void } | null>(null);
  const [sending, setSending] = useState(false);
  const chosen = useRef<HTMLInputElement>(null);
  const isNew = problem?.status === 404;

  async function change(path: string, init: RequestInit, words: string): Promise<void> {
    setRefused(null);
    setSending(init.method === "POST");
    try {
      await changeDocuments(path, init);
      say(words);
      again();
    } catch (error) {
      setRefused({ problem: problemOf(error), again: () => void change(path, init, words) });
    }
    setSending(false);
  }

  function upload(event: Event): void {
    event.preventDefault();
    const body = new FormData();
    for (const file of chosen.current?.files ?? []) body.append("files", file);
    void change(`${pathOf(name)}/documents`, { method: "POST", body }, "The documents were sent.");
  }

  return (
    <div class="page wide">
      <h1>
        <bdi>{name}</bdi>
      </h1>
      {problem && !isNew && <ProblemNote problem={problem} onRetry={again} retry="Try again" />}
      {refused && <Refused {...refused} onClose={() => setRefused(null)} />}
      {value?.index && (
        <p>
          {count(value.total, "document")}, {count(value.index.passages, "passage")}
        </p>
      )}
      {value && <Work work={value.work} />}
      <form class="controls" onSubmit={upload}>
        <label>
          Documents <input ref={chosen} type="file" multiple required accept={TYPES} />
        </label>
        <button type="submit" class="primary" disabled={sending}>
          {sending ? "Sending" : "Upload"}
        </button>
      </form>
      <p class="note">Uploading needs the admin token, which Settings takes.</p>
      {value && value.documents.length > 0 && (
        <Documents documents={value.documents} onRemove={(source) => void change(`${pathOf(name)}/documents/${encodeURIComponent(source)}`, { method: "DELETE" }, `${source} is being removed.`)} />
      )}
      {value && value.total > value.documents.length && (
        <p class="note">
          The first {value.documents.length} are listed. <code>parallelsearch index list --index {name}</code> shows all.
        </p>
      )}
    </div>
  );
}

/** With the admin token given on the spot, what was refused for want of it is done again. */
function Refused({ problem, again, onClose }: { problem: Problem; again: () => void; onClose: () => void }) {
  if (problem.status === 401) return <ProblemNote problem={problem} onRetry={again} retry="Try again" needs="admin-token" />;
  return <ProblemNote problem={problem} onRetry={onClose} retry="Close" />;
}

function Work({ work }: { work: IndexStatus["work"] }) {
  if (work.state === "queued" || work.state === "running") return <p class="note">The index is being changed; what it held is still searched.</p>;
  if (work.state === "failed") return <p class="stop-reason">The last change failed: {work.detail}</p>;
  return null;
}

const words = ({ state, reason, passages }: DocumentState): string =>
  state === "indexed" ? count(passages, "passage") : state === "repeats" ? `nearly repeats ${reason}` : `cannot be read: it ${reason}`;

function Documents({ documents, onRemove }: { documents: DocumentState[]; onRemove: (source: string) => void }) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label="Documents">
      <table>
        <thead>
          <tr>
            <th scope="col">Document</th>
            <th scope="col">What became of it</th>
            <th scope="col">
              <span class="sr">Remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {documents.map((each) => (
            <tr key={each.source}>
              <th scope="row">
                <bdi>{each.source}</bdi>
              </th>
              <td>{words(each)}</td>
              <td>
                <button type="button" class="link" aria-label={`Remove ${each.source}`} onClick={() => onRemove(each.source)}>
                  Remove
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
