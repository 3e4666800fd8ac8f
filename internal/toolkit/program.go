package toolkit

import (
	"fmt"
	"os"
	"syscall"
)

// Identity names the file of this program, also after another one has taken its place on
// disk. A bind mount of the file has the same one.
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

// replaced is the fault where the helper is another program than the server. The one may
// write what the other does not understand, and they may measure in different ways.
const replaced = "belljar was replaced on disk since this server started, so its analyses would be made by another version. " +
	"Ask the person you work for to restart the server"
