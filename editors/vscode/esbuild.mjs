// Bundles the extension into dist/extension.js, with `--production` for a package, which takes the licence along;
// with `--tests` each test into dist/test.
import { build } from "esbuild";
import { copyFileSync, readdirSync } from "node:fs";

const common = { bundle: true, platform: "node", target: "node20", format: "cjs", sourcemap: "linked", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({ ...common, entryPoints: tests.map((name) => `test/${name}`), outdir: "dist/test" });
} else {
  const production = process.argv.includes("--production");
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: production,
    sourcemap: production ? false : "linked",
  });
  if (production) {
    copyFileSync("../../LICENSE", "LICENSE");
  }
}
