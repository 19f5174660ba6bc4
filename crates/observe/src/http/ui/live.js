// What is shown now: the stream of the collector, or, where there is none, a request each 2 s.

import { Refused, get, open } from "./api.js";

/** @typedef {"connecting"|"live"|"polling"|"lost"|"paused"} Mode */
/**
 * @typedef {object} Listener
 * @property {(summary: Summary) => void} summary
 * @property {(of: Ref, shown: Neighbourhood|null) => void} neighbourhood `null` if the object is unknown
 * @property {(mode: Mode, why: string) => void} mode
 * @property {(why: string) => void} token the collector asks for a token
 */

const POLL = 2_000;
const PROMPT = 200;
/** A stream sends a summary each second. */
const SILENCE = 10_000;
/** How long to poll before the stream is tried again. */
const RETRY = [1_000, 2_000, 5_000, 10_000, 30_000];
/** The most characters of one event. 200 objects take about 100,000. */
const LONGEST_EVENT = 4_000_000;
/** Objects: some room below 200 is for those that have just gone. */
export const REACH = { max: 140, limit: 140 };

/** @param {number} time @param {AbortSignal} signal */
const pause = (time, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, time, null);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(null); }, { once: true });
});

/**
 * The events of a stream.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} heard
 * @returns {AsyncGenerator<{event: string, data: string}>}
 */
export async function* events(body, heard) {
  const reader = body.pipeThrough(/** @type {ReadableWritablePair<string, Uint8Array>} */ (new TextDecoderStream())).getReader();
  let rest = "";
  let event = "message";
  /** @type {string[]} */
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      rest += value;
      if (rest.length > LONGEST_EVENT) throw new Refused(0, "The stream sent an event that is too long.");
      const lines = rest.split(/\r\n|\n/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield { event, data: data.join("\n") };
          event = "message";
          data = [];
        } else if (line.startsWith("event:")) {
          event = line.slice(6).trim();
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
        }
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

export class Live {
  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    /** @type {Ref|null} */
    this.object = null;
    this.running = new AbortController();
    this.failures = 0;
  }

  /** Begins anew, with this object. @param {Ref|null} object */
  watch(object) {
    this.object = object;
    this.failures = 0;
    this.stop();
    this.running = new AbortController();
    void this.run(this.running.signal);
  }

  stop() {
    this.running.abort();
  }

  /** @param {AbortSignal} signal */
  async run(signal) {
    while (!signal.aborted) {
      const why = await this.stream(signal);
      if (signal.aborted || why === null) return;
      if (why === "" && this.failures === 0) {
        // The collector ends a stream after some time, so that rights are checked again.
        this.failures = 1;
        await pause(PROMPT, signal);
        continue;
      }
      const time = RETRY[Math.min(this.failures, RETRY.length - 1)] ?? POLL;
      this.failures += 1;
      if (!(await this.poll(time, why || "The live stream has ended.", signal))) return;
    }
  }

  /**
   * Reads the stream until it ends. Returns why, nothing if it ended well, or `null` if a token is needed.
   * @param {AbortSignal} signal
   * @returns {Promise<string|null>}
   */
  async stream(signal) {
    const object = this.object;
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENCE);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE);
    };
    try {
      const parameters = object ? { uid: object.uid, resource: object.resource, ...REACH } : {};
      const response = await open("stream", parameters, AbortSignal.any([signal, silent.signal]));
      if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body) {
        return "This address has no live stream.";
      }
      for await (const { event, data } of events(response.body, heard)) {
        if (signal.aborted) return "";
        this.failures = 0;
        this.listener.mode("live", "");
        if (event === "summary") this.listener.summary(JSON.parse(data));
        if (event === "neighbourhood" && object) {
          this.listener.neighbourhood(object, JSON.parse(data));
        }
      }
      return "";
    } catch (error) {
      if (signal.aborted) return "";
      if (silent.signal.aborted) return "The live stream was silent.";
      return this.refusal(error, "The live stream was lost.");
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Asks each 2 s, for some time. False if a token is needed.
   * @param {number} time
   * @param {string} why
   * @param {AbortSignal} signal
   */
  async poll(time, why, signal) {
    const end = Date.now() + time;
    do {
      try {
        const object = this.object;
        const [summary, shown] = await Promise.all([
          get("summary", {}, signal),
          object ? neighbourhood(object, signal) : null,
        ]);
        if (signal.aborted) return false;
        this.listener.mode("polling", why);
        this.listener.summary(/** @type {Summary} */ (summary));
        if (object) this.listener.neighbourhood(object, shown);
      } catch (error) {
        if (signal.aborted) return false;
        const reason = this.refusal(error, "The collector does not answer.");
        if (reason === null) return false;
        this.listener.mode("lost", reason);
      }
      await pause(POLL, signal);
    } while (!signal.aborted && Date.now() < end);
    return !signal.aborted;
  }

  /**
   * Why a request failed, or `null` if the token is missing or wrong.
   * @param {unknown} error
   * @param {string} otherwise
   */
  refusal(error, otherwise) {
    if (!(error instanceof Refused)) return otherwise;
    if (error.status === 401) {
      this.listener.mode("paused", "A token is needed.");
      this.listener.token(error.message);
      return null;
    }
    if (error.status === 403) {
      this.listener.mode("lost", error.message);
    }
    return error.status === 404 ? "This address has no live stream." : error.message || otherwise;
  }
}

/**
 * @param {Ref} object
 * @param {AbortSignal} signal
 * @returns {Promise<Neighbourhood|null>}
 */
async function neighbourhood(object, signal) {
  try {
    return await get("neighbourhood", { uid: object.uid, resource: object.resource, ...REACH }, signal);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}
