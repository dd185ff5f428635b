// The page of a history: everything is drawn by our own code, charts when they come into view.

import { openEvent, showEvents } from "./history_events.js";
import { showHead } from "./history_head.js";
import { openSeries, showPanel } from "./history_panel.js";
import { startSelection } from "./history_selection.js";
import { showTable } from "./history_table.js";
import { showTheme } from "./theme.js";

showHead();
showEvents();
showTable();
showPanel();
showTheme();
startSelection((named) => {
  openSeries(named);
  openEvent(named);
});
document.documentElement.dataset.ready = String(Math.round(performance.now()));
