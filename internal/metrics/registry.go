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

// Registry contains the families of one exposition. Its methods are safe for concurrent
// use.
type Registry struct {
	mu       sync.Mutex
	families []*family // guarded by mu
	labels   []*Label  // guarded by mu
}

// New returns a Registry with one family, which counts the values of labels that were
// folded into Other. name is the name of this family.
func New(name string) *Registry {
	r := &Registry{}
	r.CounterFunc(name, "Values of labels that were counted as "+Other+", since the number of values of a label is bounded.", []*Label{{Name: "label", most: 64}}, func(set Set) {
		r.mu.Lock()
		labels := slices.Clone(r.labels)
		r.mu.Unlock()
		for _, l := range labels {
			set(float64(l.count()), l.Name)
		}
	})
	return r
}

// Label is a dimension of families. Families that share a Label agree on which values are
// beyond its bound.
type Label struct {
	Name string
	most int

	mu     sync.Mutex
	known  map[string]bool // guarded by mu: values within the bound
	folded uint64          // guarded by mu: uses of values beyond the bound
}

// Label returns a label; most is the largest number of different values that it accepts.
func (r *Registry) Label(name string, most int) *Label {
	l := &Label{Name: name, most: most}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.labels = append(r.labels, l)
	return l
}

// admit returns the value if it is within the bound, and else Other. counted reports
// whether admit counts the use of Other.
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
	l.known[strings.Clone(value)] = true // a copy, so that a long text around the value is not kept
	return value
}

func (l *Label) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.folded
}

// kind is the kind of a family's values.
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
	bounds     []float64 // upper bounds of a histogram's buckets
	collect    func(Set) // sets the values of a family at each exposition; nil for a family that is not filled then

	mu     sync.Mutex
	series map[string]*series // guarded by mu: series by the values of the labels
}

// series is one combination of values of labels. It is guarded by the mu of its family.
type series struct {
	values []string
	value  float64 // value of the series; in a histogram the sum of the observations

	buckets   []uint64 // numbers of observations, not cumulative; the last bucket is above all bounds
	exemplars []exemplar
}

// Pair is a part of an exemplar, for example the ID of a trace.
type Pair struct{ Name, Value string }

// exemplar is the latest observation with an exemplar in a bucket.
type exemplar struct {
	pairs []Pair
	value float64
	at    time.Time
}

// Set sets the value of a series at an exposition. Several values of one series are added
// up.
type Set func(value float64, labels ...string)

// Counter is a family of numbers that only increase.
type Counter struct{ family *family }

// Counter adds a family of counters. Its name must end in _total.
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

// Observe records a value in the series with these values of the labels. The pairs of an
// exemplar have at most 128 characters together; nil means no exemplar.
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

// GaugeFunc adds a family whose values collect sets at each exposition.
func (r *Registry) GaugeFunc(name, help string, labels []*Label, collect func(Set)) {
	r.add(&family{name: name, help: help, kind: gauge, labels: labels, collect: collect})
}

// CounterFunc is GaugeFunc for values that only increase. The name must end in _total.
func (r *Registry) CounterFunc(name, help string, labels []*Label, collect func(Set)) {
	r.add(&family{name: name, help: help, kind: counter, labels: labels, collect: collect})
}

// add adds a family. It panics if a family has the same name.
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

// at returns the series with these values of the labels. The caller holds f.mu.
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

// Labels returns the names of the labels of a family. ok is false if the family does not
// exist.
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
