package buildinfo

import (
	"runtime/debug"
	"testing"

	"golang.org/x/mod/module"
)

// The versions that Go makes of commits are known here without its package, whose
// patterns every command would initialise.
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
		if got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings}).Version; got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.version, got, tt.want)
		}
	}
}
