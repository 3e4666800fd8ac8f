package metrics

import (
	"bytes"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The media types of the two forms.
const (
	plainType = "text/plain; version=0.0.4; charset=utf-8"
	openType  = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// ServeHTTP answers with the exposition, in OpenMetrics if the client accepts it, and
// otherwise in the text form of Prometheus.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	open := strings.Contains(req.Header.Get("Accept"), "application/openmetrics-text")
	media := plainType
	if open {
		media = openType
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(r.text(open)) // an error means that the client is gone
}

// text returns the exposition, in OpenMetrics if open is true
// (prometheus.io/docs/instrumenting/exposition_formats, OpenMetrics 1.0).
func (r *Registry) text(open bool) []byte {
	r.mu.Lock()
	families := slices.Clone(r.families)
	r.mu.Unlock()
	var out bytes.Buffer
	for _, f := range families {
		f.write(&printer{&out, open})
	}
	if open {
		out.WriteString("# EOF\n")
	}
	return out.Bytes()
}

// printer writes lines of one of the forms.
type printer struct {
	*bytes.Buffer
	open bool
}

// write writes a family and its series, in the order of their labels.
func (f *family) write(p *printer) {
	if f.collect != nil {
		f.refill()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name := f.name
	if p.open && f.kind == counter { // in OpenMetrics the name of the family has no suffix
		name = strings.TrimSuffix(name, "_total")
	}
	p.WriteString("# HELP " + name + " " + escapeHelp(f.help, p.open) + "\n")
	p.WriteString("# TYPE " + name + " " + string(f.kind) + "\n")
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		if f.kind == histogram {
			f.writeHistogram(p, s)
			continue
		}
		p.sample(f.name, f.pairs(s), s.value)
		p.WriteByte('\n')
	}
}

// refill calls collect for the series of a family.
func (f *family) refill() {
	fresh := &family{name: f.name, labels: f.labels, collect: f.collect, series: make(map[string]*series)}
	f.collect(func(value float64, values ...string) { fresh.at(values).value += value })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.series = fresh.series
}

// writeHistogram writes the lines of a histogram.
func (f *family) writeHistogram(p *printer, s *series) {
	pairs, sum := f.pairs(s), uint64(0)
	for i, n := range s.buckets {
		sum += n
		bound := math.Inf(1)
		if i < len(f.bounds) {
			bound = f.bounds[i]
		}
		p.sample(f.name+"_bucket", append(slices.Clip(pairs), Pair{"le", p.number(bound)}), float64(sum))
		if e := s.exemplars[i]; p.open && e.pairs != nil {
			p.WriteString(" # ")
			p.labels(e.pairs, true)
			p.WriteString(" " + p.number(e.value) + " " + strconv.FormatFloat(float64(e.at.UnixMilli())/1000, 'f', 3, 64))
		}
		p.WriteByte('\n')
	}
	p.sample(f.name+"_sum", pairs, s.value)
	p.WriteByte('\n')
	p.sample(f.name+"_count", pairs, float64(sum))
	p.WriteByte('\n')
}

func (f *family) pairs(s *series) (pairs []Pair) {
	for i, l := range f.labels {
		pairs = append(pairs, Pair{l.Name, s.values[i]})
	}
	return pairs
}

// sample writes a line without its line end.
func (p *printer) sample(name string, pairs []Pair, value float64) {
	p.WriteString(name)
	p.labels(pairs, false)
	p.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
}

// labels writes labels in braces. Without labels it writes the braces only if must is true.
func (p *printer) labels(pairs []Pair, must bool) {
	if len(pairs) == 0 && !must {
		return
	}
	p.WriteByte('{')
	for i, pair := range pairs {
		if i > 0 {
			p.WriteByte(',')
		}
		p.WriteString(pair.Name + `="` + escaper.Replace(pair.Value) + `"`)
	}
	p.WriteByte('}')
}

// escaper escapes the values of labels.
var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// escapeHelp escapes the help text of a family. OpenMetrics requires that quotes are
// escaped there too.
func escapeHelp(text string, open bool) string {
	if open {
		return escaper.Replace(text)
	}
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(text)
}

// number returns a float as a bound or an exemplar. OpenMetrics requires a decimal point.
func (p *printer) number(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if p.open && !strings.ContainsAny(text, ".eIN") {
		text += ".0"
	}
	return text
}
