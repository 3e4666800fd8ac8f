package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// addKeys are the keys of a file below which Add looks for the object of servers.
var addKeys = []string{"mcpServers", "servers"}

// Add returns the content of a file of servers with the drafts as further entries. data is
// the present content: JSON, with or without comments, in which the servers are an object.
// An empty file gets the shape of Claude Desktop's file. Comments and all other entries are
// kept; only the white space is normalized. A draft whose name the file already has is an
// error.
func Add(data []byte, drafts ...Draft) ([]byte, error) {
	if len(strings.TrimSpace(string(data))) == 0 {
		data = []byte(`{"mcpServers": {}}`)
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return nil, errors.New("the file is not JSON, and belljar writes only JSON files: name another file")
	}
	key := ""
	for _, k := range addKeys {
		if at := v.Find("/" + k); at != nil {
			if _, ok := at.Value.(*hujson.Object); ok {
				key = k
				break
			}
		}
	}
	if key == "" {
		return nil, errors.New(`the file has no object "mcpServers" to which an entry could be added: name another file`)
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value Draft  `json:"value"`
	}
	var patch []operation
	for _, d := range drafts {
		if bad := badName(d.Name); bad != "" {
			return nil, errors.New(bad)
		}
		path := "/" + key + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(d.Name) // a JSON Pointer (RFC 6901)
		if v.Find(path) != nil {
			return nil, fmt.Errorf("the file already has an entry %s: remove that entry first, or choose another name", quoted(d.Name))
		}
		patch = append(patch, operation{"add", path, d})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	if err := v.Patch(text); err != nil {
		return nil, err
	}
	v.Format()
	return v.Pack(), nil
}
