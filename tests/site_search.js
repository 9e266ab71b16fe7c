// Runs the search of the built site, the theme's own worker: node site_search.js SITE QUERY...
// Prints a JSON array of addresses for each query, best first.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [site, ...queries] = process.argv.slice(2);
const folder = path.join(site, "assets/javascripts/workers");
const worker = fs.readdirSync(folder).find(name => /^search\..*\.js$/.test(name));
const waiting = [];
let listener;
const self = {
  console, URL, setTimeout,
  postMessage: message => waiting.shift()(message),
  addEventListener: (_, call) => { listener = call; },
};
self.self = self;
vm.runInNewContext(fs.readFileSync(path.join(folder, worker), "utf8"), self);
const [SETUP, QUERY] = [0, 2];
const ask = message => new Promise(resolve => { waiting.push(resolve); listener({ data: message }); });

(async () => {
  const { config, docs } = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  await ask({ type: SETUP, data: { config, docs, options: { suggest: false } } });
  for (const query of queries) {
    const { data } = await ask({ type: QUERY, data: query });
    console.log(JSON.stringify(data.items.map(([best]) => best.location)));
  }
})();
