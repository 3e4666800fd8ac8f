package defect

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Model names the origin of the scores.
type Model struct {
	Name   string // always "rank"
	Reason string // why the score is not a probability
}

// Vector is one feature of a file.
type Vector struct {
	Name    string
	Meaning string  // meaning of the value
	Value   float64 // value as it was measured
	// part of the other measured files that have a lower value; a file with the same value
	// counts as half
	Above        float64
	Weight       float64
	Contribution float64 // Weight times Above
}

// File is one file with its rank.
type File struct {
	Path       string
	Score      float64 // sum of the contributions in their order, from 0 to 1
	Confidence float64 // part of the six vectors that were measured
	Vectors    []Vector
	Missing    []string // names of the vectors that were not measured
}

// Result contains the ranked files.
type Result struct {
	Model Model
	Files []File // sorted, the highest score first
	Left  int    // number of files with less confidence than was asked for
	Gaps  []code.Gap
}

// Rank ranks the files that contain code, except files that contain only tests. A file's
// score is the sum, over the vectors, of a weight times the part of the other files that
// have a lower value. A vector that was not measured adds nothing, lowers the confidence,
// and is listed. Files with a confidence below least are counted and left out. The only
// errors are those of ctx.
func Rank(ctx context.Context, in Input, least float64) (Result, error) {
	result := Result{Model: Model{
		Name:   "rank",
		Reason: "no model was tested on histories with known defects: the score orders the files of this project, and is not a probability",
	}}
	var files []*code.File
	for _, f := range in.Files {
		if f.Language.Lexed() && f.Language != code.Shell && f.Lines.Code > 0 && !tested(f) {
			files = append(files, f)
		}
	}
	measured := in.measure(files)
	kinds := features()
	var above [vectors][]float64
	for k, kind := range kinds {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		above[k] = compare(measured, k)
		if missing := count(measured, k); missing == len(files) {
			result.Gaps = append(result.Gaps, code.Gap{Field: kind.name, Reason: "not measured for any file: " + in.why(k)})
		}
	}
	for i, f := range files {
		ranked := File{Path: f.Path}
		for k, kind := range kinds {
			value := measured[i][k]
			if value == nil {
				ranked.Missing = append(ranked.Missing, kind.name)
				continue
			}
			v := Vector{Name: kind.name, Meaning: kind.value, Value: *value, Above: above[k][i], Weight: kind.weight}
			v.Contribution = v.Weight * v.Above
			ranked.Score += v.Contribution
			ranked.Vectors = append(ranked.Vectors, v)
		}
		ranked.Confidence = float64(len(ranked.Vectors)) / vectors
		if ranked.Confidence < least {
			result.Left++
			continue
		}
		result.Files = append(result.Files, ranked)
	}
	order.By(result.Files, func(a, b *File) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Path, b.Path))
	})
	if result.Left > 0 {
		result.Gaps = append(result.Gaps, code.Gap{Field: "files", Reason: fmt.Sprintf("%d files have a confidence below %v", result.Left, least)})
	}
	return result, nil
}

// why returns the reason why a vector was not measured in any file: the part of the input
// that is missing.
func (in *Input) why(k int) string {
	switch {
	case k == churn && in.History == nil:
		return "no history was read"
	case k == coupling && in.Graph == nil:
		return "no graph was built"
	case k == coverage && in.Coverage == nil:
		return "no coverage file was given"
	case k == duplication && in.Duplicated == nil:
		return "clones were not searched"
	}
	return "no file has the data for this measure"
}

// count returns the number of files in which a vector was not measured.
func count(all []values, k int) (missing int) {
	for i := range all {
		if all[i][k] == nil {
			missing++
		}
	}
	return missing
}

// compare returns for each file the part of the other files that have a lower value of a
// vector. A file with the same value counts as half.
func compare(all []values, k int) []float64 {
	var byValue []int // indices of the measured files
	for i := range all {
		if all[i][k] != nil {
			byValue = append(byValue, i)
		}
	}
	slices.SortFunc(byValue, func(a, b int) int { return cmp.Compare(*all[a][k], *all[b][k]) })
	above := make([]float64, len(all))
	for at := 0; at < len(byValue); {
		end := at
		for end < len(byValue) && *all[byValue[end]][k] == *all[byValue[at]][k] {
			end++
		}
		for _, i := range byValue[at:end] {
			if len(byValue) > 1 {
				above[i] = (float64(at) + float64(end-at-1)/2) / float64(len(byValue)-1)
			}
		}
		at = end
	}
	return above
}
