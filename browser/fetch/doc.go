// Package fetch gets pages without a browser: one request for each, through the
// egress door of the call's grant.
//
// The way of a [Fetcher.Get], in this order:
//
//  1. The URL is read by the parser of the policy's rules (policies.ParseURL).
//  2. The room of the tenant and its grant is found: a door, what it cached,
//     how often each host was asked. No two tenants share one.
//  3. robots.txt is asked, where the policy wants that.
//  4. A fresh copy is taken from the cache, or the host is asked, within its
//     rate, again where it says that a moment later will do.
//  5. A redirect, of HTTP or of the page itself, is judged by the policy as a
//     call for its target would be, and followed from step 3 or told.
//  6. The body is unpacked and read within its bounds. When the time is up,
//     what there is of it is the answer, and says so.
//
// The result is bytes; browser/page makes text of them.
package fetch
