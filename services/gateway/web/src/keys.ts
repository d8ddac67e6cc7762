/** The API key and the admin token, for this tab only unless the person asks to keep the key. */
import { kept, ofTab } from "./storage";

export type KeyName = "api-key" | "admin-token";

/** Told to the window when one of them is another. */
export const KEYS_CHANGED = "parallelsearch.keys";

const name = (key: KeyName): string => `parallelsearch.${key}`;

export function readKey(key: KeyName): string {
  return ofTab.getItem(name(key)) ?? kept.getItem(name(key)) ?? "";
}

export function isKept(key: KeyName): boolean {
  return kept.getItem(name(key)) !== null;
}

export function writeKey(key: KeyName, value: string, keep: boolean): void {
  ofTab.removeItem(name(key));
  kept.removeItem(name(key));
  if (value) (keep ? kept : ofTab).setItem(name(key), value);
  dispatchEvent(new Event(KEYS_CHANGED));
}
