/** What the browser keeps for this page; where it keeps nothing (cookies blocked), as long as the page stands. */

export type Room = Pick<Storage, "getItem" | "setItem" | "removeItem">;

function inPage(): Room {
  const held = new Map<string, string>();
  return {
    getItem: (key) => held.get(key) ?? null,
    setItem: (key, value) => void held.set(key, value),
    removeItem: (key) => void held.delete(key),
  };
}

function room(name: "localStorage" | "sessionStorage"): Room {
  try {
    return window[name] ?? inPage();
  } catch {
    return inPage();
  }
}

export const kept = room("localStorage");
export const ofTab = room("sessionStorage");
