// Requests to the debug pages. The token lives here, in memory, and nowhere else.

/** How long an answer may take. The server gives up after 30 s. */
const PATIENCE = 35_000;

/** @type {string|null} */
let token = null;

/** @param {string|null} given */
export function useToken(given) {
  token = given;
}

/** An answer that is no success. Its message is for people. */
export class Refused extends Error {
  /**
   * @param {number} status 0 if there was no answer
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} page
 * @param {Record<string, string|number|null|undefined>} parameters
 */
function address(page, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  // Relative, so that it also works behind `kubectl proxy`.
  return text ? `debug/${page}?${text}` : `debug/${page}`;
}

/**
 * The response of a page, once it has begun.
 * @param {string} page
 * @param {Record<string, string|number|null|undefined>} parameters
 * @param {AbortSignal} signal
 */
export async function open(page, parameters, signal) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(address(page, parameters), {
      headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Refused(0, "The collector does not answer.");
  }
  if (response.ok) return response;
  const reason = (await response.text().catch(() => "")).trim();
  throw new Refused(response.status, reason || `HTTP ${response.status}`);
}

/**
 * The JSON of a page.
 * @template T
 * @param {string} page
 * @param {Record<string, string|number|null|undefined>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function get(page, parameters = {}, signal) {
  const timeout = AbortSignal.timeout(PATIENCE);
  const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const response = await open(page, parameters, either);
  try {
    return await response.json();
  } catch (error) {
    if (either.aborted) throw error;
    throw new Refused(0, "The answer of the collector was cut off.");
  }
}
