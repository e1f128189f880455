// Hooks that ask the service again and again, while the page is visible.

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./preact.js";

const STATS_EVERY_S = 2;
const KEPT_SAMPLES = 720;
const PART_SHARE = 1 / 200;
const MOST_WAIT_MS = 600_000;

let fastestMs = Infinity; // of all answers: what takes longer, the service has worked for

/**
 * Calls `ask` at once, every `everyS` seconds after its answer, and when the page becomes visible again.
 * `share`: of the time, that the service may work for it: what takes long is asked for less often, such as a ranking
 * that no crawler uses and that is computed again from all pages.
 */
function useRepeated(ask, everyS, inputs, share = 1) {
  useEffect(() => {
    let timer = 0;
    let running = false;
    let ended = false;
    const step = async () => {
      clearTimeout(timer);
      if (running || document.hidden) return;
      running = true;
      const begunMs = performance.now();
      await ask(() => ended);
      running = false;
      const tookMs = performance.now() - begunMs;
      fastestMs = Math.min(fastestMs, tookMs);
      const restMs = Math.min((tookMs - fastestMs) / share, MOST_WAIT_MS);
      if (!ended) timer = setTimeout(step, Math.max(1000 * everyS, restMs));
    };
    step();
    document.addEventListener("visibilitychange", step);
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", step);
    };
  }, [everyS, ...inputs]);
}

/**
 * Returns `{value, error}` of GET `path`, asked every `everyS` seconds and when `turn` changes; the value of other
 * parameters is dropped.
 */
export function usePolled(path, parameters = {}, everyS = 10, turn = 0) {
  const key = `${path}?${JSON.stringify(parameters)}`;
  const [state, setState] = useState({ key, value: null, error: null });
  useRepeated(
    async (hasEnded) => {
      try {
        const value = await get(path, parameters);
        if (!hasEnded()) setState({ key, value, error: null });
      } catch (error) {
        if (!hasEnded()) setState((before) => ({ key, value: before.key === key ? before.value : null, error }));
      }
    },
    everyS,
    [key, turn],
    PART_SHARE,
  );
  return state.key === key ? state : { value: null, error: null };
}

/**
 * Returns `{stats, samples, error, answeredAt}`: figures of the service, and all samples so far, oldest first.
 * `answeredAt`: the browser's time of the last answer, ms. Each call asks only for samples that are new.
 */
export function useStats() {
  const [state, setState] = useState({ stats: null, samples: [], error: null, answeredAt: Date.now() });
  const last = useRef(state);
  const ask = useCallback(async (hasEnded) => {
    const before = last.current;
    try {
      const since = before.samples.length ? before.samples.at(-1).at_s : null;
      let stats = await get("/v1/stats", { since });
      const restarted = before.stats && originOf(before.stats) !== originOf(stats);
      if (restarted) stats = await get("/v1/stats");
      const samples = restarted ? stats.samples : join(before.samples, stats.samples);
      last.current = { stats, samples, error: null, answeredAt: Date.now() };
    } catch (error) {
      last.current = { ...before, error };
    }
    if (!hasEnded()) setState(last.current);
  }, []);
  useRepeated(ask, STATS_EVERY_S, []);
  return state;
}

/** Returns what changes if figures are not a continuation: when they begin, and of a cluster the shards without any. */
const originOf = ({ started_s: startedAt, missing = [] }) => [startedAt, ...missing].join();

/** Returns the samples of both, the same array if there is nothing new. */
function join(before, added) {
  return added.length ? [...before, ...added].slice(-KEPT_SAMPLES) : before;
}
