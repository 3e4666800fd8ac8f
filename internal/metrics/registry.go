package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Other is the value of a label that stands for all values beyond its bound.
const Other = "_other"

// Registry has the families of one exposition. Its methods are safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	families []*family // guarded by mu
	labels   []*Label  // guarded by mu
}

// New returns a Registry with one family, which counts what the bounds of labels have
// folded into Other. name is that of the family.
func New(name string) *Registry {
	r := &Registry{}
	r.CounterFunc(name, "Values of labels that were counted as "+Other+", since a label has a bound.", []*Label{{Name: "label", most: 64}}, func(set Set) {
		r.mu.Lock()
		labels := slices.Clone(r.labels)
		r.mu.Unlock()
		for _, l := range labels {
			set(float64(l.count()), l.Name)
		}
	})
	return r
}

// Label is a dimension of families. Families that share one agree on which values are
// beyond its bound.
type Label struct {
	Name string
	most int

	mu     sync.Mutex
	known  map[string]bool // guarded by mu: values within the bound
	folded uint64          // guarded by mu: uses of values beyond it
}

// Label returns a label that takes at most that many values.
func (r *Registry) Label(name string, most int) *Label {
	l := &Label{Name: name, most: most}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.labels = append(r.labels, l)
	return l
}

// admit returns a value within the bound: the value itself, or Other. counted says that
// this is noted.
func (l *Label) admit(value string, counted bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[value], value == Other:
		return value
	case len(l.known) >= l.most:
		if counted {
			l.folded++
		}
		return Other
	}
	if l.known == nil {
		l.known = make(map[string]bool)
	}
	l.known[strings.Clone(value)] = true // not a part of a long text
	return value
}

func (l *Label) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.folded
}

// kind is what the values of a family are.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is a metric with all of its series.
type family struct {
	name, help string
	kind       kind
	labels     []*Label
	bounds     []float64 // of the buckets of a histogram
	collect    func(Set) // of a family that is filled at each exposition; nil for others

	mu     sync.Mutex
	series map[string]*series // guarded by mu: by the values of the labels
}

// series is one combination of values of labels. It is guarded by the mu of its family.
type series struct {
	values []string
	value  float64 // of a histogram: the sum

	buckets   []uint64 // not cumulative; the last is for what is above all bounds
	exemplars []exemplar
}

// Pair is a part of an exemplar, such as the id of a trace.
type Pair struct{ Name, Value string }

// exemplar is one of the observations in a bucket, the latest.
type exemplar struct {
	pairs []Pair
	value float64
	at    time.Time
}

// Set gives the value of a series at an exposition. Values of one series are added up.
type Set func(value float64, labels ...string)

// Counter is a family of numbers that only grow.
type Counter struct{ family *family }

// Counter adds a family of counters; its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...*Label) *Counter {
	return &Counter{r.add(&family{name: name, help: help, kind: counter, labels: labels})}
}

// Add adds n to the series with these values of the labels.
func (c *Counter) Add(n float64, values ...string) {
	f := c.family
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(values).value += n
}

// Histogram is a family of distributions.
type Histogram struct{ family *family }

// Histogram adds a family of histograms with the upper bounds of their buckets, which
// must ascend.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...*Label) *Histogram {
	return &Histogram{r.add(&family{name: name, help: help, kind: histogram, labels: labels, bounds: bounds})}
}

// Observe notes a value in the series with these values of the labels. The pairs of an
// exemplar have at most 128 characters together; nil is for none.
func (h *Histogram) Observe(value float64, example []Pair, values ...string) {
	f := h.family
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(values)
	if s.buckets == nil {
		s.buckets, s.exemplars = make([]uint64, len(f.bounds)+1), make([]exemplar, len(f.bounds)+1)
	}
	i, _ := slices.BinarySearch(f.bounds, value)
	s.buckets[i]++
	s.value += value
	if example != nil {
		s.exemplars[i] = exemplar{example, value, time.Now()}
	}
}

// GaugeFunc adds a family whose values are asked for at each exposition.
func (r *Registry) GaugeFunc(name, help string, labels []*Label, collect func(Set)) {
	r.add(&family{name: name, help: help, kind: gauge, labels: labels, collect: collect})
}

// CounterFunc is GaugeFunc for values that only grow; the name ends in _total.
func (r *Registry) CounterFunc(name, help string, labels []*Label, collect func(Set)) {
	r.add(&family{name: name, help: help, kind: counter, labels: labels, collect: collect})
}

// add adds a family. Two of one name are a mistake of this program.
func (r *Registry) add(f *family) *family {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.families, func(other *family) bool { return other.name == f.name }) {
		panic(fmt.Sprintf("metrics: two families are called %s", f.name))
	}
	f.series = make(map[string]*series)
	r.families = append(r.families, f)
	return f
}

// at returns the series with these values of the labels; mu is held.
func (f *family) at(values []string) *series {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, and got %d values", f.name, len(f.labels), len(values)))
	}
	admitted := make([]string, len(values))
	for i, value := range values {
		admitted[i] = f.labels[i].admit(value, f.collect == nil)
	}
	key := strings.Join(admitted, "\x00")
	s := f.series[key]
	if s == nil {
		s = &series{values: admitted}
		f.series[key] = s
	}
	return s
}

// Names returns the names of all families.
func (r *Registry) Names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.families {
		names = append(names, f.name)
	}
	return names
}

// Labels returns the names of the labels of a family, and false if there is no such family.
func (r *Registry) Labels(name string) (labels []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.families {
		if f.name == name {
			for _, l := range f.labels {
				labels = append(labels, l.Name)
			}
			return labels, true
		}
	}
	return nil, false
}
