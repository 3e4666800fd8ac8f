#!/usr/bin/env node
// compare-checks.mjs REVISION DIRECT GATEWAY REASONS: compares two runs of the conformance suite,
// each a directory that its option -o has filled. It ends with 1 at a difference for which
// REASONS has no line, and at a line without a difference. A line of REASONS is
//
//	REVISION SCENARIO CHECK  reason
//
// where CHECK may be * for all checks of the scenario.
import fs from "node:fs";
import path from "node:path";

const [revision, direct, gateway, reasons] = process.argv.slice(2);

// outcomes returns the statuses of each check, by "scenario check". Notes are no outcomes.
function outcomes(dir) {
  const all = new Map();
  for (const file of fs.readdirSync(dir, { recursive: true })) {
    if (path.basename(file) !== "checks.json") continue;
    const scenario = path.basename(path.dirname(file)).replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    for (const check of JSON.parse(fs.readFileSync(path.join(dir, file), "utf8"))) {
      if (check.status === "INFO") continue;
      const key = `${scenario} ${check.id}`;
      all.set(key, [...(all.get(key) ?? []), { status: check.status, error: check.errorMessage ?? "" }]);
    }
  }
  return all;
}

const known = fs
  .readFileSync(reasons, "utf8")
  .split("\n")
  .filter((line) => line.trim() && !line.startsWith("#"))
  .map((line) => ({ line, words: line.split(/\s+/), used: false }))
  .filter((r) => r.words[0] === revision);

const [a, b] = [outcomes(direct), outcomes(gateway)];
const statuses = (all) => (all ?? []).map((c) => c.status).sort().join(" ");
const checks = [...new Set([...a.keys(), ...b.keys()])].sort();
let failed = checks.length === 0;
let explained = 0;
for (const key of checks) {
  const [was, is] = [statuses(a.get(key)), statuses(b.get(key))];
  if (was === is) continue;
  const [scenario, check] = key.split(" ");
  const reason = known.find((r) => r.words[1] === scenario && (r.words[2] === check || r.words[2] === "*"));
  if (reason && reason.words.length > 3) {
    reason.used = true;
    explained++;
    continue;
  }
  failed = true;
  console.log(`FAIL ${revision} ${key}: direct ${was || "nothing"}, through the gateway ${is || "nothing"} ${(b.get(key) ?? []).map((c) => c.error).join("; ")}`);
}
for (const r of known.filter((r) => !r.used)) {
  failed = true;
  console.log(`FAIL no difference any more: ${r.line}`);
}
if (failed) process.exit(1);
console.log(`ok  conformance ${revision} through the gateway: ${checks.length} checks as direct, but for ${explained} with a written reason`);
