package boxinit

const sysGetcpu = 168 // package syscall lacks it on some architectures
