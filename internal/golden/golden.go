// Package golden compares the results of tests with golden files, which contain the wanted
// results. go test -update writes the golden files anew.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// Update reports whether golden files are to be written anew.
func Update() bool { return *update }

// Equal compares a text with a golden file in testdata.
func Equal(t testing.TB, name, got string) {
	t.Helper()
	File(t, filepath.Join("testdata", name), got)
}

// Section is File for a part of a document: the text between <!-- name --> and <!-- end
// -->.
func Section(t testing.TB, file, name, got string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- "+name+" -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !ok || !ended {
		t.Fatalf("%s has no section <!-- %s --> with an <!-- end -->", file, name)
	}
	File(t, file, before+"<!-- "+name+" -->\n"+got+"<!-- end -->"+after)
}

// File is Equal for a file outside testdata.
func File(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it again:\n%s", file, diff)
	}
}
