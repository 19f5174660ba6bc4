// The state of the page that is in its address, so that it can be shared and Back goes back.

/** @typedef {{object: Ref|null, list: boolean, query: string, theme: "dark"|"light"|null}} Place */

/** @returns {Place} */
export function read() {
  const parameters = new URLSearchParams(location.search);
  const uid = parameters.get("uid");
  const theme = parameters.get("theme");
  return {
    object: uid ? { uid, resource: parameters.get("resource") } : null,
    list: parameters.get("view") === "list",
    query: parameters.get("q") ?? "",
    theme: theme === "dark" || theme === "light" ? theme : null,
  };
}

/**
 * The query string of a place.
 * @param {Place} place
 */
export function query(place) {
  const parameters = new URLSearchParams();
  if (place.object) {
    parameters.set("uid", place.object.uid);
    if (place.object.resource) parameters.set("resource", place.object.resource);
  }
  if (place.list) parameters.set("view", "list");
  if (place.query) parameters.set("q", place.query);
  if (place.theme) parameters.set("theme", place.theme);
  const text = parameters.toString();
  return text ? `?${text}` : "./";
}

/**
 * @param {Place} place
 * @param {boolean} isStep whether Back returns to where the page was before
 */
export function write(place, isStep) {
  const address = query(place);
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/**
 * @param {Ref|null} a
 * @param {Ref|null} b
 */
export const same = (a, b) => a?.uid === b?.uid && a?.resource === b?.resource;
