// What needs an operator's attention, in words. Pure functions of the figures; limits as in the rules of Prometheus
// (deploy/prometheus) where both have one.

import { countFetches } from "./fetches.js";
import { count, duration, plural, share } from "./format.js";

const LAG_S = 60; // of outcomes, at the present speed
const LOST_S = 5; // without an answer
const IMAGE_AGE_S = 900;
const QUIET_S = 600; // leases without outcomes
const MISCALIBRATED = 0.15;
const ENOUGH_VISITS = 2_000; // chance alone moves the calibration error of fewer by more than it says
const REJECTED = 0.01; // of all outcomes
const UNPROVEN = 0.5; // of visits, as in the log
// Of the fetches of the last minutes. Dead links and servers that are down are a tenth of a usual crawl; from a quarter
// on crawlers lose much of their time, and more than single sites is wrong.
const FAILING = 0.25;
const ENOUGH_FETCHES = 100; // chance alone moves the share of as many by 4 points
const LOCK_WAIT_S = 0.25;
const MANY_WAIT = 32;
const RECENT_SAMPLES = 12;

const LEVELS = ["error", "warning", "note"];

/** Returns alerts `{level, text}`, the gravest first; level: "error", "warning" or "note". `nowMs`: of the browser. */
export function findAlerts({ stats, samples, error, answeredAt }, nowMs) {
  const found = [...aboutAnswers(error, nowMs - answeredAt)];
  if (stats) found.push(...aboutWork(stats, samples), ...aboutLearning(stats), ...aboutStorage(stats));
  return found.sort((one, other) => LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level));
}

const alert = (level, text) => ({ level, text });

function* aboutAnswers(error, silentMs) {
  if (!error) return;
  const since = `The figures are ${duration(silentMs / 1000)} old.`;
  if (error.status === 0) {
    if (silentMs > 1000 * LOST_S) yield alert("error", `The service does not answer. ${since}`);
  } else if (error.problem.code === "stopping") {
    yield alert("warning", `The service is stopping: it answers what is under way and takes nothing new. ${since}`);
  } else if (error.problem.code === "starting") {
    yield alert("warning", `The service is starting: it compiles what requests need. ${since}`);
  } else if (error.status === 429) {
    yield alert("warning", `This browser asks more often than the service allows. ${since}`);
  } else {
    yield alert("error", `The service cannot answer: ${error.message}. ${since}`);
  }
}

function* aboutWork(stats, samples) {
  const { latest } = stats;
  const missing = stats.missing ?? [];
  if (missing.length) {
    const shards = `${missing.length === 1 ? "Shard" : "Shards"} ${missing.join(", ")}`;
    yield alert("error", `${shards} of the cluster cannot be reached. The figures are those of the others.`);
  }
  if (stats.trouble) yield alert("error", `The service does not do its work: ${stats.trouble}.`);
  const behindS = latest.lag && latest.outcomes_per_s ? latest.lag / latest.outcomes_per_s : 0;
  if (latest.lag && !latest.outcomes_per_s) {
    yield alert("error", `The stream is ${plural(latest.lag, "message")} behind, and no outcome is being applied.`);
  } else if (behindS > LAG_S) {
    const text = `The stream is ${plural(latest.lag, "message")} behind, ${duration(behindS)} at the present speed.`;
    yield alert("warning", text);
  }
  if (latest.waiting >= MANY_WAIT) {
    yield alert("warning", `${plural(latest.waiting, "request")} wait for the scheduler; further ones may be refused.`);
  }
  if (latest.lock_wait_s > LOCK_WAIT_S) {
    yield alert("warning", `The scheduler's lock was waited for ${duration(latest.lock_wait_s)}.`);
  }
  const { fetches, failed, kinds } = countFetches(samples);
  if (fetches >= ENOUGH_FETCHES && failed > FAILING * fetches) {
    const shown = kinds.map(({ name, number }) => `${count(number)} ${name}`).join(", ");
    const text = `${share(failed / fetches)} of the last ${plural(fetches, "fetch", "fetches")} failed: ${shown}.`;
    yield alert("warning", `${text} See the hosts.`);
  }
  const quietS = findQuiet(samples);
  if (quietS > QUIET_S) {
    const held = `Crawlers hold ${plural(latest.leased, "page")}`;
    yield alert("warning", `${held}, and no outcome has been reported for ${duration(quietS)}.`);
  }
}

function* aboutLearning({ calibration, latest, outcomes, unproven_share: unproven }) {
  if (calibration.visits >= ENOUGH_VISITS && calibration.error > MISCALIBRATED) {
    const { error, predicted, observed } = calibration;
    const both = `predicted ${share(predicted)}, observed ${share(observed)}`;
    yield alert("warning", `Predicted and observed changes differ by ${share(error)} of the visits: ${both}.`);
  }
  if (unproven > UNPROVEN) {
    const advice = "crawlers should report changed, a fingerprint or status 304";
    yield alert("warning", `${share(unproven)} of the newest visits say nothing about a change: ${advice}.`);
  }
  const { rejected = 0, applied = 0 } = outcomes;
  if (rejected > REJECTED * (rejected + applied)) {
    yield alert("warning", `${plural(rejected, "outcome")} rejected since the start; the answers to them say why.`);
  }
  if (latest.drifted) {
    yield alert("note", "The hit rate has drifted since the last evolution; the next one will be early.");
  }
}

function* aboutStorage(stats) {
  if (stats.latest.image_age_s > IMAGE_AGE_S) {
    const age = duration(stats.latest.image_age_s);
    yield alert("warning", `No snapshot for ${age}: a restart would repeat all calls since.`);
  }
  if (stats.refused_pages) {
    yield alert("note", `${plural(stats.refused_pages, "new page")} refused: as many are known as the settings allow.`);
  }
  const failed = stats.requests[500];
  if (failed) yield alert("error", `${plural(failed, "request")} failed since the start; the log says why.`);
}

/** Returns for how long pages have been leased without a single outcome, in seconds. */
function findQuiet(samples) {
  if (samples.length < RECENT_SAMPLES) return 0;
  const last = samples.at(-1);
  let first = last;
  for (let i = samples.length - 1; i >= 0 && samples[i].applied === last.applied && samples[i].leased; i -= 1) {
    first = samples[i];
  }
  return last.leased ? last.at_s - first.at_s : 0;
}
