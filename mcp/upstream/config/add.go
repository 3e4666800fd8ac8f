package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// addKeys are the keys below which a file can have its servers, for Add.
var addKeys = []string{"mcpServers", "servers"}

// Add returns a file with further entries. The file is JSON, with or without comments, that has
// its servers as an object; an empty one becomes a file of the shape of Claude Desktop. Comments and all
// other entries stay; only the white space is made regular. An entry whose name the file has
// is an error.
func Add(data []byte, drafts ...Draft) ([]byte, error) {
	if len(strings.TrimSpace(string(data))) == 0 {
		data = []byte(`{"mcpServers": {}}`)
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return nil, errors.New("it is not JSON, and only such files are written: name another one")
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
		return nil, errors.New(`it has no object "mcpServers" to which an entry could be added: name another one`)
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
		path := "/" + key + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(d.Name) // RFC 6901
		if v.Find(path) != nil {
			return nil, fmt.Errorf("it has an entry %s already: remove that first, or choose another name", quoted(d.Name))
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
