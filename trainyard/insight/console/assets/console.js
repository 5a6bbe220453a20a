// Parts that a person has opened or closed stay so when a page is updated.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.localName === "details");

// A page in the background is not updated: browsers open at most six connections to one address.
let updates = null;
const page = () => document.getElementById("page");
const lost = (is) => { document.getElementById("lost").hidden = !is; };
const end = () => { updates?.close(); updates = null; };
// The page of a viewer whose session has ended leads to the sign-in.
const leave = async () => {
  const answer = page().dataset.session && (await fetch(page().dataset.session).catch(() => null));
  if (answer?.status === 401) location.reload();
};
const follow = () => {
  if (updates || document.hidden || !page().dataset.events) return;
  updates = new EventSource(page().dataset.events);
  updates.addEventListener("changed", () => htmx.trigger(page(), "news"));
  updates.onopen = () => lost(false);
  updates.onerror = (event) => {
    lost(true);
    if (event.target.readyState !== EventSource.CLOSED) return; // the browser tries again
    end();
    leave();
    setTimeout(follow, 5000);
  };
};
document.addEventListener("visibilitychange", () => document.hidden ? end() : follow());
addEventListener("pagehide", end);
addEventListener("pageshow", follow);
document.addEventListener("htmx:afterRequest", (event) => {
  lost(!event.detail.successful);
  if (event.detail.xhr.status === 401) leave();
});
