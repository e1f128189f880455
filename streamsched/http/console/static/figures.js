// The figures of the service: each with its present value and its course over the last hour.

import { Chart } from "./chart.js";
import { Fetches, failureShares } from "./fetches.js";
import { bytes, clock, count, duration, moment, number, share } from "./format.js";
import { html, useMemo, useState } from "./preact.js";
import { Reliability } from "./reliability.js";

const HIT_RATE_S = 60; // over which hits are counted: a few seconds have too few visits

const FIGURES = [
  {
    name: "Hit rate",
    meaning: "share of the visits that found a change, over a minute",
    values: hitRates,
    format: share,
    axis: (value) => `${Math.round(100 * value)} %`,
  },
  {
    name: "Freshness",
    meaning: "expected share of pages whose copy is current",
    values: (samples) => samples.map((one) => one.freshness),
    format: share,
    axis: (value) => `${Math.round(100 * value)} %`,
    most: 1,
  },
  {
    name: "Calibration error",
    meaning: "mean distance of predicted from observed changes",
    values: (samples) => samples.map((one) => one.calibration_error), // of a cluster only the newest is known
    newest: (stats) => stats.latest.calibration_error,
    format: share,
    axis: (value) => `${Number((100 * value).toFixed(1))} %`,
  },
  {
    name: "Failed fetches",
    meaning: "share of fetches without a page, over a minute",
    values: failureShares,
    format: share,
    axis: (value) => `${Math.round(100 * value)} %`,
    most: 1,
  },
  {
    name: "Outcomes a second",
    meaning: "crawl outcomes applied",
    values: (samples) => samples.map((one) => one.outcomes_per_s),
    format: (value) => (value !== null && value < 100 ? number(value) : count(value)),
    axis: number,
  },
  {
    name: "Lag",
    meaning: "messages of the stream that wait to be read",
    values: (samples) => samples.map((one) => one.lag),
    format: (value) => (value === null ? "no stream" : count(value)),
    axis: (value) => whole(value),
  },
  {
    name: "Leases out",
    meaning: "pages that crawlers are to visit",
    values: (samples) => samples.map((one) => one.leased),
    format: count,
    axis: (value) => whole(value),
  },
];

/** Shows all figures, and below them predicted against observed changes. */
export function Figures({ stats, samples }) {
  const times = useMemo(() => samples.map((one) => one.at_s), [samples]);
  return html`
    <div class="figures">
      ${FIGURES.map((figure) => html`<${Figure} key=${figure.name} ...${figure} ...${{ stats, samples, times }} />`)}
      ${samples.length > 0 && html`<${Fetches} samples=${samples} />`}
    </div>
    <div class="pair">
      <${Reliability} stats=${stats} />
      <${Facts} stats=${stats} />
    </div>
  `;
}

function Figure({ name, meaning, values: read, newest, format, axis, most, stats, samples, times }) {
  const [hovered, setHovered] = useState(null);
  const values = useMemo(() => read(samples), [samples]);
  const at = hovered !== null && hovered < values.length ? hovered : values.length - 1;
  const latest = at === hovered ? null : newest?.(stats);
  const shown = format(latest ?? values[at] ?? null);
  return html`
    <article class="card figure">
      <header>
        <h3>${name}</h3>
        <span class="muted">${at === hovered ? clock(times[at]) : ""}</span>
      </header>
      <p class="value">${shown}</p>
      <p class="muted">${meaning}</p>
      <${Chart} times=${times} values=${values} format=${axis} most=${most} onHover=${setHovered}
        label=${`${name} over the last hour, now ${shown}`} />
    </article>
  `;
}

function Facts({ stats }) {
  const { latest } = stats;
  const facts = [
    ["Pages known", count(latest.pages)],
    ["Pages handed out", `${count(stats.handed_out)} in ${count(stats.batches)} batches`],
    ["Outcomes", describeCounts(stats.outcomes, ["applied", "changed", "duplicates", "late", "rejected"])],
    ["Change signals", describeCounts(stats.signals, ["applied", "repeated", "late", "rejected"])],
    ["Last snapshot", latest.image_age_s < 1 ? "up to date" : `${duration(latest.image_age_s)} ago`],
    ["State in memory", bytes(latest.state_bytes)],
    ["A cycle", duration(stats.cycle_s)],
    ["Running since", moment(stats.started_s)],
  ];
  return html`
    <article class="card">
      <h3>Since the start</h3>
      <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    </article>
  `;
}

/** Labels a whole number of an axis, and nothing between two. */
const whole = (value) => (Number.isInteger(value) ? count(value) : "");

/** Returns "12 applied, 3 late": the first count always, the others unless they are 0. */
function describeCounts(counts, names) {
  const shown = names.filter((name, place) => place === 0 || counts[name]);
  return shown.map((name) => `${count(counts[name] ?? 0)} ${name}`).join(", ");
}

/** Returns at each sample the share of hits among the pages that were served in the minute before. */
function hitRates(samples) {
  let first = 0;
  return samples.map((sample) => {
    while (samples[first].at_s < sample.at_s - HIT_RATE_S) first += 1;
    const before = samples[Math.max(first - 1, 0)];
    const served = sample.served - before.served;
    return served > 0 ? (sample.hits - before.hits) / served : null;
  });
}
