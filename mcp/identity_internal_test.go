package mcp

import (
	"fmt"
	"strings"
	"testing"
)

func TestNoTokenIsTakenInMeta(t *testing.T) {
	for _, name := range tokenNames {
		for _, name := range []string{name, strings.ToUpper(name)} {
			if tokenInMeta(fmt.Appendf(nil, `{"progressToken":1,%q:"x"}`, name)) == nil {
				t.Errorf("%s is taken", name)
			}
		}
	}
	if bad := tokenInMeta([]byte(`{"progressToken":1,"access_tokens":"x"}`)); bad != nil {
		t.Error(bad)
	}
}
