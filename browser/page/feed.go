package page

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/net/html"
)

func convertFeed(ctx context.Context, p *Page, text []byte, o Options) error {
	convertText(p, text)
	return nil
}
func convertXML(p *Page, text []byte)                           { convertText(p, text) }
func convertJSON(p *Page, text []byte)                          { convertText(p, text) }
func convertPDF(ctx context.Context, p *Page, src []byte) error { return nil }

var _ = json.Valid
var _ = fmt.Sprint
var _ = strings.Join
var _ html.Node
