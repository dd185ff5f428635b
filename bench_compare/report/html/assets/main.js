// Everything that needs no chart first, then the charts once the whole page is there.

import { showCandidates } from "./candidates.js";
import { showCompared } from "./compared.js";
import { showGroups } from "./groups.js";
import { showHead } from "./head.js";
import { showNews } from "./news.js";
import { showOverview } from "./overview.js";
import { openCase, showPanelOnDemand } from "./panel.js";
import { loadPlotly } from "./plot.js";
import { followAddress, startSelection } from "./selection.js";
import { showTable } from "./table.js";
import { showTheme } from "./theme.js";
import { addTip } from "./tip.js";

showHead();
showNews();
showCompared();
showGroups();
showTable();
showPanelOnDemand();
addTip();
showTheme();
startSelection();
window.addEventListener("load", () => {
  showOverview();
  showCandidates();
  followAddress(openCase);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  whenIdle(loadPlotly);
});

// So that the first panel does not wait for it.
function whenIdle(act) {
  if (window.requestIdleCallback) requestIdleCallback(act, { timeout: 2000 });
  else setTimeout(act, 500);
}
