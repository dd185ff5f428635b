// The data of a history's page, and its series with their points decoded.

export const page = JSON.parse(document.getElementById("data").textContent);
export const builds = page.builds;
export const events = page.events;
const STEPS = 1e4;

// Points travel as logarithms over the last level, in steps of 0.01 %.
function decoded(one) {
  const value = (step) => one.reference * Math.exp(step / STEPS);
  const points = one.steps.map((step, at) => ({
    build: one.builds ? one.builds[at] : at,
    value: value(step),
    percent: 100 * (Math.exp(step / STEPS) - 1),
    half: 100 * (Math.exp(one.halves[at] / STEPS) - 1),
    unit: one.units ? one.units[at] : 0,
  }));
  const percent = (level) => 100 * (level / one.reference - 1);
  const levels = one.levels.map(([first, last, level, low, high, end]) => ({
    first, last, level, low: percent(low), high: percent(high), from: percent(level),
    to: percent(end === null ? level : end),
  }));
  return { ...one, levels, points };
}

export const series = page.series.map((one, place) => {
  let held = null;
  return { ...one, place, get drawn() { return (held ||= decoded(one)); } };
});
export const seriesById = new Map(series.map((one) => [one.id, one]));
export const eventsOf = (one) =>
  events.filter((event) => event.changes.some(([place]) => place === one.place));

export const buildName = (place) => builds.names[place] || "";
