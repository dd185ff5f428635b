// The page: its charts, its tables, what its address names.

import { byId, listenToCopies, showTheme, unpacked } from "./base.js";
import { loadPlotly, showCharts } from "./charts.js";
import { main, showLists } from "./list.js";
import { followAddress, listen, remember } from "./panel.js";

async function start() {
  showTheme();
  listenToCopies();
  await showLists();
  showCharts(byId("main"), await unpacked("charts"));
  listen();
  followAddress();
  main()?.listeners.push(remember);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  setTimeout(loadPlotly, 500);
}

start();
