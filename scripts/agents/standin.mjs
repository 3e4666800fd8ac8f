// What several scripts give to belljar in the place of the web and of a person's files.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

// put writes a file and makes its directory; an object becomes JSON.
export function put(file, content) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === "string" || Buffer.isBuffer(content) ? content : JSON.stringify(content));
}

// certificate makes key.pem and cert.pem of host.belljar.internal, the name that boxes
// have for this machine.
export function certificate(dir) {
  const name = ["-subj", "/CN=stand-in", "-addext", "subjectAltName=DNS:host.belljar.internal"];
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", ...name, "-keyout", `${dir}/key.pem`, "-out", `${dir}/cert.pem`], { stdio: "ignore" });
}

// engine is the file of a search engine that answers {results: [{title, url, text}]}
// at https://HOST/search.
export const engine = (host) => `name: standin
about: a stand-in
family: standin
role: reference
use: default
order: 1
hosts: [host.belljar.internal]
base: https://${host}/
rate: {every: 1ms, burst: 100}
query: {chars: 300, pages: 10, step: 10, count: 10}
requests: [{url: "https://${host}/search", params: {q: "{query}"}}]
answers: [{format: json, items: ["results[]"], title: [title], url: [url], snippet: [text], empty: ['results :: ^\\[\\]$']}]
`;

// dot is a PNG image of one pixel.
export const dot = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=", "base64");

// greet is a skill.
export const greet = "---\nname: greet\ndescription: Greets somebody.\n---\nSay hello to $ARGUMENTS.\n";
