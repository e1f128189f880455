// Results of fetches: what failed, how often and how lately.

import { NOTHING, count, share } from "./format.js";
import { html } from "./preact.js";

const RECENT_S = 900; // as in the rule of Prometheus
const FETCHED = "fetched";
const KINDS = {
  [FETCHED]: "fetched",
  no_response: "without a response",
  server_error: "5xx",
  too_many_requests: "429",
  client_error: "other 4xx",
  gone: "404 or 410",
  robots_denied: "denied by robots.txt",
};

/** Returns the newest sample that is at least `spanS` older than the last one, else the first. */
function sampleBefore(samples, spanS, last = samples.length - 1) {
  let first = last;
  while (first > 0 && samples[first].at_s > samples[last].at_s - spanS) first -= 1;
  return samples[first];
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Returns the fetches of the last minutes, those that failed, and of these the kinds `{name, number}`, most first. */
export function countFetches(samples) {
  if (!samples.length) return { fetches: 0, failed: 0, kinds: [] };
  const [before, now] = [sampleBefore(samples, RECENT_S).fetches, samples.at(-1).fetches];
  const counts = Object.entries(now).map(([kind, number]) => [kind, number - (before[kind] ?? 0)]);
  const failures = counts.filter(([kind, number]) => kind !== FETCHED && number > 0);
  failures.sort(([, one], [, other]) => other - one);
  return {
    fetches: sum(counts.map(([, number]) => number)),
    failed: sum(failures.map(([, number]) => number)),
    kinds: failures.map(([kind, number]) => ({ name: KINDS[kind] ?? kind, number })),
  };
}

/** Returns at each sample the share of failures among the fetches of the minute before. */
export function failureShares(samples, spanS = 60) {
  const totals = samples.map((one) => sum(Object.values(one.fetches)));
  let first = 0;
  return samples.map((sample, at) => {
    while (samples[first].at_s < sample.at_s - spanS) first += 1;
    const before = Math.max(first - 1, 0);
    const fetches = totals[at] - totals[before];
    return fetches > 0 ? 1 - (sample.fetches[FETCHED] - samples[before].fetches[FETCHED]) / fetches : null;
  });
}

/** Shows the results of fetches by kind: of the last minutes, and since the start. */
export function Fetches({ samples }) {
  const [before, now] = [sampleBefore(samples, RECENT_S).fetches, samples.at(-1).fetches];
  const recent = Object.fromEntries(Object.entries(now).map(([kind, number]) => [kind, number - before[kind]]));
  const [recentTotal, total] = [recent, now].map((counts) => sum(Object.values(counts)));
  const part = (number, of) => (of ? share(number / of) : NOTHING);
  return html`
    <article class="card wide-card">
      <h3>Fetches by result</h3>
      <div class="scroll" tabindex="0" role="region" aria-label="Fetches by result">
        <table class="fetches">
          <thead>
            <tr>
              <th>result</th>
              <th class="right" colspan="2">last 15 min</th>
              <th class="right" colspan="2">since the start</th>
            </tr>
          </thead>
          <tbody>
            ${Object.entries(KINDS).map(
              ([kind, name]) => html`
                <tr key=${kind}>
                  <th scope="row">${name}</th>
                  <td class="right">${count(recent[kind])}</td>
                  <td class="right muted">${part(recent[kind], recentTotal)}</td>
                  <td class="right">${count(now[kind])}</td>
                  <td class="right muted">${part(now[kind], total)}</td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
    </article>
  `;
}
