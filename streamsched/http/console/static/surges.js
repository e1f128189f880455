// Surges under way, and how reliable the sources of change signals are.

import { NOTHING, count, duration, moment, share } from "./format.js";
import { usePolled } from "./polling.js";
import { html } from "./preact.js";
import { Loaded, Nothing } from "./states.js";

/** Shows both, side by side where there is room. */
export function Surges() {
  const surges = usePolled("/v1/surges", { k: 20 }, 15);
  const sources = usePolled("/v1/signals/sources", {}, 30);
  return html`
    <section id="bulk" aria-labelledby="bulk-title">
      <h2 id="bulk-title">Surges and signals</h2>
      <div class="pair">
        <article class="card">
          <h3>Surges under way</h3>
          <p class="muted">Groups of pages that change in bulk, as visits have shown.</p>
          <${Loaded} polled=${surges}>${(found) => html`<${SurgeTable} ...${found} />`}<//>
        </article>
        <article class="card">
          <h3>Sources of change signals</h3>
          <p class="muted">Sitemaps, feeds and the like, as visits have checked them.</p>
          <${Loaded} polled=${sources}>${(found) => html`<${SourceTable} ...${found} />`}<//>
        </article>
      </div>
    </section>
  `;
}

function SurgeTable({ surges }) {
  if (!surges.length) return html`<${Nothing}>No surge is under way.<//>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Surges under way">
      <table>
        <thead>
          <tr><th>pages of</th><th class="right">changed</th><th class="right">to visit</th><th>since</th></tr>
        </thead>
        <tbody>
          ${surges.map(
            (one) => html`
              <tr key=${`${one.group} ${one.since_s}`}>
                <td class="url">${one.group}</td>
                <td class="right">${share(one.share, 0)}</td>
                <td class="right">${count(one.unvisited)}<span class="muted"> of ${count(one.pages)}</span></td>
                <td class="muted moment">${moment(one.since_s)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

function SourceTable({ sources }) {
  if (!sources.length) return html`<${Nothing}>No change signal has been reported yet.<//>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Sources of change signals">
      <table>
        <thead>
          <tr>
            <th>source</th>
            <th class="right">signals</th>
            <th class="right">true</th>
            <th class="right">changes announced</th>
            <th class="right">late by</th>
          </tr>
        </thead>
        <tbody>
          ${sources.map(
            (one) => html`
              <tr key=${`${one.kind} ${one.host}`}>
                <td class=${one.host === null ? "" : "url indented"}>${one.host ?? html`<b>${one.kind}</b>`}</td>
                <td class="right">${count(one.signals)}</td>
                <td class="right">${share(one.precision, 0)}</td>
                <td class="right">${share(one.recall, 0)}</td>
                <td class="right">${one.changes > 0 ? duration(one.lateness_s) : NOTHING}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
