// Calls of the service's public API. The token is kept for this browser tab only.

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

/** Sets what is called with the ApiError whenever a token is missing, invalid or lacks the scope "read". */
export function onRefused(callback) {
  refused = callback;
}

/** Returns the answer to GET `path`; parameters that are null are left out. Throws ApiError. */
export async function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  const response = await send(query ? `${path}?${query}` : path);
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  const error = new ApiError(response.status, content);
  if (error.status === 401 || error.status === 403) refused(error);
  throw error;
}

async function send(address) {
  const headers = { accept: "application/json" };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  try {
    return await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new ApiError(0, { detail: "the service does not answer" });
  }
}
