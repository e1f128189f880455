// Calls of the service's public API. The token is kept for this browser tab only. Paths begin where the page is: below
// /shards/3/ it is that of a shard of a cluster.

const TOKEN_NAME = "streamsched.token";
const TIMEOUT_MS = 15_000;

let refused = () => {};

/** A call that failed. `status`: of HTTP, 0 if there was no answer; `problem`: what the service says of it. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the service answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN_NAME) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN_NAME, value),
  forget: () => sessionStorage.removeItem(TOKEN_NAME),
};

/** Sets what is called with the ApiError whenever a token is missing, invalid or may not read. */
export function onRefused(callback) {
  refused = callback;
}

/** Returns the answer to GET `path`; parameters that are null are left out. Throws ApiError. */
export async function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return answerOf(await send(query ? `${path}?${query}` : path), [401, 403]);
}

/** Returns the answer to a call that changes something: `method` is POST or PUT. Throws ApiError. */
export async function call(method, path, body) {
  return answerOf(await send(path, { method, body: JSON.stringify(body) }), [401]);
}

/** Returns what the service answers. Throws ApiError; `refusals`: the statuses after which a token is asked for. */
async function answerOf(response, refusals) {
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  const error = new ApiError(response.status, content);
  if (refusals.includes(error.status)) refused(error);
  throw error;
}

async function send(address, options = {}) {
  const headers = { accept: "application/json" };
  if (options.body) headers["content-type"] = "application/json";
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(`.${address}`, { ...options, headers, cache: "no-store", signal });
  } catch {
    throw new ApiError(0, { detail: "the service does not answer" });
  }
}
