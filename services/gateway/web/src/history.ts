/** The questions asked in this browser, newest first. */
import { kept } from "./storage";
import type { Trajectory } from "./wire";

const KEY = "parallelsearch.history";
const MOST = 60;
const MOST_CHARACTERS = 2_000_000;

export interface Entry {
  at: string;
  trajectory: Trajectory;
}

export function readHistory(): Entry[] {
  try {
    const found: unknown = JSON.parse(kept.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? (found as Entry[]) : [];
  } catch {
    return [];
  }
}

export function remember(trajectory: Trajectory): void {
  const rest = readHistory().filter((entry) => entry.trajectory.id !== trajectory.id);
  save([{ at: new Date().toISOString(), trajectory }, ...rest].slice(0, MOST));
}

export function clearHistory(): void {
  kept.removeItem(KEY);
}

/** The oldest go first where the browser's room is short. */
function save(entries: Entry[]): void {
  for (let newest = entries; newest.length > 0; newest = newest.slice(0, -1)) {
    const text = JSON.stringify(newest);
    if (text.length > MOST_CHARACTERS) continue;
    try {
      kept.setItem(KEY, text);
      return;
    } catch {
      continue;
    }
  }
}
