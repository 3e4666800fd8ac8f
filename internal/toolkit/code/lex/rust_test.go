package lex

import (
	"testing"

	"belljar.dev/internal/toolkit/code"
)

const rustSample = `#!/usr/bin/env run-cargo-script
// Copyright
use std::{io::{self, Read as R}, fmt::*};
pub use crate::a::b;
extern crate libc as c;
mod other;
/* one /* two */ fn not() {} */
pub const LIMIT: usize = 10;
static mut COUNT: u32 = 0;

#[derive(Debug, Clone)]
pub struct Point<T: Fn(u8) -> bool> where T: Sized {
    x: T,
}
struct Unit;
pub(crate) struct Pair(u8, u8);
enum Shape { Round { r: f64 }, Flat }
union Bits { a: u32, b: f32 }
type Alias = fn(u8) -> u8;

pub trait Area: Clone + std::fmt::Debug where Self: Sized {
    const SIDES: u32 = 0;
    fn area(&self) -> f64;
    fn twice(&self) -> f64 { 2.0 * self.area() }
}

impl<T: Fn(u8) -> bool> Area for Point<T> where T: Sized {
    #[inline]
    fn area(&self) -> f64 { 0.5 }
}

impl<'a, T> Point<T>
where
    T: 'a + Fn(u8) -> bool,
{
    pub async unsafe fn r#match<const N: usize>(
        mut self: Box<Self>, map: HashMap<String, Vec<u8>>, [a, b]: [u8; N],
    ) -> Result<(), Box<dyn Error>> {
        let text = r##"fn "# not() {"##;
        let c = '{'; let d = '\''; let e = b'\\'; let life: &'static str = "}";
        for (i, x) in map.iter().enumerate() {
            if let Some(y) = x.get::<Vec<Vec<u8>>>(0) && y > 1 || c == '}' {
                continue;
            }
            'outer: loop {
                break 'outer;
            }
        }
        let n = match a {
            0 | 1 => io::stdin()?,
            x if x > 2 && b < 3 => { helper(x) }
            2..=9 => Point::<T>::make(b),
            _ => return Err("no".into()),
        };
        let Some(z) = n else { return Ok(()) };
        z.map(|v: u8| if v > 1 { 1 } else { 2 }).filter(move || { true });
        println!("{}", helper(1));
        fn inner(a: u8) {}
        Ok(())
    }
}

impl Display for Elsewhere {}

macro_rules! make { ($name:ident) => { fn $name() {} } }

#[cfg(test)]
mod tests {
    #[test]
    fn works() { assert_eq!(super::helper(1), 1); }
}

#[cfg(not(test))]
extern "C" fn helper(_: u8) -> u8 { 0 }
`

func TestRust(t *testing.T) {
	compare(t, Parse("a.rs", code.Rust, rustSample), `
import std::io
import std::io::Read R
import std::fmt::*
import crate::a::b
import libc c
import self::other
struct Point of "" 12-14 true [Area]
struct Unit of "" 15-15 false []
struct Pair of "" 16-16 true []
enum Shape of "" 17-17 false []
union Bits of "" 18-18 false []
type Alias of "" 19-19 false []
trait Area of "" 21-25 true [Clone Debug]
impl Elsewhere of "" 63-63 false [Display]
const LIMIT of "" 8 true
static COUNT of "" 9 false
const SIDES of "Area" 22 false
method Area::twice 24-24 params 0 nesting 0 cyclomatic 1 cognitive 0 exported true test false calls self|area
method Point::area 29-29 params 0 nesting 0 cyclomatic 1 cognitive 0 exported true test false calls
method Point::match 36-60 params 2 nesting 2 cyclomatic 14 cognitive 14 exported true test false calls map|iter ()|enumerate x|get io|stdin helper ()|make ()|into z|map ()|filter helper
fn inner 58-58 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
fn tests::works 70-70 params 0 nesting 0 cyclomatic 1 cognitive 0 exported false test true calls super|helper
fn helper 74-74 params 1 nesting 0 cyclomatic 1 cognitive 0 exported false test false calls
`)
}

// The examples of the paper on cognitive complexity, in Rust, and the forms that only
// Rust has.
func TestRustMetrics(t *testing.T) {
	checkMetrics(t, code.Rust, "a.rs", "fn f() {", "}", []metrics{
		{"", 1, 0, 0},
		{"if a { b }", 2, 1, 1},
		{"if a { b } else if c { d } else { e }", 3, 3, 1},
		{"for i in a { for j in b { if c { continue 'x } } }", 4, 7, 3},
		{"while let Some(x) = a { loop {} }", 3, 3, 2},
		{"a && b && c", 3, 1, 0},
		{"a && b || c && d", 4, 3, 0},
		{"a && !(b && c)", 3, 2, 0},
		{"a && (b && c)", 3, 1, 0},
		{"a && (b || c) && d", 4, 3, 0},
		{"if a && b { c } d && e", 4, 3, 1},
		{"let x = &&y; f(&&z, || 1)", 1, 0, 0},
		{"match a { A | B => 1, _ => 2 }", 2, 1, 1},
		{"match a { | A => 1, B if c && d => { 2 } E { x, .. } => 3, _ if z => 4 }", 8, 2, 1},
		{"match a { A => { if b {} } B => {} }", 4, 3, 2},
		{"match a { A => |x| x, B => |y| if y { 1 } else { 2 } }", 4, 5, 3},
		{"a.map(|x| if x { 1 } else { 2 }, if y { 3 } else { 4 })", 3, 5, 2},
		{"a.map(move |x| -> u8 { if x { 1 } else { 2 } })", 2, 3, 2},
		{"if match a { _ => true } { b }", 2, 2, 1},
		{"if unsafe { a } { b }", 2, 1, 1},
		{"let x = a?.b()?; let y: Box<dyn ?Sized> = z;", 3, 0, 0},
		{"let Some(x) = a else { return };", 2, 1, 1},
		{"let x = for_each::<for<'a> fn(&'a u8)>(1);", 1, 0, 0},
		{"async move { if a { b.await?; } }", 3, 1, 1},
		{"vec![if a { 1 } else { 2 }]", 2, 2, 1},
	})
}

func BenchmarkRust(b *testing.B) { benchmarkReader(b, code.Rust, "a.rs", rustSample) }
