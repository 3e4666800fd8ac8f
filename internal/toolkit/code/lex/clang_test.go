package lex

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

// functions returns the functions of a text, one line each: its label, its first and last
// line, its number of parameters, and its cyclomatic and cognitive complexity.
func functions(path string, language code.Language, text string) string {
	var all []string
	for _, fn := range Parse(path, language, text).Funcs {
		all = append(all, fmt.Sprintf("%s %d-%d p%d %d %d", fn.Label, fn.First, fn.Last, fn.Params, fn.Cyclomatic, fn.Cognitive))
	}
	return strings.Join(all, "\n")
}

// The expected numbers are counted by hand, by the rules in the comments of the parse
// functions.
func TestFunctionsOfCAndJava(t *testing.T) {
	for _, tt := range []struct {
		name     string
		path     string
		language code.Language
		text     string
		want     string
	}{
		{"C", "a.c", code.C, `#include <stdio.h>
#define TWICE(x) \
	((x) { 2 * (x))
static int plain(int a, const char *b) { return a; }

int declared(int);
struct point { int x, y; };
int table[] = { 1, 2 };

/* if (a) { */
unsigned long
branches(int a, int b)
{
	if (a && b || a > 1)
		for (int i = 0; i < b; i++)
			while (a)
				a--;
	switch (a) {
	case 1: case 2:
		return '{';
	default:
		break;
	}
	do { a++; } while (a < 3);
	return a ? 1 : "}"[0];
}

int old(a, b)
	int a;
	char *b;
{
	goto out;
out:
	return a;
}

#if ONE
int either(void) {
#else
int other(void) {
#endif
	return 1;
}
`, "plain 4-4 p2 1 0\nbranches 11-26 p2 10 11\nold 28-35 p2 1 1\neither 38-43 p0 1 0"},
		{"C++", "a.cpp", code.CPP, `namespace std _EXPORT(default)
{
template <typename T, int N = (1 > 0)> class Box : public Base<T> {
public:
	Box(int a) : x(a), y{a} { }
	~Box() = default;
	bool operator<(const Box &o) const noexcept { return x < o.x; }
	int get() const override;
private:
	int x, y;
};
template <typename T, int N> int Box<T, N>::get() const { return x ? y : 0; }
auto made = [](int a) { return a; };
inline auto trailing(int a) -> int {
	auto f = [&](int b) { if (b) return 1; return 2; };
	try { f(a); } catch (...) { }
	const char *raw = R"x(int not() {)x";
	return a;
}
namespace inner { void two() {} }
}
extern "C" int plain(void) { return 0; }
`, "std::Box::Box 5-5 p1 1 0\nstd::Box::operator< 7-7 p1 1 0\nstd::Box::get 12-12 p0 2 1\nstd::trailing 14-19 p1 3 3\nstd::inner::two 20-20 p0 1 0\nplain 22-22 p0 1 0"},
		{"Java", "A.java", code.Java, `package a;
import java.util.*;
/** if {@code x} { */
public class A<T extends Comparable<T>> implements Runnable {
	private final int x = 1;
	@Deprecated(since = "1")
	public A(int x) { super(); }
	static <R> R of(List<? super R> all, int... n) throws Exception {
		for (R one : all) {
			if (one == null && n.length > 0) {
				continue;
			}
			return one;
		}
		return null;
	}
	int kind(Object o) {
		String text = """
			} if (a) {
			""";
		return switch (o) {
			case Integer i when i > 1 -> 1;
			case String s -> 2;
			default -> 0;
		};
	}
	public void run() {
		Runnable r = new Runnable() {
			@Override public void run() { while (true) { } }
		};
		all.forEach(v -> { if (v) { x(); } });
	}
	interface Inner { int none(); default int some() { return 1; } }
	enum Level { LOW { int up() { return 1; } }, HIGH; abstract int up(); }
	record Pair(int a, int b) { Pair { if (a > b) throw new X(); } }
}
`, "A.A 7-7 p1 1 0\nA.of 8-16 p2 4 4\nA.kind 17-26 p1 3 1\nA.run 27-32 p0 2 2\nRunnable.run 29-29 p0 2 1\nA.Inner.some 33-33 p0 1 0\nA.Level.up 34-34 p0 1 0\nA.Pair.Pair 35-35 p0 2 1"},
	} {
		if got := functions(tt.path, tt.language, tt.text); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
