package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/mod/module"
)

// TestPseudoVersions checks that pseudo-versions are recognized without the package of Go
// for them, whose regular expressions every command would have to initialise.
func TestPseudoVersions(t *testing.T) {
	for _, version := range []string{
		"v0.0.0-20191109021931-daa7c04131f5", "v1.2.4-0.20191109021931-daa7c04131f5", "v1.2.3-pre.0.20191109021931-daa7c04131f5",
		"v2.0.0-20191109021931-daa7c04131f5+incompatible", "v0.1.1-0.20261123094500-0123456789ab+dirty",
		"", "(devel)", "v1.2.3", "v0.1.0", "v1.2.3-pre", "v1.2.3-rc.1", "v1.2.3-20191109", "v1.2.3-2019110902193x-daa7c04131f5",
		"v1.2.3+dirty", "v1.2.3-x-20191109021931", "v1.2.3-20191109021931-", "-", "v1.2.3-a-b",
	} {
		want, err := module.PseudoVersionRev(version)
		if got, ok := pseudoVersion(version); ok != module.IsPseudoVersion(version) || ok && (err != nil || got != want) {
			t.Errorf("%q: got %q %v, want %q %v", version, got, ok, want, module.IsPseudoVersion(version))
		}
	}
}

func TestBuildOf(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for _, tt := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v0.1.0", nil, "v0.1.0"},
		{"", nil, Release + "-dev"},
		{"(devel)", commit, Release + "-dev+g0123456789ab.dirty"},
		{"v0.1.1-0.20261123094500-ffffffffffff+dirty", commit, Release + "-dev+g0123456789ab.dirty"},
		{"v0.1.1-0.20261123094500-ffffffffffff", nil, Release + "-dev+gffffffffffff"},
	} {
		info := debug.BuildInfo{Path: "belljar.dev/cmd/belljar", Main: debug.Module{Path: "belljar.dev", Version: tt.version}, Settings: tt.settings}
		if got := buildOf(info.String()).Version; got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.version, got, tt.want)
		}
	}
}

// Read returns the same data about this binary as Go's own package.
func TestReadsWhatGoReads(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != "belljar.dev" {
		t.Fatalf("this test was built without modules: %v", info)
	}
	if got, want := Read(), buildOf(info.String()); got != want || got.Version == "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := modinfo(), info.String(); !strings.Contains(want, "mod\tbelljar.dev\t") || !strings.Contains(got, "mod\tbelljar.dev\t") {
		t.Errorf("got %q, want the lines of %q", got, want)
	}
	whole := debug.BuildInfo{
		Main:     debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-23T00:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
	}
	got := buildOf(whole.String())
	want := Info{"v0.1.0", "abc", "2026-11-23T00:00:00Z", true, runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
