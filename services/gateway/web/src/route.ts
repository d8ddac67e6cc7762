/** Where the page is, out of the hash, so that the server serves one document. */
import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "ask" }
  | { view: "history" }
  | { view: "answer"; id: string }
  | { view: "packed"; data: string }
  | { view: "opened" }
  | { view: "documents"; index: string | null }
  | { view: "training"; run: string | null };

export function parseRoute(hash: string): Route {
  const [head = "", rest = ""] = hash.replace(/^#\/?/, "").split(/\/(.*)/s);
  switch (head) {
    case "history":
    case "opened":
      return { view: head };
    case "answers":
      return { view: "answer", id: decoded(rest) };
    case "t":
      return { view: "packed", data: rest };
    case "documents":
      return { view: "documents", index: decoded(rest) || null };
    case "training":
      return { view: "training", run: decoded(rest) || null };
    default:
      return { view: "ask" };
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const change = (): void => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}
