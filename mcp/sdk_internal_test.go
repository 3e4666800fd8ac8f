package mcp

import (
	"encoding/json"
	"testing"
)

// The sdk has a placeholder for the schema of each tool. A list that still has one cannot
// be sent.
func TestPlaceholderOfSchemasCannotBeWritten(t *testing.T) {
	if text, err := json.Marshal(sdkTool(Tool{Name: "echo"})); err == nil {
		t.Errorf("it was written: %s", text)
	}
}
