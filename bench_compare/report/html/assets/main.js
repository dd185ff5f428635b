// The page: its charts, its tables, what its address names.

import { byId, listenToCopies, page, showTheme } from "./base.js";
import { loadPlotly, showCharts } from "./charts.js";
import { main, showLists } from "./list.js";
import { followAddress, listen, remember } from "./panel.js";

async function start() {
  showTheme();
  listenToCopies();
  showCharts(byId("main"), page.charts);
  await showLists();
  listen();
  followAddress();
  main()?.listeners.push(remember);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  setTimeout(loadPlotly, 500);
}

start();
