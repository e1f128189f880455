// Rules for hosts and pages; administrators set and remove them.

import { useAction } from "./actions.js";
import { count, duration, plural } from "./format.js";
import { usePolled } from "./polling.js";
import { html, useState } from "./preact.js";
import { Loaded, Nothing } from "./states.js";

const SHOWN = 100; // the newest; a service may have many thousands
// Fields of a rule by what it is for: name, label, hint, how its value is shown.
const FIELDS = {
  hosts: [
    ["delay", "Delay between visits", "2s", duration],
    ["in_flight", "Pages in flight", "4", count],
    ["per_batch", "Pages per batch", "100", count],
  ],
  pages: [
    ["min_revisit", "Revisit after, at the earliest", "1h", duration],
    ["max_revisit", "Revisit after, at the latest", "7d", duration],
  ],
};
const TARGETS = { hosts: "example.org", pages: "example.org/news/*" };
const NEW = { kind: "hosts", target: "", values: {}, never: false };

/** Shows the newest rules. `mayChange`: whether they can be set and removed. */
export function Rules({ mayChange }) {
  const [turn, setTurn] = useState(0);
  const [draft, setDraft] = useState(NEW);
  const { act, outcome, busy } = useAction();
  const polled = usePolled("/v1/rules", {}, 30, turn);
  const set = async (target, rule) => {
    const done = rule ? `The rule for ${target} is set` : `No rule for ${target} is left`; // of hosts nor of pages
    const describe = ({ pages }) => `${done}; ${plural(pages, "known page")} may be concerned.`;
    const worked = await act("PUT", "/v1/rules", { rules: { [target]: rule } }, describe);
    if (worked) setTurn(turn + 1);
    if (worked && rule) setDraft(NEW);
  };
  return html`
    <section id="rules" aria-labelledby="rules-title">
      <div class="bar"><h2 id="rules-title">Rules</h2></div>
      <div class="card">
        <${Loaded} polled=${polled}>
          ${(rules) => html`
            <${Table} rules=${rules} onEdit=${mayChange && setDraft} onRemove=${(target) => set(target, null)}
              busy=${busy} />
          `}
        <//>
        ${mayChange && html`<${Form} draft=${draft} onDraft=${setDraft} onSet=${set} busy=${busy} />`}
        ${outcome}
      </div>
    </section>
  `;
}

function Table({ rules, onEdit, onRemove, busy }) {
  const all = ["hosts", "pages"].flatMap((kind) =>
    Object.entries(rules[kind]).map(([target, rule]) => ({ kind, target, rule })).reverse(),
  );
  if (!all.length) return html`<${Nothing}>No rule is set; the settings hold for all hosts and pages.<//>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Rules">
      <table>
        <thead><tr><th>target</th><th>of</th><th>rule</th>${onEdit && html`<th></th>`}</tr></thead>
        <tbody>
          ${all.slice(0, SHOWN).map(
            ({ kind, target, rule }) => html`
              <tr key=${`${kind} ${target}`}>
                <td class="url">${target}</td>
                <td>${kind}</td>
                <td class="wait">${describe(kind, rule)}</td>
                ${onEdit &&
                html`
                  <td class="right">
                    <button class="plain" onClick=${() => onEdit(draftOf(kind, target, rule))}>Edit</button>
                    <button class="plain" disabled=${busy} onClick=${() => onRemove(target)}>Remove</button>
                  </td>
                `}
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
    ${all.length > SHOWN && html`<p class="muted">The newest ${SHOWN} of ${count(all.length)}.</p>`}
  `;
}

function describe(kind, rule) {
  const parts = FIELDS[kind]
    .filter(([name]) => rule[name] !== null)
    .map(([name, label, , show]) => `${label.toLowerCase()}: ${show(rule[name])}`);
  if (rule.never) parts.unshift("never visited");
  return parts.join("; ") || "as the settings say";
}

function draftOf(kind, target, rule) {
  const given = FIELDS[kind].filter(([name]) => rule[name] !== null).map(([name]) => [name, String(rule[name])]);
  return { kind, target, values: Object.fromEntries(given), never: rule.never ?? false };
}

function Form({ draft, onDraft, onSet, busy }) {
  const change = (part) => onDraft({ ...draft, ...part });
  const submit = (event) => {
    event.preventDefault();
    const rule = Object.fromEntries(FIELDS[draft.kind].map(([name]) => [name, read(draft.values[name] ?? "")]));
    onSet(draft.target.trim(), draft.kind === "pages" ? { ...rule, never: draft.never } : rule);
  };
  return html`
    <form class="act" aria-label="Set a rule" onSubmit=${submit}>
      <label>
        Rule for
        <select value=${draft.kind}
          onChange=${(event) => change({ kind: event.target.value, values: {}, never: false })}>
          <option value="hosts">hosts</option>
          <option value="pages">pages</option>
        </select>
      </label>
      <label>
        Target
        <input required value=${draft.target} placeholder=${TARGETS[draft.kind]}
          onInput=${(event) => change({ target: event.target.value })} />
      </label>
      ${FIELDS[draft.kind].map(
        ([name, label, hint]) => html`
          <label key=${name}>
            ${label}
            <input name=${name} value=${draft.values[name] ?? ""} placeholder=${hint}
              onInput=${(event) => change({ values: { ...draft.values, [name]: event.target.value } })} />
          </label>
        `,
      )}
      ${draft.kind === "pages" &&
      html`
        <label class="check">
          <input type="checkbox" checked=${draft.never}
            onChange=${(event) => change({ never: event.target.checked })} />
          Never visit
        </label>
      `}
      <button type="submit" disabled=${busy}>Set the rule</button>
    </form>
    <p class="muted">It replaces the rule for this target. An empty field leaves that to the settings.</p>
  `;
}

/** "2" → 2, which is seconds or pages; "" → null, as the settings say; other text, such as "2h", stays. */
function read(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}
