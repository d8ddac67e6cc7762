/** Whether the platform can answer, asked again every few seconds while the page is looked at. */
import { useEffect, useState } from "preact/hooks";

const EVERY_MS = 15_000;
const SOON_MS = 3_000;

export interface Health {
  state: "unknown" | "ready" | "degraded" | "starting" | "failed" | "unreachable";
  checks: Record<string, string>;
}

async function readHealth(): Promise<Health> {
  try {
    const response = await fetch("/readyz", { signal: AbortSignal.timeout(5_000) });
    const body = (await response.json()) as { status: Health["state"]; checks?: Record<string, string> };
    return { state: body.status, checks: body.checks ?? {} };
  } catch {
    return { state: "unreachable", checks: {} };
  }
}

export function useHealth(): Health {
  const [health, setHealth] = useState<Health>({ state: "unknown", checks: {} });
  useEffect(() => {
    let timer = 0;
    let gone = false;
    async function ask(): Promise<void> {
      clearTimeout(timer);
      if (document.hidden) return;
      const found = await readHealth();
      if (gone) return;
      setHealth(found);
      timer = setTimeout(() => void ask(), found.state === "ready" || found.state === "degraded" ? EVERY_MS : SOON_MS);
    }
    const now = (): void => void ask();
    void ask();
    document.addEventListener("visibilitychange", now);
    addEventListener("online", now);
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", now);
      removeEventListener("online", now);
    };
  }, []);
  return health;
}

const WORDS: Record<Health["state"], string> = {
  unknown: "Connecting",
  ready: "Ready",
  degraded: "Ready, in part",
  starting: "Starting",
  failed: "Not ready",
  unreachable: "Gateway not reachable",
};

const faults = (health: Health): string =>
  Object.entries(health.checks)
    .filter(([, report]) => report !== "ok")
    .map(([name, report]) => `${name}: ${report}`)
    .join(" · ");

export function HealthBanner({ health }: { health: Health }) {
  if (!["starting", "failed", "unreachable"].includes(health.state)) return null;
  return (
    <p class="banner" role="status">
      <b>{WORDS[health.state]}.</b> {faults(health) || "This page tries again by itself."}
    </p>
  );
}

export function HealthLine({ health }: { health: Health }) {
  return (
    <p class="health" data-state={health.state}>
      {WORDS[health.state]}
      {faults(health) && <span> · {faults(health)}</span>}
    </p>
  );
}
