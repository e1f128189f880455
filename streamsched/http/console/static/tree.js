// A formula as a drawn tree.

import { html } from "./preact.js";

const LEAF_GAP = 14;
const LEVEL = 54;
const HEIGHT = 26;
const LETTER = 7.4; // width of a character of the font
const PADDING = 18;

/** Shows the tree at `root`, a node of GET /v1/formula. `text`: the formula, for who does not see it. */
export function Tree({ root, text }) {
  const { placed, width, depth } = lay(root);
  const height = LEVEL * (depth - 1) + HEIGHT + 4;
  return html`
    <div class="scroll" tabindex="0" role="img" aria-label=${`The formula as a tree: ${text}`}>
      <svg class="tree" width=${width} height=${height} viewBox="0 0 ${width} ${height}">
        ${placed.flatMap((one) => one.children.map((child) => html`<path class="edge" d=${edge(one, child)} />`))}
        ${placed.map(
          ({ node, x, y, size }) => html`
            <g class=${node.kind}>
              <title>${node.meaning ?? node.text}</title>
              <rect x=${x - size / 2} y=${y} width=${size} height=${HEIGHT} rx=${node.kind === "operator" ? 13 : 5} />
              <text x=${x} y=${y + 17.5} text-anchor="middle">${node.text}</text>
            </g>
          `,
        )}
      </svg>
    </div>
  `;
}

function edge(parent, child) {
  const [top, bottom] = [parent.y + HEIGHT, child.y];
  const middle = (top + bottom) / 2;
  return `M${parent.x} ${top}C${parent.x} ${middle} ${child.x} ${middle} ${child.x} ${bottom}`;
}

/** Returns all nodes with their places: leaves side by side, each other node above the middle of its children. */
function lay(root) {
  const placed = [];
  let next = 2;
  let depth = 0;
  const visit = (node, level) => {
    depth = Math.max(depth, level + 1);
    const size = Math.max(HEIGHT, LETTER * node.text.length + PADDING);
    const begin = next;
    const children = node.children.map((child) => visit(child, level + 1));
    if (next - begin < size + LEAF_GAP) next = begin + size + LEAF_GAP;
    const middle = (children.at(0)?.x + children.at(-1)?.x) / 2;
    const x = children.length ? Math.max(middle, begin + size / 2) : begin + size / 2;
    const own = { node, x, y: 2 + LEVEL * level, size, children };
    placed.push(own);
    return own;
  };
  visit(root, 0);
  return { placed, width: next - LEAF_GAP + 2, depth };
}
