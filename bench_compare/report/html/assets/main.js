// Everything that needs no chart first, then the charts once plotly.js is there.

showHead();
showTable();
showPanelOnDemand();
document.body.append(tip);
setTheme("auto");
byId("theme").addEventListener(
  "click", () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])
);
themeListeners.push(showOverview, redrawPanel);
systemDark.addEventListener("change", () => setTheme(theme));
for (
  const option of byId("arrange").options
) option.hidden = option.value !== "ratio" && !manyWords(option.value);
byId("arrange").addEventListener("change", (event) => {
  arrangement = event.target.value;
  showOverview();
});
let narrow = window.innerWidth < 600;
window.addEventListener("resize", () => {
  if (narrow === (window.innerWidth < 600)) return;
  narrow = !narrow;
  showOverview();
});
window.addEventListener("load", () => {
  showOverview();
  openFromAddress();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
