/** Server-sent events out of a fetched body (EventSource cannot POST). */

export interface Sent {
  /** Empty where the event has none. */
  id: string;
  data: string;
}

/** Four times what the gateway lets pass without a word, unless it is told otherwise (`GATEWAY_HEARTBEAT_S`). */
const SILENT_MS = 60_000;

/** Each event, in order. Comments and names are left out; ends with the body, throws where the connection breaks or has fallen silent. */
export async function* sentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Sent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await heard(reader.read());
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = field(block, "data");
        if (data) yield { id: field(block, "id"), data };
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** What is waited for, unless the other end says nothing for too long. */
export function heard<T>(reading: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("The connection has fallen silent.")), SILENT_MS);
    void reading.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function field(block: string, name: string): string {
  return block
    .split(/\r?\n/)
    .filter((line) => line.startsWith(`${name}:`))
    .map((line) => line.slice(name.length + 1).replace(/^ /, ""))
    .join("\n");
}
