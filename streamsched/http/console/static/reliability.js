// A reliability diagram: how many of the visits with a predicted probability found a change.

import { count, plural, share } from "./format.js";
import { html } from "./preact.js";

const SPAN = 180;
const LEFT = 28;
const TOP = 10;
const WIDTH = LEFT + SPAN + 12;
const HEIGHT = TOP + SPAN + 20;
const TICKS = [0, 0.25, 0.5, 0.75, 1];

const across = (value) => LEFT + SPAN * value;
const up = (value) => TOP + SPAN * (1 - value);

/** Shows a circle for each range of probabilities, its area by the number of visits. */
export function Reliability({ stats }) {
  const { bins, visits, error, predicted, observed } = stats.calibration;
  const largest = Math.max(1, ...bins.map((bin) => bin.visits));
  const summary = visits
    ? `${count(visits)} visits to leased pages: ${share(predicted)} of changes predicted, ${share(observed)} observed.`
    : describeAbsence(stats);
  return html`
    <article class="card">
      <h3>Predicted and observed changes</h3>
      <p class="muted">${summary} ${visits ? `The mean distance is ${share(error)}.` : ""}</p>
      <svg class="reliability" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${summary}>
        ${TICKS.map(
          (tick) => html`
            <line class="grid" x1=${across(0)} x2=${across(1)} y1=${up(tick)} y2=${up(tick)} />
            <text x=${LEFT - 6} y=${up(tick) + 3} text-anchor="end">${100 * tick}</text>
            <text x=${across(tick)} y=${up(0) + 15} text-anchor="middle">${100 * tick}</text>
          `,
        )}
        <line class="diagonal" x1=${across(0)} y1=${up(0)} x2=${across(1)} y2=${up(1)} />
        ${bins.map((bin) => {
          const [expected, found] = [bin.predicted / bin.visits, bin.observed / bin.visits];
          return html`
            <circle cx=${across(expected)} cy=${up(found)} r=${2 + 7 * Math.sqrt(bin.visits / largest)}>
              <title>${count(bin.visits)} visits: ${share(expected)} predicted, ${share(found)} observed</title>
            </circle>
          `;
        })}
      </svg>
      <p class="muted axis">per cent predicted (across) and observed (up); on the line they agree</p>
    </article>
  `;
}

/** Says why there is nothing to compare. */
function describeAbsence({ handed_out: handedOut, outcomes }) {
  if (handedOut) {
    const pages = plural(handedOut, "page");
    const why = "none has an outcome that can be compared: first visits and failures cannot.";
    return `Of ${pages} handed out since the start, ${why}`;
  }
  const why = "only pages that a batch hands out have a prediction, and none has been handed out since the start.";
  const reported = outcomes.applied ? `No outcome of ${count(outcomes.applied)} can be compared` : "Nothing to compare";
  return `${reported}: ${why}`;
}
