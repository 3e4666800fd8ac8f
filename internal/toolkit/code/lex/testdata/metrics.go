// Package metrics contains functions with everything that the metrics count.
package metrics

import "os"

type list[T any] struct {
	head *node[T]
	*os.File
}

type node[T any] struct {
	next  *node[T]
	value T
}

type pair[A, B any] struct {
	a A
	b B
}

func empty() {}

func branches(a, b, c, d bool) int {
	if a && b && c || d {
		return 1
	} else if a || b && (c || d) {
		return 2
	} else if !(a && b) {
		return 3
	} else {
		if c {
			return 4
		}
	}
	return 0
}

func initialised(m map[string]bool) bool {
	if ok := m["a"] && m["b"]; ok {
		for i := 0; i < 3 && ok; i++ {
			if i == 1 || i == 2 {
				continue
			}
		}
	} else if other := func() bool { return ok || m["c"] }(); other {
		return true
	}
	return false
}

func loops(all []int, more <-chan int) (sum int) {
outer:
	for i, n := range all {
		for {
			select {
			case n, ok := <-more:
				if !ok {
					break outer
				}
				sum += n
			default:
				continue outer
			}
		}
		if i == n {
			goto end
		}
	}
	for range 10 {
	}
end:
	return sum
}

func switches(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case int, int64:
		switch {
		case v == 1, v == 2:
			fallthrough
		case v == 3 && v != 4:
			return "few"
		default:
			return "many"
		}
	case func():
		if v != nil {
			v()
		}
	}
	return ""
}

func recursive(n int) int {
	if n < 2 {
		return n
	}
	return recursive(n-1) + recursive(n-2)
}

func shadowed(n int) int {
	shadowed := func(n int) int { return n }
	return shadowed(n)
}

func parameter(parameter func(int) int) int { return parameter(1) }

func nested() func() {
	return func() {
		defer func() {
			if recover() != nil {
				go func() {
					for {
						if true {
							return
						}
					}
				}()
			}
		}()
	}
}

func (l *list[T]) len() (n int) {
	for at := l.head; at != nil; at = at.next {
		n++
	}
	return len("a") + n
}

func (l list[T]) walk(f func(T) bool) {
	if l.head != nil && f(l.head.value) {
		l.walk(f)
	}
}

func (l *list[T]) recursive() int { return recursive(3) }

func (l *list[T]) local() {
	local := func() {}
	local()
}

func (p pair[A, B]) both() bool { return any(p.a) == nil || any(p.b) == nil }

func (*pair[_, _]) Exported(int, string, ...bool) {}

var literal = func(n int) bool {
	for n > 0 {
		n--
	}
	return n == 0 || literal2(n)
}

var (
	literal2 = func(n int) bool { return n == 1 && n != 2 }
	unnamed  = []func(){func() {
		if true {
			return
		}
	}}
)

func init() { _ = unnamed }

func init() {
	if literal(1) {
		init := func() {}
		init()
	}
}
