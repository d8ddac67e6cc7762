/** Keys and appearance, in a dialog. */
import { useEffect, useRef, useState } from "preact/hooks";
import { isKept, readKey, writeKey } from "../keys";
import { applyTheme, readTheme, type Theme } from "../theme";

export function Settings({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [key, setKey] = useState(() => readKey("api-key"));
  const [admin, setAdmin] = useState(() => readKey("admin-token"));
  const [keep, setKeep] = useState(() => isKept("api-key"));
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => dialog.current?.showModal(), []);

  function save(event: Event): void {
    event.preventDefault();
    writeKey("api-key", key.trim(), keep);
    writeKey("admin-token", admin.trim(), false);
    dialog.current?.close();
  }

  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="settings-title">
      <form onSubmit={save}>
        <h2 id="settings-title">Settings</h2>
        <label>
          API key <span class="hint">only where this gateway asks for one</span>
          <input type="password" autocomplete="off" value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>Keep the key in this browser</span>
        </label>
        <label>
          Admin token <span class="hint">to upload documents and promote checkpoints; for this tab only</span>
          <input type="password" autocomplete="off" value={admin} onInput={(event) => setAdmin(event.currentTarget.value)} />
        </label>
        <label>
          Appearance
          <select
            value={theme}
            onChange={(event) => {
              const next = event.currentTarget.value as Theme;
              setTheme(next);
              applyTheme(next);
            }}
          >
            <option value="system">as the system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
        <div class="dialog-actions">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Save
          </button>
        </div>
      </form>
    </dialog>
  );
}
