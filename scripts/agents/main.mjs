// Agents that people use, run as a whole against a scripted model, with belljar as
// their only tools: main.mjs BELLJAR DIR [AGENT | SCENARIO | AGENT/SCENARIO]... What
// the model is given for each call is compared with testdata/AGENT/SCENARIO.txt;
// UPDATE=1 writes these files instead. It ends with 1 where anything differs.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { agents } from "./clients.mjs";
import { answers, policies, scenarios } from "./scenarios.mjs";
import { close, host, run, shopHost } from "./stage.mjs";
import { put } from "./standin.mjs";

const [, dir, ...only] = process.argv.slice(2);
const update = process.env.UPDATE === "1";

// transcript is what happened as text: each call, and what the model was given.
const transcript = (calls) => calls.map(({ tool, args, given }) => `> ${tool} ${JSON.stringify(args)}\n${given.map(shown).join("\n")}\n`).join("\n");

// shown is a part of what the model is given as lines of the golden file. Of a run
// of numbers, as seq prints them, it has the ends: they tell what a client cut.
function shown(part) {
  if (part.image) return `(image: ${part.image}, ${part.bytes} bytes)`;
  return part.text
    .replace(/\n$/, "")
    .replace(/^(\d+)(?:\n\d+){5,}\n(\d+)$/gm, "$1\n(...)\n$2")
    .replace(/^/gm, "  ")
    .replace(/ +$/gm, "");
}

// normalised has a fixed word for what differs from run to run.
function normalised(text) {
  return text
    .replaceAll(host, "HOST")
    .replaceAll(shopHost, "SHOP")
    .replace(/(<<(?:page|end|tab|changes of page) )[0-9a-f]{8,}/g, "$1ID")
    .replaceAll(dir, "DIR")
    .replace(/DIR[^\s]*\/\.\w+\/[^\s\]]*/g, "(a file of the agent)")
    .replace(/\b(ap|q|c)-(?=\w*[A-Z0-9])[\w]{4,}/gi, "$1-ID")
    .replace(/output:\/\/\w+/g, "output://ID")
    .replace(/(untrusted-content id=|<\/?results |the two marks )\w+/g, "$1ID")
    .replace(/\bduration_ms=\d+/g, "duration_ms=N")
    .replace(/\b[\d,]+ (characters|tokens)\b(?: truncated…\d*)?/g, "N $1")
    .replace(/(N characters omitted\] \.\.\.)\s+\d+$/gm, "$1\n\n  (a part of a line)")
    .replace(/\b\d+(\.\d+)? ?(ms|s|seconds?)\b/g, "N $2")
    .replace(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?/g, "TIME")
    .replace(/\b\d\d:\d\d(:\d\d)?\b/g, "TIME");
}

let failed = 0;
for (const agent of Object.keys(agents)) {
  let good = 0;
  for (const scenario of Object.keys(scenarios)) {
    if (only.length > 0 && !only.includes(agent) && !only.includes(`${agent}/${scenario}`) && !only.includes(scenario)) continue;
    const golden = new URL(`testdata/${agent}/${scenario}.txt`, import.meta.url).pathname;
    try {
      const { calls, said } = await run(agent, scenario, scenarios[scenario], policies[scenario]);
      if (answers[scenario] && !said.includes(answers[scenario])) throw new Error(`the agent says ${said}, want ${answers[scenario]}`);
      const got = normalised(transcript(calls));
      if (update) put(golden, got);
      const want = existsSync(golden) ? readFileSync(golden, "utf8") : "";
      if (got !== want) {
        put(`${dir}/got.txt`, got);
        put(`${dir}/want.txt`, want);
        const diff = execFileSync("sh", ["-c", 'diff -u "$1/want.txt" "$1/got.txt" || true', "sh", dir], { encoding: "utf8" });
        throw new Error(`what the model is given differs:\n${diff}`);
      }
      good++;
    } catch (err) {
      failed++;
      console.log(`FAIL ${agent}/${scenario}: ${err.message}`);
    }
  }
  if (good > 0) console.log(`ok  ${agent}: ${good} scenarios`);
}
close();
process.exitCode = failed > 0 ? 1 : 0;
