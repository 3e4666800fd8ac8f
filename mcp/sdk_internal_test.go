package mcp

import (
	"encoding/json"
	"testing"
)

// The sdk's tool has a placeholder for its schema. A list with such a placeholder cannot be
// marshalled, so it cannot be sent by mistake.
func TestPlaceholderOfSchemasCannotBeWritten(t *testing.T) {
	if text, err := json.Marshal(sdkTool(Tool{Name: "echo"})); err == nil {
		t.Errorf("it was written: %s", text)
	}
}
