package toolkit

import (
	"fmt"
	"os"
	"syscall"
)

// Identity returns a name for the file of this program, which stays the same after another
// file has taken its place on disk. A bind mount of the file has the same identity.
func Identity() (string, error) {
	info, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode", info.Name())
	}
	return fmt.Sprintf("%d:%d:%d.%09d", stat.Ino, stat.Size, stat.Mtim.Sec, stat.Mtim.Nsec), nil
}

// replaced is the fault if the helper and the server are different programs. The server may
// not understand what the helper writes, and the two may measure in different ways.
const replaced = "belljar was replaced on disk since this server started, so its analyses would be made by another version. " +
	"Ask the person you work for to restart the server"
