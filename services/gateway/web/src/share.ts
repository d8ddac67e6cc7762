/** Ways out of the page: links that hold a whole trajectory, JSON, curl, the clipboard. */
import type { AnswerRequest, Trajectory } from "./wire";

async function through(data: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function pack(trajectory: Trajectory): Promise<string> {
  const data = await through(new TextEncoder().encode(JSON.stringify(trajectory)), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of data) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export async function unpack(packed: string): Promise<unknown> {
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const data = await through(Uint8Array.from(binary, (char) => char.charCodeAt(0)), new DecompressionStream("deflate-raw"));
  return JSON.parse(new TextDecoder().decode(data));
}

/** A command for a POSIX shell; the key is left for the person to fill in. */
export function curl(request: AnswerRequest, needsKey: boolean): string {
  const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const key = needsKey ? ` -H "authorization: Bearer $PARALLELSEARCH_API_KEY"` : "";
  return `curl -s ${location.origin}/v1/answers -H 'content-type: application/json'${key} -d ${quote(JSON.stringify(request))}`;
}

/** Whether it could be done. Where the clipboard's own interface is closed (plain HTTP beyond localhost), the old way is taken. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement;
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
    return done;
  }
}
