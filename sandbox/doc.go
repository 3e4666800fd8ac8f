// Package sandbox runs untrusted commands in boxes.
package sandbox
