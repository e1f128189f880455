// Hosts, their limits, and what holds them back.

import { useAction } from "./actions.js";
import { clock, count, duration, moment, plural, share } from "./format.js";
import { usePolled } from "./polling.js";
import { html, useState } from "./preact.js";
import { Loaded, Nothing } from "./states.js";

const SIZE = 20;
const ORDERS = [
  ["known", "As they became known"],
  ["failing", "Most failures first"],
];
const NO_HOST = { known: "No host is known.", failing: "The last fetch of no page failed." };
const BLOCKS = [
  [600, "10 minutes"],
  [3_600, "1 hour"],
  [21_600, "6 hours"],
  [86_400, "1 day"],
  [604_800, "7 days"],
  [0, "no longer"],
];
const HELD = {
  host_resting: "rests",
  host_probing: "one page finds out whether it answers again",
  host_full: "as many pages in flight as allowed",
};
const CAUSES = {
  delay: "delay between visits",
  too_many_requests: "after a 429",
  unavailable: "after several 503",
  retry_after: "as Retry-After asked",
  blocked: "blocked by a call",
};

/**
 * Shows a part of the list of hosts, or the one that was searched for. `now`: by the service's clock; `mayChange`:
 * whether hosts can be blocked.
 */
export function Hosts({ now, mayChange }) {
  const [starts, setStarts] = useState([0]);
  const [order, setOrder] = useState(ORDERS[0][0]);
  const [name, setName] = useState("");
  const [turn, setTurn] = useState(0);
  const sort = (chosen) => {
    setStarts([0]);
    setOrder(chosen);
  };
  return html`
    <section id="hosts" aria-labelledby="hosts-title">
      <div class="bar">
        <h2 id="hosts-title">Hosts</h2>
        <${Search} onName=${setName} />
      </div>
      <div class="card">
        ${name
          ? html`<${OneHost} name=${name} now=${now} turn=${turn} />`
          : html`
              <${HostList} order=${order} onOrder=${sort} starts=${starts} onStarts=${setStarts} now=${now}
                turn=${turn} />
            `}
        ${mayChange && html`<${BlockForm} onDone=${() => setTurn(turn + 1)} />`}
      </div>
    </section>
  `;
}

function Search({ onName }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    onName(text.trim());
  };
  const clear = () => {
    setText("");
    onName("");
  };
  return html`
    <form class="ask" role="search" onSubmit=${submit} onReset=${clear}>
      <input type="search" placeholder="example.org" aria-label="Name of a host" value=${text}
        onInput=${(event) => setText(event.target.value)} />
      <button type="submit">Find</button>
      ${text && html`<button type="reset" class="plain">All hosts</button>`}
    </form>
  `;
}

function OneHost({ name, now, turn }) {
  const polled = usePolled(`/v1/hosts/${encodeURIComponent(name)}`, {}, 10, turn);
  if (polled.error?.status === 404) return html`<${Nothing}>No page of ${name} is known.<//>`;
  return html`<${Loaded} polled=${polled}>${(host) => html`<${Table} hosts=${[host]} now=${now} />`}<//>`;
}

function HostList({ order, onOrder, starts, onStarts, now, turn }) {
  const polled = usePolled("/v1/hosts", { start: starts.at(-1), size: SIZE, order }, 10, turn);
  return html`
    <p class="sizes">
      ${ORDERS.map(
        ([one, text]) => html`
          <button class="plain" aria-pressed=${one === order} onClick=${() => onOrder(one)}>${text}</button>
        `,
      )}
    </p>
    <${Loaded} polled=${polled}>
      ${({ hosts, next }) => html`
        ${hosts.length ? html`<${Table} hosts=${hosts} now=${now} />` : html`<${Nothing}>${NO_HOST[order]}<//>`}
        ${(next !== null || starts.length > 1) &&
        html`
          <p class="sizes">
            <button disabled=${starts.length === 1} onClick=${() => onStarts(starts.slice(0, -1))}>Previous</button>
            <button disabled=${next === null} onClick=${() => onStarts([...starts, next])}>Next</button>
          </p>
        `}
      `}
    <//>
  `;
}

/** The form that blocks a host, or ends its block. `onDone`: called after it. */
function BlockForm({ onDone }) {
  const [host, setHost] = useState("");
  const [seconds, setSeconds] = useState(3_600);
  const { act, outcome, busy } = useAction();
  const submit = async (event) => {
    event.preventDefault();
    const name = host.trim();
    const until = (answer) => (seconds ? `until ${moment(answer.until)} UTC` : "no longer");
    const describe = (answer) => `${name}, ${plural(answer.hosts, "known host")}, blocked ${until(answer)}.`;
    if (await act("POST", `/v1/hosts/${encodeURIComponent(name)}/block`, { seconds }, describe)) onDone();
  };
  return html`
    <form class="act" aria-label="Block a host" onSubmit=${submit}>
      <label>
        Visit no page of
        <input required value=${host} placeholder="example.org" onInput=${(event) => setHost(event.target.value)} />
      </label>
      <label>
        For
        <select value=${seconds} onChange=${(event) => setSeconds(Number(event.target.value))}>
          ${BLOCKS.map(([one, text]) => html`<option value=${one}>${text}</option>`)}
        </select>
      </label>
      <button type="submit" disabled=${busy}>${seconds ? "Block" : "End the block"}</button>
    </form>
    ${outcome}
  `;
}

function Table({ hosts, now }) {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Hosts">
      <table>
        <thead>
          <tr>
            <th>host</th>
            <th class="right">pages</th>
            ${hosts[0].failing !== null && html`<th class="right">last fetch failed</th>`}
            <th class="right">in flight</th>
            <th class="right">delay</th>
            <th class="right">per batch</th>
            <th>held back by</th>
          </tr>
        </thead>
        <tbody>${hosts.map((host) => html`<${Row} key=${host.host} host=${host} now=${now} />`)}</tbody>
      </table>
    </div>
  `;
}

function Row({ host, now }) {
  const most = (limit) => (limit === null ? "" : ` of ${count(limit)}`);
  return html`
    <tr>
      <td class="url">${host.host} ${host.rule && html`<span class="tag" title="set by a rule">rule</span>`}</td>
      <td class="right">${count(host.pages)}</td>
      ${host.failing !== null && html`
        <td class="right">${count(host.failing)} <span class="muted">${share(host.failing / host.pages, 0)}</span></td>
      `}
      <td class="right">${count(host.leased)}<span class="muted">${most(host.in_flight)}</span></td>
      <td class="right">${host.delay_s ? duration(host.delay_s) : html`<span class="muted">none</span>`}</td>
      <td class="right">${host.per_batch ?? html`<span class="muted">any</span>`}</td>
      <td class="wait">${describeWait(host, now)}</td>
    </tr>
  `;
}

/** Says what holds a host back, since when it demanded rests, and until when. */
function describeWait(host, now) {
  if (!host.held_back) return html`<span class="muted">nothing</span>`;
  const parts = [
    HELD[host.held_back] ?? host.held_back,
    host.held_back === "host_resting" && CAUSES[host.cause],
    host.backoffs > 1 && `${host.backoffs} times in a row`,
    host.eligible_from_s !== null && `until ${describeTime(host.eligible_from_s, now)}`,
  ];
  return html`<span class="held">${parts.filter(Boolean).join(", ")}</span>`;
}

const describeTime = (seconds, now) => (seconds - now < 43_200 ? clock(seconds) : moment(seconds));
