// Everything that needs no chart first, then the charts once plotly.js is there.

import { showCandidates } from "./candidates.js";
import { showCompared } from "./compared.js";
import { showGroups } from "./groups.js";
import { showHead } from "./head.js";
import { showNews } from "./news.js";
import { showOverview } from "./overview.js";
import { openCase, showPanelOnDemand } from "./panel.js";
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
});
