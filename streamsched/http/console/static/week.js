// The week of a page, a host, a region or all pages, as a heat map.

import { number } from "./format.js";
import { usePolled } from "./polling.js";
import { html, useEffect, useState } from "./preact.js";
import { Loaded } from "./states.js";

const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const LEVELS = 9; // classes heat-0 to heat-8; 4 is the mean hour
const PER_LEVEL = Math.sqrt(2); // ratio of busyness between two levels
const HINTS = { url: "https://…", host: "example.org" };

/**
 * Shows the week of `target`, `{kind, name}`; kind: "all", "url", "host" or "region". `now`: by the service's clock, to
 * the quarter of an hour.
 */
export function Week({ now, target, onTarget }) {
  const parameters = target.kind === "all" ? {} : { [target.kind]: target.name };
  const polled = usePolled("/v1/week", parameters, 60);
  const [regions, setRegions] = useState([]);
  useEffect(() => polled.value && setRegions(polled.value.regions), [polled.value]);
  return html`
    <section id="week" aria-labelledby="week-title">
      <div class="bar">
        <h2 id="week-title">When pages change</h2>
        <${Choice} target=${target} regions=${regions} onTarget=${onTarget} />
      </div>
      <article class="card">
        ${polled.error?.status === 404
          ? html`<p class="notice">${target.name} is not known.</p>`
          : html`
              <${Loaded} polled=${polled}>
                ${(week) => html`<p class="muted">${describe(week, target)}</p><${HeatMap} week=${week} now=${now} />
                  <${Scale} />`}
              <//>
            `}
      </article>
    </section>
  `;
}

function Choice({ target, regions, onTarget }) {
  const [kind, setKind] = useState(target.kind);
  const [name, setName] = useState(target.name);
  useEffect(() => {
    setKind(target.kind);
    setName(target.name);
  }, [target]);

  const choose = (chosen) => {
    setKind(chosen);
    setName("");
    if (chosen === "all") onTarget({ kind: "all", name: "" });
    if (chosen.startsWith("region:")) onTarget({ kind: "region", name: chosen.slice(7) });
  };
  const submit = (event) => {
    event.preventDefault();
    onTarget({ kind, name: name.trim() });
  };
  return html`
    <form class="ask" onSubmit=${submit}>
      <select aria-label="Whose week" value=${kind === "region" ? `region:${target.name}` : kind}
        onChange=${(event) => choose(event.target.value)}>
        <option value="all">All pages</option>
        ${regions.map((region) => html`<option value=${`region:${region}`}>Region ${region}</option>`)}
        <option value="host">A host</option>
        <option value="url">A page</option>
      </select>
      ${HINTS[kind] &&
      html`
        <input required aria-label=${kind === "url" ? "URL of the page" : "Name of the host"} value=${name}
          placeholder=${HINTS[kind]} onInput=${(event) => setName(event.target.value)} />
        <button type="submit">Show</button>
      `}
    </form>
  `;
}

function describe(week, target) {
  if (week.hours.every((factor) => factor === 1)) return "As far as is known, no hour of the week differs.";
  const from = week.profile ?? (week.region ? `all pages of the region ${week.region}` : "all pages");
  const own = week.scheduled ? "; the page has a schedule of its own" : "";
  const offset = week.utc_offset_s / 3600;
  const zone = offset === 0 ? "UTC" : `UTC${offset > 0 ? "+" : "−"}${Math.abs(offset)}`;
  const what = target.kind === "url" ? "Expected changes of this page" : "Changes";
  return `${what} by hour of the week, ${zone}, learned from ${from}${own}.`;
}

function HeatMap({ week, now }) {
  const [day, hour] = hourOfWeek(now + week.utc_offset_s);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Heat map of the week">
      <table class="heat">
        <thead>
          <tr><td></td>${HOURS.map((one) => html`<th scope="col">${one % 3 ? "" : one}</th>`)}</tr>
        </thead>
        <tbody>
          ${DAYS.map(
            (name, row) => html`
              <tr>
                <th scope="row"><abbr title=${name}>${name.slice(0, 3)}</abbr></th>
                ${HOURS.map((one) => {
                  const factor = week.hours[24 * row + one];
                  const mark = row === day && one === hour ? " present" : "";
                  const text = `${name} ${one}:00: ${number(factor)} times the mean hour`;
                  return html`
                    <td class=${`heat-${levelOf(factor)}${mark}`} title=${text}><span>${number(factor)}</span></td>
                  `;
                })}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

const Scale = () => html`
  <p class="scale muted" aria-hidden="true">
    <span>a quarter of the mean hour</span>
    ${Array.from({ length: LEVELS }, (_, level) => html`<i class=${`heat-${level}`}></i>`)}
    <span>four times</span>
  </p>
`;

/** Returns the level of an hour: steps of a ratio, so that half and double are equally far from the mean. */
function levelOf(factor) {
  const level = Math.round(Math.log(Math.max(factor, 1e-6)) / Math.log(PER_LEVEL)) + (LEVELS - 1) / 2;
  return Math.min(Math.max(level, 0), LEVELS - 1);
}

/** Returns the weekday, from Monday, and the hour of a local time, in seconds. */
function hourOfWeek(seconds) {
  const local = new Date(1000 * seconds);
  return [(local.getUTCDay() + 6) % 7, local.getUTCHours()];
}
