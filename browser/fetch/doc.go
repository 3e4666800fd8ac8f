// Package fetch gets pages without a browser: one request for each, through the
// egress door of the call's grant.
//
// The way of a [Fetcher.Get], in this order:
//
//  1. The URL is read by the parser of the policy's rules (policies.ParseURL).
//  2. The room of the tenant and its grant is found: a door, what it cached,
//     how often each host was asked. No two tenants share a room.
//  3. robots.txt is asked, if the policy wants that.
//  4. A fresh copy is taken from the cache, or the host is asked, within its
//     rate. It is asked again if it says that a later request may succeed.
//  5. A redirect, of HTTP or of the page itself, is judged by the policy like a
//     call for its target. It is followed from step 3, or reported.
//  6. The body is unpacked and read within its bounds. When the time is up, the
//     part that has arrived is the answer, which says that it is a part.
//
// The result is bytes; browser/page converts them to text.
package fetch
