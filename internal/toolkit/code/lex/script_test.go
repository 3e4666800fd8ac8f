package lex

import (
	"testing"

	"belljar.dev/internal/toolkit/code"
)

const scriptSample = `#!/usr/bin/env -S deno run
import React, { useState as state, type FC } from 'react';
import * as path from "node:path";
import type { Only } from './only';
import './style.css';
import legacy = require("legacy");
export { a, b as c } from './other';
export * from "./all";

export const LIMIT: number = 1_000, more = 2;
let hidden;
export type Pair<A, B = A> = { a: A; f: (x: B) => void } | A extends string ? () => 1 : never;
declare function overloaded(a: string): void;
export default interface Shape extends Base<string>, Other { area(): number; new (a: string): Shape }
enum Colour { Red = 1 << 2, Blue }
declare module "x" { export function y(): void; }
namespace Tools.Deep { export const inner = (a: number): number => a / 2; }

export abstract class Point<T extends object> extends mixin(Base, () => 1)<T> implements Shape, path.Deep {
  static count = 0;
  #secret?: Map<string, () => void> = new Map();
  handler = async (e: Event): Promise<void> => { if (e) await this.run(e); }
  [key: string]: unknown
  static { Point.count ||= 1; }
  constructor(private readonly x: number, public y = 2) { super(x); }
  abstract area(): number;
  get size(): number { return this.#secret!.size / 2 }
  async *items<K>(this: Point<T>, a?: K): AsyncGenerator<K> { yield a as K; }
  @log({ level: (l) => l }) over(a: string): void;
  over(a: any): asserts a is string { return /[/]\/"/.test(a) ? a : undefined; }
}

function isText(x: unknown, ...rest: string[]): x is string {
  const text = ` + "`a ${x ? `b ${'c'}` : {}} d`" + `;
  const { a = 1, b: { c = 2 } = {}, ...others } = x as any, [d = 3] = [];
  const generic = call<Map<string, number[]>>(a < b, c > d);
  label: for (const [k, v] of Object.entries<any>(x!)) {
    if (k === 'q') continue label
    else if (v?.w?.()) { break }
  }
  const object = {
    method(a) { return a ?? 1 }, get: 1, async get() {}, [computed + 1]: function named() {}, short,
    arrow: <T,>(a: T): T => a, if: (x) => x,
  };
  try { risky() } catch { return false } finally { done() }
  do x++; while (x < 3)
  return typeof x === 'string' && (x.length > 1 || !x) && rest.map((r): string => r)[0] === r
}
export { hidden };
`

//nolint:dupword // a table of words
func TestScript(t *testing.T) {
	compare(t, Parse("a.ts", code.TypeScript, scriptSample), `
import react React useState,FC
import node:path path
import ./only  Only
import ./style.css
import legacy legacy
import ./other  a,b
import ./all
type Pair of "" 12-12 true []
interface Shape of "" 14-14 true [Base Other]
enum Colour of "" 15-15 false []
class Point of "" 19-31 true [mixin Shape path.Deep]
const LIMIT of "" 10 true
const more of "" 10 true
let hidden of "" 11 true
arrow function Tools.Deep.inner 17-17 params 1 nesting 0 cyclomatic 1 cognitive 0 exported true test false calls
arrow function anonymous 19-19 params 0 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
arrow function Point.handler 22-22 params 1 nesting 1 cyclomatic 2 cognitive 1 exported false test false calls this|run
method Point.constructor 25-25 params 2 nesting 0 cyclomatic 2 cognitive 0 exported true test false calls super
method Point.size 27-27 params 0 nesting 0 cyclomatic 1 cognitive 0 exported true test false calls
method Point.items 28-28 params 1 nesting 0 cyclomatic 1 cognitive 0 exported true test false calls
arrow function level 29-29 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
method Point.over 30-30 params 1 nesting 1 cyclomatic 2 cognitive 1 exported true test false calls ()|test
function isText 33-48 params 2 nesting 2 cyclomatic 16 cognitive 10 exported false test false calls call Object|entries v|w risky done rest|map
method method 42-42 params 1 nesting 0 cyclomatic 2 cognitive 0 exported false test false calls
method get 42-42 params 0 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
function named 42-42 params 0 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
arrow function arrow 43-43 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
arrow function if 43-43 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
arrow function anonymous 47-47 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
`)
}

const jsxSample = `import React from 'react'
export default function App({ items, on = true }) {
  const [n, set] = useState(0)
  if (n > 1 / 2) return null
  return (
    <Layout title="it's {not}" render={() => <b>x</b>} {...rest}>
      text that isn't 'code' {/* comment */} {n && <Item<string> key={n} />}
      {items.map((item, i) => (
        <Item key={i} onClick={function () { if (item) set(i) }}>{item ? 'a' : "b"}</Item>
      ))}
      <></>
    </Layout>
  )
}
const C = React.memo(({ a }) => a && a.b || <div>{a && b || c}</div>)
`

func TestJSX(t *testing.T) {
	compare(t, Parse("a.tsx", code.TSX, jsxSample), `
import react React
const C of "" 15 false
function App 2-14 params 1 nesting 1 cyclomatic 4 cognitive 1 exported true test false calls useState items|map
arrow function anonymous 6-6 params 0 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
arrow function anonymous 8-10 params 2 nesting 1 cyclomatic 2 cognitive 1 exported false test false calls
function anonymous 9-9 params 0 nesting 1 cyclomatic 2 cognitive 1 exported false test false calls set
arrow function anonymous 15-15 params 1 nesting 0 cyclomatic 5 cognitive 2 exported false test false calls
`)
}

// The expected counts are those of eslint's complexity and of sonarjs's
// cognitive-complexity.
func TestScriptMetrics(t *testing.T) {
	checkMetrics(t, code.TypeScript, "a.ts", "function f(x) {", "}", []metrics{
		{"", 1, 0, 0},
		{"if (a) b(); else if (c) d(); else e();", 3, 3, 1},
		{"if (a)\n b()\nelse\n c()\nif (d) e()", 3, 3, 1},
		{"for (const a of b) for (;;) if (c) continue", 4, 6, 3},
		{"do { if (a) b() } while (c && d)", 4, 4, 2},
		{"do a++; while (b)\nwhile (c) d()", 3, 2, 1},
		{"switch (a) { case 1: case 2: if (b) {} break; default: c() }", 4, 3, 2},
		{"try { a() } catch (e) { if (e) {} } finally { if (b) {} }", 4, 4, 2},
		{"return a ? b : c ? d : e", 3, 3, 2},
		{"return a && b && c || d && e", 5, 2, 0},
		{"return a || b || c ?? d", 4, 0, 0},
		{"return a && !(b && c)", 3, 2, 0},
		{"return a && (b && c)", 3, 1, 0},
		{"return a && (b = c && d)", 3, 2, 0},
		{"a?.b?.(c); d ||= 1; e &&= 2; g ??= 3", 6, 0, 0},
		{"const { a = 1, b: { c: d = 2 } } = x, [e = 3] = y; g = h = 4", 4, 0, 0},
		{"outer: for (;;) break outer", 2, 2, 1},
		{"let y: A extends B ? C : D = a ? b : c", 2, 1, 1},
		{"const g = (a?: number, b = 1): a is string => a ? b : c", 1, 0, 0},
		{"const s = `a ${b ? c : `d ${e && f}`}`", 3, 2, 1},
		{"if (a) { return { if: b, class: c ? 1 : 2 } }", 3, 3, 2},
		{"x = a! / b! / (c ? 1 : 2); /if (a) {}/.test(d)", 2, 1, 1},
		{"while (a) /x ? y : z/.test(b)", 2, 1, 1},
		{"x = <A>(b ? c : d) as E ? 1 : 2", 3, 2, 1},
	})
	// A default of a parameter belongs to its function.
	f := Parse("a.ts", code.TypeScript, "function f(a = b ? 1 : 2, { c = 3 }: D = {}, [e = 4] = []) {}")
	if got := f.Funcs[0].Cyclomatic; got != 7 {
		t.Errorf("defaults: got %d, want 7", got)
	}
}

func BenchmarkScript(b *testing.B) { benchmarkReader(b, code.TypeScript, "a.ts", scriptSample) }
