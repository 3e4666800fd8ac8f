package page

import "context"

func convertPDF(ctx context.Context, p *Page, src []byte) error {
	return unsupported("application/pdf")
}
