// The formula in use: its tree, where it came from, and the contests that it has won.

import { moment, number, share } from "./format.js";
import { usePolled } from "./polling.js";
import { html } from "./preact.js";
import { Loaded, Nothing } from "./states.js";
import { Tree } from "./tree.js";

const METRICS = { ndcg: "NDCG", change_rate: "change rate" };
const DECISIONS = {
  promoted: "promoted",
  kept: "beaten",
  failed: "not finished",
  set: "set by hand",
  trial: "in trial",
  rolled_back: "worse in trial",
};

/** Shows the formula in use. `formula`: its text, as the figures have it; a new one is fetched at once. */
export function Formula({ formula }) {
  const tree = usePolled("/v1/formula", { text: formula }, 3_600);
  const champion = usePolled("/v1/champion", {}, 30);
  const records = usePolled("/v1/evolutions", { last: 50 }, 30);
  return html`
    <section id="formula" aria-labelledby="formula-title">
      <h2 id="formula-title">Formula in use</h2>
      <div class="pair wide-first">
        <article class="card">
          <p><code class="formula">${formula}</code></p>
          <${Loaded} polled=${tree}>
            ${({ root, text }) => html`<${Tree} root=${root} text=${text} /><${Meanings} root=${root} />`}
          <//>
        </article>
        <article class="card">
          <h3>Where it comes from</h3>
          <${Loaded} polled=${champion}>${(found) => html`<${Origin} champion=${found} />`}<//>
          <h3>Challengers since</h3>
          <${Loaded} polled=${records}>${(found) => html`<${Contests} ...${found} champion=${champion.value} />`}<//>
        </article>
      </div>
    </section>
  `;
}

/** Explains the terminals of a tree, each once. */
function Meanings({ root }) {
  const meanings = new Map();
  const visit = (node) => {
    if (node.kind === "terminal") meanings.set(node.text, node.meaning);
    node.children.forEach(visit);
  };
  visit(root);
  return html`
    <dl class="meanings">
      ${[...meanings].map(([name, meaning]) => html`<div><dt><code>${name}</code></dt><dd>${meaning}</dd></div>`)}
    </dl>
  `;
}

function Origin({ champion }) {
  const { origin, since_s: since, gain, metric, record, text } = champion;
  if (origin !== "evolution") return html`<p>${text[0].toUpperCase()}${text.slice(1)}.</p>`;
  const won = gain === null ? "" : `, where its ${METRICS[metric] ?? "metric"} was ${share(gain)} better`;
  return html`
    <p>It won the contest of evolution ${record} against its predecessor on held-out pages${won}.</p>
    <p class="muted">In use since ${moment(since)}.</p>
  `;
}

/** Shows the contests since the formula in use took over, the newest first. */
function Contests({ evolutions, trial, champion }) {
  const first = champion?.record ?? 0;
  const contests = evolutions.filter((one) => one.number >= first && one.decision !== "set").reverse();
  if (!contests.length) return html`<${Nothing}>No evolution has been held yet.<//>`;
  return html`
    ${trial && html`<${Trial} ...${trial} />`}
    <ol class="contests">
      ${contests.map(
        (one) => html`
          <li key=${one.number}>
            <p class="line">
              <span class=${`tag ${one.decision}`}>${DECISIONS[one.decision]}</span>
              <span class="muted">evolution ${one.number}, ${moment(one.when_s)}</span>
              ${hasGain(one.verdict) && html`<${Margin} ...${one.verdict} />`}
            </p>
            ${one.challenger && html`<p><code>${one.challenger}</code></p>`}
            <p class="muted">${one.why}</p>
          </li>
        `,
      )}
    </ol>
  `;
}

/** Shows the trial under way. */
const Trial = ({ challenger, since_s: since, evidence: { gain, noise, better, worse } }) => html`
  <p class="line">
    <span class="tag trial">in trial</span>
    <span class="muted">since ${moment(since)}</span>
    ${gain !== null && html`<span class="muted">gain ${gain > 0 ? "+" : ""}${share(gain)} ± ${share(noise)}</span>`}
  </p>
  <p><code>${challenger}</code></p>
  <p class="muted">
    It ranks a share of the pages. Evidence that it finds more: ${number(better)}, less: ${number(worse)}; 20 decides.
  </p>
`;

const hasGain = (verdict) => verdict !== null && verdict.gain !== null;

const Margin = ({ gain, noise }) =>
  html`<span class="muted">gain ${gain > 0 ? "+" : ""}${number(gain)} ± ${number(noise)}</span>`;
